"""The loop of one session: fill free slots, wait for results, report them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from bohb.core.limits import Limits, given_limits, reason_to_stop
from bohb.core.trial import Outcome, Trial
from bohb.errors import JournalUnavailable
from bohb.executors.base import Executor, Lost
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.leases import RENEWALS, runner_name
from bohb.running.callbacks import Callback, Callbacks
from bohb.running.checkpoints import Checkpoints, keep_checkpoint
from bohb.running.interrupts import interrupts
from bohb.running.outages import Ended, Outages
from bohb.running.patience import COMPLAIN_SECONDS, patiently
from bohb.running.progress import Progress
from bohb.running.study import Study
from bohb.units import counted, printable

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
    grace: float = 0.0,
    forget_failures: bool = False,
    callbacks: Iterable[Callback] = (),
    progress: Progress | None = None,
) -> Study:
    """Drive a study with an executor until a limit is reached, the study is done or Ctrl-C is pressed.

    The executor is shut down at the end; trials that were killed with it stay unfinished in the journal and are started
    again when the study is resumed.

    max_attempts: how often a trial is started before it counts as failed because its worker disappeared.
    lease_seconds: where several runners share the study, the time without a sign of life after which the others take
        over a runner's trials; a living runner renews its lease four times in that span.
    grace: seconds that running trials have after a deadline before they are stopped; math.inf lets them finish.
    forget_failures: whether failures of earlier sessions no longer count as evidence for the sampler.
    callbacks: functions that are called with a `RunningStudy` after each trial that this runner has finished.
    """
    called = Callbacks(callbacks)
    name = runner_name(optimizer.shared)
    with ExitStack() as stack:
        patiently(optimizer.shared, lambda: stack.enter_context(optimizer.lease(name, lease_seconds)))
        given = {
            **given_limits(limits),
            **({} if optimizer.max_brackets is None else {"max_brackets": optimizer.max_brackets}),
        }
        begin = partial(optimizer.begin_session, name, forget_failures, given, executor.slots)
        patiently(optimizer.shared, begin)
        return _Run(
            optimizer, executor, limits, checkpoints, max_attempts, lease_seconds, grace, called, progress
        ).run()


@dataclass(slots=True)
class _Run:
    """One session of a study; the arguments are those of `run`."""

    optimizer: BOHB
    executor: Executor
    limits: Limits
    checkpoints: Checkpoints | None
    max_attempts: int
    lease_seconds: float
    grace: float
    callbacks: Callbacks
    progress: Progress | None
    outages: Outages = field(init=False)
    looked: float = field(default_factory=time.monotonic)  # when this runner last looked for dead runners
    complaint: tuple[str, float] = ("", 0.0)  # why this runner last waited, and when it said so
    waiting: list[Trial] = field(default_factory=list)  # trials that are started but not yet submitted
    running: dict[tuple[int, int], Trial] = field(default_factory=dict)  # by number and attempt
    unsaved: list[Ended] = field(default_factory=list)  # results that are not stored yet
    finished: list[int] = field(default_factory=list)  # trials whose results are stored; callbacks are to be called
    in_doubt: bool = False  # whether the journal may have given this runner trials that it does not know of

    def __post_init__(self) -> None:
        self.outages = Outages(self.max_attempts)

    def run(self) -> Study:
        """Ask, wait and tell until the session ends."""
        kill = True
        try:
            with interrupts() as interrupted:
                stopped = self._loop(interrupted)
            if self.running or self.unsaved:  # the deadline has passed
                stopped += self._stop_running()
            kill = False
        except KeyboardInterrupt:
            self.executor.shutdown(kill=True)  # first, so that `wait` returns only trials that have ended
            self._collect(0)
            self._save_at_last()
            stopped = "interrupted twice; unfinished trials will run when the study is resumed"
        finally:
            self.executor.shutdown(kill)
        log.info("stopped: %s", stopped)
        study = Study(self.optimizer.history, stopped)
        if study.cause is not None and study.cause not in stopped:
            log.warning("no trial succeeded: %s", printable(study.cause))
        if self.progress is not None:
            self.progress.update(self.optimizer.history, self.optimizer.seconds, final=True)
        return study

    def _loop(self, interrupted: Callable[[], bool]) -> str:
        while True:
            ending = "interrupted" if interrupted() else self.callbacks.stopped
            if not ending and not self.unsaved and not self.outages.paused:
                self._look_after_others()
                self._submit()
                self._fill()
            if not self.running and not self.unsaved and (ending or not self.waiting or self.outages.paused):
                stopped = ending or self._why_over()
                if stopped is not None:
                    return stopped
                self._rest()
            if self.progress is not None:
                self.progress.update(self.optimizer.history, self.optimizer.seconds, now=self.optimizer.time)
            time_left = self._seconds_left() + self.grace
            if time_left <= 0 and (self.running or self.unsaved):
                return self._stop() or "the deadline has passed"
            if self.running:
                self._collect(min(_TICK, time_left))
            self._save()
            while self.finished:
                self.callbacks.call(self.optimizer, self.finished.pop(0))

    def _stop(self) -> str | None:
        return reason_to_stop(self.limits, self.optimizer.history, self.optimizer.seconds, self.optimizer.time)

    def _seconds_left(self) -> float:
        return self.limits.seconds_left(self.optimizer.seconds, self.optimizer.time)

    def _why_over(self) -> str | None:
        """Return why the study is over; None while another runner may still have something to do."""
        waits = self.outages.paused or self.outages.held or self.in_doubt or self.optimizer.history.running
        nothing_fits = self.limits.timed and not waits  # what could start was not started
        if self.optimizer.history.pending and not nothing_fits:
            return None
        if self._stop() is None and nothing_fits and not self.optimizer.done:
            deadline = self.limits.deadline(self.optimizer.seconds, self.optimizer.time)
            return f"{deadline}: no further trial would end in time"
        return self._stop() or (self._why_done() if self.optimizer.done else None)

    def _why_done(self) -> str:
        brackets = self.optimizer.max_brackets
        if brackets is not None and self.optimizer.history.schedule.n_counted >= brackets:
            return f"all {brackets} brackets are complete"
        return "every configuration of the space has been evaluated"

    def _fill(self) -> None:
        """Start a trial in every free slot."""
        free = self.executor.slots - len(self.running) - len(self.waiting)
        if free <= 0:
            return
        try:
            if self.in_doubt:
                self._adopt()
            self.waiting += self.optimizer.ask_many(free, self.limits)
        except JournalUnavailable as error:
            self.in_doubt = True
            self._pause(error)
            return
        self._submit()

    def _adopt(self) -> None:
        """Start trials that the journal assigned to this runner although its answer was lost."""
        self.optimizer.catch_up()
        idle = [*self.waiting, *(trial for trial, _ in self.outages.held)]
        known = {*self.running, *((trial.number, trial.attempt) for trial in idle)}
        self.waiting += [trial for trial in self.optimizer.ours if (trial.number, trial.attempt) not in known]
        self.in_doubt = False

    def _look_after_others(self) -> None:
        """Regularly read what other runners have stored, and take over trials of dead ones."""
        if self.optimizer.shared and time.monotonic() - self.looked > self.lease_seconds / RENEWALS:
            self.looked = time.monotonic()
            try:
                self.optimizer.take_over()
            except JournalUnavailable as error:
                self._pause(error)

    def _rest(self) -> None:
        """Wait while nothing runs; if nothing else can show whether the held trials are to blame, judge them now."""
        self.outages.check()
        if self.outages.held and not self.outages.paused and not self.in_doubt:
            self.unsaved += self.outages.judge_held()
        else:
            self._idle()

    def _idle(self) -> None:
        """Wait while nothing can start: other runners are at work, or the engine has no worker."""
        time.sleep(_TICK / 4)
        if self.optimizer.shared:
            try:
                self.optimizer.catch_up()
            except JournalUnavailable as error:
                self._pause(error)

    def _submit(self) -> None:
        """Submit trials to the executor; they wait while the disk cannot hold their checkpoints."""
        while self.waiting:
            trial = self.waiting[0]
            try:
                prepared = trial if self.checkpoints is None else self.checkpoints.prepare(trial)
            except OSError as error:
                self._pause(f"the checkpoint directory of trial {trial.number} cannot be made ({error})")
                return
            self.waiting.pop(0)
            self.running[trial.number, trial.attempt] = trial
            self.executor.submit(prepared)

    def _collect(self, seconds: float) -> None:
        """Wait for trials to end, and note what is to be stored about them."""
        for done in self.executor.wait(seconds):
            self.running.pop((done.trial.number, done.trial.attempt), None)
            match done.result:
                case Outcome() as outcome:
                    self.unsaved += self.outages.ended(done.trial, outcome)
                case Lost() as loss:
                    losses = self.optimizer.history.losses.get(done.trial.number, 0)
                    self.unsaved += self.outages.lost(done.trial, loss, losses, self.executor.slots)

    def _save(self) -> None:
        """Store all results at once; while the journal is unavailable, keep them and start nothing new."""
        if not self.unsaved:
            return
        try:
            self.optimizer.catch_up()
            rungs = self._rungs()
            self._keep_checkpoints()
            self.optimizer.tell_many([(e.trial, e.outcome) for e in self.unsaved if e.outcome is not None])
            for ended in self.unsaved:
                if ended.outcome is None:
                    self.optimizer.lose(ended.trial, ended.reason, ended.counts)
        except JournalUnavailable as error:
            self._pause(error)
            return
        changed = self._rungs() != rungs
        settled, self.unsaved = self.unsaved, []
        self._settle(settled)
        if self.checkpoints is not None and changed:
            self.checkpoints.sweep(self.optimizer.history)

    def _stop_running(self) -> str:
        """Stop the running trials at the deadline; they run again when the study is resumed. Return what was done."""
        self.executor.shutdown(kill=True)
        self._collect(0)  # those that had ended
        for trial in [*self.running.values(), *self.waiting]:
            self.unsaved.append(Ended(trial, None, "stopped at the deadline", counts=False))
        n = len(self.running)
        self.running, self.waiting = {}, []
        self._save_at_last()
        return f"; {counted(n, 'running trial')} stopped, to run again when the study is resumed" if n else ""

    def _save_at_last(self) -> None:
        """Store the results of a session that was interrupted; they are not waited for if that is impossible now."""
        try:
            self.optimizer.reload()  # the interruption may have come between a decision and its being stored
            self._save()
        except JournalUnavailable as error:
            log.error("%s", error)
        if self.unsaved:
            log.error("%d results could not be stored; their trials will run again", len(self.unsaved))

    def _rungs(self) -> list[int]:
        """Return the current rungs of the brackets with unsaved results."""
        return [self.optimizer.history.brackets[ended.trial.bracket].rung for ended in self.unsaved]

    def _is_late(self, trial: Trial) -> bool:
        return (trial.number, trial.attempt) in self.optimizer.history.given_up

    def _keep_checkpoints(self) -> None:
        """Keep the checkpoints of successful trials."""
        for index, (trial, outcome, *_) in enumerate(self.unsaved):
            if self.checkpoints is None or outcome is None or self._is_late(trial):
                continue
            kept = keep_checkpoint(self.checkpoints, trial, outcome)
            if kept is not outcome:
                self.unsaved[index] = Ended(trial, kept)

    def _settle(self, settled: Sequence[Ended]) -> None:
        """Clean up checkpoints after these results are stored, and note which trials have finished."""
        for ended in settled:
            ok = ended.outcome is not None and ended.outcome.ok
            if ended.outcome is not None and not self._is_late(ended.trial):
                self.finished.append(ended.trial.number)
            if ended.outcome is not None and not ok:
                log.info("trial %d failed: %s", ended.trial.number, ended.outcome.error)
            if self.checkpoints is not None and ended.outcome is not None and not self._is_late(ended.trial):
                (self.checkpoints.settle if ok else self.checkpoints.discard)(ended.trial)

    def _pause(self, trouble: object) -> None:
        now = time.monotonic()
        text, said = self.complaint
        if str(trouble) != text or now - said > COMPLAIN_SECONDS:
            self.complaint = str(trouble), now
            log.error("%s; no trial is started until this is resolved", trouble)
        self.looked = now  # after an outage other runners need a moment to renew their leases
        time.sleep(_TICK)
