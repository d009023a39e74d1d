"""Write the files of an experiment: curves as JSON and CSV, final regrets as a table, and a figure."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drawing
from benchmarks.additions import added, existing
from benchmarks.curves import Axis, first_at_most, grid, mean_and_error
from benchmarks.experiment import Experiment, Measured
from benchmarks.methods import ABLATIONS, OURS
from benchmarks.report import opening, provenance, table, wrapped

PACKAGES = ("bohb", "ConfigSpace", "numpy", "scipy", "onnxruntime", "matplotlib")
Extra = Callable[[dict[str, dict[str, Any]]], dict[str, Any]]
Sentences = Callable[[Mapping[str, Any]], list[str]]
AXES: dict[Axis, str] = {"spent": "full evaluations (cumulative budget / b_max)", "time": "seconds"}


def summary(measured: Measured, points: Mapping[str, Sequence[float]] = {}) -> dict[str, dict[str, Any]]:
    """Return for each problem the points of the axis, and for each method its curve, final regrets and CPU time.

    `bohb_reaches` is where BOHB's mean regret first reaches the method's final one; `at` is where the method ends.

    points: the points of the axis by problem; by default from the first incumbent to the end of the longest run.
    """
    axis = measured.experiment.axis
    problems: dict[str, dict[str, Any]] = {}
    for problem, methods in measured.results.items():
        ends = [getattr(r, axis) for runs in methods.values() for r in runs.values() if r.evaluations]
        starts = [getattr(p[0], axis) for m in methods for p in measured.trajectories(problem, m) if p]
        if not starts:
            continue
        x = np.array(points[problem]) if problem in points else grid(min(starts), max(ends))
        entries = {method: _entry(measured, problem, method, x) for method in methods}
        if "bohb" in methods:
            ours = measured.trajectories(problem, "bohb")
            for entry in entries.values():
                entry["bohb_reaches"] = first_at_most(ours, statistics.fmean(entry["final"].values()), axis)
        problems[problem] = {"x": [float(f"{value:.5g}") for value in x], "methods": entries}
    return problems


def _entry(measured: Measured, problem: str, method: str, x: np.ndarray) -> dict[str, Any]:
    """Return the summary of one method on one problem."""
    axis = measured.experiment.axis
    runs = list(measured.results[problem][method].values())
    mean, error = mean_and_error(measured.trajectories(problem, method), x, axis)
    # A curve ends with its shortest run.
    over = x > min(getattr(run, axis) for run in runs) * (1 + 1e-2)
    mean[over] = np.nan
    return {
        "runs": len(runs),
        "mean": numbers(mean),
        "error": numbers(error),
        "final": measured.finals(problem, method),
        "at": statistics.fmean(getattr(run, axis) for run in runs),
        "evaluations": statistics.fmean(run.evaluations for run in runs),
        "failures": sum(run.failures for run in runs),
        "cpu_seconds": round(statistics.fmean(run.seconds for run in runs), 3),
    }


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return each value with six digits; None for values that are not finite."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]


def mean_error(values: Iterable[float]) -> tuple[float, float | None]:
    """Return mean and standard error of the mean."""
    listed = list(values)
    error = statistics.stdev(listed) / math.sqrt(len(listed)) if len(listed) > 1 else None
    return statistics.fmean(listed), error


def shown(values: Iterable[float]) -> str:
    """Return mean ± standard error as text."""
    mean, error = mean_error(values)
    return f"{mean:.3g}" if error is None else f"{mean:.3g} ± {error:.1g}"


def publish(
    measured: Measured, out: Path, extra: Extra = lambda _: {}, sentences: Sentences | None = None
) -> dict[str, Any]:
    """Write `name`.json, .csv, .md and .png, and return the contents of the JSON file.

    extra: further contents, computed from the summary by problem; `notes` are sentences for the page.
    sentences: what was found, from the contents; by default how BOHB ends in comparison with the other methods.
    """
    experiment = measured.experiment
    old = existing(experiment, out) if experiment.add else None
    problems = summary(measured, {name: entry["x"] for name, entry in old["problems"].items()} if old else {})
    seeds = sorted({seed for methods in measured.results.values() for runs in methods.values() for seed in runs})
    body = {
        "source": provenance(seeds, PACKAGES) | {"rivals": rival_versions(experiment.methods)},
        "experiment": experiment.name,
        "axis": AXES[experiment.axis],
        "incumbent": experiment.protocol,
        "accounting": experiment.accounting,
        "full_evaluations": experiment.full_evaluations,
        "problems": problems,
        **extra(problems),
    }
    body = body if old is None else added(old, body)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / f"{experiment.name}.json", body)
    write_csv(out / f"{experiment.name}.csv", body)
    (out / f"{experiment.name}.md").write_text(page(experiment, body, sentences(body) if sentences else None))
    panels = [panel(problem, entry) for problem, entry in body["problems"].items()]
    if panels:
        drawing.draw(
            panels,
            out / f"{experiment.name}.png",
            AXES[experiment.axis],
            f"mean {experiment.quantity}",
            experiment.floor,
        )
    return body


def panel(problem: str, entry: Mapping[str, Any]) -> drawing.Panel:
    """Return the curves of one problem."""
    curves = {name: (entry["x"], method["mean"], method["error"]) for name, method in entry["methods"].items()}
    return drawing.Panel(problem, curves)


def rival_versions(methods: Sequence[str]) -> dict[str, str]:
    """Return the versions of the rivals among the methods."""
    from benchmarks.rivals import version

    bases = {name.partition(":")[0] for name in methods}
    return {name: version(name) for name in sorted(bases - set(OURS) - set(ABLATIONS))}


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write JSON with one line per method, so that differences are readable."""

    def lines(value: Any, depth: int) -> str:
        if not isinstance(value, Mapping) or depth == 0 or not value:
            return json.dumps(value, allow_nan=False, default=str)
        return "{\n" + ",\n".join(f"{json.dumps(str(k))}: {lines(v, depth - 1)}" for k, v in value.items()) + "\n}"

    path.write_text(lines(body, 4) + "\n")


def write_csv(path: Path, body: Mapping[str, Any]) -> None:
    """Write the curves, one row per problem, method and point."""
    rows = ["problem,method,x,mean,standard error,runs"]
    for problem, entry in body["problems"].items():
        for name, method in entry["methods"].items():
            for x, mean, error in zip(entry["x"], method["mean"], method["error"], strict=True):
                if mean is not None:
                    rows.append(f"{problem},{name},{x},{mean},{'' if error is None else error},{method['runs']}")
    source = [f"# {key}: {json.dumps(value)}" for key, value in body["source"].items()]
    path.write_text("\n".join([*source, *rows]) + "\n")


def page(experiment: Experiment, body: Mapping[str, Any], sentences: Sequence[str] | None = None) -> str:
    """Return the page of an experiment: the question, the figure, the final regrets as a table, and the provenance.

    sentences: what was found; by default how BOHB ends in comparison with the other methods.
    """
    source = body["source"]
    methods = list(dict.fromkeys(m for entry in body["problems"].values() for m in entry["methods"]))
    header = ["problem", *(drawing.LABELS.get(m, m) for m in methods)]
    what = f"Mean {experiment.quantity} ± standard error at the end of {runs_text(body)}."
    shorter = ", ".join(f"{drawing.LABELS.get(m, m)} {n:g}" for m, n in experiment.lengths if m in methods)
    what += f" Shorter runs, in full evaluations: {shorter}." if shorter else ""
    found = standing(experiment, body) if sentences is None else sentences
    lines = [*opening(experiment.title, experiment.question, found, f"{experiment.name}.png"), "## Results", ""]
    lines += [*wrapped(what), "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for problem, entry in body["problems"].items():
        cells = [shown(entry["methods"][m]["final"].values()) if m in entry["methods"] else "–" for m in methods]
        lines.append("| " + " | ".join([problem, *cells]) + " |")
    lines += ["", "## Notes", "", *(f"- {note}" for note in body["notes"])] if body.get("notes") else []
    lines += ["", "## Source", "", *source_lines(source)]
    lines.insert(-1, f"- incumbent: {body['incumbent']}; accounting: {body['accounting']}")
    for addition in source.get("added", ()):
        replaced = [f"{problem}: {', '.join(methods)}" for problem, methods in addition["results"].items()]
        lines += ["", f"Added later, in place of earlier results ({'; '.join(replaced)}):", "", *source_lines(addition)]
    return "\n".join(lines) + "\n"


def standing(experiment: Experiment, body: Mapping[str, Any]) -> list[str]:
    """Say on how many problems BOHB ends lower than each method whose runs are as long."""
    lower: dict[str, list[bool]] = {}
    first: list[bool] = []
    for entry in body["problems"].values():
        methods = entry["methods"]
        if "bohb" not in methods:
            continue
        ends = {m: mean_error(known["final"].values())[0] for m, known in methods.items() if m not in _short(entry)}
        first.append(ends["bohb"] == min(ends.values()))
        for method, mean in ends.items():
            lower.setdefault(method, []).append(ends["bohb"] < mean)
    others = [
        f"that of {drawing.LABELS.get(method, method)} on {sum(known)}"
        for method, known in lower.items()
        if method != "bohb"
    ]
    if len(first) < 2 or not others:
        return [f"{problem}, {_ends(entry)}." for problem, entry in body["problems"].items()]
    sentences = [
        f"BOHB's mean {experiment.quantity} at the end is the lowest on {sum(first)} of {len(first)} problems."
    ]
    sentences += [f"It is lower than {', '.join(others)} of them."]
    every = {m for entry in body["problems"].values() for m in _short(entry)}
    names = ", ".join(drawing.LABELS.get(method, method) for method in sorted(every))
    return (
        [*sentences, f"{names} had shorter runs and {'are' if len(every) > 1 else 'is'} not counted."]
        if every
        else sentences
    )


def _ends(entry: Mapping[str, Any]) -> str:
    """Return the final means of one problem, the lowest first."""
    means = {method: known["final"].values() for method, known in entry["methods"].items()}
    ordered = sorted(means, key=lambda method: mean_error(means[method])[0])
    return "lowest mean first: " + ", ".join(f"{drawing.LABELS.get(m, m)} {shown(means[m])}" for m in ordered)


def _short(entry: Mapping[str, Any]) -> set[str]:
    """Return the methods whose runs are shorter than those of BOHB."""
    end = entry["methods"].get("bohb", {"at": 0.0})["at"]
    return {method for method, known in entry["methods"].items() if known["at"] < 0.9 * end}


def source_lines(source: Mapping[str, Any]) -> list[str]:
    """Return the provenance as a list in Markdown; the last line has the processor and the date."""
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    rivals = ", ".join(f"{name}: {text}" for name, text in source["rivals"].items())
    lines = [f"- command: `{source['command']}`", f"- versions: {versions}"]
    lines += [f"- rivals: {rivals}"] if rivals else []
    return [*lines, f"- {source['cpu']}, {source['date']}"]


def runs_text(body: Mapping[str, Any]) -> str:
    """Return the number and length of runs as text."""
    counts = {m["runs"] for entry in body["problems"].values() for m in entry["methods"].values()}
    number = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}" if counts else "0"
    return f"{number} runs of {body['full_evaluations']:g} full evaluations each"


def final_table(body: Mapping[str, Any]) -> str:
    """Return the final regrets as text."""
    methods = list(dict.fromkeys(m for entry in body["problems"].values() for m in entry["methods"]))
    rows = [
        {
            "problem": problem,
            **{m: shown(entry["methods"][m]["final"].values()) if m in entry["methods"] else "–" for m in methods},
        }
        for problem, entry in body["problems"].items()
    ]
    return table(rows)
