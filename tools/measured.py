"""Write the tables of measurements into README.md, docs/speed.md and docs/better.md, from docs/results/*.json.

    python tools/measured.py            # write
    python tools/measured.py --check    # exit with 1 if a page differs from the results

All numbers come from the result files. In a page, a pair of comments marks where a table goes; the first names it.
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
HEAD = "| measured | result | script |\n|---|---|---|\n"
Line = tuple[str, str, str]  # what was measured, the result, the script below benchmarks/


def result(name: str) -> Any:
    """Return the contents of a result file."""
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())


def demo() -> Line:
    """Return how often the demo's problem is solved better than by random search."""
    body = result("demo")
    rows = {row["method"]: row for row in body["summary"]}
    seeds = rows["best"]["seeds"]
    parts = [
        f"{METHODS[method]} {rows[method]['loss']:.3f} (wins {rows[method]['loss wins']} of {seeds})"
        for method in ("best", "bohb", "optuna-tpe-hyperband", "optuna-tpe")
    ]
    what = (
        f"The network of `make demo`, cost of {body['cost']:g} full evaluations, {seeds} seeds: mean validation loss, "
    )
    what += "and wins against random search"
    return what, "; ".join([*parts, f"random search {rows['random']['loss']:.3f}"]), "demo.py"


def demo_caption() -> str:
    """Return the caption of the picture of the demo's problem."""
    body = result("demo")
    rows = {row["method"]: row for row in body["summary"]}
    best, bohb = rows["best"], rows["bohb"]
    lines = [
        f"*A neural network with twelve hyperparameters on scikit-learn's digits: {best['seeds']} seeds, each at the "
        f"cost of {body['cost']:g} full trainings.",
        f"On validation loss, BEST beats random search in {best['loss wins']} of {best['seeds']} seeds and BOHB as "
        f"published in {bohb['loss wins']}; on test error, in {best['test_error wins']} and {bohb['test_error wins']}.",
        f"The mean test error is {best['test_error']:.2%} with BEST, {bohb['test_error']:.2%} with BOHB, "
        f"{rows['optuna-tpe-hyperband']['test_error']:.2%} with Optuna's TPE and Hyperband, "
        f"{rows['optuna-tpe']['test_error']:.2%} with",
        f"its TPE alone and {rows['random']['test_error']:.2%} with random search.",
        "`make bench-demo` measures it again; [all numbers](docs/results/demo.md).*",
    ]
    return "\n".join(lines) + "\n"


def counting_ones() -> Line:
    """Return the regrets on counting ones."""
    entry = result("counting_ones")["problems"]["counting_ones-8-8"]
    runs = entry["methods"]["bohb"]["runs"]

    def regrets(method: str) -> str:
        curve = [(x, y) for x, y in zip(entry["x"], entry["methods"][method]["mean"], strict=True) if y is not None]
        return " and ".join(f"{[y for x, y in curve if x <= 1.001 * end][-1]:.2g}" for end in (128, 512))

    names = {"bohb": "BOHB", "hyperband": "Hyperband", "tpe": "TPE", "random": "random search"}
    what = f"Counting ones, 8 + 8 dimensions, {runs} seeds: mean regret after 128 and after 512 full evaluations"
    return what, "; ".join(f"{name} {regrets(method)}" for method, name in names.items()), "paper/counting_ones.py"


def wins(name: str, what: str, script: str) -> Line:
    """Return on how many problems of an experiment BOHB's mean regret is lower at the end."""
    problems = result(name)["problems"]

    def final(entry: Any, method: str) -> float:
        found = entry["methods"][method]["final"]
        return float(sum(found.values())) / len(found)

    runs = max(entry["methods"]["bohb"]["runs"] for entry in problems.values())
    counts = {
        method: sum(final(entry, "bohb") < final(entry, method) for entry in problems.values())
        for method in ("hyperband", "random", "tpe")
        if all(method in entry["methods"] for entry in problems.values())
    }
    names = {"hyperband": "Hyperband", "random": "random search", "tpe": "TPE"}
    against = ", ".join(f"{count} of {len(problems)} against {names[method]}" for method, count in counts.items())
    return f"{what}, {runs} seeds: mean regret at the end", f"BOHB wins {against}", script


def preset() -> Line:
    """Return how much higher than with BEST the regret of other methods is."""
    rows = [row for row in result("better")["continue"]["versus"] if row["point"] == 60]
    names = {
        "bohb": "BOHB as published", "hyperband": "Hyperband", "random": "random search", "optuna-tpe": "Optuna's TPE",
        "optuna-tpe-hyperband": "Optuna's TPE with Hyperband", "dehb": "DEHB",
    }  # fmt: skip
    others = [
        f"{names[row['method']]} {row['ratio']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
        for row in rows
        if row["method"] in names
    ]
    seeds = sorted({row["seeds"][1] for row in rows if row["method"] in names})
    many = f"{seeds[0]}" if seeds[0] == seeds[-1] else f"{seeds[0]} to {seeds[-1]}"
    what = f"{rows[0]['problems']} confirming problems, 60 full evaluations, "
    what += f"{many} seeds: final regret as a ratio to BEST, with 95 % interval"
    return what, "; ".join(others), "better/study.py"


def rivals() -> Line:
    """Return the regret of other packages, in units of that of the preset, from the smallest to the largest."""
    rows = [row for row in result("better_rivals")["versus"] if row["point"] == 60]
    most = max(row["problems"] for row in rows)
    others = sorted(
        (row for row in rows if row["problems"] == most and row["method"] in PACKAGES),
        key=lambda row: float(row["ratio"]),
    )
    found = [f"{METHODS[row['method']]} {row['ratio']:.1f} [{row['low']:.1f}, {row['high']:.1f}]" for row in others]
    what = f"{most} confirming problems, 60 full evaluations: final regret of other packages as a ratio to BEST"
    return what, "; ".join(found), "better/study.py"


def overhead(n: int) -> Line:
    """Return the CPU time of one decision."""
    rows = [row for row in result("overhead")["results"] if (row["space"], row["n"]) == ("mixed16", n)]
    seconds = {row["package"]: row["median"]["ask"] + row["median"]["tell"] for row in rows if "median" in row}
    ours = seconds["bohb"]
    others = [
        f"{name} {seconds[key] / ours:.0f} times as much"
        for key, name in {"hpbandster": "HpBandSter", "optuna": "Optuna's TPE"}.items()
        if key in seconds
    ]
    what = f"CPU time of one ask and one tell after {n:,} results, 16 mixed dimensions".replace(",", " ", 1)
    return what, "; ".join([f"bohb {1000 * ours:.1f} ms", *others]), "speed/overhead.py"


def throughput() -> Line:
    """Return the CPU time of one trial."""

    def milliseconds(package: str, workers: int, storage: str) -> float:
        wanted = {"package": package, "workers": workers, "storage": storage}
        [row] = [row for row in result("throughput")["results"] if wanted.items() <= row.items()]
        return min(float(1000 * (run["own"] + run["others"]) / run["evaluations"]) for run in row["runs"])

    ours = milliseconds("bohb", 2, "memory")
    found = [
        f"bohb {ours:.1f} ms",
        f"HpBandSter (1 worker) {milliseconds('hpbandster', 1, 'memory') / ours:.0f} times as much",
        f"Optuna (SQLite, no isolation) {milliseconds('optuna', 0, 'sqlite') / ours:.0f} times as much",
    ]
    what = "CPU time of all processes for one trial that does nothing, 2 isolated workers, journal in memory"
    return what, "; ".join(found), "speed/throughput.py"


def resuming() -> Line:
    """Return the CPU time of opening a long study."""

    def opened(size: int) -> str:
        runs = [run for row in result("resume")["results"] if row["size"] == size for run in row["runs"]]
        seconds = sorted(run["open"]["own"] for run in runs)
        return f"{seconds[0]:.1f} to {seconds[-1]:.1f} s"

    what = "CPU time of opening a stored study of 10 000 and of 100 000 trials"
    return what, f"{opened(10_000)}; {opened(100_000)}", "speed/resume.py"


def table(prefix: str) -> str:
    """Return all rows, with links to the scripts.

    prefix: from the page to the benchmarks.
    """
    networks = wins("networks", "Feed-forward networks, 512 full evaluations", "paper/networks/experiment.py")
    lcbench = wins("lcbench", "LCBench surrogates, 100 full evaluations", "paper/lcbench.py")
    found = [counting_ones(), networks, lcbench, preset(), rivals(), overhead(1_000), overhead(10_000), throughput()]
    found.append(resuming())
    if (ROOT / "docs" / "results" / "demo.json").exists():
        found.insert(0, demo())
    return HEAD + "".join(
        f"| {what} | {numbers} | [{script.rpartition('/')[2]}]({prefix}{script}) |\n" for what, numbers, script in found
    )


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
    "optuna-gp": "Optuna, Gaussian process",
    "synetune-asha": "Syne Tune, ASHA",
    "synetune-cqr": "Syne Tune, ASHA-CQR",
    "neps-priorband": "NePS, PriorBand",
}
PACKAGES = tuple(METHODS)[5:]
CASES = {
    "low": "`min_budget` 10 times too small",
    "high": "`min_budget` 10 times too large",
    "short": "`max_budget` 3 times too small, raised half-way",
}
Row = Mapping[str, Any]


def pivot(rows: Sequence[Row], key: str, by: str, cell: Callable[[Row], str], head: str = "") -> str:
    """Return a table in Markdown with a line for each value of `key` and a column for each value of `by`."""
    columns = list(dict.fromkeys(row[by] for row in rows))
    titles = [f"{c:g} evaluations" if isinstance(c, float) else CASES.get(c, str(c)) for c in columns]
    lines = [f"| {' | '.join([head, *titles])} |", "|---" * (len(columns) + 1) + "|"]
    for name in dict.fromkeys(row[key] for row in rows):
        found = {row[by]: cell(row) for row in rows if row[key] == name}
        lines.append(f"| {' | '.join([METHODS.get(name, name), *(found.get(c, '–') for c in columns)])} |")
    return "\n".join(lines) + "\n"


def ratio(row: Row) -> str:
    """Return a ratio with its interval, if it has one."""
    return f"{row['ratio']:.2f}" + (f" [{row['low']:.2f}, {row['high']:.2f}]" if "low" in row else "")


def facts(body: Row, page: str) -> str:
    """Return how many runs there are, and a link to all tables."""
    runs, seeds = body["source"]["runs"], body["source"]["seeds by method"]
    listed = ", ".join(
        f"{METHODS.get(method, method)} {number}" for method, number in seeds.items() if method in METHODS
    )
    return f"{runs['there']} of {runs['wanted']} runs; seeds per problem: {listed}. [All tables]({page})\n"


def better() -> str:
    """Compare BEST with BOHB as published and others, one worker."""
    body = result("better")
    found = body["continue"]
    ranked = [{**row, "ratio": row["rank"]} for row in found["ranked"]]
    families = pivot(found["families"], "family", "point", ratio)
    goals = [" ".join(line.split()) for line in body["criteria"] if line.endswith("(accounting: continue)")]
    criteria = "".join(f"- {line.removesuffix(' (accounting: continue)')}\n" for line in goals)
    return (
        "![Regret over full evaluations, by family of problems](results/better.png)\n\n"
        "Regret as a ratio to BEST, with 95 % interval:\n\n"
        f"{pivot(found['versus'], 'method', 'point', ratio)}\n"
        f"The same ratio for BOHB as published, by family of problems:\n\n{families}\n"
        f"Average rank:\n\n{pivot(ranked, 'method', 'point', ratio)}\n"
        f"Criteria that were set beforehand:\n\n{criteria}\n{facts(body, 'results/better.md')}"
    )


def better_parallel() -> str:
    """Compare them with many workers."""
    body = result("better_parallel")
    return f"{pivot(body['versus'], 'method', 'point', ratio)}\n{facts(body, 'results/better_parallel.md')}"


def better_workers() -> str:
    """Compare numbers of workers at equal cost, and other orders of waiting runs and of brackets."""
    body = result("better_workers")

    def table(name: str) -> str:
        return pivot([{**row, "variant": variant(row)} for row in body[name]], "variant", "point", ratio)

    def variant(row: Row) -> str:
        method, _, settings = row["method"].partition(":")
        change = {"": "", "without='repeats'": ", no bracket repeated"}.get(settings, ", oldest bracket first")
        return f"{METHODS[method]}{change}, {row['workers']} worker{'s' if row['workers'] > 1 else ''}"

    return (
        f"Regret as a ratio to the same method with one worker, with 95 % interval:\n\n{table('one worker')}\n"
        f"Regret as a ratio to BEST with as many workers:\n\n{table('lead')}\n"
        f"Regret with the oldest bracket first as a ratio to the smallest budget first:\n\n{table('order')}\n"
        f"Regret without repeated brackets as a ratio to BEST with as many workers:\n\n{table('repeats')}\n"
        f"{facts(body, 'results/better_workers.md')}"
    )


def better_misspecified() -> str:
    """Compare wrong budgets with right ones."""
    body = result("better_misspecified")
    bohb = [{**row, **row["bohb"]} for row in body["cases"] if row["bohb"] and row["method"] != "bohb"]
    return (
        "Regret as a ratio to the same method with right budgets, with 95 % interval:\n\n"
        f"{pivot(body['cases'], 'method', 'case', ratio)}\n"
        "Regret of BOHB as published as a ratio to that of the method, both with the same wrong budgets:\n\n"
        f"{pivot(bohb, 'method', 'case', ratio)}\n"
        f"{facts(body, 'results/better_misspecified.md')}"
    )


def better_rivals() -> str:
    """Compare BEST with more packages, at equal budget and at equal total time."""
    body = result("better_rivals")
    ranked = [{**row, "ratio": row["rank"]} for row in body["ranked"]]
    timed = [
        {**row, "evaluation": f"{row['evaluation']:g} s"} for row in body["total time"] if row["evaluation"] != "CPU s"
    ]
    own = [
        {**row, "evaluation": "optimiser's CPU s", "ratio": row["seconds"]}
        for row in body["total time"]
        if row["evaluation"] == "CPU s"
    ]
    places = "".join(f"- {line}\n" for line in body["criteria"])
    return (
        "Regret as a ratio to BEST, with 95 % interval:\n\n"
        f"{pivot(body['versus'], 'method', 'point', ratio)}\n"
        f"Average rank:\n\n{pivot(ranked, 'method', 'point', ratio)}\n"
        "The same ratio after the time of 60 full evaluations, if one takes 1, 10 or 60 s and the optimiser's own time "
        "counts:\n\n"
        f"{pivot([*timed, *own], 'method', 'evaluation', ratio)}\n"
        f"{places}\n{facts(body, 'results/better_rivals.md')}"
    )


def better_ablation() -> str:
    """Compare BEST with itself without one of its ingredients."""
    body = result("better_ablation")
    means = pivot(body["variants"], "variant", "point", ratio)
    runs = pivot(body["variants"], "variant", "point", lambda row: ratio(row["of runs"]))
    return (
        f"Of mean regrets over seeds:\n\n{means}\n"
        f"Of single runs with the same seed, geometric mean:\n\n{runs}\n{facts(body, 'results/better_ablation.md')}"
    )


def better_earlier() -> str:
    """Compare BEST with earlier versions of it."""
    body = result("better_earlier")
    rows = [
        {**row, "variant": f"{row['version']}, {row['half']} problems"}
        for row in body["halves"]
        if row["floor"] == body["protocol"]["floor"]
    ]
    runs = [
        {**row, "variant": f"{row['version']}, {row['half']} problems"}
        for row in body["of runs"]
        if row["floor"] == 1e-3
    ]
    criteria = "".join(f"- {' '.join(line.split())}\n" for line in body["criteria"])
    return (
        f"Of mean regrets over seeds:\n\n{pivot(rows, 'variant', 'point', ratio)}\n"
        f"Of single runs with the same seed, geometric mean:\n\n{pivot(runs, 'variant', 'point', ratio)}\n"
        f"{criteria}\n{facts(body, 'results/better_earlier.md')}"
    )


def better_one_budget() -> str:
    """Compare BEST on the largest budget alone with its parts and with others."""
    body = result("better_one_budget")
    rows = [row for row in body["rows"] if row["half"] == "confirming"]
    return (
        "Regret as a ratio to BEST with one budget, with 95 % interval:\n\n"
        f"{pivot(rows, 'name', 'point', ratio)}\n{facts(body, 'results/better_one_budget.md')}"
    )


def gp_speed() -> str:
    """Return the CPU time of the Gaussian process."""
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
    "better_workers": (better_workers, "python -m benchmarks.better.study --part workers"),
    "better_misspecified": (better_misspecified, "python -m benchmarks.better.study --part misspecified"),
    "better_rivals": (better_rivals, "python -m benchmarks.better.study --part rivals"),
    "better_ablation": (better_ablation, "python -m benchmarks.better.study --part ablation"),
    "better_earlier": (better_earlier, "python -m benchmarks.better.study --part earlier"),
    "better_one_budget": (better_one_budget, "python -m benchmarks.better.study --part one_budget"),
    "gp_speed": (gp_speed, "python -m benchmarks.speed.gp_speed"),
    "demo": (demo_caption, "python -m benchmarks.demo"),
}


def block(name: str | None, prefix: str) -> str:
    """Return one of the tables, or a line with the command that measures it if there is no result file."""
    if name is None:
        return table(prefix)
    make, command = TABLES[name]
    if not (ROOT / "docs" / "results" / f"{name}.json").exists():
        return f"*Not measured yet: `{command}` does.*\n"
    return make()


def written(page: str) -> str:
    """Return a page with tables from the current results."""
    text = (ROOT / page).read_text()
    return BLOCK.sub(lambda found: f"{found[1]}{block(found[2], PAGES[page])}{found[3]}", text)


def main(check: bool) -> int:
    """Write the pages, or compare them; return the exit code."""
    stale = [page for page in PAGES if written(page) != (ROOT / page).read_text()]
    for page in stale:
        if check:
            sys.stderr.write(f"{page} differs from docs/results: run python tools/measured.py\n")
        else:
            (ROOT / page).write_text(written(page))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
