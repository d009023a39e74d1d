"use strict";
// Draws the figures, follows the reader's choice of light or dark, prints on white, and copies code.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const keys = Object.keys(data.figures);

  function draw(key, mode) {
    const figure = data.figures[key];
    const place = document.getElementById("plot-" + key);
    const layout = Object.assign({}, figure.layout, { template: data.templates[mode] });
    place.style.minWidth = layout.meta?.min_width ? `${layout.meta.min_width}px` : ""; // else the style sheet's
    return Plotly.react(place, figure.data, layout, data.config).then(() => bohbBrush(place, figure));
  }

  function drawAll(mode) {
    keys.forEach((key) => draw(key, mode));
  }

  function mode() {
    return dark.matches ? "dark" : "light";
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
