"""`bohb run`, `bohb check`, `bohb enqueue`: run a study file, check its objective, and add a configuration."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.arguments import pick
from bohb.cli.options import CONSTRAINT, RESOURCE, SECONDS, declared_options, limit_options
from bohb.cli.target import Target, find, history, target_options
from bohb.cli.text import emit, json_option, note, pairs
from bohb.core.budgets import Budgets
from bohb.core.settings import PRESETS
from bohb.executors.options import TrialOptions
from bohb.journal import study_names
from bohb.running.limits import SessionOptions
from bohb.units import counted, duration, printable

if TYPE_CHECKING:
    from bohb.running.study import Study
    from bohb.studyfile.check import Finding
    from bohb.studyfile.load import StudyFile

INTERRUPTED = 130
_SIGNS = {"pass": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.argument("studyfile", type=click.Path(path_type=Path), default="study.toml")
@click.option("--workers", type=click.IntRange(0), help="Trials at once; 0 runs them in this process.")
@click.option("--executor", help="Where trials run: dask://host:8786, ray://auto, or module:name.")
@click.option(
    "--resource", "resources", type=RESOURCE, multiple=True, help="What each trial needs, such as gpu=1 or memory=8GB."
)
@click.option("--journal", help="A file or a database URL.")
@click.option("--study", help="The name of the study in the journal.")
@click.option("--seed", type=click.IntRange(0), help="Random seed.")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Preset: best (default), paper or hpbandster.")
@click.option("--adaptive", is_flag=True, default=None, help="Choose brackets by how well budgets agree.")
@click.option(
    "--objective", "objectives", multiple=True, help="A value to minimise; --objective=-accuracy maximises. Repeatable."
)
@click.option(
    "--constraint", "constraints", type=CONSTRAINT, multiple=True, help='A bound, such as "latency<=10ms". Repeatable.'
)
@click.option(
    "--direction", type=click.Choice(["minimize", "maximize"]), help="What to do with a single loss or score."
)
@limit_options
@declared_options(SessionOptions, "grace", "forget_failures")
@declared_options(TrialOptions, "trial_seconds", "trial_memory")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@json_option
def run(studyfile: Path, quiet: bool, as_json: bool, **given: Any) -> None:
    """Run a study, or continue it.

    Finished trials are never repeated. Pressing Ctrl-C once finishes the running trials; pressing it twice stops at
    once. No finished trial is lost. Options replace values of the file. Exit code: 0 when a limit was reached, 130
    after Ctrl-C, 1 if no trial succeeded.

    \b
    Examples:
      bohb run study.toml
      bohb run study.toml --workers 8 --max-seconds 2h
      bohb run study.toml --until 18:00
      bohb run study.toml --journal other.db --seed 7
      bohb run study.toml --executor dask://127.0.0.1:8786 --resource cpu=2
      bohb run study.toml --json --quiet > result.json
    """
    from bohb.running.minimize import minimize
    from bohb.studyfile.load import load

    file = load(studyfile)
    arguments = _arguments(file, given)
    space = file.space()
    objective = file.objective(space.names)
    if not quiet:
        _announce(arguments)
    arguments["progress"] = False if quiet else None
    with warnings_shown(), file.named_in_errors():
        study = minimize(objective, space, **arguments)
    emit(as_json, _result(arguments, study), printable(str(study)))
    if study.stopped.startswith("interrupted"):
        sys.exit(INTERRUPTED)
    if study.incumbent is None:
        sys.exit(1)


def _arguments(file: StudyFile, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `minimize`; options replace values of the file."""
    given["resources"] = {**file.values.get("resources", {}), **dict(given["resources"])} or None
    given["objectives"] = list(given["objectives"]) or None
    given["constraints"] = {**file.values.get("constraints", {}), **dict(given["constraints"])} or None
    if given.pop("adaptive"):
        given["schedule"] = "adaptive"
    arguments = file.arguments | {name: value for name, value in given.items() if value is not None}
    if "executor" in arguments:
        arguments["executor"] = file.executor(arguments["executor"])
        if given["workers"] is None:  # the default is one worker, and with an executor what the engine reports
            arguments["workers"] = file.values.get("workers")
    arguments["workers"] = arguments["workers"] or None
    return arguments


def _announce(arguments: dict[str, Any]) -> None:
    """Print whether the study is new or continued."""
    target = Target(str(arguments["journal"]), str(arguments["study"]))
    new = (
        "://" in target.journal or not Path(target.journal).exists() or target.study not in study_names(target.journal)
    )
    if new:
        note(f"new {target.name}")
        return
    seen = history(target)
    note(f"{target.name} continues: {counted(len(seen.outcomes), 'trial')} finished in {duration(seen.seconds)}")


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings of the package on stderr."""
    handler = _Notes(logging.WARNING)
    logging.getLogger("bohb").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("bohb").removeHandler(handler)


class _Notes(logging.Handler):
    """Shows warnings on stderr, above the live panel if there is one, which replaces sys.stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):  # nobody may be there to read it
            sys.stderr.write(printable(f"{record.levelname.lower()}: {record.getMessage()}") + "\n")
            sys.stderr.flush()


def _result(arguments: dict[str, Any], study: Study) -> dict[str, Any]:
    from bohb.analysis.verdicts import result_data

    return {
        "journal": arguments["journal"],
        "study": arguments["study"],
        "stopped": study.stopped,
        "trials": len(study.history.outcomes),
        "failed": len(study.failures),
        "full_evaluations": study.cost,
        "seconds": study.history.seconds,
        "error": study.cause,
        "incumbent": None if study.incumbent is None else result_data(study.history.goals, study.incumbent),
    }


@click.command()
@click.argument("studyfile", type=click.Path(path_type=Path), default="study.toml")
@click.option("--trial-seconds", type=SECONDS, default=600, show_default=True, help="Give up on a call after this.")
@json_option
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
    from bohb.core.space.describe import describe
    from bohb.executors.options import trial_options
    from bohb.studyfile.check import preflight
    from bohb.studyfile.load import load

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
    report = "\n".join(["space:", *(f"  {printable(line)}" for line in describe(space)), "", _report(findings)])
    emit(as_json, [asdict(finding) for finding in findings], report)
    if any(finding.verdict == "fail" for finding in findings):
        sys.exit(1)


def _report(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        verdict = click.style(finding.verdict, fg=_SIGNS[finding.verdict])
        lines.append(f"{verdict}  {finding.check:13}  {printable(finding.detail)}")
    advice = [(finding.check, finding.advice) for finding in findings if finding.advice]
    return "\n".join(lines) + ("\n\nwhat to do:\n" + pairs(advice) if advice else "")


@click.command()
@click.argument("config")
@target_options
@click.option("--budget", type=float, help="Evaluate it directly on this budget, one of the study's.")
@json_option
def enqueue(config: str, target: str | None, study: str | None, budget: float | None, as_json: bool) -> None:
    """Add a configuration to a study, to be evaluated next.

    CONFIG is a JSON object with a value for every active hyperparameter. It takes the next place of a bracket that is
    free for a new configuration, on the budget of that place. The study may be running.

    \b
    Examples:
      bohb enqueue '{"lr": 0.01, "units": 64}' study.db
      bohb enqueue '{"lr": 0.01, "units": 64}' study.db --budget 81
      bohb enqueue "$(bohb best old.db --format json)" study.db
    """
    from bohb.journal import SqlJournal
    from bohb.optimizer.ask_tell import BOHB

    try:
        values = json.loads(config)
    except ValueError as error:
        raise click.BadParameter(f"{config!r:.200} is not JSON ({error})", param_hint="CONFIG") from error
    if not isinstance(values, dict):
        raise click.BadParameter(f'{config!r:.200} must be a JSON object such as {{"lr": 0.01}}', param_hint="CONFIG")
    place = find(target, study)
    history(place)  # explains a study that does not exist, before anything is opened for writing
    with SqlJournal(place.journal, place.study) as journal:
        optimizer = BOHB.from_journal(journal)
        added = optimizer.enqueue(values, budget)
    waiting = len(optimizer.history.given)
    what = "added" if added else "not added, because the study was given this configuration before"
    emit(as_json, {"added": added, "waiting": waiting}, f"{what}; {counted(waiting, 'configuration')} to be started")


COMMANDS = (run, check, enqueue)
