"""One session of a study: fill free slots, wait, tell."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bohb.core.trial import Outcome, Status, Trial
from bohb.errors import JournalUnavailable
from bohb.executors.base import Done, Executor, Lost
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.leases import RENEWALS, runner_name
from bohb.running.checkpoints import Checkpoints
from bohb.running.limits import Limits, reason_to_stop
from bohb.running.progress import Progress
from bohb.running.study import Study

log = logging.getLogger("bohb")
LEASE_SECONDS = 60.0
_TICK = 1.0  # seconds between two looks at the clock while all slots are busy


def run(
    optimizer: BOHB,
    executor: Executor,
    limits: Limits,
    checkpoints: Checkpoints | None = None,
    *,
    max_attempts: int = 3,
    lease_seconds: float = LEASE_SECONDS,
    progress: Progress | None = None,
) -> Study:
    """Drive a study with an executor until a limit is reached, the study is done or Ctrl-C is pressed.

    The executor is shut down at the end; trials that were killed with it stay unfinished in the journal and are started
    again when the study is resumed.

    lease_seconds: where several runners share the study, how long the others wait before they take over the trials of
        one that has not been heard of; a living runner is heard of four times in that span.
    """
    return _Run(optimizer, executor, limits, checkpoints, max_attempts, lease_seconds, progress).run()


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
        lease_seconds: float,
        progress: Progress | None,
    ) -> None:
        self._optimizer = optimizer
        self._executor = executor
        self._limits = limits
        self._checkpoints = checkpoints
        self._max_attempts = max_attempts
        self._lease_seconds = lease_seconds
        self._looked = time.monotonic()  # when we last looked for runners that are gone
        self._progress = progress
        self._waiting: list[Trial] = []  # trials that are started but not yet submitted
        self._running: dict[tuple[int, int], Trial] = {}  # by number and attempt
        self._unsaved: list[_Ended] = []  # results that the journal has not taken yet
        self._in_doubt = False  # whether trials may have been started for us without our knowing

    def run(self) -> Study:
        """Ask, wait, tell."""
        name = runner_name(self._optimizer.shared)
        with self._optimizer.lease(name, self._lease_seconds):
            self._optimizer.begin_session(name)
            return self._run()

    def _run(self) -> Study:
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
            if not interrupted() and not self._unsaved:
                self._look_after_others()
                self._submit()
                self._fill()
            if not self._running and not self._unsaved and (interrupted() or not self._waiting):
                stopped = "interrupted" if interrupted() else self._why_over()
                if stopped is not None:
                    return stopped
                self._idle()
            if self._progress is not None:
                self._progress.update(self._optimizer.history, self._optimizer.seconds)
            if self._running:
                self._unsaved += [self._ended(done) for done in self._executor.wait(_TICK)]
            self._save()

    def _stop(self) -> str | None:
        return reason_to_stop(self._limits, self._optimizer.history, self._optimizer.seconds)

    def _why_over(self) -> str | None:
        """Why there is nothing left to do for anybody; None while there is, though not for us just now."""
        if self._optimizer.history.pending:
            return None
        return self._stop() or (self._why_done() if self._optimizer.done else None)

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
            if self._in_doubt:
                self._adopt()
            self._waiting += self._optimizer.ask_many(free, enough=lambda: self._stop() is not None)
        except JournalUnavailable as error:
            self._in_doubt = True
            self._pause(error)
            return
        self._submit()

    def _adopt(self) -> None:
        """Take up trials that are ours by the journal although the answer that said so was lost."""
        self._optimizer.catch_up()
        known = {*self._running, *((trial.number, trial.attempt) for trial in self._waiting)}
        self._waiting += [trial for trial in self._optimizer.ours if (trial.number, trial.attempt) not in known]
        self._in_doubt = False

    def _look_after_others(self) -> None:
        """Now and then: what have other runners found, and is one of them gone?"""
        if self._optimizer.shared and time.monotonic() - self._looked > self._lease_seconds / RENEWALS:
            self._looked = time.monotonic()
            try:
                self._optimizer.take_over()
            except JournalUnavailable as error:
                self._pause(error)

    def _idle(self) -> None:
        """Nothing is ready, or there is nobody to do it: other runners are at work, or the engine has no worker now."""
        time.sleep(_TICK / 4)
        if self._optimizer.shared:
            try:
                self._optimizer.catch_up()
            except JournalUnavailable as error:
                self._pause(error)

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
            self._running[trial.number, trial.attempt] = trial
            self._executor.submit(prepared)

    def _ended(self, done: Done) -> _Ended:
        """What to make of a trial that came back: a lost worker may have another try."""
        self._running.pop((done.trial.number, done.trial.attempt), None)
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
        try:
            self._optimizer.catch_up()
            rungs = self._rungs()
            self._keep_checkpoints()
            self._optimizer.tell_many([(e.trial, e.outcome) for e in self._unsaved if e.outcome is not None])
            for ended in self._unsaved:
                if ended.outcome is None:
                    self._optimizer.lose(ended.trial, ended.reason)
        except JournalUnavailable as error:
            self._pause(error)
            return
        changed = self._rungs() != rungs
        settled, self._unsaved = self._unsaved, []
        self._settle(settled)
        if self._checkpoints is not None and changed:
            self._checkpoints.sweep(self._optimizer.history)

    def _rungs(self) -> list[int]:
        """The rungs on which the brackets of the unsaved results are."""
        return [self._optimizer.history.brackets[ended.trial.bracket].rung for ended in self._unsaved]

    def _is_late(self, trial: Trial) -> bool:
        return (trial.number, trial.attempt) in self._optimizer.history.given_up

    def _keep_checkpoints(self) -> None:
        """Put by what successful trials left; a result without its checkpoint is still a result."""
        for ended in self._unsaved:
            ok = ended.outcome is not None and ended.outcome.ok and not self._is_late(ended.trial)
            if self._checkpoints is not None and ok:
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
            if self._checkpoints is not None and ended.outcome is not None and not self._is_late(ended.trial):
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
