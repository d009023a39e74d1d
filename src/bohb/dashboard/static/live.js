// Keeps a page up to date: asks the server whether something changed and, if so, loads the page and updates what differs.
// No HTML is built here: new parts come from pages of our own server, which escapes all text.
"use strict";
const bohbLive = (() => {
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
  const moment = (seconds) => local.format(new Date(seconds * 1000));
  function dress() {
    for (const e of document.querySelectorAll("time[data-moment]")) {
      e.textContent = moment(Number(e.dataset.moment));
    }
    for (const e of document.querySelectorAll("button.copy")) e.hidden = false;
    tick();
  }

  function say(text) {
    const notice = document.getElementById("notice");
    if (!notice || notice.textContent === text) return;
    notice.textContent = text;
    notice.hidden = text === "";
  }

  const keyOf = (node) => node.id || node.dataset?.figure || "";
  const alike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

  // Change a node into a fresh one. What has an id stays the same element, wherever it is among its neighbours.
  function morph(old, fresh) {
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
    let next = old.firstChild;
    for (const node of fresh.childNodes) {
      const known = keyOf(node) && [...old.childNodes].find((each) => alike(each, node));
      while (known && next && next !== known) {
        const gone = next;
        next = next.nextSibling;
        gone.remove();
      }
      if (next && alike(next, node)) {
        morph(next, node);
        next = next.nextSibling;
      } else {
        old.insertBefore(document.importNode(node, true), next);
      }
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
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

  async function copy(button) {
    const source = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !body.dataset.versionUrl) schedule();
    else poll();
  });

  dress();
  setInterval(tick, 1000);
  schedule();
  return { duration, moment };
})();
