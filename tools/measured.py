"""Write the tables of measurements into README.md, docs/speed.md and docs/better.md, from docs/results/*.json.

    python tools/measured.py            # write
    python tools/measured.py --check    # exit with 1 if a page says something else than the results

Nothing is typed in: a number that is not in a result file is not in a table. A page says where a table goes by a pair
of comments, the first of which names it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": "benchmarks/", "docs/speed.md": "../benchmarks/", "docs/better.md": "../benchmarks/"}
BLOCK = re.compile(
    r"(<!-- measured(?: (\w+))?: tools/measured\.py writes this -->\n).*?(<!-- end of measured -->\n)", re.S
)
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
    return what, regrets("bohb"), others, "paper/counting_ones.py"


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


def preset() -> tuple[str, str, str, str]:
    """How much lower the regret of BEST ends."""
    rows = [row for row in result("better")["continue"]["versus"] if row["point"] == 60]
    told = {
        "bohb": "BOHB as published", "hyperband": "Hyperband", "random": "random search", "optuna-tpe": "Optuna's TPE",
        "optuna-tpe-hyperband": "with its Hyperband", "dehb": "DEHB",
    }  # fmt: skip
    others = [
        f"{told[row['method']]} {row['ratio']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
        for row in rows
        if row["method"] in told
    ]
    seeds = sorted({row["seeds"][1] for row in rows if row["method"] in told})
    what = f"The preset `BEST`, {rows[0]['problems']} problems it was not chosen on, 60 full evaluations "
    what += f"({seeds[0]} to {seeds[-1]} seeds): final regret"
    return what, "1", f"so many times that, with 95 % intervals: {'; '.join(others)}", "better/study.py"


def overhead(n: int) -> tuple[str, str, str, str]:
    """What one decision costs."""
    rows = [row for row in result("overhead")["results"] if (row["space"], row["n"]) == ("mixed16", n)]
    seconds = {row["package"]: row["median"]["ask"] + row["median"]["tell"] for row in rows if "median" in row}
    ours = seconds.pop("bohb")
    names = {"hpbandster": "HpBandSter", "optuna": "Optuna's TPE"}
    others = "; ".join(f"{names[key]} {value / ours:.0f} times that" for key, value in seconds.items() if key in names)
    what = f"One ask and one tell at {n:,} observations, 16 mixed dimensions, CPU time".replace(",", " ", 1)
    return what, f"{1000 * ours:.1f} ms", others, "speed/overhead.py"


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
    return what, f"{ours:.1f} ms", others, "speed/throughput.py"


def resuming() -> tuple[str, str, str, str]:
    """What opening a long study costs."""

    def opened(size: int) -> str:
        runs = [run for row in result("resume")["results"] if row["size"] == size for run in row["runs"]]
        seconds = sorted(run["open"]["own"] for run in runs)
        return f"{seconds[0]:.1f}–{seconds[-1]:.1f} s"

    what = "Open and resume a stored study of 10 000 and of 100 000 trials, CPU time"
    return what, f"{opened(10_000)}, {opened(100_000)}", "", "speed/resume.py"


def table(prefix: str) -> str:
    """All rows, with links to the scripts.

    prefix: from the page to the benchmarks.
    """
    networks = lower_on("networks", "Feed-forward networks, 512 full evaluations", "paper/networks/experiment.py")
    lcbench = lower_on("lcbench", "LCBench surrogates, 100 full evaluations", "paper/lcbench.py")
    rows = [counting_ones(), networks, lcbench, preset(), overhead(1_000), overhead(10_000), throughput(), resuming()]
    lines = [
        f"| {what} | {ours} | {others} | [{Path(script).name}]({prefix}{script}) |\n"
        for what, ours, others, script in rows
    ]
    return HEAD + "".join(lines)


METHODS = {
    "bohb": "BOHB as published",
    "best": "BEST",
    "best:schedule='adaptive'": "BEST, adaptive budgets",
    "hyperband": "Hyperband",
    "random": "random search",
    "hpbandster": "HpBandSter",
    "optuna-tpe": "Optuna, TPE",
    "optuna-tpe-hyperband": "Optuna, TPE + Hyperband",
    "smac": "SMAC3",
    "dehb": "DEHB",
}
CASES = {
    "low": "`min_budget` 10 times too small",
    "high": "`min_budget` 10 times too large",
    "short": "`max_budget` 3 times too small, raised half-way",
}
Row = Mapping[str, Any]


def pivot(rows: Sequence[Row], key: str, by: str, cell: Callable[[Row], str], head: str = "") -> str:
    """A table in Markdown: a line per value of `key`, a column per value of `by`."""
    columns = list(dict.fromkeys(row[by] for row in rows))
    titles = [f"{c:g} evaluations" if isinstance(c, float) else CASES.get(c, str(c)) for c in columns]
    lines = [f"| {' | '.join([head, *titles])} |", "|---" * (len(columns) + 1) + "|"]
    for name in dict.fromkeys(row[key] for row in rows):
        found = {row[by]: cell(row) for row in rows if row[key] == name}
        lines.append(f"| {' | '.join([METHODS.get(name, name), *(found.get(c, '–') for c in columns)])} |")
    return "\n".join(lines) + "\n"


def ratio(row: Row) -> str:
    """A ratio with its interval, if it has one."""
    return f"{row['ratio']:.2f}" + (f" [{row['low']:.2f}, {row['high']:.2f}]" if "low" in row else "")


def facts(body: Row, page: str) -> str:
    """How much was run, and where all of it is."""
    runs, seeds = body["source"]["runs"], body["source"]["seeds by method"]
    told = ", ".join(f"{METHODS.get(method, method)} {number}" for method, number in seeds.items() if method in METHODS)
    return f"{runs['there']} of {runs['wanted']} runs; seeds per problem: {told}. [All tables]({page})\n"


def better() -> str:
    """The preset beside the published BOHB and others, with one worker."""
    body = result("better")
    found = body["continue"]
    ranked = [{**row, "ratio": row["rank"]} for row in found["ranked"]]
    families = pivot(found["families"], "family", "point", ratio)
    goals = [" ".join(line.split()) for line in body["criteria"] if line.endswith("(accounting: continue)")]
    told = "".join(f"- {line.removesuffix(' (accounting: continue)')}\n" for line in goals)
    return (
        "![Regret over full evaluations, by family of problems](results/better.png)\n\n"
        "How many times higher the regret of others is, with its 95 % interval:\n\n"
        f"{pivot(found['versus'], 'method', 'point', ratio)}\n"
        f"The same for BOHB as published, by family of problems:\n\n{families}\n"
        f"Average rank:\n\n{pivot(ranked, 'method', 'point', ratio)}\n"
        f"What it was to show:\n\n{told}\n{facts(body, 'results/better.md')}"
    )


def better_parallel() -> str:
    """The same with many workers."""
    body = result("better_parallel")
    return f"{pivot(body['versus'], 'method', 'point', ratio)}\n{facts(body, 'results/better_parallel.md')}"


def better_misspecified() -> str:
    """Wrong budgets beside right ones."""
    body = result("better_misspecified")
    return f"{pivot(body['cases'], 'method', 'case', ratio)}\n{facts(body, 'results/better_misspecified.md')}"


def better_ablation() -> str:
    """The preset without one of its ingredients."""
    body = result("better_ablation")
    return f"{pivot(body['variants'], 'variant', 'point', ratio)}\n{facts(body, 'results/better_ablation.md')}"


def gp_speed() -> str:
    """What the process costs."""
    body = result("gp_speed")
    names = ["proposal ms", "beside 15 ms", "fit ms"]
    lines = ["| hyperparameters | results | a proposal | … beside 15 running trials | a fit |", "|---" * 5 + "|"]
    for row in body["results"]:
        cells = [f"{row['hyperparameters']}", f"{row['results']}", *(f"{row[name]:.1f} ms" for name in names)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\nMedian CPU time, {body['source']['cpu']}.\n"


TABLES: dict[str, tuple[Callable[[], str], str]] = {
    "better": (better, "python -m benchmarks.better.study"),
    "better_parallel": (better_parallel, "python -m benchmarks.better.study --part parallel"),
    "better_misspecified": (better_misspecified, "python -m benchmarks.better.study --part misspecified"),
    "better_ablation": (better_ablation, "python -m benchmarks.better.study --part ablation"),
    "gp_speed": (gp_speed, "python -m benchmarks.speed.gp_speed"),
}


def block(name: str | None, prefix: str) -> str:
    """One of the tables; a line that says how to make it, as long as its result file is not there."""
    if name is None:
        return table(prefix)
    make, command = TABLES[name]
    if not (ROOT / "docs" / "results" / f"{name}.json").exists():
        return f"*Not measured yet: `{command}` does.*\n"
    return make()


def written(page: str) -> str:
    """A page with its tables as the results have them now."""
    text = (ROOT / page).read_text()
    return BLOCK.sub(lambda found: f"{found[1]}{block(found[2], PAGES[page])}{found[3]}", text)


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
