"use strict";
// Draws the figures as the menus say, follows the reader's choice of light or dark, prints on white, and copies code.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hover = window.matchMedia("(hover: hover)").matches;
  const config = Object.assign({}, data.config, { displayModeBar: hover ? "hover" : false });
  const keys = Object.keys(data.figures);

  function chosen(key) {
    const menus = [...document.getElementById(key).querySelectorAll("select[data-option]")];
    const menu = menus.find((each) => each.value);
    return menu ? data.variants[key][menu.dataset.option][menu.value] : data.figures[key];
  }

  function draw(key, mode) {
    const figure = chosen(key);
    const place = document.getElementById("plot-" + key);
    const layout = Object.assign(structuredClone(figure.layout), { template: data.templates[mode] });
    const scale = document.getElementById(key + "-scale");
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
    draw(figure.id, mode());
  });

  function drawAll(mode) {
    keys.forEach((key) => draw(key, mode));
  }

  function mode() {
    return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  }

  let next = 0;
  function drawNext() {  // one per frame, so that the page can be read meanwhile
    if (next < keys.length) {
      draw(keys[next], mode());
      next += 1;
      window.setTimeout(drawNext, 0);
    } else {
      document.documentElement.dataset.drawn = String(next);
    }
  }

  dark.addEventListener("change", () => drawAll(mode()));
  document.addEventListener("bohb:theme", () => drawAll(mode()));
  window.addEventListener("beforeprint", () => drawAll("light"));
  window.addEventListener("afterprint", () => drawAll(mode()));

  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  document.querySelectorAll("button.copy").forEach((button) => {
    button.addEventListener("click", () => {
      const block = button.parentElement.querySelector("code");
      const done = (word) => {
        button.textContent = word;
        window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
      };
      if (!navigator.clipboard) {
        select(block);
        done("Selected");
        return;
      }
      navigator.clipboard.writeText(block.textContent).then(() => done("Copied"), () => {
        select(block);
        done("Selected");
      });
    });
  });

  drawNext();
})();
