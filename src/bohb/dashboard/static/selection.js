// The selected trials of a study: shared by the table and all plots, kept for the browser's tab, and part of addresses.
"use strict";
const bohbSelection = (() => {
  const study = document.body.dataset.study, key = `bohb-selected ${study}`, most = 200;
  let numbers = new Set();

  function stored() {
    const shared = new URL(location.href).searchParams.get("select");
    if (shared !== null) return shared.split(",").filter((n) => /^\d+$/.test(n)).map(Number);
    try {
      return JSON.parse(sessionStorage.getItem(key) ?? "[]");
    } catch { /* storage may be forbidden */
      return [];
    }
  }

  function keep() {
    try {
      sessionStorage.setItem(key, JSON.stringify([...numbers]));
    } catch { /* then it holds for this page */ }
    const url = new URL(location.href);
    if (numbers.size && numbers.size <= most) url.searchParams.set("select", [...numbers].join(","));
    else url.searchParams.delete("select");
    history.replaceState(history.state, "", url.href.replaceAll("%2C", ","));
  }

  function show() {
    const bar = document.getElementById("selection"), n = numbers.size;
    bar.hidden = n === 0;
    document.getElementById("selected-count").textContent = `${n} ${n === 1 ? "trial" : "trials"} selected`;
    const some = [...numbers].slice(0, most);
    for (const link of bar.querySelectorAll("a[data-selected]")) {
      const url = new URL(link.dataset.selected, location.href);
      url.searchParams.set("study", study);
      if (link.dataset.selected === "/selected") for (const number of some) url.searchParams.append("number", number);
      else url.searchParams.set("q", `trial = ${some.join(",")}`);
      link.href = url.href;
    }
  }

  function set(chosen, by) {
    numbers = new Set(chosen);
    keep();
    show();
    document.dispatchEvent(new CustomEvent("bohb:selected", { detail: by }));
  }

  numbers = new Set(stored());
  show();
  document.getElementById("unselect").addEventListener("click", () => set([], null));
  return { numbers: () => numbers, set, most };
})();
