// Draws plots when they scroll into view, in the reader's colour scheme, and again when the study changes.
"use strict";
(() => {
  const here = document.currentScript;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const hover = matchMedia("(hover: hover)").matches;
  const themes = fetch("/api/templates", { credentials: "same-origin" }).then((answer) => answer.json());
  let library = null; // loaded when the first plot is drawn, because it is large
  const loaded = () => library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = here.dataset.plotly;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  const drawn = new Map(); // element -> {figure, of, at, took, busy}
  const visible = new Set();
  let changes = 0; // number of changes seen on this page

  // Beside a taller section there is more room than a plot needs; at the side of one another they should end together.
  function room(element) {
    return element.closest(".two") ? element.parentElement.clientHeight : 0;
  }

  async function show(element, figure) {
    const theme = (await themes)[dark() ? "dark" : "light"];
    const layout = { ...structuredClone(figure.layout), template: theme, autosize: true };
    const scale = element.closest("figure").querySelector("select[data-scale]");
    if (scale) bohbScale(scale, layout);
    layout.uirevision = `keep ${element.dataset.options ?? ""} ${scale?.value ?? ""}`;
    delete layout.width;
    if (element.dataset.height) layout.height = Math.max(Number(element.dataset.height), room(element));
    if (element.clientWidth < 520) layout.legend = { ...layout.legend, yref: "container", y: 0, yanchor: "bottom" };
    if (!layout.annotations?.length) layout.margin = { ...layout.margin, t: 14 }; // nothing is above the plot
    const selects = figure.data.some((trace) => trace.meta === "trials");
    if (!hover) layout.dragmode = false; // a finger on a plot scrolls the page
    else if (selects) layout.dragmode = "select";
    element.style.minWidth = layout.meta?.min_width ? `${layout.meta.min_width}px` : ""; // else the style sheet's
    await Plotly.react(element, figure.data, layout, {
      responsive: true,
      displaylogo: false,
      displayModeBar: hover ? "hover" : false,
      modeBarButtons: [["toImage", ...(selects ? ["select2d", "lasso2d"] : []), "zoom2d", "pan2d", "resetScale2d"]],
    });
    bohbBrush(element, figure, (numbers) => bohbSelection.set(numbers, element));
    listen(element);
    mark(element, figure);
  }

  const numberOf = (data) => (Array.isArray(data) ? data[0] : data);
  const marks = (figure) => figure.data.map((trace, i) => [trace, i]).filter(([trace]) => trace.meta === "trials");

  // Show which trials are selected: all others become faint, and in parallel coordinates they disappear.
  function mark(element, figure) {
    if (typeof bohbSelection === "undefined") return;
    const chosen = bohbSelection.numbers();
    if (element.bohbKeep) element.bohbKeep(chosen);
    const traces = marks({ data: element.data ?? figure.data });
    if (!traces.length) return;
    const points = traces.map(([trace]) => (chosen.size === 0 ? null
      : Array.from(trace.customdata ?? [], numberOf).flatMap((number, i) => (chosen.has(number) ? [i] : []))));
    const faint = { marker: { opacity: 0.12 }, textfont: { color: "rgba(0,0,0,0)" } };
    Plotly.restyle(element, { selectedpoints: points, unselected: [faint] }, traces.map(([, i]) => i));
  }

  function listen(element) {
    if (element.bohbListens || typeof bohbSelection === "undefined") return;
    element.bohbListens = true;
    element.on("plotly_selected", (event) => {
      if (element.bohbKeep) return; // parallel coordinates know their lines
      const points = event?.points ?? [];
      const numbers = points.filter((point) => point.data.meta === "trials").map((point) => numberOf(point.customdata));
      if (!event?.points && !event?.range) return;
      bohbSelection.set(numbers, element);
    });
    element.on("plotly_deselect", () => { if (!element.bohbKeep) bohbSelection.set([], element); });
    // A bar of the importance selects the trials that count as the best, and shows them along its hyperparameter.
    element.on("plotly_click", ({ points: [point] }) => {
      const best = element.layout.meta?.best;
      if (!best || point === undefined) return;
      bohbSelection.set(best, element);
      const menu = document.getElementById("slice-parameter"), names = menu?.closest("[data-axes]")?.dataset.axes;
      if (!names) return;
      const name = JSON.parse(names)[point.customdata];
      menu.value = [...menu.options].some((option) => option.value === name) ? name : "";
      menu.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }

  // The plot of the selected trials asks for them by their numbers.
  function ask() {
    const box = document.getElementById("selected-plot");
    if (!box) return;
    const numbers = [...bohbSelection.numbers()].slice(0, bohbSelection.most), plot = box.querySelector("[data-figure]");
    box.hidden = numbers.length === 0;
    plot.dataset.options = numbers.map((number) => `&number=${number}`).join("");
    if (numbers.length && visible.has(plot)) draw(plot);
    else if (drawn.has(plot)) drawn.get(plot).of = -1;
  }

  document.addEventListener("bohb:selected", ({ detail }) => {
    for (const [element, { figure }] of drawn) {
      if (figure && !(element === detail && element.bohbKeep)) mark(element, figure);
      if (element !== detail && element.layout?.selections?.length) Plotly.relayout(element, { selections: [] });
    }
    ask();
  });

  async function draw(element) {
    const state = drawn.get(element) ?? {};
    if (state.busy) return;
    const began = performance.now(), of = changes;
    drawn.set(element, { ...state, busy: true });
    try {
      const options = element.dataset.options ?? "";
      const waiting = loaded();
      const answer = await fetch(element.dataset.figure + options, { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      const figure = await answer.json();
      await waiting;
      if (!state.figure) element.replaceChildren();
      await show(element, figure);
      element.dataset.drawn = "yes";
      drawn.set(element, { figure, of, at: performance.now(), took: performance.now() - began });
      if (options !== (element.dataset.options ?? "")) return draw(element); // chosen meanwhile
    } catch {
      if (!state.figure) element.textContent = "This plot could not be drawn.";
      drawn.set(element, { ...state, at: performance.now(), took: performance.now() - began + 500 });
    }
    element.classList.remove("pending");
  }

  // A slow plot is drawn less often: drawing takes at most a twentieth of the time.
  function due(element) {
    const state = drawn.get(element);
    return !state || (state.of !== changes && !state.busy && performance.now() - state.at > 20 * state.took);
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) visible.add(entry.target);
      else visible.delete(entry.target);
      if (entry.isIntersecting && due(entry.target)) draw(entry.target);
    }
  }, { rootMargin: "200px" });

  function watch() {
    for (const element of drawn.keys()) {
      if (element.isConnected) continue;
      watcher.unobserve(element);
      visible.delete(element);
      drawn.delete(element);
      Plotly.purge(element);
    }
    for (const element of document.querySelectorAll("[data-figure]:not([data-watched])")) {
      element.dataset.watched = "yes";
      element.textContent = "";
      element.classList.add("pending");
      watcher.observe(element);
    }
  }

  document.addEventListener("bohb:refreshed", () => {
    changes += 1;
    watch();
  });
  setInterval(() => {
    if (document.hidden) return;
    for (const element of visible) if (due(element)) draw(element);
  }, 1000);
  function redress() {
    for (const [element, { figure }] of drawn) if (figure) show(element, figure);
  }
  system.addEventListener("change", redress);
  document.addEventListener("bohb:theme", redress);

  // The menus above a plot: what they say is added to the address of the figure.
  document.addEventListener("change", (event) => {
    const menus = event.target.closest("[data-menus]");
    if (!menus) return;
    const plot = menus.closest("figure").querySelector("[data-figure]");
    const figure = drawn.get(plot)?.figure;
    if ("scale" in event.target.dataset) {
      if (figure) show(plot, figure);
      return;
    }
    const chosen = [...menus.querySelectorAll("select[data-option]")].filter((menu) => menu.value);
    plot.dataset.options = chosen.map((menu) => `&${menu.dataset.option}=${encodeURIComponent(menu.value)}`).join("");
    draw(plot);
  });

  watch();
  if (typeof bohbSelection !== "undefined") ask();
})();
