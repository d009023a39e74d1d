// The table of trials: Tabulator over the rows that match the filter. What is shown is part of the address.
"use strict";
(() => {
  const place = document.getElementById("table"), field = document.getElementById("q");
  const found = document.getElementById("found"), chooser = document.getElementById("columns");
  let table = null, columns = [], best = null, last = null, asked = 0;
  for (const element of document.querySelectorAll("[data-script]")) element.hidden = false;

  const parameters = () => new URL(location.href).searchParams;
  function remember(name, value) {
    const url = new URL(location.href);
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
    history.replaceState(history.state, "", url.href.replaceAll("%2C", ","));
  }

  function element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function duration(seconds) {
    if (seconds < 0.0995) return `${Number((1000 * seconds).toPrecision(2))} ms`;
    return seconds < 10 ? `${seconds.toFixed(1)} s` : bohbLive.duration(seconds);
  }

  // Everything is a node made from text, so that no value is taken for HTML.
  const shown = {
    trial: (value, row) => {
      const link = element("a", value, { href: `${place.dataset.trial}&number=${value}` });
      if (value !== best) return link;
      const both = element("span", "", { title: "the best result" });
      both.append(link, " ★");
      return both;
    },
    status: (value) => {
      const kind = ["ok", "running", "waiting"].includes(value) ? value : "failed";
      return element("span", value.replace("_", " "), { class: `badge ${kind}` });
    },
    duration: (value) => element("span", value === null ? "–" : duration(value)),
    moment: (value) => element("span", value === null ? "–" : bohbLive.moment(value)),
    value: (value) => element("span", value === null ? "–" : String(value)),
  };

  function choice(number) {
    const box = element("input", "", { type: "checkbox", "aria-label": `Select trial ${number}` });
    box.checked = bohbSelection.numbers().has(number);
    box.addEventListener("click", (event) => {
      const chosen = new Set(bohbSelection.numbers());
      const rows = table.getRows("active").map((row) => row.getData().c0);
      const range = event.shiftKey && rows.includes(last) ? [rows.indexOf(last), rows.indexOf(number)].sort((a, b) => a - b) : null;
      for (const n of range ? rows.slice(range[0], range[1] + 1) : [number]) {
        if (box.checked) chosen.add(n);
        else chosen.delete(n);
      }
      last = number;
      bohbSelection.set(chosen, place);
    });
    return box;
  }

  function definition([name, title, kind], index) {
    const numeric = kind === "trial" || kind === "duration";
    return {
      title, field: `c${index}`, headerSortStartingDir: index === 0 ? "desc" : "asc", frozen: index === 0,
      minWidth: index === 0 ? 78 : 84, maxInitialWidth: 260, headerSortTristate: false,
      hozAlign: numeric ? "right" : "left", sorter: compare, tooltip: false,
      titleFormatter: () => element("button", title, { type: "button", title: name, class: "user" }), // Enter sorts
      formatter: (cell) => shown[kind](cell.getValue(), cell.getRow()),
    };
  }

  // Trials without a value come last in either direction, numbers before text.
  function compare(a, b, rowA, rowB, column, direction) {
    if (a === null || b === null) return a === b ? 0 : (a === null) === (direction === "asc") ? 1 : -1;
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  }

  const asRow = (values) => Object.fromEntries(values.map((value, index) => [`c${index}`, value]));
  const names = () => columns.map(([name]) => name);
  const usual = () => columns.filter(([, , , first]) => first).map(([name]) => name);

  function chosenColumns() {
    const wanted = parameters().get("columns")?.split(",").map(decodeURIComponent).filter((name) => names().includes(name));
    return wanted?.length ? wanted : usual();
  }

  function choose(wanted) {
    const same = wanted.join() === usual().join();
    remember("columns", same ? "" : wanted.map(encodeURIComponent).join(","));
    layOut();
  }

  function layOut() {
    const wanted = chosenColumns();
    const select = {
      title: "", field: "select", frozen: true, width: 42, minWidth: 42, headerSort: false, resizable: false,
      titleFormatter: () => element("span", "Selected", { class: "sr" }), formatter: (cell) => choice(cell.getRow().getData().c0),
    };
    const all = columns.map(definition);
    table.setColumns([select, ...wanted.map((name) => all[names().indexOf(name)])]);
    offerColumns(wanted);
  }

  function offerColumns(wanted) {
    const rest = names().filter((name) => !wanted.includes(name));
    chooser.replaceChildren(...[...wanted, ...rest].map((name) => {
      const row = element("div", "", { class: "column" }), title = columns[names().indexOf(name)][1];
      const box = element("input", "", { type: "checkbox" }), label = element("label", "", { class: "tick user", title: name });
      box.checked = wanted.includes(name);
      box.disabled = name === "number";
      label.append(box, ` ${title}`);
      box.addEventListener("change", () => {
        const kept = wanted.filter((each) => each !== name);
        choose(box.checked ? [...kept, name] : kept);
        again(name, "input");
      });
      row.append(label);
      const at = wanted.indexOf(name);
      for (const [step, sign, word] of at > 0 ? [[-1, "↑", "left"], [1, "↓", "right"]] : []) {
        const button = element("button", sign, { type: "button", "aria-label": `Move ${title} to the ${word}` });
        button.disabled = at + step < 1 || at + step >= wanted.length;
        button.addEventListener("click", () => {
          const moved = [...wanted];
          [moved[at], moved[at + step]] = [moved[at + step], moved[at]];
          choose(moved);
          again(name, `button:nth-of-type(${step < 0 ? 1 : 2})`);
        });
        row.append(button);
      }
      return row;
    }));
    chooser.append(element("button", "Usual columns", { type: "button", id: "usual-columns" }));
    document.getElementById("usual-columns").addEventListener("click", () => choose(usual()));
  }

  // The list of columns is made anew; the focus stays where it was.
  function again(name, which) {
    const row = [...chooser.children].find((each) => each.querySelector("label")?.title === name);
    const target = row?.querySelector(which);
    (target?.disabled ? row.querySelector("input") : target)?.focus();
  }

  function create(rows) {
    const sort = names().indexOf(parameters().get("sort") ?? "number");
    table = new Tabulator(place, {
      data: rows, index: "c0", height: "min(70vh, 40rem)", layout: "fitDataStretch", movableColumns: true, nestedFieldSeparator: false,
      rowHeight: 33, placeholder: "No trial matches.", columnDefaults: { resizable: "header" },
      rowFormatter: (row) => row.getElement().classList.toggle("chosen", bohbSelection.numbers().has(row.getData().c0)),
      columns: [],
    });
    table.on("tableBuilt", () => {
      place.setAttribute("aria-label", "Trials");
      const holder = place.querySelector(".tabulator-tableholder"); // a grid must consist of groups of rows
      holder.setAttribute("role", "rowgroup");
      holder.firstElementChild.setAttribute("role", "presentation");
      layOut();
      table.setSort([{ column: `c${Math.max(sort, 0)}`, dir: parameters().get("order") === "asc" ? "asc" : "desc" }]);
      place.dataset.built = "yes";
    });
    table.on("dataSorted", (sorters) => {
      if (!place.dataset.built || !sorters.length) return;
      const name = columns[Number(sorters[0].field.slice(1))][0], order = sorters[0].dir;
      remember("sort", name === "number" ? "" : name);
      remember("order", order === "desc" ? "" : order);
      download();
    });
    table.on("columnMoved", (_, all) => {
      const moved = all.map((each) => each.getField()).filter((name) => name !== "select");
      choose(moved.map((name) => columns[Number(name.slice(1))][0]));
    });
  }

  function download() {
    const url = new URL("/trials.csv", location.href);
    for (const name of ["study", "q", "sort", "order"]) if (parameters().has(name)) url.searchParams.set(name, parameters().get(name));
    document.getElementById("download").href = url.href;
  }

  function say(text, trouble = false) {
    found.textContent = text;
    found.classList.toggle("trouble", trouble);
  }

  // Answers can arrive out of order; only the one to the last request counts.
  async function load() {
    const mine = ++asked, url = new URL(place.dataset.trials, location.href);
    for (const name of ["q", "sort", "order"]) if (parameters().get(name)) url.searchParams.set(name, parameters().get(name));
    const answer = await fetch(url, { cache: "no-store", credentials: "same-origin" });
    const data = await answer.json();
    if (mine !== asked) return;
    if (!answer.ok) {
      say(data.detail ?? data.error, true);
      return;
    }
    const before = names().join("\n");
    [columns, best] = [data.columns, data.best];
    const rows = data.rows.map(asRow), part = data.found > rows.length;
    const [all, some, first] = [data.total, data.found, rows.length].map((n) => String(n).replace(/\B(?=(\d{3})+$)/g, " "));
    const text = some === all ? `${all} trials` : `${some} of ${all} trials`;
    say(part ? `${text}; the first ${first} in this order are shown` : text);
    if (!table) create(rows);
    else {
      if (names().join("\n") !== before) layOut();
      await table.replaceData(rows);
    }
    download();
  }

  let typing = 0;
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => filter(field.value), 250);
  });
  function filter(text) {
    clearTimeout(typing);
    field.value = text;
    remember("q", text.trim());
    failed.checked = text.includes("status = failed");
    selected.checked = text === `trial = ${[...bohbSelection.numbers()].join(",")}`;
    load();
  }
  document.getElementById("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    filter(field.value);
  });
  const failed = document.getElementById("failed-only"), selected = document.getElementById("selected-only");
  failed.addEventListener("change", () => {
    const rest = field.value.replace(/\s*status = failed/, "").trim();
    filter(failed.checked ? `${rest} status = failed`.trim() : rest);
  });
  selected.addEventListener("change", () => {
    const rest = field.value.replace(/\s*trial = [\d,]*/, "").trim();
    filter(selected.checked ? `trial = ${[...bohbSelection.numbers()].join(",")}` : rest);
  });

  document.addEventListener("bohb:selected", () => {
    if (!table) return;
    for (const row of table.getRows("visible")) row.reformat();
  });
  document.addEventListener("bohb:refreshed", load);
  load();
})();
