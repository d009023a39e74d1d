"""`bohb track`: send finished trials to MLflow, TensorBoard or Weights & Biases."""

from __future__ import annotations

import logging
import os
import select
import sys
from typing import TYPE_CHECKING

import click

from bohb.cli.target import Target, find, target_options
from bohb.cli.text import emit, json_option, note
from bohb.errors import InvalidArgument
from bohb.units import counted

if TYPE_CHECKING:
    from bohb.integrations.trackers import Name

TRACKERS = ("mlflow", "tensorboard", "wandb")


@click.command()
@click.argument("tracker", type=click.Choice(TRACKERS))
@target_options
@click.option("--to", help="MLflow tracking URI, TensorBoard log directory, or directory for W&B files.")
@click.option("--name", help="MLflow experiment or W&B project; default: the name of the study.")
@click.option("--once", is_flag=True, help="Send what has finished, then exit.")
@click.option("--attached", is_flag=True, hidden=True)  # exits when stdin is closed; the journal need not exist yet
@json_option
def track(
    tracker: Name,
    target: str | None,
    study: str | None,
    to: str | None,
    name: str | None,
    once: bool,
    attached: bool,
    as_json: bool,
) -> None:
    """Send finished trials to MLflow, TensorBoard or W&B.

    Reads the journal and never writes to it, so a tracker that is down cannot disturb the study. Each trial is sent
    once, even if this command is stopped and started again. Ctrl-C ends it.

    \b
    Examples:
      bohb track mlflow study.db --to sqlite:///mlflow.db
      bohb track tensorboard study.db --to runs
      bohb track wandb study.toml --once
    """
    from bohb.integrations.listening import Listener, TrackerUnavailable, follow, sleep
    from bohb.integrations.trackers import tracker_named

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    # We retry ourselves: the library's retries take minutes, silently.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    if attached and (target is None or study is None):
        raise InvalidArgument("--attached needs a journal and --study: they may not exist yet")
    place = Target(str(target), str(study)) if attached else find(target, study)
    listener = Listener(place.journal, tracker_named(tracker, to, name), place.study)
    try:
        if once:
            listener.read()
            listener.send()
        else:
            follow(listener, _until_stdin_closes if attached else sleep, note, patient=attached)
    except KeyboardInterrupt:
        pass
    finally:
        try:
            listener.close()
        except TrackerUnavailable as error:
            note(str(error))
    data = {"tracker": tracker, "study": place.study, "sent": listener.sent, "waiting": listener.waiting}
    emit(as_json, data, f"{counted(listener.sent, 'trial')} sent to {tracker}, {listener.waiting} waiting")
    sys.exit(1 if listener.waiting else 0)


def _until_stdin_closes(seconds: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable)


COMMANDS = (track,)
