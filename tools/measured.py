"""Write the table of measurements into README.md and docs/speed.md, from docs/results/*.json.

    python tools/measured.py            # write
    python tools/measured.py --check    # exit with 1 if a page says something else than the results

Nothing is typed in: a number that is not in a result file is not in the table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": "benchmarks/", "docs/speed.md": "../benchmarks/"}
BEGIN, END = "<!-- measured: tools/measured.py writes this -->\n", "<!-- end of measured -->\n"
HEAD = "| | bohb | beside it | measured by |\n|---|---|---|---|\n"


def result(name: str) -> Any:
    """One result file."""
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())


def counting_ones() -> tuple[str, str, str, str]:
    """How good after so many evaluations."""
    entry = result("counting_ones")["problems"]["counting_ones-8-8"]
    runs = entry["methods"]["bohb"]["runs"]

    def regrets(method: str) -> str:
        curve = [(x, y) for x, y in zip(entry["x"], entry["methods"][method]["mean"], strict=True) if y is not None]
        return ", ".join(f"{[y for x, y in curve if x <= 1.001 * end][-1]:.2g}" for end in (128, 512))

    others = f"Hyperband {regrets('hyperband')}; TPE {regrets('tpe')}; random search {regrets('random')}"
    what = f"Counting ones, 8 + 8 dimensions: mean regret after 128 and 512 full evaluations ({runs} seeds)"
    return what, regrets("bohb"), others, "counting_ones.py"


def lower_on(name: str, what: str, script: str) -> tuple[str, str, str, str]:
    """On how many problems of an experiment BOHB's mean regret ends lowest."""
    problems = result(name)["problems"]

    def ends(entry: Any, method: str) -> float:
        final = entry["methods"][method]["final"]
        return float(sum(final.values())) / len(final)

    runs = {entry["methods"]["bohb"]["runs"] for entry in problems.values()}
    below = {
        method: sum(ends(entry, "bohb") < ends(entry, method) for entry in problems.values())
        for method in ("hyperband", "random", "tpe")
        if all(method in entry["methods"] for entry in problems.values())
    }
    names = {"hyperband": "Hyperband", "random": "random search", "tpe": "TPE"}
    told = "; ".join(f"than {names[method]} on {count}" for method, count in below.items())
    return f"{what} ({max(runs)} seeds): mean final regret", f"lower on so many of {len(problems)}:", told, script


def overhead(n: int) -> tuple[str, str, str, str]:
    """What one decision costs."""
    rows = [row for row in result("overhead")["results"] if (row["space"], row["n"]) == ("mixed16", n)]
    seconds = {row["package"]: row["median"]["ask"] + row["median"]["tell"] for row in rows if "median" in row}
    ours = seconds.pop("bohb")
    names = {"hpbandster": "HpBandSter", "optuna": "Optuna's TPE"}
    others = "; ".join(f"{names[key]} {value / ours:.0f} times that" for key, value in seconds.items() if key in names)
    what = f"One ask and one tell at {n:,} observations, 16 mixed dimensions, CPU time".replace(",", " ", 1)
    return what, f"{1000 * ours:.1f} ms", others, "overhead.py"


def throughput() -> tuple[str, str, str, str]:
    """What one trial costs."""

    def milliseconds(package: str, workers: int, storage: str) -> float:
        wanted = {"package": package, "workers": workers, "storage": storage}
        [row] = [row for row in result("throughput")["results"] if wanted.items() <= row.items()]
        return min(float(1000 * (run["own"] + run["others"]) / run["evaluations"]) for run in row["runs"])

    ours = milliseconds("bohb", 2, "memory")
    others = (
        f"HpBandSter (1 worker) {milliseconds('hpbandster', 1, 'memory') / ours:.0f} times that; "
        f"Optuna (SQLite, no isolation) {milliseconds('optuna', 0, 'sqlite') / ours:.0f} times"
    )
    what = "A no-op evaluation through the whole study, 2 isolated workers, in memory, CPU time of all processes"
    return what, f"{ours:.1f} ms", others, "throughput.py"


def resuming() -> tuple[str, str, str, str]:
    """What opening a long study costs."""

    def opened(size: int) -> str:
        runs = [run for row in result("resume")["results"] if row["size"] == size for run in row["runs"]]
        seconds = sorted(run["open"]["own"] for run in runs)
        return f"{seconds[0]:.1f}–{seconds[-1]:.1f} s"

    what = "Open and resume a stored study of 10 000 and of 100 000 trials, CPU time"
    return what, f"{opened(10_000)}, {opened(100_000)}", "", "resume.py"


def table(prefix: str) -> str:
    """All rows, with links to the scripts.

    prefix: from the page to the benchmarks.
    """
    networks = lower_on("networks", "Feed-forward networks, 512 full evaluations", "networks/experiment.py")
    lcbench = lower_on("lcbench", "LCBench surrogates, 100 full evaluations", "lcbench.py")
    rows = [counting_ones(), networks, lcbench, overhead(1_000), overhead(10_000), throughput(), resuming()]
    lines = [f"| {what} | {ours} | {others} | [{script}]({prefix}{script}) |\n" for what, ours, others, script in rows]
    return HEAD + "".join(lines)


def written(page: str) -> str:
    """A page with the table as the results have it now."""
    text = (ROOT / page).read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(PAGES[page]) + rest[rest.index(END) :]


def main(check: bool) -> int:
    """Write, or compare; the exit code."""
    stale = [page for page in PAGES if written(page) != (ROOT / page).read_text()]
    for page in stale:
        if check:
            sys.stderr.write(f"{page} differs from docs/results: run python tools/measured.py\n")
        else:
            (ROOT / page).write_text(written(page))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
