"""Put new runs into a result file whose other runs are no longer stored: the option `--add` of experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.data import Missing
from benchmarks.experiment import Experiment

CONDITIONS = ("incumbent", "accounting", "full_evaluations")  # equal for all runs of a file
SPEEDUPS = "speed-ups of BOHB"  # a row for each `problem` and each method `than`
CONTENTS = {"source", "experiment", "axis", *CONDITIONS, "problems", SPEEDUPS}
Body = dict[str, Any]


def existing(experiment: Experiment, folder: Path) -> Body:
    """Return the result file that runs are added to, or raise `Missing` if they do not fit into it."""
    path = folder / f"{experiment.name}.json"
    if not path.exists():
        raise Missing(f"{path} is missing: run the experiment without --add")
    body: Body = json.loads(path.read_text())
    if more := set(body) - CONTENTS:
        raise Missing(f"{path} has {', '.join(sorted(more))} from runs that it does not have: run it without --add")
    now = experiment.protocol, experiment.accounting, experiment.full_evaluations
    for name, value in zip(CONDITIONS, now, strict=True):
        if body[name] != value:
            raise Missing(
                f"{path} has {name}={body[name]}, the new runs {value}: give the options that it was made with"
            )
    return body


def added(old: Body, new: Body) -> Body:
    """Return the old results with the new ones in place of those on the same problems with the same methods.

    `added` in the source has an entry for every addition, which says what it replaced. `bohb_reaches` is read from
    BOHB's mean curve, because its runs are not in the file. Speed-ups need them: those that the new runs have, because
    BOHB was run too, replace the old ones.

    new: the results of new runs; on a problem of the old results they have its points of the axis.
    """
    problems = dict(old["problems"])
    for problem, entry in new["problems"].items():
        before = problems.get(problem, {"x": entry["x"], "methods": {}})
        problems[problem] = {"x": before["x"], "methods": {**before["methods"], **entry["methods"]}}
        _reach_again(problems[problem], set(entry["methods"]))
    what = {problem: list(entry["methods"]) for problem, entry in new["problems"].items()}
    additions = [*old["source"].get("added", ()), {**new["source"], "results": what}]
    both = {**old, "source": {**old["source"], "added": additions}, "problems": problems}
    if SPEEDUPS in old:
        rows = {(row["problem"], row["than"]): row for row in (*old[SPEEDUPS], *new[SPEEDUPS])}
        both[SPEEDUPS] = list(rows.values())
    return both


def _reach_again(entry: Body, new: set[str]) -> None:
    """Write where BOHB's mean curve reaches the final mean of a method, if only one of the two is new."""
    methods = entry["methods"]
    if "bohb" not in methods:
        return
    for name in methods:
        if (name in new) == ("bohb" in new):
            continue
        final = methods[name]["final"].values()
        level = sum(final) / len(final)
        curve = zip(entry["x"], methods["bohb"]["mean"], strict=True)
        reached = next((x for x, mean in curve if mean is not None and mean <= level), None)
        methods[name] = {**methods[name], "bohb_reaches": reached}
