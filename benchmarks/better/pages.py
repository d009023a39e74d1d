"""The pages of the study: each is made from the contents of its result file alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import drawing
from benchmarks.better import variants
from benchmarks.better.analysis import Rows
from benchmarks.better.protocol import (
    CHOOSING,
    CONFIRMING,
    FLOOR,
    LENGTH,
    LONG,
    OTHER_FLOORS,
    PARALLEL,
    SCALE_SAMPLE,
    SMOOTH,
)
from benchmarks.better.statistics import REPLICATES
from benchmarks.report import goal_table, opening

Body = Mapping[str, Any]
Row = Mapping[str, Any]
TITLES = {
    "main": "The preset BEST compared with the published BOHB",
    "parallel": f"The preset BEST with {PARALLEL} workers",
    "misspecified": "The preset BEST with wrong budgets",
    "rivals": "The preset BEST compared with other packages",
    "ablation": "The preset BEST without one of its parts",
    "workers": "BOHB as published and the preset BEST with several workers",
    "one_budget": "The preset BEST with one budget",
}
QUESTIONS = {
    "main": "Does the preset BEST find better configurations than BOHB as published, Hyperband and random search at "
    "equal cost?",
    "parallel": f"Is BEST still better than BOHB as published if {PARALLEL} trials run at the same time?",
    "misspecified": "How much worse is a study if `min_budget` or `max_budget` is far from a good value?",
    "rivals": "Does the preset BEST find better configurations than other packages at equal cost?",
    "ablation": "How much does each part of the preset BEST contribute?",
    "workers": "How much worse is a study with several workers than one with a single worker, at equal cost?",
    "one_budget": "How good is the preset BEST if every configuration is evaluated on the largest budget?",
}
PROTOCOL = f"""\
- The problems were split before any run. Sorted by name within each family, every third problem, starting with the
  first, is a tuning problem ({len(CHOOSING)} problems); the others are held-out problems ({len(CONFIRMING)}). The
  ablation uses the former unless a row says otherwise, the part on one budget both, everything else the latter. For one
  budget, {len(SMOOTH)} smooth functions are among the tuning problems, too.
- Runs have {LENGTH:g} full evaluations; some runs of our own methods have {LONG:g}. Results are reported at 10, 30 and
  100 % of {LENGTH:g}, and at {LONG:g}. The incumbent is on the largest budget. With accounting "continue", a promotion
  is charged only for the added budget; with "whole", for its whole budget.
- A regret is divided by the scale of its problem, the median regret of {SCALE_SAMPLE} random configurations, and counts
  as at least {FLOOR:g}. A ratio is the geometric mean over problems of ratios of mean regrets over seeds.
- Intervals contain 95 % of {REPLICATES} bootstrap replicates, over problems and over seeds within them; with a single
  problem, over seeds only. Ranks are ranks of mean regrets, averaged over problems.
"""
EQUAL_COST = """\
Points are sums of the budgets charged for all evaluations that have ended, in full evaluations, whatever the number of
workers: equal cost, not equal time. Evaluations that are still running do not count; at the end of a run there are
none. With 64 workers, a run has less than one full evaluation per worker."""
EQUAL_TIME = """\
The columns are the seconds of a full evaluation. The time includes the CPU time of the optimiser, spread evenly over
its run, so a slow optimiser has time for fewer evaluations. The last column is the CPU time of a run, with its start
and with what the simulated evaluations take. A method without small budgets misses at least its last evaluation."""
VERSUS = "Regret of others divided by that of BEST, and share of problems that BEST wins"
CHANGES = {"start_order='oldest_bracket'": ", oldest bracket first", "without='repeats'": ", no bracket repeated"}


def page(name: str, body: Body) -> str:
    """Return the page of a part.

    name: of the result file, such as "better" or "better_rivals".
    """
    part = name.removeprefix("better").removeprefix("_") or "main"
    sentences, sections = PARTS[part](body)
    figure = f"{name}.png" if part in ("main", "parallel") else None
    lines = opening(TITLES[part], QUESTIONS[part], sentences, figure)
    for title, *section in sections:
        lines += [f"## {title}", "", *section, ""]
    return "\n".join([*lines, "## Protocol", "", PROTOCOL, *footer(body["source"])]) + "\n"


def footer(source: Mapping[str, Any]) -> list[str]:
    """Return the provenance of a page."""
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    rivals = ", ".join(f"{name}: {text}" for name, text in source["rivals"].items())
    seeds = ", ".join(f"{label(method)} {number}" for method, number in source["seeds by method"].items())
    runs = source["runs"]
    return [
        "## Source",
        f"- command: `{source['command']}`",
        f"- runs: {runs['there']} of {runs['wanted']}; seeds per problem: {seeds}",
        f"- versions: {versions}",
        *([f"- rivals: {rivals}"] if rivals else []),
        f"- {source['cpu']}, {source['date']}",
    ]


def pivot(rows: Rows, key: str, cell: Callable[[Row], str], by: str = "point") -> list[str]:
    """Return a Markdown table with a line per value of `key` and a column per value of `by`."""
    columns = list(dict.fromkeys(row[by] for row in rows))
    heads = [f"{c:g}" if isinstance(c, float) else label(c) if by == "method" else str(c) for c in columns]
    lines = ["| " + " | ".join([key, *heads]) + " |", "|" + "---|" * (len(columns) + 1)]
    for name in dict.fromkeys(row[key] for row in rows):
        found = {row[by]: cell(row) for row in rows if row[key] == name}
        first = label(name) if key == "method" else str(name)
        lines.append("| " + " | ".join([first, *(found.get(c, "–") for c in columns)]) + " |")
    return lines


def label(name: str) -> str:
    """Return the name of a method in tables."""
    base, colon, rest = name.partition(":")
    known = drawing.LABELS.get(base, base)
    return f"{known}, {rest}" if colon else known


def with_interval(row: Row) -> str:
    """Return a ratio with its interval."""
    if "low" not in row:
        return f"{row['ratio']:.2f}"
    return f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def with_wins(row: Row) -> str:
    """Return a ratio with its interval and the share of problems won."""
    return f"{with_interval(row)}, {row['wins']:.0%}"


def rank_cell(row: Row) -> str:
    """Return a rank with its interval."""
    return f"{row['rank']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


Sections = list[list[str]]  # of each the title and the lines
Found = tuple[list[str], Sections]  # the sentences of the first screen, and the sections


def _main(body: Body) -> Found:
    end = body["source"]["plan"]["end"]
    sections: Sections = []
    for accounting in ("continue", "whole"):
        suffix = f" (accounting: {accounting})"
        goals = [line.removesuffix(suffix) for line in body["criteria"] if line.endswith(suffix)]
        sections.append([f"Goals that were set before the runs{suffix}", *goal_table(goals)])
        sections += _compared(body[accounting], accounting)
    floors = pivot(body["floors"], "method", with_interval, "floor")
    sections += [[f"Ratios at {end:g} with higher floors of the regret", *floors], _problems(body, end)]
    sections += [["Average rank over the budget", "![Average rank](better_ranks.png)"]]
    return _lead(body["continue"]["versus"], end), sections


def _compared(tables: Mapping[str, Rows], accounting: str) -> Sections:
    families = f"Regret of BOHB divided by that of BEST, by family (accounting: {accounting})"
    return [
        [f"{VERSUS} (accounting: {accounting})", *pivot(tables["versus"], "method", with_wins)],
        [families, *pivot(tables["families"], "family", with_interval)],
        [f"Average rank (accounting: {accounting})", *pivot(tables["ranked"], "method", rank_cell)],
    ]


def _lead(versus: Rows, end: float) -> list[str]:
    """Say how much higher the regrets of others are at the end, and how the one of BOHB gets there."""
    last = [row for row in versus if row["point"] == end]
    times = ", ".join(f"{with_interval(row)} times for {label(row['method'])}" for row in last)
    found = [f"After {end:g} full evaluations, the regret of others is this many times that of BEST: {times}."]
    bohb = [row for row in versus if row["method"] == "bohb"]
    for row in (row for row in bohb if row["point"] == end):
        found.append(f"BEST has the lower mean regret than BOHB on {row['wins']:.0%} of {row['problems']} problems.")
    before = [f"{row['ratio']:.2f} after {row['point']:g}" for row in bohb if row["point"] < end]
    return [*found, f"BOHB's ratio is {' and '.join(before)} full evaluations."] if before else found


def _problems(body: Body, end: float) -> list[str]:
    cells = [
        {"problem": row["problem"], "method": name, "mean": value}
        for row in body["problems"]
        for name, value in row.items()
        if name not in ("problem", "scale") and value is not None
    ]
    return [f"Mean regret at {end:g} by problem", *pivot(cells, "problem", lambda r: f"{r['mean']:.3g}", "method")]


def _parallel(body: Body) -> Found:
    end = body["source"]["plan"]["end"]
    timed = f"{VERSUS}, at the simulated time when BOHB ends"
    sections = [
        ["Goals that were set before the runs", *goal_table(body["criteria"])],
        *_compared(body, "continue"),
        [timed, *pivot(body["at equal time"], "method", with_wins)],
        _problems(body, end),
    ]
    return _lead(body["versus"], end), sections


def _misspecified(body: Body) -> Found:
    cases = [{**row, "case": variants.WORDS[row["case"]]} for row in body["cases"]]
    both = [{**row, **row["bohb"]} for row in cases if row["bohb"] is not None and row["method"] != "bohb"]
    families = [
        {"case": f"{label(row['method'])}: {row['case']}", "family": name, "ratio": value}
        for row in cases
        for name, value in row["families"].items()
    ]
    sentences = [
        f"With {row['case']}, the regret of BEST is {with_interval(row)} times that with right budgets."
        for row in cases
        if row["method"] == "best"
    ]
    end = body["source"]["plan"]["end"]
    sections = [
        ["Goals", *goal_table(body["criteria"])],
        [
            f"Regret at {end:g} divided by that of the same method with right budgets",
            *pivot(cases, "method", with_interval, "case"),
        ],
        [
            "Regret of BOHB divided by that of the method, both with the same wrong budgets",
            *pivot(both, "method", with_interval, "case"),
        ],
        ["By family", *pivot(families, "case", with_interval, "family")],
    ]
    return sentences, sections


def _ablation(body: Body) -> Found:
    rows, end = body["variants"], body["source"]["plan"]["end"]
    last = [row for row in rows if row["point"] == end]
    shown = [row for row in last if row["low"] > 1]
    sentences = [
        f"After {end:g} full evaluations, BEST without its Gaussian process has {with_interval(row)} times the regret."
        for row in last
        if row["settings"] == "model='density'"
    ]
    others = [f"{row['variant']}, {with_interval(row)}" for row in shown if row["settings"] != "model='density'"]
    sentences += [f"The other changes that raise the mean regret measurably: {'; '.join(others)}."] if others else []
    sentences += ["The intervals of all further changes include 1."]
    typical = f"The same ratio for single runs with the same seed, geometric mean (floor {OTHER_FLOORS[0]:g})"
    sections = [
        [
            "Regret divided by that of BEST, and share of problems that BEST wins",
            *pivot(rows, "variant", with_wins),
        ],
        [typical, *pivot(rows, "variant", lambda row: with_interval(row["of runs"]))],
    ]
    return sentences, sections


def _rivals(body: Body) -> Found:
    plan = body["source"]["plan"]
    end = plan["end"]
    last = sorted((row for row in body["versus"] if row["point"] == end), key=lambda row: float(row["ratio"]))
    most = max((row["problems"] for row in last), default=0)
    packages = [row for row in last if row["problems"] == most and row["method"] in body["source"]["rivals"]]
    sentences = [f"All methods have the cost of {end:g} full evaluations on {most} problems."]
    if packages:
        first, final = packages[0], packages[-1]
        sentences += [
            f"The best of the other packages, {label(first['method'])}, ends with {with_interval(first)} times the "
            f"regret of BEST, and the last one, {label(final['method'])}, with {with_interval(final)} times."
        ]
    points = dict.fromkeys(row["point"] for row in body["ranked"])
    places = [f"{_place(body['ranked'], point)} at {point:g}" for point in points]
    sentences += [f"By average rank, the place of BEST is {', '.join(places)} evaluations."] if places else []
    sections: Sections = [["Places", *(f"- {_capital(line)}." for line in body["criteria"])]]
    for suffix, accounting in (("", "continue"), (", whole", "whole")):
        versus, ranked = body["versus" + suffix], body["ranked" + suffix]
        sections.append([f"{VERSUS} (accounting: {accounting})", *pivot(versus, "method", with_wins)])
        sections.append([f"Average rank (accounting: {accounting})", *pivot(ranked, "method", rank_cell)])
    timed = pivot(body["total time"], "method", _timed, "evaluation")
    title = f"Regret of others divided by that of BEST after the time of {end:g} evaluations"
    sections.append([title, *EQUAL_TIME.splitlines(), "", *timed])
    for point in dict.fromkeys(row["point"] for row in body["families"]):
        rows = [row for row in body["families"] if row["point"] == point]
        title = f"Mean regret at {point:g} with its interval, and average rank, by family"
        sections.append([title, *pivot(rows, "method", _standing_cell, "family")])
    return sentences, [*sections, _problems(body, end)]


def _place(ranked: Rows, point: float) -> int:
    """Return the place of BEST by average rank."""
    order = sorted((row for row in ranked if row["point"] == point), key=lambda row: float(row["rank"]))
    return 1 + [row["method"] for row in order].index("best")


def _capital(line: str) -> str:
    return line[0].upper() + line[1:]


def _timed(row: Row) -> str:
    return f"{row['seconds']:.1f}" if "seconds" in row else with_interval(row)


def _standing_cell(row: Row) -> str:
    rank = "" if row["rank"] is None else f", {row['rank']:.1f}"
    return f"{row['regret']:.2g} [{row['low']:.2g}, {row['high']:.2g}]{rank}"


def _workers(body: Body) -> Found:
    end = body["source"]["plan"]["end"]
    titles = {
        "one worker": "Regret divided by that with one worker, and share of problems that one worker wins",
        "lead": "Regret of BOHB divided by that of BEST, and share of problems that BEST wins",
        "order": "Regret with the oldest bracket first divided by that with the smallest budget first, and share of "
        "problems that the latter wins",
        "repeats": "Regret without repeated brackets divided by that with them, and share of problems that the latter "
        "wins",
    }
    floors = {
        "one worker, floors": "Regret at the end divided by that with one worker, with higher floors of the regret",
        "lead, floors": "Regret of BOHB at the end divided by that of BEST, with higher floors of the regret",
    }
    sections = [
        ["Equal cost", *EQUAL_COST.splitlines()],
        *([title, *_of_workers(body[name], "point")] for name, title in titles.items()),
        *([title, *_of_workers(body[name], "floor")] for name, title in floors.items()),
        _problems(body, end),
    ]
    return _worker_sentences(body, end), sections


def _worker_sentences(body: Body, end: float) -> list[str]:
    sentences = []
    for method, name in (("bohb", "BOHB"), ("best", "BEST")):
        rows = [row for row in body["one worker"] if row["method"] == method and row["point"] == end]
        text = f"At {end:g} full evaluations, the regret of {name} with {_listed(rows, 'workers')} workers is"
        sentences += [f"{text} {_listed(rows, 'ratio')} times that with one worker."] if rows else []
    leads = [row for row in body["lead"] if row["point"] == end]
    text = f"With {_listed(leads, 'workers')} workers, BOHB has {_listed(leads, 'ratio')} times the regret of BEST."
    return [*sentences, text]


def _listed(rows: Rows, key: str) -> str:
    """Return the values of a column as text."""
    found = [f"{row[key]:.2f}" if key == "ratio" else str(row[key]) for row in rows]
    return " and ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


def _of_workers(rows: Rows, by: str) -> list[str]:
    named = [{**row, "variant": variant_label(row)} for row in rows]
    return pivot(named, "variant", with_wins, by)


def variant_label(row: Row) -> str:
    """Return the name of a method with a number of workers."""
    method, _, change = row["method"].partition(":")
    workers = "1 worker" if row["workers"] == 1 else f"{row['workers']} workers"
    return f"{label(method)}{CHANGES.get(change, '')}, {workers}"


def _one_budget(body: Body) -> Found:
    end = body["source"]["plan"]["end"]
    sections: Sections = []
    for half, name in (("confirming", "held-out"), ("choosing", "tuning")):
        of = [row for row in body["rows"] if row["half"] == half]
        if not of:
            continue
        title = f"Regret divided by that of BEST with one budget, {name} problems"
        single = [row for row in of if "of runs" in row]
        typical = pivot(single, "name", lambda row: with_interval(row["of runs"]))
        sections.append([title, *pivot(of, "name", with_wins)])
        sections.append(
            [f"The same for single runs with the same seed, {name} problems (floor {OTHER_FLOORS[0]:g})", *typical]
        )
    last = {row["method"]: row for row in body["rows"] if row["point"] == end and row["half"] == "confirming"}
    named = {
        "best": "BEST with several budgets has",
        "random": "Random search has",
        "optuna-gp": "Optuna's Gaussian process has",
    }
    sentences = [
        f"{words} {with_interval(last[method])} times the regret of BEST with one budget after {end:g} full "
        f"evaluations, on {last[method]['problems']} held-out problems."
        for method, words in named.items()
        if method in last
    ]
    return sentences, sections


PARTS: dict[str, Callable[[Body], Found]] = {
    "main": _main,
    "parallel": _parallel,
    "misspecified": _misspecified,
    "ablation": _ablation,
    "rivals": _rivals,
    "workers": _workers,
    "one_budget": _one_budget,
}
