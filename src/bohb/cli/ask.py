"""`bohb ask`, `bohb tell`: evaluate the trials of a study with a program in any language. JSON in, JSON out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from bohb.arguments import known_names, pick
from bohb.cli import shared
from bohb.cli.shared import DEFAULT, SECONDS, WithNegativeNumbers, command, emit, emit_data, find, note
from bohb.core.limits import Limits
from bohb.core.trial import Outcome, Status, Trial, jsonable
from bohb.errors import InvalidResult, NoTrialReady, Retry, StudyDone
from bohb.studyfile.load import StudyFile, load

if TYPE_CHECKING:
    from bohb.running.external import ExternalStudy

NOT_READY, COMPLETE = 3, 4  # exit codes of `bohb ask`
_ASKED = ("config", "budget", "previous_budget", "seed", "config_id", "bracket", "rung", "origin", "checkpoint_dir")
_TOLD = ("number", "attempt", "loss", "losses", "info", "cost", "failed", "lost", "retry")
_ENDS = ("loss", "losses", "failed", "lost", "retry")
_SAID = {
    "stored": "trial {}: {}",
    "known": "trial {}: {}, as was already stored",
    "late": "trial {}: {} is late; it is stored and not used, because the trial was handed out again",
}


place_options = shared.together(  # where a study is, and how long to wait for it
    click.option("--study", help="Name of the study in the journal."),
    click.option("--directory", help="For checkpoints and curves; default: <journal>.files."),
    click.option(
        "--wait",
        "wait_seconds",
        type=SECONDS,
        default=60.0,
        help="How long to wait for other processes, such as 90, 30m or 8h.  [default: 60]",
    ),
)


def external(target: str, study: str | None, limits: Mapping[str, Any] | None = None, **options: Any) -> ExternalStudy:
    """Return the study that the arguments of a command name.

    limits: when to stop asking. With them, a study file may name a study that does not exist yet.
    options: those of an ExternalStudy; for a study file also `journal` and `seed`, which replace those of the file.
    """
    from bohb.running.external import ExternalStudy

    given = {name: value for name, value in options.items() if value is not None}
    if target.endswith(".toml"):
        file = load(target)
        kept = ("directory", "max_attempts", "checkpoint_quota")
        given = {name: value for name, value in file.arguments.items() if name in kept} | given
        if limits is not None:
            return _createable(file, study, limits, **given)
    elif {"journal", "seed"} & given.keys():
        raise click.UsageError(f"--journal and --seed belong to a study file, and {target} is a journal")
    place = find(target, study)
    place.history()  # explains a study that does not exist, before anything is opened for writing
    return ExternalStudy(place.journal, place.study, limits=Limits(**(limits or {})), **given)


def _createable(
    file: StudyFile, study: str | None, limits: Mapping[str, Any], journal: str | None = None, **options: Any
) -> ExternalStudy:
    """Return the study of a study file, which is created when it is first asked for a trial."""
    from bohb.optimizer.ask_tell import BOHB
    from bohb.running.external import ExternalStudy

    arguments = study_arguments(file)
    if "seed" in options:
        arguments["seed"] = options.pop("seed")
    with file.named_in_errors():
        create = partial(BOHB, file.space(), **arguments)
        limited = pick(Limits, {**file.arguments, **limits})
    where = journal or file.journal, study or file.study
    return ExternalStudy(*where, lambda opened: create(journal=opened), limits=limited, **options)


def study_arguments(file: StudyFile) -> dict[str, Any]:
    """Return the arguments of `BOHB` that a study file has, without the journal."""
    from bohb.optimizer.ask_tell import BOHB
    from bohb.optimizer.creation import StudyOptions

    known = known_names(BOHB, StudyOptions) - {"journal"}
    return {name: value for name, value in file.arguments.items() if name in known}


@command()
@click.argument("target", metavar="[STUDYFILE|JOURNAL]", default=DEFAULT)
@click.option("--journal", help="A file or a database URL, instead of the one that the study file names.")
@click.option("--seed", type=click.IntRange(0), help="Random seed of a new study.")
@click.option("--lease", type=SECONDS, help="Hand out trials again that were asked for so long ago and not told.")
@click.option("--client", help="A name for you alone; asking again before you tell returns the same trial.")
@place_options
@shared.limit_options
def ask(target: str, study: str | None, lease: float | None, client: str | None, as_json: bool, **given: Any) -> None:
    """Start the next trial and print it as one line of JSON.

    The study is created from the study file if the journal does not have it. The trial stays reserved for you until
    you tell its result: see 'bohb tell'. Several processes may ask at once. Exit code: 3 if no trial is ready within
    --wait because running ones have to end first, 4 if the study is complete.

    \b
    Examples:
      bohb ask study.toml
      bohb ask study.toml --journal study.db --max-trials 100
      bohb ask study.db --lease 2h
      bohb ask study.db --client "$HOSTNAME/3"
    """
    limits = {each.name: value for each in fields(Limits) if (value := given.pop(each.name)) is not None}
    try:
        trial = external(target, study, limits, **given).ask(lease, client)
    except (NoTrialReady, StudyDone) as error:
        note(f"bohb: {error}")
        sys.exit(NOT_READY if isinstance(error, NoTrialReady) else COMPLETE)
    emit_data(json.dumps(asked(trial), indent=2 if as_json else None, allow_nan=False))


def asked(trial: Trial) -> dict[str, Any]:
    """Return a trial as `bohb ask` prints it. Whole budgets are integers, because most programs expect them."""
    values = {name: getattr(trial, name) for name in ("number", "attempt", *_ASKED)}
    for name in ("budget", "previous_budget"):
        if values[name] is not None and float(values[name]).is_integer():
            values[name] = int(values[name])
    values["checkpoint_dir"] = None if trial.checkpoint_dir is None else str(trial.checkpoint_dir)
    plain: dict[str, Any] = jsonable(values)
    return plain


@command(cls=WithNegativeNumbers)  # a loss may begin with a minus
@click.argument("target", metavar="STUDYFILE|JOURNAL")
@click.argument("number", required=False, type=click.IntRange(0), metavar="[NUMBER]")
@click.argument("loss", required=False, type=float, metavar="[LOSS]")
@click.option("--attempt", type=click.IntRange(1), help="As `bohb ask` printed it; default: 1.")
@click.option("--failed", metavar="REASON", help="The evaluation failed.")
@click.option("--lost", metavar="REASON", help="The evaluation was cut short; `bohb ask` hands the trial out again.")
@click.option("--retry", metavar="REASON", help="The same after a pause, and it counts neither as failed nor as lost.")
@place_options
def tell(
    target: str,
    number: int | None,
    study: str | None,
    wait_seconds: float,
    directory: str | None,
    as_json: bool,
    **result: Any,
) -> None:
    """Store how a trial ended.

    Without NUMBER, read JSON objects from stdin, one per line: the line that `bohb ask` printed with "loss" added, or
    {"number": 12, "loss": 0.31, "info": {…}, "cost": 2.5} or {"number": 12, "failed": "reason"}, where "lost" and
    "retry" may stand for "failed". A study with several objectives needs "losses": {"error": 0.1, …} instead of "loss".
    Telling the same result twice has no effect.

    \b
    Examples:
      bohb tell study.db 12 0.31
      bohb tell study.db 12 --failed "out of memory"
      echo '{"number": 12, "loss": 0.31, "info": {"accuracy": 0.9}}' | bohb tell study.db
    """
    given = {name: value for name, value in result.items() if value is not None}
    if number is not None:
        results = [checked({"number": number, **given})]
    elif given:
        raise click.UsageError("--attempt, --failed, --lost, --retry need NUMBER; what is read from stdin has its own")
    else:
        results = [checked(_parsed(line)) for line in sys.stdin.read().splitlines() if line.strip()]
        if not results:
            raise click.UsageError("stdin is empty; give NUMBER and LOSS, or JSON objects on stdin")
    into = external(target, study, wait_seconds=wait_seconds, directory=directory)
    said = [store(into, each) for each in results]
    text = "\n".join(done.pop("text") for done in said)
    emit(as_json, said if number is None else said[0], text)


def _parsed(line: str) -> dict[str, Any]:
    """Return the JSON object of a line of stdin."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise InvalidResult(f"{line[:200]!r} is not JSON ({error}); write one JSON object per line") from error
    if not isinstance(found, dict):
        raise InvalidResult(f'{line[:200]!r} must be a JSON object such as {{"number": 12, "loss": 0.31}}')
    return found


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """Return a result with known keys, a trial, and exactly one way in which it ended."""
    unknown = [key for key in found if key not in _TOLD and key not in _ASKED]
    if unknown:
        raise InvalidResult(f"the key {unknown[0]!r} is unknown; use {', '.join(_TOLD)}, and info for all else")
    for key, kind in (("number", int), ("attempt", int), ("failed", str), ("lost", str), ("retry", str)):
        if key in found and (not isinstance(found[key], kind) or isinstance(found[key], bool)):
            raise InvalidResult(f"{key}={found[key]!r} must be {'a whole number' if kind is int else 'a text'}")
    if "number" not in found:
        raise InvalidResult('"number" is missing: the number of the trial, as `bohb ask` printed it')
    if sum(key in found for key in _ENDS) != 1:
        raise InvalidResult(f"trial {found['number']} needs exactly one of {', '.join(_ENDS)}")
    return found


def store(study: ExternalStudy, result: dict[str, Any]) -> dict[str, Any]:
    """Store one result; return what was done, for programs and as `text` for people."""
    number, attempt = result["number"], result.get("attempt")
    if "lost" in result:
        study.lose(number, result["lost"], attempt)
        return {"number": number, "result": "lost", "text": f"trial {number}: lost"}
    if "failed" in result:
        what, outcome = "failed", Outcome(Status.CRASHED, error=result["failed"])
        told = study.tell(number, outcome, attempt)
    elif "retry" in result:
        what, told = "starts again later", study.tell(number, Retry(result["retry"]), attempt)
    else:
        what = f"loss {result['loss']}" if "loss" in result else f"losses {json.dumps(result['losses'])}"
        values = {key: result[key] for key in ("loss", "losses", "info", "cost") if key in result}
        told = study.tell(number, result["loss"] if list(values) == ["loss"] else values, attempt)
    return {"number": number, "result": told, "text": _SAID[told].format(number, what)}
