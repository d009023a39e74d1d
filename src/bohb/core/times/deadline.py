"""Finish before a deadline: start what is likely to end in time, and choose brackets that reach the largest budget.

Everything here depends on the clock, which a replay does not have. What it decides is therefore stored: a bracket that
was chosen to fit as `BracketPlanned`, an open one that was made smaller as `BracketShortened`, both with the seconds
that were left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bohb.core.events import BracketPlanned, BracketShortened
from bohb.core.history import History
from bohb.core.samplers.proposal import significant
from bohb.core.schedule.brackets import Bracket, Rung, halving
from bohb.core.schedule.halving import Halving
from bohb.core.times.durations import DurationModel

LIKELY = 0.6  # the chance of ending in time from which a trial is started
ENOUGH_TRIALS = 6  # finished ones, before which no bracket is changed
_SIZES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.33)  # of a new bracket; a smaller one starts on a larger budget instead
_SHARES = tuple(i / 10 for i in range(10, -1, -1))  # of the sizes of open brackets; 0 starts nothing new on this rung


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time until a deadline, and what is known about durations.

    seconds: until the deadline; negative once it has passed.
    workers: number of trials that run at once.
    durations: None while no trial has finished.
    remaining: expected seconds until the running trials end, by number.
    alone: whether this runner is the only one, so that it may change brackets.
    """

    seconds: float
    workers: int
    durations: DurationModel | None = None
    remaining: Mapping[int, float] = field(default_factory=dict)
    alone: bool = True

    def fits(self, budget: float, previous: float | None = None, config_id: int | None = None) -> bool:
        """Whether a trial is likely to end in time that brings a configuration from a budget to another.

        config_id: None for a new configuration.
        """
        if self.seconds <= 0 or self.durations is None:
            return self.seconds > 0
        return self.durations.expected(budget, previous, config_id).chance(self.seconds) >= LIKELY

    def knows_enough(self, history: History) -> bool:
        """Whether durations are known well enough to change brackets: also how they grow with the budget."""
        if not self.alone or self.durations is None or self.durations.n < ENOUGH_TRIALS:
            return False
        return len(self.durations.levels) >= min(2, len(history.budgets))


@dataclass(frozen=True, slots=True)
class InTime:
    """Which open brackets will end in time.

    kept: their indices; their runs come first. The others fill idle workers, and continue when the study is resumed.
    events: how they have to change now.
    tight: whether some of them will have to change, now or later.
    """

    kept: frozenset[int] = frozenset()
    events: tuple[BracketShortened, ...] = ()
    tight: bool = False


def in_time(history: History, left: TimeLeft) -> InTime:
    """Return the open brackets that end in time: all, all made smaller, or only those nearest to the largest budget."""

    def distance(index: int) -> tuple[float, int]:  # in budget, and the number of trials that go there
        bracket = history.brackets[index]
        rungs = bracket.bracket.rungs
        return rungs[-1].budget - rungs[bracket.rung].budget, rungs[bracket.rung].size

    nearest_first = sorted(history.schedule.open, key=distance)
    if not left.knows_enough(history):
        return InTime(frozenset(nearest_first))
    with_margin = [(n, share, 1.0) for n in range(len(nearest_first), 0, -1) for share in _SHARES]
    for n, share, margin in (*with_margin, (1, 0.0, 0.0)):
        rungs = {index: _shortened(history.brackets[index], share) for index in nearest_first[:n]}
        if _ends_in_time(history, left, rungs, margin=margin):
            return InTime(frozenset(rungs), tuple(_events(history, left, rungs)), tight=share < 1)
    return InTime()


def fitting_bracket(history: History, left: TimeLeft, kept: Iterable[int], bracket: Bracket) -> Bracket:
    """Return the bracket to open next: if `bracket` ends too late, a smaller one or one that starts on a larger budget.

    If there is no time for a bracket that reaches the largest budget, `bracket` is opened and left to the next session,
    or, if not even its first trial ends in time, the one that starts on the smallest budget.
    """
    if not left.knows_enough(history):
        return bracket
    open_ = {index: _shortened(history.brackets[index], 1.0) for index in kept if index in history.schedule.open}
    smaller = _smaller(history, bracket)
    unfinished = bracket if left.fits(bracket.rungs[0].budget) else history.schedule.round[0]
    return next((chosen for chosen in smaller if _ends_in_time(history, left, open_, chosen.rungs)), unfinished)


def chosen_in_time(
    history: History, index: int, usual: BracketPlanned | None, left: TimeLeft, kept: Iterable[int]
) -> BracketPlanned | None:
    """Return the choice of bracket `index`: the usual one if it ends in time, or another.

    usual: what the rule of the study has chosen; None for Hyperband's bracket.
    """
    bracket = history.schedule.plan(index) if usual is None else Bracket.of(usual.rungs)
    fitting = fitting_bracket(history, left, kept, bracket)
    if fitting == bracket:
        return usual
    return BracketPlanned(index, fitting.pairs, "deadline", seconds_left=significant(left.seconds))


def _shortened(bracket: Halving, share: float) -> tuple[Rung, ...]:
    """Return the current rung of a bracket and those after it, with a share of their sizes; what has started stays."""
    now, *later = bracket.bracket.rungs[bracket.rung :]
    first = Rung(now.budget, max(1, bracket.started, math.ceil(share * now.size)))
    return first, *(Rung(rung.budget, max(1, math.floor(share * rung.size))) for rung in later)


def _events(history: History, left: TimeLeft, rungs: Mapping[int, tuple[Rung, ...]]) -> Iterator[BracketShortened]:
    """Yield the events that end the current rungs of open brackets that may start nothing more on them.

    A rung that may still grow is left alone: later, more is known about durations. The rungs after it follow in
    proportion, and are looked at again when the bracket gets there.
    """
    number = len(history.shortened)
    for index, wanted in rungs.items():
        bracket = history.brackets[index]
        now, *later = bracket.bracket.rungs[bracket.rung :]
        if max(1, bracket.started) < wanted[0].size or wanted[0].size == now.size:
            continue
        sizes = [(now.budget, wanted[0].size)]
        sizes += [(rung.budget, max(1, rung.size * wanted[0].size // now.size)) for rung in later]
        yield BracketShortened(number, index, tuple(sizes), significant(left.seconds))
        number += 1


def _smaller(history: History, bracket: Bracket) -> Iterator[Bracket]:
    """Yield a bracket, then smaller ones, then those that start on larger budgets."""
    eta, rungs = history.study.eta, bracket.rungs
    for start, rung in enumerate(rungs):
        budgets = [r.budget for r in rungs[start:]]
        sizes = [math.ceil(share * rung.size) for share in _SIZES]
        if start == len(rungs) - 1:
            sizes += range(sizes[-1] - 1, 0, -1)
        for size in dict.fromkeys(sizes):
            yield bracket if (start, size) == (0, rung.size) else halving(size, budgets, eta)


def _ends_in_time(
    history: History,
    left: TimeLeft,
    open_: Mapping[int, tuple[Rung, ...]],
    new: tuple[Rung, ...] = (),
    margin: float = 1.0,
) -> bool:
    """Whether open brackets with these rungs, and a new one, end before the deadline while nothing else is started.

    Let the chain be the longest sequence of trials that wait for each other. Then w workers need at least work/w and
    at least the chain, and at most work/w + (1 − 1/w)·chain (Graham, 1966); the middle of both is assumed.

    margin: how much of the upper half of the interval of the last trial is kept free.
    """
    loads = [_load(left, rungs, history.brackets[index]) for index, rungs in open_.items()]
    loads += [_load(left, new)] if new else []
    chain = max((seconds for _, seconds, _ in loads), default=0.0)
    for number, seconds in left.remaining.items():
        after = open_.get(history.trials[number].bracket, ())[1:]
        chain = max(chain, seconds + (_load(left, after, previous=history.trials[number].budget)[1] if after else 0.0))
    work = sum(left.remaining.values()) + sum(seconds for seconds, _, _ in loads)
    free = margin * max((seconds for _, _, seconds in loads), default=0.0)
    share = work / left.workers
    least, most = max(share, chain), share + (1 - 1 / left.workers) * chain
    return (least + most) / 2 + free <= left.seconds


def _load(
    left: TimeLeft, rungs: tuple[Rung, ...], bracket: Halving | None = None, previous: float | None = None
) -> tuple[float, float, float]:
    """Return the seconds of all trials of these rungs, of one on each, and by how much the last may take longer.

    bracket: the open bracket that the rungs belong to; its trials that have started do not count.
    previous: the budget that the configurations have reached.
    """
    assert left.durations is not None
    work = chain = extra = 0.0
    started = 0
    if bracket is not None:
        started, previous = bracket.started, bracket.previous_budget
    for rung in rungs:
        duration, size = left.durations.expected(rung.budget, previous), max(0, rung.size - started)
        work += size * duration.mean
        chain += duration.mean if size else 0.0
        extra = duration.high - duration.median
        previous, started = rung.budget, 0
    return work, chain, extra
