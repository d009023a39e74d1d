"""The loop of one session: fill free slots, wait for results, report them."""

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
_TICK = 1.0  # seconds between two checks of the limits while all slots are busy


def run(
    optimizer: BOHB,
    executor: Executor,
    limits: Limits,
    checkpoints: Checkpoints | None = None,
    *,
    max_attempts: int = 3,
    lease_seconds: float = LEASE_SECONDS,
    forget_failures: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Drive a study with an executor until a limit is reached, the study is done or Ctrl-C is pressed.

    The executor is shut down at the end; trials that were killed with it stay unfinished in the journal and are started
    again when the study is resumed.

    max_attempts: how often a trial is started before it counts as failed because its worker disappeared.
    lease_seconds: where several runners share the study, the time without a sign of life after which the others take
        over a runner's trials; a living runner renews its lease four times in that span.
    forget_failures: whether failures of earlier sessions no longer count as evidence for the sampler.
    """
    name = runner_name(optimizer.shared)
    with optimizer.lease(name, lease_seconds):
        optimizer.begin_session(name, forget_failures)
        return _Run(optimizer, executor, limits, checkpoints, max_attempts, lease_seconds, progress).run()


class _Ended(NamedTuple):
    """A trial that ended; without an outcome it will be started again."""

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
        self._looked = time.monotonic()  # when this runner last looked for dead runners
        self._progress = progress
        self._waiting: list[Trial] = []  # trials that are started but not yet submitted
        self._running: dict[tuple[int, int], Trial] = {}  # by number and attempt
        self._unsaved: list[_Ended] = []  # results that are not stored yet
        self._in_doubt = False  # whether the journal may hold trials of this runner that it does not know of

    def run(self) -> Study:
        """Ask, wait and tell until the session ends."""
        kill = True
        try:
            with _interrupts() as interrupted:
                stopped = self._loop(interrupted)
            kill = False
        except KeyboardInterrupt:
            self._executor.shutdown(kill=True)  # first, so that `wait` returns only trials that have ended
            self._unsaved += [self._ended(done) for done in self._executor.wait(0)]
            self._optimizer.reload()  # the interruption may have come between a decision and its being stored
            self._save()
            stopped = "interrupted twice; unfinished trials will run when the study is resumed"
        finally:
            self._executor.shutdown(kill)
        log.info("stopped: %s", stopped)
        study = Study(self._optimizer.history, stopped)
        if study.cause is not None and study.cause not in stopped:
            log.warning("no trial succeeded: %s", study.cause)
        if self._progress is not None:
            self._progress.update(self._optimizer.history, self._optimizer.seconds, final=True)
        return study

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
        """Return why the study is over; None while another runner may still have something to do."""
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
        """Start trials that the journal assigned to this runner although its answer was lost."""
        self._optimizer.catch_up()
        known = {*self._running, *((trial.number, trial.attempt) for trial in self._waiting)}
        self._waiting += [trial for trial in self._optimizer.ours if (trial.number, trial.attempt) not in known]
        self._in_doubt = False

    def _look_after_others(self) -> None:
        """Regularly read what other runners have stored, and take over trials of dead ones."""
        if self._optimizer.shared and time.monotonic() - self._looked > self._lease_seconds / RENEWALS:
            self._looked = time.monotonic()
            try:
                self._optimizer.take_over()
            except JournalUnavailable as error:
                self._pause(error)

    def _idle(self) -> None:
        """Wait while nothing can start: other runners are at work, or the engine has no worker."""
        time.sleep(_TICK / 4)
        if self._optimizer.shared:
            try:
                self._optimizer.catch_up()
            except JournalUnavailable as error:
                self._pause(error)

    def _submit(self) -> None:
        """Submit trials to the executor; they wait while the disk cannot hold their checkpoints."""
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
        """Return the result of a trial that ended; one that lost its worker may be started again."""
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
        """Store all results at once; while the journal is unavailable, keep them and start nothing new."""
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
        """Return the current rungs of the brackets with unsaved results."""
        return [self._optimizer.history.brackets[ended.trial.bracket].rung for ended in self._unsaved]

    def _is_late(self, trial: Trial) -> bool:
        return (trial.number, trial.attempt) in self._optimizer.history.given_up

    def _keep_checkpoints(self) -> None:
        """Keep the checkpoints of successful trials; a result without its checkpoint still counts."""
        for ended in self._unsaved:
            ok = ended.outcome is not None and ended.outcome.ok and not self._is_late(ended.trial)
            if self._checkpoints is not None and ok:
                try:
                    self._checkpoints.keep(ended.trial)
                except OSError as error:
                    log.error("the checkpoint of trial %d is lost: %s", ended.trial.number, error)

    def _settle(self, settled: Sequence[_Ended]) -> None:
        """Clean up checkpoints after these results are stored."""
        for ended in settled:
            ok = ended.outcome is not None and ended.outcome.ok
            if ended.outcome is not None and not ok:
                log.info("trial %d failed: %s", ended.trial.number, ended.outcome.error)
            if self._checkpoints is not None and ended.outcome is not None and not self._is_late(ended.trial):
                (self._checkpoints.settle if ok else self._checkpoints.discard)(ended.trial)

    def _pause(self, trouble: object) -> None:
        log.error("%s; no trial is started until this is resolved", trouble)
        time.sleep(_TICK)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; pressing it again raises KeyboardInterrupt.

    Outside the main thread it always returns False, because signals only reach the main thread.
    """
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
