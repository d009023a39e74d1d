"""One session of a study: fill free slots, wait, tell."""

from __future__ import annotations

import logging
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bohb.checkpoints import Checkpoints
from bohb.core.trial import Outcome, Status, Trial
from bohb.errors import JournalUnavailable
from bohb.executors.base import Done, Executor, Lost
from bohb.optimizer import BOHB
from bohb.progress import Progress
from bohb.stopping import Limits, reason_to_stop
from bohb.study import Study

log = logging.getLogger("bohb")
_TICK = 1.0  # seconds between two looks at the clock while all slots are busy


def run(
    optimizer: BOHB,
    executor: Executor,
    limits: Limits,
    checkpoints: Checkpoints | None = None,
    *,
    max_attempts: int = 3,
    progress: Progress | None = None,
) -> Study:
    """Drive a study with an executor until a limit is reached, the study is done or Ctrl-C is pressed.

    The executor is shut down at the end; trials that were killed with it stay unfinished in the journal and are started
    again when the study is resumed.
    """
    return _Run(optimizer, executor, limits, checkpoints, max_attempts, progress).run()


class _Ended(NamedTuple):
    """A trial that came back; without an outcome it is to be started again."""

    trial: Trial
    outcome: Outcome | None
    reason: str = ""


class _Run:
    """One session of a study."""

    def __init__(
        self,
        optimizer: BOHB,
        executor: Executor,
        limits: Limits,
        checkpoints: Checkpoints | None,
        max_attempts: int,
        progress: Progress | None,
    ) -> None:
        self._optimizer = optimizer
        self._executor = executor
        self._limits = limits
        self._checkpoints = checkpoints
        self._max_attempts = max_attempts
        self._progress = progress
        self._waiting: list[Trial] = []  # trials that are started but not yet submitted
        self._running: dict[int, Trial] = {}
        self._unsaved: list[_Ended] = []  # results that the journal has not taken yet

    def run(self) -> Study:
        """Ask, wait, tell."""
        self._optimizer.begin_session(f"{platform.node()}:{os.getpid()}")
        kill = True
        try:
            with _interrupts() as interrupted:
                stopped = self._loop(interrupted)
            kill = False
        except KeyboardInterrupt:
            self._executor.shutdown(kill=True)  # first, so that what is waited for can only be what has ended
            self._unsaved += [self._ended(done) for done in self._executor.wait(0)]
            self._optimizer.reload()  # the interruption may have come between a decision and its being stored
            self._save()
            stopped = "interrupted twice; unfinished trials will run when the study is resumed"
        finally:
            self._executor.shutdown(kill)
        log.info("stopped: %s", stopped)
        if self._progress is not None:
            self._progress.update(self._optimizer.history, self._optimizer.seconds, final=True)
        return Study(self._optimizer.history, stopped)

    def _loop(self, interrupted: Callable[[], bool]) -> str:
        while True:
            stopped = "interrupted" if interrupted() else self._stop()
            if not interrupted() and not self._unsaved:
                self._submit()
                self._fill()
            if not self._running and not self._unsaved and (interrupted() or not self._waiting):
                if stopped is not None:
                    return stopped
                if self._optimizer.done:
                    return self._why_done()
            if self._progress is not None:
                self._progress.update(self._optimizer.history, self._optimizer.seconds)
            if self._running:
                self._unsaved += [self._ended(done) for done in self._executor.wait(_TICK)]
            self._save()

    def _stop(self) -> str | None:
        return reason_to_stop(self._limits, self._optimizer.history, self._optimizer.seconds)

    def _why_done(self) -> str:
        brackets = self._optimizer.max_brackets
        if brackets is not None and len(self._optimizer.history.brackets) >= brackets:
            return f"all {brackets} brackets are complete"
        return "every configuration of the space has been evaluated"

    def _fill(self) -> None:
        """Start a trial in every free slot."""
        free = self._executor.slots - len(self._running) - len(self._waiting)
        if free <= 0:
            return
        try:
            trials = self._optimizer.ask_many(free, enough=lambda: self._stop() is not None)
        except JournalUnavailable as error:
            self._pause(error)
            return
        self._waiting += trials
        self._submit()

    def _submit(self) -> None:
        """Hand trials to the executor; while the disk cannot hold their checkpoints, they wait."""
        while self._waiting:
            trial = self._waiting[0]
            try:
                prepared = trial if self._checkpoints is None else self._checkpoints.prepare(trial)
            except OSError as error:
                self._pause(f"the checkpoint directory of trial {trial.number} cannot be made ({error})")
                return
            self._waiting.pop(0)
            self._running[trial.number] = trial
            self._executor.submit(prepared)

    def _ended(self, done: Done) -> _Ended:
        """What to make of a trial that came back: a lost worker may have another try."""
        self._running.pop(done.trial.number, None)
        match done.result:
            case Outcome() as outcome:
                return _Ended(done.trial, outcome)
            case Lost(reason):
                if self._optimizer.history.losses.get(done.trial.number, 0) + 1 < self._max_attempts:
                    log.warning("trial %d will be started again: %s", done.trial.number, reason)
                    return _Ended(done.trial, None, reason)
                error = f"lost its worker {self._max_attempts} times, at last: {reason}"
                return _Ended(done.trial, Outcome(Status.LOST, error=error))

    def _save(self) -> None:
        """Tell all results at once; keep them and start nothing new while the journal cannot take them."""
        if not self._unsaved:
            return
        history = self._optimizer.history
        rungs = {e.trial.bracket: history.brackets[e.trial.bracket].rung for e in self._unsaved}
        self._keep_checkpoints()
        try:
            self._optimizer.tell_many([(e.trial.number, e.outcome) for e in self._unsaved if e.outcome is not None])
            for ended in self._unsaved:
                if ended.outcome is None:
                    self._optimizer.lose(ended.trial.number, ended.reason)
        except JournalUnavailable as error:
            self._pause(error)
            return
        settled, self._unsaved = self._unsaved, []
        self._settle(settled)
        if self._checkpoints is not None and any(history.brackets[b].rung != rung for b, rung in rungs.items()):
            self._checkpoints.sweep(history)

    def _keep_checkpoints(self) -> None:
        """Put by what successful trials left; a result without its checkpoint is still a result."""
        for ended in self._unsaved:
            if self._checkpoints is not None and ended.outcome is not None and ended.outcome.ok:
                try:
                    self._checkpoints.keep(ended.trial)
                except OSError as error:
                    log.error("the checkpoint of trial %d is lost: %s", ended.trial.number, error)

    def _settle(self, settled: Sequence[_Ended]) -> None:
        """The journal has these results: put the checkpoints in order."""
        for ended in settled:
            ok = ended.outcome is not None and ended.outcome.ok
            if ended.outcome is not None and not ok:
                log.info("trial %d failed: %s", ended.trial.number, ended.outcome.error)
            if self._checkpoints is not None and ended.outcome is not None:
                (self._checkpoints.settle if ok else self._checkpoints.discard)(ended.trial)

    def _pause(self, trouble: object) -> None:
        log.error("%s; no trial is started until that is over", trouble)
        time.sleep(_TICK)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; pressed again it raises KeyboardInterrupt. Only the main thread can know."""
    pressed = 0

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt
        log.warning("interrupted: finishing the running trials; press Ctrl-C again to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: pressed > 0
    finally:
        signal.signal(signal.SIGINT, before)
