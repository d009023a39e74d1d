"use strict";
// The menu above a plot that chooses the scale of the losses. It replaces plotly's own buttons, whose effects it uses;
// a figure without them says in `meta.no_log` why its scale cannot be logarithmic.
function bohbScale(menu, layout) {
  const own = layout.updatemenus?.[0];
  const log = menu.querySelector("option[value=log]");
  log.disabled = !own;
  log.textContent = own ? "log" : `log: ${layout.meta?.no_log ?? "not for this plot"}`;
  if (log.disabled && menu.value === "log") menu.value = "";
  if (!own) return;
  delete layout.updatemenus;
  if (!layout.annotations?.length) layout.margin.t = 14; // else the tool bar needs the room of the buttons
  const chosen = own.buttons.find((button) => button.label === menu.value);
  for (const [path, value] of Object.entries(chosen?.args[0] ?? {})) {
    const [axis, key] = path.split(".");
    layout[axis] = { ...layout[axis], [key]: value };
  }
}
