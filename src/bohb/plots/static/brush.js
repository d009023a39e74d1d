"use strict";
// Brushing of parallel coordinates: of the lines, only those remain that pass through all boxes that the reader draws.
// Shift adds a box; a click beside them removes them. plotly's own parallel coordinates need WebGL and eval, which our
// content security policy forbids.
// select: is told the trials whose lines remain, if they are selected elsewhere, too.
function bohbBrush(element, figure, select) {
  const axes = figure.layout.meta && figure.layout.meta.brush;
  if (!axes) return;
  const stride = axes + 1; // each line is followed by a gap
  figure.lines ??= figure.data.map((trace) => trace.y); // plotly changes the data that it was given
  const bridges = (i) => figure.data[i].mode === "lines"; // across inactive hyperparameters; hidden while there are boxes

  function passes(y, from, boxes) {
    return boxes.every(({ first, last, low, high }) => {
      for (let k = first; k <= last; k += 1) {
        const value = y[from + k];
        if (value === null || value < low || value > high) return false;
      }
      return true;
    });
  }

  // Show only the lines for which `stays` holds, or all of them.
  function keep(stays) {
    const y = [], visible = [];
    figure.lines.forEach((lines, i) => {
      const kept = lines.slice();
      for (let from = 0; stays && !bridges(i) && from < kept.length; from += stride) {
        if (!stays(lines, from, figure.data[i].meta[from / stride])) kept.fill(null, from, from + stride);
      }
      y.push(kept);
      visible.push(!bridges(i) || !stays);
    });
    return Plotly.restyle(element, { y, visible, selectedpoints: null });
  }

  function apply(selections) {
    const boxes = selections.map(({ x0, x1, y0, y1 }) => ({
      first: Math.max(0, Math.ceil(Math.min(x0, x1))), last: Math.min(axes - 1, Math.floor(Math.max(x0, x1))),
      low: Math.min(y0, y1), high: Math.max(y0, y1),
    })).filter(({ first, last }) => first <= last);
    const inside = (lines, from) => passes(lines, from, boxes);
    if (select) {
      select(boxes.length === 0 ? [] : figure.lines.flatMap((lines, i) => (bridges(i) ? []
        : figure.data[i].meta.filter((_, line) => inside(lines, line * stride)))));
    }
    return keep(boxes.length === 0 ? null : inside);
  }

  if (!element.bohbBrushed) {
    element.bohbBrushed = true;
    const clear = () => Plotly.relayout(element, { selections: [] }).then(() => element.bohbApply([]));
    // After a click instead of a drag there is no range, and the boxes are removed.
    element.on("plotly_selected", (event) => (event?.range ? element.bohbApply(element.layout.selections || []) : clear()));
    element.on("plotly_deselect", clear);
  }
  element.bohbApply = apply; // with the data that is drawn now
  // Lines that are selected elsewhere; a line that is not drawn cannot be kept.
  element.bohbKeep = (numbers) => keep(numbers.size === 0 ? null : (_, from, number) => numbers.has(number));
  if ((element.layout.selections || []).length) apply(element.layout.selections);
}
