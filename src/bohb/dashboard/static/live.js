// Keeps a page up to date: asks the server whether something changed and, if so, loads the page and updates what differs.
// No HTML is built here: new parts come from pages of our own server, which escapes all text.
"use strict";
(() => {
  const every = 2000, hiddenEvery = 30000;
  const body = document.body;
  let skew = Date.now() / 1000 - Number(body.dataset.now || 0);
  let failures = 0, timer = 0, asked = 0;

  function duration(seconds) {
    if (!Number.isFinite(seconds)) return "–";
    const whole = Math.max(0, Math.round(seconds));
    for (const [size, unit, small, below] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      const rest = Math.floor((whole % size) / small);
      if (whole >= size) return `${Math.floor(whole / size)} ${unit}` + (rest ? ` ${rest} ${below}` : "");
    }
    return `${whole} s`;
  }

  function tick() {
    const now = Date.now() / 1000 - skew;
    for (const e of document.querySelectorAll("[data-since]")) e.textContent = duration(now - Number(e.dataset.since));
    for (const e of document.querySelectorAll("[data-ago]")) e.textContent = `${duration(now - Number(e.dataset.ago))} ago`;
  }

  const local = new Intl.DateTimeFormat(undefined, {
    month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit",
  });
  function dress() {
    for (const e of document.querySelectorAll("time[data-moment]")) {
      e.textContent = local.format(new Date(Number(e.dataset.moment) * 1000));
    }
    for (const e of document.querySelectorAll("button[data-copy]")) e.hidden = false;
    tick();
  }

  function say(text) {
    const notice = document.getElementById("notice");
    if (!notice || notice.textContent === text) return;
    notice.textContent = text;
    notice.hidden = text === "";
  }

  function name(node) {
    return node.nodeName + (node.id || "") + ((node.dataset && node.dataset.figure) || "");
  }

  function morph(old, fresh) {
    if (name(old) !== name(fresh)) {
      old.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if ("keep" in old.dataset) return;
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    const mine = [...old.childNodes], theirs = [...fresh.childNodes];
    theirs.forEach((node, i) => {
      if (i < mine.length) morph(mine[i], node);
      else old.append(document.importNode(node, true));
    });
    mine.slice(theirs.length).forEach((node) => node.remove());
  }

  // Responses can arrive out of order; only the one to the last request counts.
  async function load(url, why) {
    const mine = ++asked;
    const answer = await fetch(url, { cache: "no-store", credentials: "same-origin" });
    const text = await answer.text();
    if (mine !== asked) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("main");
    if (!answer.ok || !fresh || page.body.dataset.version === undefined) throw new Error("the page cannot be loaded");
    morph(document.getElementById("main"), fresh);
    document.title = page.title;
    for (const key of ["version", "versionUrl", "now"]) body.dataset[key] = page.body.dataset[key] ?? "";
    skew = Date.now() / 1000 - Number(body.dataset.now);
    dress();
    document.getElementById("freshness").textContent = `updated ${new Date().toLocaleTimeString()}`;
    document.dispatchEvent(new CustomEvent("bohb:refreshed", { detail: why }));
  }

  async function poll() {
    try {
      const answer = await fetch(body.dataset.versionUrl, { cache: "no-store", credentials: "same-origin" });
      const said = await answer.json();
      if (!answer.ok) throw new Error(said.detail || said.error);
      if ("reload" in body.dataset) location.reload();
      else if (said.version !== body.dataset.version) await load(location.href, "changed");
      failures = 0;
      say("");
    } catch (error) {
      failures += 1;
      const offline = error instanceof TypeError;
      say(offline ? "The dashboard does not respond; trying again." : `Not up to date: ${error.message}`);
    }
    schedule();
  }

  function schedule() {
    clearTimeout(timer);
    if (!body.dataset.versionUrl) return;
    const usual = body.dataset.version === "unfinished" ? every / 4 : every;
    const wait = document.hidden ? hiddenEvery : Math.min(usual * 2 ** Math.min(failures, 4), hiddenEvery);
    timer = setTimeout(poll, wait);
  }

  function go(url, push) {
    if (push) history.pushState(null, "", url);
    return load(url, "asked").then(() => say(""), () => location.assign(url));
  }

  // The address for the current values of the form and the current order; empty fields are left out.
  function addressOf(form) {
    const url = new URL(form.action), now = new URL(location.href).searchParams;
    for (const [key, value] of new FormData(form)) {
      const current = ["sort", "order", "config"].includes(key) ? (now.get(key) ?? value) : value;
      if (current) url.searchParams.set(key, current);
    }
    for (const key of ["sort", "order"]) if (now.get(key)) url.searchParams.set(key, now.get(key));
    return url.href;
  }

  function showInForm() {
    const now = new URL(location.href).searchParams;
    for (const field of document.querySelectorAll("form[data-soft] :is(input, select):not([type=hidden])")) {
      field.value = now.get(field.name) ?? (field.name === "size" ? "50" : "");
    }
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      source.closest("details").open = true;
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy as JSON"; }, 2000);
  }

  let typing = 0; // timer of a change in the form that is not shown yet
  function withForm(address) {
    clearTimeout(typing);
    typing = 0;
    const url = new URL(address), form = document.querySelector("form[data-soft]");
    for (const [key, value] of new FormData(form)) {
      if (["sort", "order", "config"].includes(key)) continue;
      if (value) url.searchParams.set(key, value);
      else url.searchParams.delete(key);
    }
    return url.href;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button);
    const link = event.target.closest("a[data-soft][href]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(typing ? withForm(link.href) : link.href, true);
    showInForm();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-soft]")) return;
    event.preventDefault();
    go(addressOf(event.target), true);
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-soft]");
    if (!form) return;
    clearTimeout(typing);
    const mine = typing = setTimeout(() => {
      const url = addressOf(form);
      history.replaceState(null, "", url);
      go(url, false).then(() => { if (typing === mine) typing = 0; }); // until then links belong to the old form
    }, 250);
  });
  window.addEventListener("popstate", () => { showInForm(); go(location.href, false); });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !body.dataset.versionUrl) schedule();
    else poll();
  });

  dress();
  setInterval(tick, 1000);
  schedule();
})();
