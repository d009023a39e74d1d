"""`bohb track`: hand finished trials on to MLflow, TensorBoard or Weights & Biases."""

from __future__ import annotations

import logging
import os
import select
import sys
from typing import TYPE_CHECKING

import click

from bohb.cli.target import Target, find
from bohb.cli.text import counted, emit, json_option, note
from bohb.errors import InvalidArgument

if TYPE_CHECKING:
    from bohb.integrations.listening import Tracker

TRACKERS = ("mlflow", "tensorboard", "wandb")


@click.command()
@click.argument("tracker", type=click.Choice(TRACKERS))
@click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")
@click.option("--study", help="The study's name, where a journal holds several.")
@click.option("--to", help="MLflow's tracking URI, TensorBoard's log directory, or the directory of W&B's files.")
@click.option("--name", help="MLflow's experiment or W&B's project; the study's name unless given.")
@click.option("--once", is_flag=True, help="Hand on what has finished, and end.")
@click.option("--attached", is_flag=True, hidden=True)  # end when stdin is closed; the journal may come later
@json_option
def track(
    tracker: str,
    target: str | None,
    study: str | None,
    to: str | None,
    name: str | None,
    once: bool,
    attached: bool,
    as_json: bool,
) -> None:
    """Hand finished trials on to MLflow, TensorBoard or W&B.

    Reads the journal and never writes to it, so that a tracker that is down cannot disturb the study. Each trial
    arrives once, however often this is stopped and started. Ctrl-C ends it.

    \b
    Examples:
      bohb track mlflow study.db --to sqlite:///mlflow.db
      bohb track tensorboard study.db --to runs
      bohb track wandb study.toml --once
    """
    from bohb.integrations.listening import Listener, TrackerUnavailable, follow, sleep

    if attached and (target is None or study is None):
        raise InvalidArgument("--attached needs a journal and --study: they may not exist yet")
    place = Target(str(target), str(study)) if attached else find(target, study)
    listener = Listener(place.journal, _tracker(tracker, to, name), place.study)
    try:
        if once:
            listener.read()
            listener.hand_on()
        else:
            follow(listener, _until_stdin_closes if attached else sleep, note, patient=attached)
    except KeyboardInterrupt:
        pass
    finally:
        try:
            listener.close()
        except TrackerUnavailable as error:
            note(str(error))
    data = {"tracker": tracker, "study": place.study, "handed_on": listener.handed_on, "waiting": listener.waiting}
    emit(as_json, data, f"{counted(listener.handed_on, 'trial')} handed on to {tracker}, {listener.waiting} waiting")
    sys.exit(1 if listener.waiting else 0)


def _tracker(tracker: str, to: str | None, name: str | None) -> Tracker:
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    if tracker == "mlflow":
        # Trying again is our business: the library's own way takes minutes and says nothing.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        from bohb.integrations.mlflow import MlflowTracker

        return MlflowTracker(to, name)
    if tracker == "tensorboard":
        from bohb.integrations.tensorboard import TensorboardTracker

        if name is not None:
            raise InvalidArgument(f"--name={name!r} is for mlflow and wandb; TensorBoard has a directory, --to")
        return TensorboardTracker(to or "runs")
    from bohb.integrations.wandb import WandbTracker

    return WandbTracker(to or ".", name)


def _until_stdin_closes(seconds: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable)


COMMANDS = (track,)
