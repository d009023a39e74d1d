"""`bohb init`, `bohb plan`, `bohb check`: write a study file, show what it would run, and test its objective."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bohb.arguments import pick, summary
from bohb.cli.shared import DEFAULT, SECONDS, command, emit, emit_data, find, note, pairs
from bohb.core.schedule.brackets import Plan, hyperband
from bohb.core.schedule.brackets import plan as plan_of
from bohb.core.settings import PRESETS, Budgets
from bohb.errors import InvalidArgument
from bohb.studyfile.load import StudyFile, load
from bohb.units import counted, duration

_ADAPTS = (
    "the preset best adapts this: with several workers the first bracket is repeated until one has finished, and lower "
    "rungs may be left out"
)
_SIGNS = {"pass": "green", "warn": "yellow", "fail": "red"}


@command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path), default="study.toml")
def init(path: Path, as_json: bool) -> None:
    """Write a commented study file. An existing file is not overwritten.

    \b
    Examples:
      bohb init
      bohb init experiments/mnist.toml
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(Path(__file__).with_name("study.toml").read_text(encoding="utf-8"))
    except FileExistsError as error:
        raise InvalidArgument(f"{path} already exists and was not changed; name another file") from error
    emit(as_json, {"file": str(path)}, f"{path} written; edit it, then: bohb plan {path}")


def _help(name: str) -> str:
    """Return the help of one of the arguments that define budgets."""
    text = summary(Budgets, name)
    return f"{text[:1].upper()}{text[1:]}."


@command()
@click.argument("studyfile", type=click.Path(path_type=Path), required=False)
@click.option("--min", "min_budget", type=float, help=_help("min_budget"))
@click.option("--max", "max_budget", type=float, help=_help("max_budget"))
@click.option("--eta", type=float, help=_help("eta"))
@click.option("--integer/--fractional", "integer_budgets", default=None, help=_help("integer_budgets"))
@click.option("--brackets", type=click.IntRange(1), help="Number of brackets; default: one round of Hyperband.")
@click.option("--sizes", type=click.Choice(["paper", "hpbandster"]), help="Rule for the number of configurations.")
@click.option(
    "--seconds-per-evaluation",
    "each",
    type=SECONDS,
    help="Time of one evaluation on the largest budget, such as 90, 30m or 2h.",
)
@click.option("--like", help="A journal or study file: evaluations take as long as those of that study.")
@click.option("--workers", type=click.IntRange(1), help="Number of evaluations at the same time.")
def plan(
    studyfile: Path | None, each: float | None, like: str | None, workers: int | None, as_json: bool, **given: Any
) -> None:
    """Show what would run, and how long it would take.

    Budgets come from a study file (default: ./study.toml), from options, or from both; options take precedence. The
    time is simulated with the given number of workers. Evaluations take as long as in an earlier study (--like), or in
    proportion to their budget (--seconds-per-evaluation).

    \b
    Examples:
      bohb plan study.toml
      bohb plan --min 1 --max 81
      bohb plan study.toml --seconds-per-evaluation 20m --workers 8
      bohb plan study.toml --like last-week.db --workers 8
      bohb plan --min 100 --max 60000 --integer --eta 4 --brackets 10
    """
    named = {"min_budget", "max_budget"} & {name for name, value in given.items() if value is not None}
    if studyfile is None and not named and Path(DEFAULT).exists():
        studyfile = Path(DEFAULT)
    file = None if studyfile is None else load(studyfile)
    planned, data = _planned(file, given)
    lines = [] if file is None else ["space:", *(f"  {line}" for line in data["space"]), ""]
    lines += [str(planned), *([_ADAPTS] if data["adapts"] else [])]
    if unit := data["unit"]:
        lines.append(f"budgets are in {unit}; one full evaluation is {planned.max_budget:g} {unit}")
    slots = workers or (None if file is None else file.values.get("workers")) or 1
    if like is not None:
        lines.append(_time_like(planned, slots, like, data))
    elif each is not None:
        lines.append(_time_at(planned, slots, each, data))
    emit(as_json, data, "\n".join(lines))
    if each is None and like is None and not as_json:
        note(
            "for the total time, add --seconds-per-evaluation, the time of one evaluation on the largest budget, "
            "or --like, an earlier study"
        )


def _planned(file: StudyFile | None, given: Mapping[str, Any]) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of a study file, or of options, which take precedence; and what it says as JSON."""
    options = {name: value for name, value in given.items() if value is not None}
    found = {**(file.arguments if file is not None else {}), **options}
    if {"min_budget", "max_budget"} & options.keys():
        found.pop("budgets", None)
    if "budgets" not in found and not {"min_budget", "max_budget"} <= found.keys():
        raise InvalidArgument("name a study file, or give --min and --max")
    budgets, preset = pick(Budgets, found), PRESETS[found.get("preset", "best")]
    sizes = found.get("sizes", found.get("bracket_sizes", preset.bracket_sizes))
    round_ = hyperband(budgets.values(), budgets.eta, sizes)
    planned = plan_of(round_, found.get("brackets", found.get("max_brackets")))
    data = {
        "unit": None if file is None else file.values["budget"].get("unit"),
        "max_budget": planned.max_budget,
        "brackets": len(planned.brackets),
        "configurations": planned.configurations,
        "evaluations": planned.trials,
        "cost": planned.cost,
        "continued_cost": planned.continued_cost,
        "rungs": [asdict(row) for row in planned.rows()],
        "adapts": found.get("schedule", preset.schedule) != "hyperband" and len(round_) > 1,
    }
    if file is not None:
        data["space"] = repr(file.space()).splitlines()
    return planned, data


def study_plan(file: StudyFile) -> dict[str, Any]:
    """Return the plan and the space of a study file as JSON."""
    return _planned(file, {})[1]


def _time_at(planned: Plan, workers: int, each: float, data: dict[str, Any]) -> str:
    """Return how long the plan takes if time is proportional to the budget; `data` gets the numbers."""
    from bohb.core.times.forecast import makespan, proportional

    data["workers"] = workers
    for name, continued in (("seconds_continued", True), ("seconds", False)):
        data[name] = makespan(planned.brackets, workers, proportional(each, planned.max_budget, continued))
    return (
        f"with {counted(workers, 'worker')} and {duration(each)} per full evaluation: "
        f"{duration(data['seconds'])} ({duration(data['seconds_continued'])} when training continues)"
    )


def _time_like(planned: Plan, workers: int, like: str, data: dict[str, Any]) -> str:
    """Return how long the plan takes if evaluations take as long as those of another study."""
    from bohb.core.times.durations import learnt
    from bohb.core.times.forecast import planned_time

    place = find(like, None)
    durations = learnt(place.history())
    if durations is None:
        raise InvalidArgument(f"{place.name} has no successful trial with a known duration; name another study")
    expected, low, high = planned_time(planned.brackets, workers, durations)
    data |= {"workers": workers, "seconds": expected, "seconds_low": low, "seconds_high": high}
    return f"this will take {duration(expected)} ({duration(low)} to {duration(high)}) on {counted(workers, 'worker')}"


@command()
@click.argument("studyfile", type=click.Path(path_type=Path), default="study.toml")
@click.option("--trial-seconds", type=SECONDS, default=600, show_default=True, help="Give up on a call after this.")
def check(studyfile: Path, trial_seconds: float, as_json: bool) -> None:
    """Check the search space and the objective before a study.

    Print the space as it was understood, and call the objective on the two smallest budgets: can a worker process
    import it, does it return a number, is it deterministic, does continuing from its checkpoint equal training in one
    go, does its memory grow, how long would a round of brackets take? Nothing is written
    to the journal. Exit code: 1 if a check fails.

    \b
    Examples:
      bohb check study.toml
      bohb check study.toml --json
    """
    from bohb.executors.options import trial_options
    from bohb.studyfile.check import preflight

    file = load(studyfile)
    with file.named_in_errors():
        arguments = {"trial_seconds": trial_seconds, **file.arguments}
        given = pick(Budgets, arguments)
        budgets, goals = given.values(), file.goals
        options = trial_options({**arguments, "resources": None, "recycle_after": None})
    space = file.space()
    findings = preflight(
        file.objective(space.names),
        space,
        budgets,
        seed=file.values.get("seed", 0),
        options=options,
        config=next(iter(file.values.get("initial_configs", ())), None),
        eta=given.eta,
        workers=file.values.get("workers") or 1,
        goals=goals,
    )
    lines = ["space:", *(f"  {line}" for line in repr(space).splitlines()), ""]
    lines += [f"{finding.verdict}  {finding.check:13}  {finding.detail}" for finding in findings]
    advice = [(finding.check, finding.advice) for finding in findings if finding.advice]
    lines += ["", "what to do:", pairs(advice)] if advice else []
    emit(as_json, [asdict(finding) for finding in findings], "\n".join(lines), _coloured)
    for finding in findings:
        if finding.command and not as_json:
            emit_data(finding.command)
    if any(finding.verdict == "fail" for finding in findings):
        sys.exit(1)


def _coloured(line: str) -> str:
    return click.style(line[:4], fg=_SIGNS[line[:4]]) + line[4:] if line[:4] in _SIGNS else line
