"use strict";
// Draws the figures as the menus say, follows the reader's choice of light or dark, prints on white, and copies code.
(async function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hover = window.matchMedia("(hover: hover)").matches;

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  document.querySelectorAll("button.copy").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => {
      const block = button.parentElement.querySelector("code");
      const said = (word) => {
        button.textContent = word;
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      };
      const select = () => {
        getSelection().selectAllChildren(block);
        said("Selected");
      };
      if (navigator.clipboard) navigator.clipboard.writeText(block.textContent).then(() => said("Copied"), select);
      else select();
    });
  });

  const data = JSON.parse(await unpacked("data"));
  const config = { ...data.config, displayModeBar: hover ? "hover" : false };
  const plotly = document.createElement("script"); // the policy knows its hash
  plotly.textContent = await unpacked("plotly");
  document.head.append(plotly);

  function chosen(place) {
    const key = place.dataset.figure;
    const menu = [...place.closest("figure").querySelectorAll("select[data-option]")].find((each) => each.value);
    return menu ? data.variants[key][menu.dataset.option][menu.value] : data.figures[key];
  }

  function draw(place, mode) {
    const figure = chosen(place);
    const layout = { ...structuredClone(figure.layout), template: data.templates[mode] };
    const scale = place.closest("figure").querySelector("select[data-scale]");
    if (scale) bohbScale(scale, layout);
    if (!layout.annotations?.length) layout.margin.t = 14; // nothing is above the plot
    if (!hover) layout.dragmode = false; // a finger on a plot scrolls the page
    place.style.minWidth = layout.meta?.min_width ? `${layout.meta.min_width}px` : ""; // else the style sheet's
    return Plotly.react(place, figure.data, layout, config).then(() => bohbBrush(place, figure));
  }

  // The file has a figure for each single choice, so that one menu resets the others.
  document.addEventListener("change", (event) => {
    const figure = event.target.closest("figure");
    if (!figure || !event.target.matches("select")) return;
    if (event.target.dataset.option) {
      for (const menu of figure.querySelectorAll("select[data-option]")) if (menu !== event.target) menu.value = "";
    }
    draw(figure.querySelector("[data-figure]"), mode());
  });

  const places = [...document.querySelectorAll("[data-figure]")];
  const mode = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const drawAll = (mode) => places.forEach((place) => draw(place, mode));
  dark.addEventListener("change", () => drawAll(mode()));
  document.addEventListener("bohb:theme", () => drawAll(mode()));
  addEventListener("beforeprint", () => drawAll("light"));
  addEventListener("afterprint", () => drawAll(mode()));

  for (const place of places) {
    place.replaceChildren();
    draw(place, mode());
    await new Promise((next) => { setTimeout(next, 0); }); // one per frame, so that the page can be read meanwhile
  }
  document.documentElement.dataset.drawn = String(places.length);
})();
