"""Trackers as listeners: a process of its own reads the journal and hands finished trials on.

The study knows nothing of it, so a tracker that is slow, down or broken cannot disturb it. What a tracker has already
is asked of the tracker itself when listening begins. A trial is handed on until the tracker has taken it, and again if
it is not known whether it has; so writing a trial twice must have the effect of writing it once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from bohb.core.events import TrialFinished, to_json
from bohb.core.history import History, Result
from bohb.core.trial import Outcome, Trial
from bohb.errors import BohbError, JournalDamaged, JournalError, JournalUnavailable, MissingExtra, install_hint
from bohb.journal import Journal, open_journal

log = logging.getLogger("bohb")
_PAUSE = 1.0  # seconds between two looks at the journal
_LONGEST_PAUSE = 60.0  # between two tries while a tracker is down


class TrackerUnavailable(BohbError):
    """The tracker cannot be written just now; nothing is lost, trying again helps."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished trial as a tracker gets it.

    order: how many trials had finished, this one included.
    incumbent: the best result then.
    """

    trial: Trial
    outcome: Outcome
    order: int
    incumbent: Result | None

    @property
    def improves(self) -> bool:
        """Whether this trial is the new incumbent."""
        return self.incumbent is not None and self.incumbent.trial.number == self.trial.number


class Tracker(Protocol):
    """Three methods. Each raises TrackerUnavailable if trying again may help."""

    def open(self, study: str, history: History) -> set[int]:
        """Begin with a study; returns the numbers of the trials that the tracker has already, whole."""
        ...

    def write(self, finished: Finished) -> None:
        """Keep a trial; keeping it again has no further effect."""
        ...

    def close(self) -> None:
        """There is nothing more to write for now."""
        ...


def study_key(history: History) -> str:
    """What tells a study from all others, wherever its journal lies."""
    assert history.created is not None
    return hashlib.sha256(json.dumps(to_json(history.created), sort_keys=True).encode()).hexdigest()[:16]


class Listener:
    """Reads a journal and hands finished trials on, each until it is taken.

    source, study: the journal, as `open_journal` takes it; it is opened read-only, whenever it is there.
    tracker: who gets the trials.
    """

    def __init__(self, source: str | Path | Journal, tracker: Tracker, study: str = "study") -> None:
        self._source, self._study = source, study
        self._tracker = tracker
        self._journal: Journal | None = None
        self._history = History()
        self._known: set[int] | None = None  # what the tracker had when it was opened
        self._queue: deque[Finished] = deque()
        self.handed_on = 0

    @property
    def begun(self) -> bool:
        """Whether there is a study to listen to."""
        return self._history.created is not None

    @property
    def waiting(self) -> int:
        """How many trials wait to be handed on."""
        return len(self._queue)

    def read(self) -> None:
        """Take note of the trials that have finished."""
        if self._journal is None:
            self._journal = open_journal(self._source, self._study, read_only=True)
        for event in self._journal.read(self._history.n_events):
            self._history.apply(event)
            if isinstance(event, TrialFinished):
                history = self._history
                trial, order = history.trials[event.number], len(history.outcomes)
                self._queue.append(Finished(trial, event.outcome, order, history.incumbent))

    def hand_on(self) -> None:
        """Give the tracker what waits; what it did not take is given again next time."""
        if not self.begun:
            return
        if self._known is None:
            self._known = self._tracker.open(self._study, self._history)
        while self._queue:
            if self._queue[0].trial.number not in self._known:
                self._tracker.write(self._queue[0])
                self.handed_on += 1
            self._queue.popleft()

    def close(self) -> None:
        """Give back the journal and the tracker."""
        if self._journal is not None and self._journal is not self._source:
            self._journal.close()
        if self._known is not None:
            self._tracker.close()


def follow(
    listener: Listener,
    pause: Callable[[float], bool],
    say: Callable[[str], None] = log.warning,
    patient: bool = False,
) -> None:
    """Listen until `pause` says that it is over; then hand on what is left, as far as the tracker takes it.

    pause: waits for so many seconds; returns True if the study is over.
    say: gets a line when the tracker goes down and when it is back.
    patient: whether to wait for a study that has not begun.
    """
    seconds, over, down = 0.0, False, False
    while True:
        try:
            listener.read()
        except JournalDamaged:
            raise
        except JournalError as error:  # not there yet, or out of reach for a moment
            if over and patient and not listener.begun:
                return  # nor will it ever be there
            if over or not (patient or isinstance(error, JournalUnavailable)):
                raise
        try:
            listener.hand_on()
            if down:
                say("the tracker is back; nothing was left out")
            seconds, down = _PAUSE, False
        except TrackerUnavailable as error:
            if not down:
                say(f"{error}; {listener.waiting} trials wait, and the study goes on")
            seconds, down = min(2 * seconds or _PAUSE, _LONGEST_PAUSE), True
        if over:
            return
        over = pause(seconds)


def sleep(seconds: float) -> bool:
    """Wait; it is never over before Ctrl-C."""
    time.sleep(seconds)
    return False


def require(module: str, extra: str) -> None:
    """Refuse to begin without an optional library."""
    if find_spec(module) is None:
        raise MissingExtra(f"{module} is not installed: {install_hint(extra)}")


@contextmanager
def beside(
    tracker: str, journal: str | Path, study: str, options: Sequence[str], wait_seconds: float = 30.0
) -> Iterator[None]:
    """Run `bohb track` in a process of its own for as long as the block lasts.

    wait_seconds: how long the end of the block waits for trials that are still to be handed on.

    The listener ends by itself if this process is killed. Whatever becomes of it, the block is not disturbed; a warning
    says if trials were left, which `bohb track` hands on at any later time.
    """
    command = ["-m", "bohb", "track", tracker, str(journal), "--study", study, *options]
    listener = subprocess.Popen(
        [sys.executable, *command, "--attached"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the study; the listener hears of it when the block ends
    )
    assert listener.stdin is not None
    try:
        yield
    finally:
        listener.stdin.close()
        try:
            code = listener.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            listener.kill()
            code = listener.wait()
        if code:
            log.warning("%s has not got all trials yet; this hands on the rest: python %s", tracker, " ".join(command))
