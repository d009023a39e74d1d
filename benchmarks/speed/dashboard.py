"""Measure how fast the dashboard is on a study of many trials, and how much memory it needs.

    python -m benchmarks.speed.dashboard                       # 10 000 trials, with a browser if there is a Chromium
    python -m benchmarks.speed.dashboard --trials 100000 --repeats 3 --out /tmp/dashboard

The server runs in a process of its own, as `bohb dashboard` does, on a journal that a writer in this process appends
to. Times are wall times, so use an idle machine. The results are written to dashboard.json and dashboard.csv.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil  # type: ignore[import-untyped,unused-ignore]

from benchmarks.report import provenance, table, verdict, write
from benchmarks.speed.resume import build

ROOT = Path(__file__).parents[2]
STUDY = "study"
FIRST_PAGE, UPDATE = 1.5, 0.5  # seconds, the documented limits
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "list": ("/", {}),
    "overview": ("/study", {"study": STUDY}),
    "trials": ("/trials", {"study": STUDY}),
    "table": ("/api/trials", {"study": STUDY}),
    "table by loss": ("/api/trials", {"study": STUDY, "sort": "loss", "order": "asc"}),
    "table, filter": ("/api/trials", {"study": STUDY, "q": "float_1 < 0.1 localhost/3"}),
    "one trial": ("/trial", {"study": STUDY, "number": "77"}),
    "plots": ("/plots", {"study": STUDY}),
    "version": ("/api/version", {"study": STUDY}),
}


@contextmanager
def server(journal: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start a server; yield its address and its process."""
    call = f"from bohb.dashboard import serve; serve({str(journal)!r}, port=0)"
    with subprocess.Popen([sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        found = re.search(r"http://[^/]+", process.stdout.readline())
        try:
            assert found is not None, "the server did not start"
            yield found.group(), psutil.Process(process.pid)
        finally:
            process.terminate()


def fetch(base: str, path: str, query: dict[str, str]) -> tuple[float, int]:
    """Return the seconds until a response is complete, and its size in bytes."""
    began = time.perf_counter()
    with urllib.request.urlopen(base + path + (f"?{urlencode(query)}" if query else ""), timeout=60) as answer:
        body = answer.read()
    return time.perf_counter() - began, len(body)


def memory(process: psutil.Process) -> float:
    """Return the resident set of a process in MiB."""
    return float(process.memory_info().rss) / 2**20


class Writer:
    """Runs the study: tells one trial and asks for the next."""

    def __init__(self, journal: Path) -> None:
        from bohb import BOHB
        from bohb.journal import SqlJournal

        self._optimizer = BOHB.from_journal(SqlJournal(journal, STUDY))
        self._trial = self._optimizer.ask()

    def step(self) -> None:
        from bohb import Outcome, Status

        now = time.time()
        self._optimizer.tell(self._trial, Outcome(Status.OK, loss=2.0, started=now - 1, finished=now, worker="w"))
        self._trial = self._optimizer.ask()


def row(what: str, seconds: list[float], size: int | None = None) -> dict[str, Any]:
    """Return one row of the table."""
    kilobytes = None if size is None else size / 1000
    return {"what": what, "median_s": statistics.median(seconds), "worst_s": max(seconds), "kB": kilobytes}


def pages(base: str, repeats: int) -> list[dict[str, Any]]:
    """Measure every page while the study does not change."""
    rows = []
    for name, (path, query) in PAGES.items():
        taken = [fetch(base, path, query) for _ in range(repeats)]
        rows.append(row(name, [seconds for seconds, _ in taken], taken[0][1]))
    return rows


def updates(base: str, writer: Writer, repeats: int) -> list[dict[str, Any]]:
    """Measure the version request and the pages after each new result."""
    asked, shown = [], {name: list[float]() for name in ("overview", "table by loss", "table, filter")}
    for _ in range(repeats):
        writer.step()
        asked.append(fetch(base, *PAGES["version"])[0])
        for name in shown:
            shown[name].append(fetch(base, *PAGES[name])[0])
    return [row("update: version", asked), *(row(f"update: {name}", taken) for name, taken in shown.items())]


def figures(base: str) -> list[dict[str, Any]]:
    """Measure each plot once."""
    from bohb.plots import PLOTS

    rows = []
    for key in PLOTS:
        seconds, size = fetch(base, "/api/figure", {"study": STUDY, "plot": key})
        rows.append(row(f"plot: {key}", [seconds], size))
    return rows


def in_browser(base: str, writer: Writer) -> list[dict[str, Any]]:
    """Measure the page, its first plot and an update in Chromium; return nothing if there is no browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(f"{base}/study?study={STUDY}", wait_until="commit")
        page.locator("footer").wait_for()
        read = time.perf_counter() - began
        page.locator("[data-drawn]").first.wait_for(state="attached", timeout=60_000)
        drawn = time.perf_counter() - began
        seen = []
        for _ in range(5):
            seen.append(_seconds_until_seen(page, writer))
        browser.close()
    rows = [("overview can be read", [read]), ("first plot is drawn", [drawn])]
    rows.append(("a result is seen (polls every 2 s)", seen))
    return [row(f"browser: {name}", taken) for name, taken in rows]


def _seconds_until_seen(page: Any, writer: Writer) -> float:
    shown: Callable[[], str] = lambda: page.evaluate("document.body.dataset.version")  # noqa: E731
    before, began = shown(), time.perf_counter()
    writer.step()
    while shown() == before:
        time.sleep(0.02)
    return time.perf_counter() - began


def measure(trials: int, repeats: int, browser: bool, seed: int) -> dict[str, Any]:
    """Return all measurements for one number of trials."""
    with tempfile.TemporaryDirectory() as scratch:
        journal = Path(scratch) / "study.db"
        build(journal, trials, seed)
        writer = Writer(journal)
        with server(journal) as (base, process):
            first = fetch(base, *PAGES["overview"])  # of a large study it shows what has been read so far
            whole = first[0] + _until_read(base)
            rows = [row("first page after the start", [first[0]], first[1]), row("the whole study", [whole])]
            rows += pages(base, repeats)
            after_pages = memory(process)
            rows += updates(base, writer, repeats)
            rows += figures(base)
            after_figures = memory(process)
            updates(base, writer, 10 * repeats)
            rows += in_browser(base, writer) if browser else []
            end = memory(process)
    used = {"after_pages": after_pages, "after_figures": after_figures, f"after_{10 * repeats}_updates": end}
    return {"trials": trials, "rows": rows, "memory_MiB": used}


def _until_read(base: str) -> float:
    """Return the seconds until the overview shows the whole study."""
    began = time.perf_counter()
    address = base + "/study?" + urlencode({"study": STUDY})
    while 'data-version="unfinished"' in urllib.request.urlopen(address, timeout=60).read().decode():
        pass
    return time.perf_counter() - began


def verdicts(found: dict[str, Any]) -> list[str]:
    """Compare the measurements with the documented limits."""
    by_name = {line["what"]: line for line in found["rows"]}
    first = by_name["first page after the start"]["worst_s"]
    slowest = max(line["median_s"] for name, line in by_name.items() if name.startswith("update"))
    used = list(found["memory_MiB"].values())
    return [
        verdict(first < FIRST_PAGE, f"first page under {FIRST_PAGE} s", f"{first:.2f} s"),
        verdict(slowest < UPDATE, f"updates under {UPDATE} s", f"{slowest:.2f} s (median of the slowest page)"),
        verdict(used[-1] < 1.25 * used[1] + 20, "memory stays", " -> ".join(f"{mib:.0f}" for mib in used) + " MiB"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = measure(options.trials, options.repeats, not options.no_browser, options.seed)
    source = provenance([options.seed], ["bohb", "plotly", "starlette", "uvicorn", "playwright"])
    print(table(found["rows"]))
    print(f"\n{options.trials} trials, load {load:.1f} before the start; memory: {found['memory_MiB']}")
    print("\n".join(verdicts(found)))
    write(options.out, "dashboard", {**source, "load": load}, found, found["rows"])


if __name__ == "__main__":
    main()
