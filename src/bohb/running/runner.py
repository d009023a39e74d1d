"""run: drive a study with an executor, until a limit is reached, nothing is left to do or Ctrl-C is pressed."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bohb.core.decide import delayed
from bohb.core.limits import Limits, given_limits, reason_to_stop
from bohb.core.trial import Lost, Outcome, Status, Trial
from bohb.executors.base import Executor
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.session import RENEWALS, runner_name
from bohb.running.checkpoints import Checkpoints, keep_checkpoint
from bohb.running.loop import Ended, Loop, patiently
from bohb.running.run_options import SessionOptions
from bohb.running.study import Callback, Callbacks, Study
from bohb.units import duration, printable

if TYPE_CHECKING:
    from bohb.running.progress import Progress

log = logging.getLogger("bohb")


def run(
    optimizer: BOHB,
    executor: Executor,
    limits: Limits,
    checkpoints: Checkpoints | None = None,
    *,
    session: SessionOptions | None = None,
    callbacks: Iterable[Callback] = (),
    progress: Progress | None = None,
    logs: Path | None = None,
) -> Study:
    """Drive a study with an executor until a limit is reached, the study is done or Ctrl-C is pressed.

    The executor is shut down at the end; trials that were killed with it stay unfinished in the journal and are started
    again when the study is resumed.

    limits: when it stops; without `max_brackets`, that of the optimizer counts.
    session: how trials are treated; checkpoints are those of the argument `checkpoints`.
    callbacks: functions that are called with a `RunningStudy` after each trial that this runner has finished.
    logs: the directory in which the executor keeps the output of trials; each log ends with where the time went.
    """
    session = session or SessionOptions()
    limits = replace(limits, max_brackets=limits.max_brackets or optimizer.limits.max_brackets)
    calls = Callbacks(callbacks, optimizer.space)
    runner = Runner(optimizer, executor, limits, checkpoints, session, calls, progress, logs)
    shared = optimizer.ledger.shared is not None
    name = runner_name(shared)
    with ExitStack() as stack:
        patiently(shared, lambda: stack.enter_context(optimizer.session.lease(name, session.lease_seconds)))
        begin = partial(optimizer.session.begin, name, session.forget_failures, given_limits(limits), executor.slots)
        patiently(shared, begin)
        stopped = runner.work()
    log.info("stopped: %s", stopped)
    study = Study(optimizer.history, stopped)
    if study.cause is not None and study.cause not in stopped:
        log.warning("no trial succeeded: %s", printable(study.cause))
    if progress is not None:
        progress.update(optimizer.history, optimizer.session.seconds, final=True)
    return study


class Runner(Loop):
    """The loop of one session of a study; the arguments are those of `run`."""

    def __init__(
        self,
        optimizer: BOHB,
        executor: Executor,
        limits: Limits,
        checkpoints: Checkpoints | None,
        session: SessionOptions,
        callbacks: Callbacks,
        progress: Progress | None,
        logs: Path | None,
    ) -> None:
        super().__init__(optimizer.ledger, executor, session.max_attempts)
        self._optimizer, self._limits, self._checkpoints = optimizer, limits, checkpoints
        self._grace, self._callbacks, self._progress = session.grace, callbacks, progress
        shared = optimizer.ledger.shared is not None
        self._look_seconds = session.lease_seconds / RENEWALS if shared else math.inf
        self._logs = logs
        self._copying: defaultdict[int, float] = defaultdict(float)  # seconds for the checkpoints of trials, by number
        self._finished: list[int] = []  # trials whose results are stored; callbacks are to be called

    def ask(self, n: int) -> Sequence[Trial]:
        """Return the trials that start now, with those that the journal assigned to this runner in a lost answer."""
        adopted: list[Trial] = []
        if self.in_doubt:
            self.ledger.catch_up()
            known = self.known()
            adopted = [t for t in self._optimizer.session.trials if (t.number, t.attempt) not in known]
        self.in_doubt = True
        found = [*adopted, *self._optimizer.ask_many(n, self._limits)]
        self.in_doubt = False
        return found

    def prepare(self, trial: Trial) -> Trial:
        """Return the trial with its checkpoint directory."""
        if self._checkpoints is None:
            return trial
        began = time.monotonic()
        prepared = self._checkpoints.prepare(trial)
        self._copying[trial.number] = time.monotonic() - began
        return prepared

    def losses(self, number: int) -> int:
        """Return how many losses of a trial count."""
        return self._optimizer.history.losses.get(number, 0)

    def save(self, ended: list[Ended]) -> None:
        """Keep checkpoints, store the results, and remove the checkpoints that are needed no more."""
        optimizer, checkpoints = self._optimizer, self._checkpoints
        given_up = optimizer.history.given_up
        if checkpoints is not None:
            if self.ledger.shared is not None and any(checkpoints.replaces(trial) for trial, _ in ended):
                self.ledger.catch_up()  # another runner may have taken over the trial and kept its checkpoint
            for index, (trial, result) in enumerate(ended):
                if isinstance(result, Outcome) and (trial.number, trial.attempt) not in given_up:
                    began = time.monotonic()
                    ended[index] = trial, keep_checkpoint(checkpoints, trial, result)
                    self._copying[trial.number] += time.monotonic() - began
        optimizer.tell_many(ended)
        history = optimizer.history
        for trial, result in ended:
            if isinstance(result, Lost):
                continue
            if not result.ok:
                what = "starts again later" if result.status is Status.RETRY else "failed"
                log.info("trial %d %s: %s", trial.number, what, result.error)
            if (trial.number, trial.attempt) not in history.given_up:  # neither late nor to be started again
                if self._callbacks.functions:
                    self._finished.append(trial.number)
                self._note_times(trial.number, result)
                if checkpoints is not None:
                    checkpoints.ended(trial, result.ok)
        if checkpoints is not None and any(history.brackets[t.bracket].rung != t.rung for t, _ in ended):
            checkpoints.sweep(history)

    def _note_times(self, number: int, outcome: Outcome) -> None:
        """Let the log of a trial end with where its time went; one that printed nothing has no log."""
        copying, waited = self._copying.pop(number, 0.0), self._optimizer.history.waits.get(number)
        if self._logs is None or waited is None:
            return
        parts = ("start-up", max(0.0, waited - copying)), ("objective", outcome.seconds), ("checkpoint", copying)
        with suppress(OSError), open(self._logs / f"{number}.log", "r+b") as log_file:
            log_file.seek(0, 2)
            text = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts)
            log_file.write(f"[bohb: {text}]\n".encode())

    def attend(self) -> None:
        """Call the callbacks; regularly read what other runners have stored, and take over trials of dead ones."""
        while self._finished:
            self._callbacks.call(self._optimizer, self._finished[0])
            del self._finished[0]
        self.ending = self._callbacks.stopped
        if time.monotonic() - self.looked > self._look_seconds:
            self.looked = time.monotonic()
            self._optimizer.session.take_over()

    def why_over(self) -> str | None:
        """Return why the study is over; None while another runner may still have something to do."""
        optimizer, limits = self._optimizer, self._limits
        seconds, clock = optimizer.session.seconds, optimizer.session.clock()
        soon = [s for s in delayed(optimizer.history, clock).values() if s < limits.seconds_left(seconds, clock)]
        waits = self.outages.paused or self.outages.held or self.in_doubt or optimizer.history.running or soon
        nothing_fits = limits.timed and not waits  # what could start was not started
        if optimizer.history.pending and not nothing_fits:
            return None
        stop = reason_to_stop(limits, optimizer.history, seconds, clock)
        if stop is not None:
            return stop
        if not optimizer.exhausted(limits):
            return f"{limits.deadline(seconds, clock)}: no further trial would end in time" if nothing_fits else None
        brackets = limits.max_brackets
        if brackets is not None and optimizer.history.schedule.n_counted >= brackets:
            return f"all {brackets} brackets are complete"
        return "every configuration of the space has been evaluated"

    def seconds_left(self) -> float:
        """Return the time until the deadline and its grace are over."""
        if not self._limits.timed:
            return math.inf
        session = self._optimizer.session
        return self._limits.seconds_left(session.seconds, session.clock()) + self._grace

    def deadline(self) -> str:
        """Return which limit is reached."""
        session = self._optimizer.session
        reason = reason_to_stop(self._limits, self._optimizer.history, session.seconds, session.clock())
        return reason or "the deadline has passed"

    def show(self) -> None:
        """Show the progress."""
        if self._progress is not None:
            session = self._optimizer.session
            self._progress.update(self._optimizer.history, session.seconds, now=session.clock())
