"""`bohb run`, `bohb confirm`, `bohb enqueue`: run a study, evaluate its best configurations again, and add some."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from bohb.analysis.overview import Overview
from bohb.analysis.verdicts import columns, confirmation_data, rows, verdict
from bohb.cli import shared
from bohb.cli.shared import Parsed, Target, command, declared_options, emit, note, table
from bohb.core.settings import PRESETS
from bohb.errors import JournalError
from bohb.executors.options import TrialOptions
from bohb.running.run_options import SessionOptions
from bohb.studyfile.load import StudyFile, load
from bohb.units import counted, duration, printable

INTERRUPTED = 130


@command()
@click.argument("studyfile", type=click.Path(path_type=Path), default="study.toml")
@shared.running_options
@click.option(
    "--resource",
    "resources",
    type=shared.RESOURCE,
    multiple=True,
    help="What each trial needs, such as gpu=1 or memory=8GB.",
)
@click.option("--seed", type=click.IntRange(0), help="Random seed.")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Preset: best (default), paper or hpbandster.")
@click.option(
    "--objective", "objectives", multiple=True, help="A value to minimise; --objective=-accuracy maximises. Repeatable."
)
@click.option(
    "--constraint",
    "constraints",
    type=shared.CONSTRAINT,
    multiple=True,
    help='A bound, such as "latency<=10ms". Repeatable.',
)
@click.option(
    "--direction", type=click.Choice(["minimize", "maximize"]), help="What to do with a single loss or score."
)
@shared.limit_options
@declared_options(SessionOptions, "grace", "forget_failures")
@declared_options(TrialOptions, "trial_seconds", "trial_memory")
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

    file = load(studyfile)
    arguments = _arguments(file, given)
    space = file.space()
    objective = file.objective(space.names)
    place = Target(str(arguments["journal"]), str(arguments["study"]))
    if not quiet:
        _announce(place)
    with warnings_shown(), file.named_in_errors():
        study = minimize(objective, space, **arguments, progress=False if quiet else None)
    data = {"journal": place.journal, "study": place.study, "stopped": study.stopped, "error": study.cause}
    emit(as_json, data | Overview(study.history, model=False).data(), str(study))
    if study.stopped.startswith("interrupted"):
        sys.exit(INTERRUPTED)
    if study.incumbent is None:
        sys.exit(1)


def _arguments(file: StudyFile, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `minimize`; options replace values of the file."""
    given["resources"] = {**file.values.get("resources", {}), **dict(given["resources"])} or None
    given["objectives"] = list(given["objectives"]) or None
    given["constraints"] = {**file.values.get("constraints", {}), **dict(given["constraints"])} or None
    arguments = file.arguments | {name: value for name, value in given.items() if value is not None}
    if "executor" in arguments:
        arguments["executor"] = file.executor(arguments["executor"])
        if given["workers"] is None:  # the default is one worker, and with an executor what the engine reports
            arguments["workers"] = file.values.get("workers")
    arguments["workers"] = arguments["workers"] or None
    return arguments


def _announce(place: Target) -> None:
    """Print whether the study is new or continued."""
    try:
        seen = place.history()
    except JournalError as error:
        if type(error) is JournalError:  # anything else stops the run, too, which then says so
            note(f"new {place.name}")
        return
    note(f"{place.name} continues: {counted(len(seen.outcomes), 'trial')} finished in {duration(seen.seconds)}")


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


def _config(text: str) -> dict[str, Any]:
    """Parse a configuration."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON ({error})") from error
    if not isinstance(values, dict):
        raise ValueError('must be a JSON object such as {"lr": 0.01}')
    return values


@command()
@click.argument("studyfile", type=click.Path(path_type=Path), default="study.toml")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Configurations to evaluate again.")
@click.option(
    "--repeats", type=click.IntRange(2), default=5, show_default=True, help="New evaluations of each, on average."
)
@click.option(
    "--default",
    type=Parsed("json", lambda text: text if text == "space" else _config(text)),
    help="Compare with this configuration (JSON), or with that of the space: 'space'.",
)
@shared.running_options
def confirm(studyfile: Path, top: int, repeats: int, default: Any, quiet: bool, as_json: bool, **given: Any) -> None:
    """Evaluate the best configurations again to find the winner.

    They run on the largest budget with new seeds and without checkpoints. Better ones get more evaluations. The answer
    follows from the new evaluations alone and is stored in the journal. After an interruption the same command goes on.
    Exit code: 0 when done, 130 after Ctrl-C, 1 if every evaluation failed.

    \b
    Examples:
      bohb confirm study.toml
      bohb confirm study.toml --top 3 --repeats 10 --workers 8
      bohb confirm study.toml --default '{"lr": 0.001, "units": 64}'
    """
    from bohb.running.confirmation import confirm as evaluate_again

    file = load(studyfile)
    chosen = {name: value for name, value in given.items() if value is not None}
    if "journal" not in chosen:
        shared.find(str(studyfile), given["study"]).history()  # explains a study that does not exist
    if "workers" in chosen:
        chosen["workers"] = chosen["workers"] or None
    with warnings_shown(), file.named_in_errors():
        setup = file.setup(file.objective(file.space().names), **chosen)
        found = evaluate_again(setup, top, repeats, default, quiet)
    listed = table(columns(found), rows(found), left=("candidate",))
    emit(as_json, confirmation_data(found), "\n".join([*verdict(found), "", listed]))
    if found.chosen is None:
        sys.exit(1 if found.finished else INTERRUPTED)


@command()
@click.argument("config", type=Parsed("json", _config))
@shared.on_study
@click.option("--budget", type=float, help="Evaluate it directly on this budget, one of the study's.")
def enqueue(config: dict[str, Any], place: Target, budget: float | None, as_json: bool) -> None:
    """Add a configuration to a study, to be evaluated next.

    CONFIG is a JSON object with a value for every active hyperparameter. It takes the next place of a bracket that is
    free for a new configuration, on the budget of that place. The study may be running.

    \b
    Examples:
      bohb enqueue '{"lr": 0.01, "units": 64}' study.db
      bohb enqueue '{"lr": 0.01, "units": 64}' study.db --budget 81
      bohb enqueue "$(bohb best old.db --format json)" study.db
    """
    from bohb.running.study import load as stored

    place.history()  # explains a study that does not exist
    study = stored(place.journal, place.study)
    added = study.enqueue(config, budget)
    waiting = len(study.history.given)
    what = "added" if added else "not added, because the study was given this configuration before"
    emit(as_json, {"added": added, "waiting": waiting}, f"{what}; {counted(waiting, 'configuration')} to be started")
