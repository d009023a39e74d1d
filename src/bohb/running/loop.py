"""The loop of everything that runs: start trials in all free slots, wait for some to end, store how they ended.

`Outages` tells trials that kill their workers from those that are victims.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from bohb.core.trial import Lost, Outcome, Status, Trial
from bohb.errors import FilesUnavailable, JournalUnavailable, WorkersUnavailable
from bohb.executors.base import Executor
from bohb.optimizer.ledger import Ledger
from bohb.units import counted, duration

T = TypeVar("T")
Ended = tuple[Trial, Outcome | Lost]
"""A trial that has ended; one that was lost will be started again."""

log = logging.getLogger("bohb")
TICK = 1.0  # seconds between two looks at the limits and at Ctrl-C while all slots are busy
FIRST_PAUSE = 0.5  # seconds; each further pause is twice as long, up to LONGEST_PAUSE
LONGEST_PAUSE = 60.0
GIVE_UP_SECONDS = 3600.0  # of nothing but lost trials, after which a session ends with an error
KILLED_PAUSES = 6  # after which a session ends with an error in which every trial was killed while it ran
_MEMORY = (
    "the objective probably needs more memory than there is: use fewer workers, or set trial_memory, so that only "
    "trials fail which exceed it"
)
COMPLAIN_SECONDS = 60.0  # after which the same trouble is reported again
_SERVER_SECONDS = 1.0  # between two attempts to reach a server


class Loop(ABC):
    """Evaluates trials until nothing is left to do. Subclasses say which trials, and store how they ended.

    While the journal is unavailable, results are kept and nothing new is started.

    ledger: where the results go.
    max_attempts: how often a trial may lose its worker before it fails.
    waiting: trials that were started but not yet submitted.
    running: submitted trials, by number and attempt.
    unsaved: how trials ended, as long as that is not stored.
    in_doubt: whether the journal may have started trials for this runner that it does not know of.
    ending: why no further trial should start; empty while nothing asks for the end.
    """

    def __init__(self, ledger: Ledger, executor: Executor, max_attempts: int) -> None:
        self.ledger = ledger
        self.executor = executor
        self.outages = Outages(max_attempts)
        self.waiting: list[Trial] = []
        self.running: dict[tuple[int, int], Trial] = {}
        self.unsaved: list[Ended] = []
        self.in_doubt = False
        self.ending = ""
        self.looked = time.monotonic()  # when other runners were last looked at
        self._complaint = ("", 0.0)  # why the loop last waited, and when it said so

    @abstractmethod
    def ask(self, n: int) -> Sequence[Trial]:
        """Return up to n trials that start now. Raises JournalUnavailable."""

    @abstractmethod
    def prepare(self, trial: Trial) -> Trial:
        """Return the trial with its directory. Raises OSError while the disk cannot hold it."""

    @abstractmethod
    def losses(self, number: int) -> int:
        """Return how many losses of a trial count."""

    @abstractmethod
    def save(self, ended: list[Ended]) -> None:
        """Store how trials ended; entries may be replaced, so that they are right if this is called again.

        Raises JournalUnavailable.
        """

    @abstractmethod
    def why_over(self) -> str | None:
        """Return why there is nothing left to do, now that nothing runs; None if there may be later."""

    def attend(self) -> None:  # noqa: B027 - there may be nothing else to do
        """Do what else there is to do between storing results and starting trials."""

    def show(self) -> None:  # noqa: B027 - nobody may watch
        """Show the progress."""

    def seconds_left(self) -> float:
        """Return the time until running trials have to be stopped."""
        return math.inf

    def deadline(self) -> str:
        """Return the deadline that has passed."""
        return "the deadline has passed"

    def known(self) -> set[tuple[int, int]]:
        """Return number and attempt of all trials that this loop has started and that have not ended."""
        idle = [*self.waiting, *(trial for trial, _ in self.outages.held)]
        return {*self.running, *((trial.number, trial.attempt) for trial in idle)}

    def work(self) -> str:
        """Evaluate until nothing is left, a limit is reached or Ctrl-C is pressed; return why it ended."""
        kill = True
        try:
            with interrupts() as interrupted:
                over = self._work(interrupted)
            if self.running or self.unsaved:  # the deadline has passed
                over += self._stop_running()
            kill = False
        except KeyboardInterrupt:
            self.executor.shutdown(kill=True)  # first, so that `wait` returns only trials that have ended
            self._collect(0)
            self._save_at_last()
            over = "interrupted twice; unfinished trials will run when the study is resumed"
        finally:
            self.executor.shutdown(kill)
        return over

    def _work(self, interrupted: Callable[[], bool]) -> str:
        while True:
            self.show()
            left = self.seconds_left()
            if left <= 0 and (self.running or self.unsaved):
                return self.deadline()
            if self.running:
                self._collect(min(TICK, left))
            try:
                self._save()
                self.attend()
                ending = "interrupted" if interrupted() else self.ending
                if not ending and not self.outages.paused:
                    self._submit()
                    self._fill()
                over = self._over(ending)
            except JournalUnavailable as error:
                self._pause(error)
            else:
                if over is not None:
                    return over

    def _over(self, ending: str) -> str | None:
        """Return why this is the end; if it is not and nothing can start, wait a moment."""
        if self.running or not (ending or not self.waiting or self.outages.paused):
            return None
        over = ending or self.why_over()
        if over is None:
            self._rest()
        return over

    def _fill(self) -> None:
        """Start a trial in every free slot."""
        free = self.executor.slots - len(self.running) - len(self.waiting)
        if free > 0:
            self.waiting += self.ask(free)
            self._submit()

    def _submit(self) -> None:
        """Submit trials to the executor; they wait while the disk cannot hold their directories."""
        while self.waiting:
            trial = self.waiting[0]
            try:
                prepared = self.prepare(trial)
            except OSError as error:
                trouble = f"the checkpoint directory of trial {trial.number} cannot be made ({error})"
                if isinstance(error, NotADirectoryError):  # waiting would not help
                    raise FilesUnavailable(
                        f"{trouble}: a file has replaced a directory above it, as an objective may do; remove that "
                        "file, and the same call continues the study"
                    ) from error
                self._pause(trouble)
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
                    losses = self.losses(done.trial.number)
                    self.unsaved += self.outages.lost(done.trial, loss, losses, self.executor.slots)

    def _save(self) -> None:
        """Store all results at once."""
        if self.unsaved:
            self.save(self.unsaved)
            self.unsaved = []

    def _rest(self) -> None:
        """Wait while nothing runs; if nothing else can show whether the held trials are to blame, judge them now."""
        self.outages.check()
        if self.outages.held and not self.outages.paused and not self.in_doubt:
            self.unsaved += self.outages.judge_held()
        else:
            time.sleep(TICK / 4)
            self.ledger.catch_up()

    def _stop_running(self) -> str:
        """Stop the running trials at the deadline; they run again when the study is resumed. Return what was done."""
        self.executor.shutdown(kill=True)
        self._collect(0)  # those that had ended
        stopped = Lost("stopped at the deadline", charged=False)
        self.unsaved += [(trial, stopped) for trial in [*self.running.values(), *self.waiting]]
        n = len(self.running)
        self.running, self.waiting = {}, []
        self._save_at_last()
        return f"; {counted(n, 'running trial')} stopped, to run again when the study is resumed" if n else ""

    def _save_at_last(self) -> None:
        """Store the results of a session that was interrupted; they are not waited for if that is impossible now."""
        try:
            self.ledger.reload()  # the interruption may have come between a decision and its being stored
            self._save()
        except JournalUnavailable as error:
            log.error("%s", error)
        if self.unsaved:
            log.error("%d results could not be stored; their trials will run again", len(self.unsaved))

    def _pause(self, trouble: object) -> None:
        now = time.monotonic()
        text, said = self._complaint
        if str(trouble) != text or now - said > COMPLAIN_SECONDS:
            self._complaint = str(trouble), now
            log.error("%s; no trial is started until this is resolved", trouble)
        self.looked = now  # after an outage other runners need a moment to renew their leases
        time.sleep(TICK)


@dataclass(slots=True)
class Outages:
    """Judges lost trials by what happens to other trials.

    A trial that was lost max_attempts times is held back until another trial ends. That other trial shows that workers
    do work, so that the trial itself is to blame: it fails as `lost`, after another chance if it was lost together with
    others. If instead more different trials are lost in a row than can run at once, the infrastructure is to blame, and
    none of these losses counts.

    held: trials that were lost max_attempts times, with the last loss.
    """

    max_attempts: int
    held: list[tuple[Trial, Lost]] = field(default_factory=list)
    _lost: set[int] = field(default_factory=set)  # trials that were lost since a trial last ended
    _pardoned: set[int] = field(default_factory=set)  # trials that were given another chance
    _since: float = math.inf  # when the first of them was lost
    _until: float = -math.inf  # the end of the pause
    _pauses: int = 0
    _reason: str = ""
    _only_killed: bool = True  # whether every trial since one last ended began and was killed
    _any_ended: bool = False  # whether a trial of this session has ended

    def ended(self, trial: Trial, outcome: Outcome) -> list[Ended]:
        """Return what to store when a trial has ended by itself: its outcome, and failures of the held trials."""
        judged = self.judge_held()
        self._lost.clear()
        self._since, self._until, self._pauses = math.inf, -math.inf, 0
        self._only_killed = self._any_ended = True
        return [(trial, outcome), *judged]

    def judge_held(self) -> list[Ended]:
        """Return the failures of the held trials; one that was lost together with others has another chance, once."""
        burst = len(self._lost) > 1
        judged: list[Ended] = []
        for trial, loss in self._released():
            if burst and trial.number not in self._pardoned:
                self._pardoned.add(trial.number)
                judged.append((trial, loss))
            else:
                error = f"lost its worker {self.max_attempts} times, at last: {loss.reason}"
                judged.append((trial, Outcome(Status.LOST, error=error)))
        return judged

    def lost(self, trial: Trial, loss: Lost, losses: int, slots: int) -> list[Ended]:
        """Return what to store when a trial was lost; nothing while it is held.

        losses: how many earlier losses of this trial count.
        slots: number of trials that may run at once.
        """
        if not loss.outage:
            log.info("trial %d will be started again: %s", trial.number, loss.reason)
            return [(trial, loss)]
        now = time.monotonic()
        self._lost.add(trial.number)
        self._since, self._reason = min(self._since, now), loss.reason
        self._only_killed = self._only_killed and loss.charged
        general = len(self._lost) > slots
        if (general or not loss.charged) and now >= self._until:
            self._pause(now)
        if not general and loss.charged and losses + 1 >= self.max_attempts:
            self.held.append((trial, loss))
            return []
        log.warning("trial %d will be started again: %s", trial.number, loss.reason)
        again = trial, Lost(loss.reason, loss.charged and not general)
        return [again, *(self._released() if general else ())]

    def _released(self) -> list[tuple[Trial, Lost]]:
        """Return the held trials, which may be started again without a charge, and hold none."""
        held, self.held = self.held, []
        return [(trial, Lost(loss.reason, charged=False)) for trial, loss in held]

    def _pause(self, now: float) -> None:
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._pauses)
        self._pauses += 1
        self._until = now + seconds
        if self._pauses > 1:  # a single pause is too short to be worth a message
            text = "trials lose their workers (%s)%s; no trial is started for %s"
            log.error(text, self._reason, self._hint, duration(seconds))

    @property
    def _hint(self) -> str:
        """What is to blame if all trials are killed, for messages."""
        n = counted(len(self._lost), "trial")
        return f". The last {n} were killed while they ran: {_MEMORY}" if self._only_killed else ""

    @property
    def paused(self) -> bool:
        """Whether no trial should be started now."""
        return time.monotonic() < self._until

    def check(self) -> None:
        """Raise WorkersUnavailable if trials have been lost for too long; call it while no trial runs."""
        waited = time.monotonic() - self._since
        if self._only_killed and not self._any_ended and self._pauses > KILLED_PAUSES:
            raise WorkersUnavailable(
                f"every trial of this session was killed while it ran, at last: {self._reason}; {_MEMORY}. No "
                "trial failed because of this, and the same call continues the study"
            )
        if waited > GIVE_UP_SECONDS:
            raise WorkersUnavailable(
                f"for {duration(waited)} every trial has lost its worker, at last: {self._reason}{self._hint}; "
                "no trial failed because of this: restore the workers, and the same call continues the study"
            )


def patiently(shared: bool, act: Callable[[], T]) -> T:
    """Call `act` while a runner starts, and retry while the server is unavailable; a running one waits by itself.

    shared: whether the journal is on a server; otherwise the error is raised at once.
    """
    complained = -math.inf
    while True:
        try:
            return act()
        except JournalUnavailable as error:
            if not shared:
                raise
            if time.monotonic() - complained > COMPLAIN_SECONDS:
                complained = time.monotonic()
                log.error("%s; the study starts when this is resolved", error)
            time.sleep(_SERVER_SECONDS)


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
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
