"""Schedule: the brackets of a study, and what each of them can start."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from bohb.core.events import BracketPlanned
from bohb.core.schedule.brackets import (
    PUBLISHED_EVERY,
    Bracket,
    Rung,
    check_budgets,
    hyperband,
    is_published,
    published_before,
)
from bohb.core.schedule.halving import Choose, Halving, Loss, top_k
from bohb.core.schedule.promotion import one_at_random
from bohb.core.settings import TPE, Settings
from bohb.errors import JournalError


class Order(Protocol):
    """Compares finished trials, given their numbers."""

    def best_first(self, numbers: Iterable[int]) -> list[int]:
        """Return the trials of one rung from best to worst, without failed ones."""
        ...


GIVEN = "given"  # in the reason of a planned bracket: it consists of a configuration that the user wants there

PROMOTES = "promotes"  # in the reason of a planned bracket: the trials whose configurations begin it

SKIPS = "skips"  # in the reason of a planned bracket of an informed study: whether it leaves out the lower rungs

REPEATS = "repeats"  # the same: it repeats one of Hyperband's brackets, of which none has finished yet


class Schedule:
    """The state of all brackets, computed from the starts and ends of their trials.

    brackets: every bracket opened so far; `open` has the indices of the unfinished ones, `ready` of those that have a
        trial to start.
    planned: the brackets that the study chose instead of Hyperband's, by index, opened or not.
    at_random: the trials that an adaptive study promoted at random.
    round: one round of Hyperband with the current budgets.
    adaptive: whether the study chooses the rungs of some brackets by how well budgets agree.
    informed: whether brackets may leave out lower rungs of which the Gaussian process expects nothing, and wait for the
        results of the brackets before them.

    order: how trials compare where one loss does not decide; None compares losses.
    """

    def __init__(
        self, settings: Settings, eta: float, seed: int, budgets: tuple[float, ...], order: Order | None = None
    ) -> None:
        self._settings, self._eta, self._seed, self._order = settings, eta, seed, order
        self.adaptive = settings.schedule == "adaptive"
        modelled = settings.model == "gp" and settings.sampler == TPE and order is None
        self.informed = settings.schedule == "informed" and modelled and settings.random_fraction < 1
        self.brackets: list[Halving] = []
        self.open: dict[int, None] = {}  # a set in the order of insertion
        self.ready: dict[int, None] = {}
        self.planned: dict[int, BracketPlanned] = {}
        self.at_random: set[int] = set()
        self.use_budgets(budgets, 0)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The current budgets, ascending."""
        return tuple(rung.budget for rung in self.round[0].rungs)

    def use_budgets(self, budgets: tuple[float, ...], first_bracket: int) -> None:
        """Use these budgets for brackets from `first_bracket` on."""
        check_budgets(budgets)
        self.round = hyperband(budgets, self._eta, self._settings.bracket_sizes)
        self._first_of_round = first_bracket

    def add_planned(self, event: BracketPlanned) -> None:
        """Use the chosen rungs for the next bracket."""
        if event.index != len(self.brackets) or event.index in self.planned:
            raise JournalError(f"bracket {event.index} is planned, but the next one is {len(self.brackets)}")
        check_budgets(budget for budget, _ in event.rungs)
        self.planned[event.index] = event

    def is_given(self, index: int) -> bool:
        """Whether bracket `index` consists of a configuration that the user wants on its budget."""
        return index in self.planned and GIVEN in self.planned[index].reason

    def promotes(self, index: int) -> list[int]:
        """Return the trials whose configurations begin bracket `index`; none if it begins with new ones."""
        return list(self.planned[index].reason.get(PROMOTES, ())) if index in self.planned else []

    def skips(self, index: int) -> bool:
        """Whether bracket `index` of an informed study leaves out the lower rungs."""
        return index in self.planned and bool(self.planned[index].reason.get(SKIPS))

    def draws_at_random(self, index: int) -> bool:
        """Whether the share ρ of the new configurations of bracket `index` is drawn at random.

        On the largest budget alone a random configuration costs too much. So none is drawn in a bracket that leaves out
        the lower rungs, and in an informed study with one budget, which has no lower rungs, only in every third.
        """
        if self.informed and len(self.round) == 1:
            return is_published(index)
        return not self.skips(index)

    @property
    def n_counted(self) -> int:
        """The number of brackets without those that the user's configurations have for themselves."""
        return len(self.brackets) - sum(self.is_given(index) for index in self.planned if index < len(self.brackets))

    def is_to_be_planned(self, index: int) -> bool:
        """Whether the rungs of bracket `index` still have to be chosen."""
        if index in self.planned:
            return False
        if self.adaptive:
            return not is_published(index)
        return self.informed and (self.may_skip(index) or self.repeats(index))

    def may_skip(self, index: int) -> bool:
        """Whether bracket `index` of an informed study may leave out lower rungs.

        It may not while no more brackets have opened than a round has, nor if the last two left them out.
        """
        before = range(index - PUBLISHED_EVERY + 1, index)
        n_opened = index - self._first_of_round - self._n_planned(index, self._is_extra)
        return 1 < len(self.round) < n_opened and not all(map(self.skips, before))

    def repeats(self, index: int) -> bool:
        """Whether the next bracket of an informed study has to repeat the last one in Hyperband's order.

        With several workers a bracket opens before earlier ones have finished. Hyperband's next one would start on a
        larger budget without having learnt from them. So the last one is repeated while none with the same rungs has
        finished.

        index: of the next bracket.
        """
        if not self.informed or len(self.round) == 1:
            return False
        for other in range(index - 1, self._first_of_round - 1, -1):
            if self._is_extra(other):
                continue
            if self.brackets[other].done or not self._is_repeated(other):
                return not self.brackets[other].done
        return False

    def last_in_order(self, index: int) -> Bracket:
        """Return the last bracket in Hyperband's order before bracket `index`."""
        return self.round[(self._place(index) - 1) % len(self.round)]

    def _place(self, index: int) -> int:
        """Return the place of bracket `index` in Hyperband's order; brackets that depart from it do not count."""
        departing = self._n_planned(index, self._is_extra) + self._n_planned(index, self._is_repeated)
        return index - self._first_of_round - departing

    def _n_planned(self, index: int, is_wanted: Callable[[int], bool]) -> int:
        """Return how many planned brackets of a kind are before `index`, since the budgets changed."""
        return sum(self._first_of_round <= other < index and is_wanted(other) for other in self.planned)

    def _is_extra(self, index: int) -> bool:
        """Whether a planned bracket is additional to Hyperband's round."""
        return index in self.planned and self.planned[index].reason.get(SKIPS) is not False

    def _is_repeated(self, index: int) -> bool:
        """Whether a planned bracket repeats one of Hyperband's."""
        return index in self.planned and REPEATS in self.planned[index].reason

    def plan(self, index: int) -> Bracket:
        """Return the rungs of bracket `index`."""
        chosen = self.planned.get(index)
        if chosen is not None:
            return Bracket(tuple(Rung(budget, size) for budget, size in chosen.rungs))
        place = self._place(index)
        if self.adaptive:
            place = published_before(index) - published_before(self._first_of_round)
        return self.round[place % len(self.round)]

    def start(self, index: int, number: int) -> None:
        """Start trial `number` in bracket `index`."""
        self._opened(index).start(number)
        self._refresh(index)

    def finish(self, index: int, number: int, loss: float) -> None:
        """Record the loss of trial `number`; +inf if it failed."""
        self.brackets[index].finish(number, loss)
        self._refresh(index)

    def cut(self, index: int) -> None:
        """Continue a bracket with the configurations that it has."""
        self._opened(index).cut()
        self._refresh(index)

    def shorten(self, index: int, rungs: tuple[tuple[float, int], ...]) -> None:
        """Replace the current rung of an open bracket and those after it."""
        if index not in self.open or not rungs or rungs[0][0] != self.brackets[index].budget:
            raise JournalError(f"bracket {index} is shortened, but it is not open on the first budget of {rungs!r:.80}")
        check_budgets(budget for budget, _ in rungs)
        self.brackets[index].shorten(tuple(Rung(budget, size) for budget, size in rungs))
        self._refresh(index)

    def alive(self) -> set[int]:
        """Return the trials whose configuration is running, waiting for its rung or may be promoted."""
        return {number for index in self.open for number in self.brackets[index].alive()}

    def snapshot(self) -> Schedule:
        """Return a copy that later events do not change."""
        still = copy.copy(self)
        still.open, still.ready, still.planned = self.open.copy(), self.ready.copy(), self.planned.copy()
        still.at_random = self.at_random.copy()
        still.brackets = [bracket if bracket.done else bracket.snapshot() for bracket in self.brackets]
        return still

    def simulated(self) -> Schedule:
        """Return a copy to simulate with: Hyperband's brackets follow, and the lowest losses go on."""
        ahead = self.snapshot()
        ahead.adaptive, ahead.informed, ahead._order = False, False, None
        for index in ahead.open:
            ahead.brackets[index].choose = None
        return ahead

    def _opened(self, index: int) -> Halving:
        """Return bracket `index`, which is opened if it is the next one."""
        if index == len(self.brackets):
            choose: Choose | None = partial(self._choose, index) if self.adaptive or self._order else None
            self.brackets.append(Halving(self.plan(index), self._settings.refill, choose, self.promotes(index)))
            self.open[index] = None
        return self.brackets[index]

    def _choose(self, index: int, rung: int, losses: list[Loss], k: int) -> list[int]:
        """Choose who goes on in an adaptive study, or by several losses and constraints."""
        ordered = top_k(losses, len(losses)) if self._order is None else self._order.best_first(n for _, n in losses)
        if not self.adaptive:
            return ordered[:k]
        from bohb.core.streams import random_promotion  # imports numpy, which other studies do not need here

        chosen, lucky = one_at_random(ordered, k, partial(random_promotion, self._seed, index, rung))
        if lucky is not None:
            self.at_random.add(lucky)
        return chosen

    def _refresh(self, index: int) -> None:
        """Update `open` and `ready`."""
        bracket = self.brackets[index]
        if bracket.ready:
            self.ready[index] = None
        else:
            self.ready.pop(index, None)
            if bracket.done:
                self.open.pop(index, None)
