"use strict";
// Brushing of parallel coordinates: of the lines, only those remain that pass through all boxes that the reader draws.
// Shift adds a box; a click beside them removes them. plotly's own parallel coordinates need WebGL and eval, which our
// content security policy forbids.
function bohbBrush(element, figure) {
  const axes = figure.layout.meta && figure.layout.meta.brush;
  if (!axes) return;
  const stride = axes + 1; // each line is followed by a gap
  figure.lines ??= figure.data.map((trace) => trace.y); // plotly changes the data that it was given

  function passes(y, from, boxes) {
    return boxes.every(({ first, last, low, high }) => {
      for (let k = first; k <= last; k += 1) {
        const value = y[from + k];
        if (value === null || value < low || value > high) return false;
      }
      return true;
    });
  }

  function apply(selections) {
    const boxes = selections.map(({ x0, x1, y0, y1 }) => ({
      first: Math.max(0, Math.ceil(Math.min(x0, x1))), last: Math.min(axes - 1, Math.floor(Math.max(x0, x1))),
      low: Math.min(y0, y1), high: Math.max(y0, y1),
    })).filter(({ first, last }) => first <= last);
    const y = [], visible = [];
    figure.lines.forEach((lines, i) => {
      const bridge = figure.data[i].mode === "lines"; // across inactive hyperparameters; hidden while there are boxes
      const kept = lines.slice();
      for (let from = 0; !bridge && from < kept.length; from += stride) {
        if (!passes(lines, from, boxes)) kept.fill(null, from, from + stride);
      }
      y.push(kept);
      visible.push(!bridge || boxes.length === 0);
    });
    return Plotly.restyle(element, { y, visible, selectedpoints: null });
  }

  if (!element.bohbBrushed) {
    element.bohbBrushed = true;
    const clear = () => Plotly.relayout(element, { selections: [] }).then(() => element.bohbApply([]));
    // After a click instead of a drag there is no range, and the boxes are removed.
    element.on("plotly_selected", (event) => (event?.range ? element.bohbApply(element.layout.selections || []) : clear()));
    element.on("plotly_deselect", clear);
  }
  element.bohbApply = apply; // with the data that is drawn now
  if ((element.layout.selections || []).length) apply(element.layout.selections);
}
