"""Write the tables and sentences of measurements into README.md and docs/, from docs/results/*.json.

    python tools/measured.py            # write
    python tools/measured.py --check    # exit with 1 if a page differs from the results

All numbers come from the result files. In a page, a pair of comments marks where a table goes; the first names it.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/speed.md", "docs/better.md", "docs/process.md")
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
    what = f"{rows[0]['problems']} held-out problems, 60 full evaluations, "
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
    what = f"{most} held-out problems, 60 full evaluations: final regret of other packages as a ratio to BEST"
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


def table() -> str:
    """Return all rows, with links to the scripts."""
    networks = wins("networks", "Feed-forward networks, 512 full evaluations", "paper/networks/experiment.py")
    lcbench = wins("lcbench", "LCBench surrogates, 100 full evaluations", "paper/lcbench.py")
    found = [counting_ones(), networks, lcbench, preset(), rivals(), overhead(1_000), overhead(10_000), throughput()]
    found.append(resuming())
    if (ROOT / "docs" / "results" / "demo.json").exists():
        found.insert(0, demo())
    return HEAD + "".join(
        f"| {what} | {numbers} | [{script.rpartition('/')[2]}](../benchmarks/{script}) |\n"
        for what, numbers, script in found
    )


def in_short() -> str:
    """Return the four numbers of the README."""
    versus = {row["method"]: row for row in result("better_rivals")["versus"] if row["point"] == 60}
    tpe, published = versus["optuna-tpe"], versus["bohb"]
    return bullets(
        f"**Better results.** On {published['problems']} held-out problems, BOHB as published ends with "
        f"{ratio(published)} times the regret of BEST after 60 full evaluations, and Optuna's TPE with {ratio(tpe)} "
        "times ([other methods](docs/better.md)).",
        f"**As in the paper.** On the 17 surrogates of LCBench, {wins('lcbench', '', '')[1]} ([claim by "
        "claim](docs/results/claims.md)).",
        f"**Fast decisions.** {overhead(1_000)[0]}: {overhead(1_000)[1]}.",
        f"**Fast resuming.** {resuming()[0]}: {resuming()[1]} ([all measurements](docs/speed.md)).",
    )


def bullets(*texts: str) -> str:
    """Return texts as a list in Markdown, in lines that are not too long."""
    lines = (textwrap.fill(text, 118, subsequent_indent="  ", break_on_hyphens=False) for text in texts)
    return "".join(f"- {line}\n" for line in lines)


METHODS = {
    "bohb": "BOHB as published",
    "best": "BEST",
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
PACKAGES = tuple(METHODS)[4:]
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


def better_opening() -> str:
    """Return the figure and the three sentences that the page about BEST opens with."""
    body = result("better")
    rows = [row for row in body["continue"]["versus"] if row["method"] == "bohb"]
    final = rows[-1]
    before = ", ".join(f"{row['ratio']:.1f} after {row['point']:g}" for row in rows[:-1])
    packages = [row for row in result("better_rivals")["versus"] if row["point"] == 60 and row["method"] in PACKAGES]
    most = max(row["problems"] for row in packages)
    ratios = sorted(row["ratio"] for row in packages if row["problems"] == most)
    text = (
        f"On {final['problems']} held-out problems, BOHB as published has {ratio(final)} times the regret of BEST "
        f"after 60 full evaluations (mean and 95 % interval; {before}). Other packages have {ratios[0]:.1f} to "
        f"{ratios[-1]:.1f} times its regret on {most} of these problems. The lead is smaller early in a study and with "
        "many workers, and there is none on the tables of TaskSet."
    )
    picture = "![Regret over full evaluations, by family of problems](results/better.png)"
    return f"{picture}\n\n{textwrap.fill(text, 118, break_on_hyphens=False)}\n"


def better() -> str:
    """Compare BEST with BOHB as published and others, one worker."""
    body = result("better")
    found = body["continue"]
    goals = [line for line in body["criteria"] if line.endswith(" (accounting: continue)")]
    return (
        f"{pivot(found['versus'], 'method', 'point', ratio)}\n"
        f"Goals that were set before the runs:\n\n{goal_table(goals)}\n{facts(body, 'results/better.md')}"
    )


def goal_table(lines: Sequence[str]) -> str:
    """Return the goals of a result file as a table."""
    rows = ["| goal | measured | verdict |", "|---|---|---|"]
    for line in lines:
        verdict, _, text = line.removesuffix(" (accounting: continue)").partition("  ")
        goal, _, measured = text.strip().rpartition(": ")
        rows.append(f"| {goal} | {measured} | {verdict} |")
    return "\n".join(rows) + "\n"


def better_rivals() -> str:
    """Compare BEST with more packages, at equal budget."""
    body = result("better_rivals")
    own = {row["method"]: f"{row['seconds']:.1f}" for row in body["total time"] if row["evaluation"] == "CPU s"}
    rows = [
        *body["versus"],
        *({"method": m, "point": "CPU s", "text": own[m]} for m in {r["method"]: 0 for r in body["versus"]}),
    ]
    table = pivot(rows, "method", "point", lambda row: row["text"] if "text" in row else ratio(row))
    return f"{table}\n{facts(body, 'results/better_rivals.md')}"


def better_workers() -> str:
    """Compare numbers of workers at equal cost, at the end of the runs."""
    body = result("better_workers")
    columns = {
        "BOHB / BOHB with one worker": ("one worker", "bohb"),
        "BEST / BEST with one worker": ("one worker", "best"),
        "BOHB / BEST": ("lead", "bohb"),
        "BEST without repeated brackets / BEST": ("repeats", "best:without='repeats'"),
    }
    rows = [
        {**row, "column": column}
        for column, (name, method) in columns.items()
        for row in body[name]
        if row["method"] == method and row["point"] == 60
    ]
    rows.sort(key=lambda row: int(row["workers"]) + 1000 * list(columns).index(row["column"]))
    order = sorted({row["workers"] for row in rows})
    found = {(row["workers"], row["column"]): ratio(row) for row in rows}
    lines = [f"| workers | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {n} | {' | '.join(found.get((n, column), '–') for column in columns)} |" for n in order]
    return "\n".join(lines) + f"\n\n{facts(body, 'results/better_workers.md')}"


def better_misspecified() -> str:
    """Compare wrong budgets with right ones."""
    body = result("better_misspecified")
    rows = [{**row, "method": METHODS[row["method"]]} for row in body["cases"]]
    rows += [
        {**row, **row["bohb"], "method": "BOHB / BEST, both with the same wrong budgets"}
        for row in body["cases"]
        if row["bohb"] and row["method"] == "best"
    ]
    return f"{pivot(rows, 'method', 'case', ratio)}\n{facts(body, 'results/better_misspecified.md')}"


def better_ablation() -> str:
    """Compare BEST with itself without one of its ingredients."""
    body = result("better_ablation")
    rows = [{**row, "column": f"mean, {row['point']:g}"} for row in body["variants"] if row["point"] > 6]
    rows += [{**row, **row["of runs"], "column": "typical, 60"} for row in body["variants"] if row["point"] == 60]
    return f"{pivot(rows, 'variant', 'column', ratio)}\n{facts(body, 'results/better_ablation.md')}"


def better_one_budget() -> str:
    """Compare BEST on the largest budget alone with its parts and with others."""
    body = result("better_one_budget")
    rows = [row for row in body["rows"] if row["half"] == "confirming"]
    return f"{pivot(rows, 'name', 'point', ratio)}\n{facts(body, 'results/better_one_budget.md')}"


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
    "in_short": (in_short, "python -m benchmarks.better.study --part rivals"),
    "better_opening": (better_opening, "python -m benchmarks.better.study"),
    "better": (better, "python -m benchmarks.better.study"),
    "better_workers": (better_workers, "python -m benchmarks.better.study --part workers"),
    "better_misspecified": (better_misspecified, "python -m benchmarks.better.study --part misspecified"),
    "better_rivals": (better_rivals, "python -m benchmarks.better.study --part rivals"),
    "better_ablation": (better_ablation, "python -m benchmarks.better.study --part ablation"),
    "better_one_budget": (better_one_budget, "python -m benchmarks.better.study --part one_budget"),
    "gp_speed": (gp_speed, "python -m benchmarks.speed.gp_speed"),
    "demo": (demo_caption, "python -m benchmarks.demo"),
}
FILES = {"in_short": "better_rivals", "better_opening": "better"}  # of those that are not named after theirs


def block(name: str | None) -> str:
    """Return one of the tables, or a line with the command that measures it if there is no result file."""
    if name is None:
        return table()
    make, command = TABLES[name]
    if not (ROOT / "docs" / "results" / f"{FILES.get(name, name)}.json").exists():
        return f"*Not measured yet: `{command}` does.*\n"
    return make()


def written(page: str) -> str:
    """Return a page with tables from the current results."""
    text = (ROOT / page).read_text()
    return BLOCK.sub(lambda found: f"{found[1]}{block(found[2])}{found[3]}", text)


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
