// The reader's choice of light, dark or the system's colours. It is remembered, and applied before anything is drawn.
"use strict";
(() => {
  const names = ["auto", "light", "dark"], root = document.documentElement, key = "bohb-theme";
  let theme = "auto";
  try {
    theme = names.find((name) => name === localStorage.getItem(key)) ?? "auto";
  } catch { /* storage may be forbidden */ }

  function apply() {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  }

  function offer() {
    const button = document.getElementById("theme");
    if (!button) return;
    const say = () => { button.textContent = `Theme: ${theme}`; };
    button.hidden = false;
    say();
    button.addEventListener("click", () => {
      theme = names[(names.indexOf(theme) + 1) % names.length];
      try {
        localStorage.setItem(key, theme);
      } catch { /* then it holds for this page */ }
      apply();
      say();
      document.dispatchEvent(new CustomEvent("bohb:theme"));
    });
  }

  apply();
  document.addEventListener("DOMContentLoaded", offer);
})();
