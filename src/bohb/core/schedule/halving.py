"""The state of one bracket (Algorithm 3): what it can start next, given what has finished."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bohb.core.schedule.brackets import Bracket, Rung


@dataclass(frozen=True, slots=True)
class Sample:
    """Evaluate a new configuration on this rung."""

    rung: int


@dataclass(frozen=True, slots=True)
class Promote:
    """Evaluate the configuration of a finished trial on the next rung."""

    rung: int
    number: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can start until a running trial has finished."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing will start again."""


Action = Sample | Promote | Wait | Done
Loss = tuple[float, int]  # a loss, +inf if the trial failed, and the trial's number
Choose = Callable[[list[Loss], int], list[int]]  # (the losses of a rung, k) -> the numbers that go on


class Halving:
    """The state of one bracket, computed from the starts and ends of its trials.

    bracket: its rungs.
    refill: whether a new configuration takes the place of a failed one in the next rung, as in HpBandSter.
    choose: selects the trials to promote from a complete rung; by default the best.
    first: the trials whose configurations begin it; by default it begins with new ones.

    survivors: the numbers that went on, by rung.
    """

    def __init__(
        self, bracket: Bracket, refill: bool = False, choose: Choose | None = None, first: Sequence[int] = ()
    ) -> None:
        self.bracket = bracket
        self.rung = 0
        self.survivors: list[list[int]] = []
        self._refill = refill
        self.choose = choose or top_k
        self._queue: list[int | None] = [*first] if first else [None] * bracket.rungs[0].size  # None: a new one
        self._running: set[int] = set()
        self._losses: list[Loss] = []  # of the current rung

    @property
    def budget(self) -> float:
        """The budget of the current rung."""
        return self.bracket.rungs[min(self.rung, len(self.bracket.rungs) - 1)].budget

    @property
    def previous_budget(self) -> float | None:
        """The budget of the rung before the current one; None on the first rung."""
        return self.bracket.rungs[self.rung - 1].budget if self.rung else None

    @property
    def done(self) -> bool:
        """Whether nothing will start again."""
        return self.rung == len(self.bracket.rungs)

    @property
    def finished(self) -> int:
        """How many trials of the current rung have ended."""
        return len(self._losses)

    @property
    def started(self) -> int:
        """How many trials of the current rung have started."""
        return len(self._losses) + len(self._running)

    @property
    def ready(self) -> bool:
        """Whether there is something to start."""
        return bool(self._queue)

    @property
    def empty(self) -> bool:
        """Whether nothing was ever started here."""
        return self.done and not self._losses

    def next_action(self) -> Action:
        """Return what to start next; nothing is promoted before its rung is complete."""
        if self.done:
            return Done()
        if not self._queue:
            return Wait()
        number = self._queue[0]
        return Sample(self.rung) if number is None else Promote(self.rung, number)

    def start(self, number: int) -> None:
        """Record that trial `number` takes the next action."""
        del self._queue[0]
        self._running.add(number)

    def finish(self, number: int, loss: float) -> None:
        """Record the loss of trial `number`; +inf if it failed."""
        self._running.remove(number)
        self._losses.append((loss, number))
        if not self._queue and not self._running:
            self._advance()

    def cut(self) -> None:
        """Continue with the configurations that this rung has; there are no new ones."""
        self._queue = [number for number in self._queue if number is not None]
        if not self._queue and not self._running:
            self._advance()

    def shorten(self, rungs: tuple[Rung, ...]) -> None:
        """Replace the current rung and those after it; what no longer has a place in the current rung is not started.

        rungs: the first has the budget of the current one.
        """
        self.bracket = Bracket(self.bracket.rungs[: self.rung] + rungs)
        places = max(0, rungs[0].size - len(self._running) - len(self._losses))
        self._queue = self._queue[:places]
        if not self._queue and not self._running:
            self._advance()

    def alive(self) -> set[int]:
        """Return the trials whose configuration is running, waiting for its rung or may be promoted."""
        waiting = {number for number in self._queue if number is not None}
        judged = set() if self.done else {number for _, number in self._losses}
        return self._running | waiting | judged

    def snapshot(self) -> Halving:
        """Return a copy that later starts and ends do not change."""
        still = copy.copy(self)
        still.survivors, still._queue = self.survivors.copy(), self._queue.copy()
        still._running, still._losses = self._running.copy(), self._losses.copy()
        return still

    def _advance(self) -> None:
        """Queue the best of a complete rung for the next one (Alg. 3, lines 4 and 5)."""
        self.rung += 1
        self._running = set()  # a set that was large keeps its table
        if self.done:
            return
        size = self.bracket.rungs[self.rung].size
        chosen = self.choose(self._losses, size)
        self.survivors.append(chosen)
        self._queue.extend(chosen)
        if self._refill:
            self._queue.extend([None] * (size - len(self._queue)))
        if self._queue:
            self._losses = []
        else:  # every configuration failed
            self.rung = len(self.bracket.rungs)


def top_k(losses: list[Loss], k: int) -> list[int]:
    """Return the numbers of the k lowest losses, best first (Alg. 3, line 4), without failed trials."""
    return [number for loss, number in sorted(losses)[:k] if math.isfinite(loss)]
