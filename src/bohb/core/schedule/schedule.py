"""Schedule: the brackets of a study and what each of them can start, and the configurations that the user wants."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bohb.core.events import BracketPlanned, ConfigGiven
from bohb.core.schedule.brackets import PUBLISHED_EVERY, Bracket, BracketRule, check_budgets, hyperband
from bohb.core.schedule.halving import Halving, Loss, top_k
from bohb.core.settings import Settings
from bohb.errors import JournalError

if TYPE_CHECKING:  # it imports numpy
    from bohb.core.order import Order


class Given:
    """The user's configurations that wait to be started, in the order in which they were given.

    anywhere: those that take the next place of any bracket.
    on_budget: those that name their budget; each has a bracket of its own.
    total: the number of configurations that were given, started ones included.
    """

    def __init__(self) -> None:
        self.anywhere: deque[dict[str, Any]] = deque()
        self.on_budget: deque[ConfigGiven] = deque()
        self.total = 0

    def __len__(self) -> int:
        return len(self.anywhere) + len(self.on_budget)

    def add(self, event: ConfigGiven) -> None:
        """Let a configuration wait."""
        self.total += 1
        if event.budget is None:
            self.anywhere.append(event.config)
        else:
            self.on_budget.append(event)

    def waiting(self, budget: float | None) -> list[dict[str, Any]]:
        """Return those that wait for a bracket of their own on this budget; None: for the next place of any bracket."""
        if budget is None:
            return list(self.anywhere)
        return [event.config for event in self.on_budget if event.budget == budget]

    def start(self, own_bracket: bool) -> None:
        """Remove the first one, which was started: in a bracket of its own, or in any other."""
        waiting: deque[Any] = self.on_budget if own_bracket else self.anywhere
        waiting.popleft()


class Schedule:
    """The state of all brackets, computed from the starts and ends of their trials.

    brackets: every bracket opened so far; `open` has the indices of the unfinished ones, `ready` of those that have a
        trial to start.
    planned: the brackets whose rungs were chosen by an event, by index, opened or not.
    forgotten: the complete brackets that consist of forgotten failures only; limits do not count them.
    budgets: the current budgets, ascending.
    round: one round of Hyperband with these budgets; its first bracket is number `first_of_round`.
    informed: whether brackets follow what the study's Gaussian process has learnt; several losses have no such rule.

    order: how trials compare where one loss does not decide; None compares losses.
    """

    def __init__(self, settings: Settings, eta: float, budgets: tuple[float, ...], order: Order | None = None) -> None:
        self._settings, self._eta, self._order = settings, eta, order
        informed = settings.schedule == "informed" and settings.explains == "process" and settings.random_fraction < 1
        self.informed = informed and order is None
        self.brackets: list[Halving] = []
        self.open: dict[int, None] = {}  # a set in the order of insertion
        self.ready: dict[int, None] = {}
        self.planned: dict[int, BracketPlanned] = {}
        self.forgotten: frozenset[int] = frozenset()
        self.use_budgets(budgets, 0)

    def use_budgets(self, budgets: tuple[float, ...], first_bracket: int) -> None:
        """Use these budgets for brackets from `first_bracket` on."""
        check_budgets(budgets)
        self.round = hyperband(budgets, self._eta, self._settings.bracket_sizes)
        self.budgets = tuple(rung.budget for rung in self.round[0].rungs)
        self.first_of_round = first_bracket

    def add_planned(self, event: BracketPlanned) -> None:
        """Use the chosen rungs for the next bracket."""
        if event.index != len(self.brackets) or event.index in self.planned:
            raise JournalError(f"bracket {event.index} is planned, but the next one is {len(self.brackets)}")
        check_budgets(budget for budget, _ in event.rungs)
        self.planned[event.index] = event

    def rule(self, index: int) -> BracketRule:
        """Return the rule by which bracket `index` has its rungs."""
        return self.planned[index].rule if index in self.planned else "hyperband"

    def promotes(self, index: int) -> tuple[int, ...]:
        """Return the trials whose configurations begin bracket `index`; none if it begins with new ones."""
        return self.planned[index].promotes if index in self.planned else ()

    @property
    def n_counted(self) -> int:
        """The number of brackets, without forgotten ones and those of configurations that were given with a budget."""
        given = {index for index, event in self.planned.items() if event.rule == "given" and index < len(self.brackets)}
        return len(self.brackets) - len(self.forgotten | given)

    def in_order(self, place: int) -> Bracket:
        """Return the bracket at this place of Hyperband's order, round after round."""
        return self.round[place % len(self.round)]

    def place(self, index: int) -> int:
        """Return the place of bracket `index` in Hyperband's order, in which brackets of other rules do not count."""
        return index - self.first_of_round - self.n_planned(index, lambda rule: rule != "hyperband")

    def n_planned(self, index: int, counts: Callable[[BracketRule], bool]) -> int:
        """Return how many brackets before `index`, since the budgets changed, were planned by a rule that counts."""
        return sum(self.first_of_round <= i < index and counts(event.rule) for i, event in self.planned.items())

    def plan(self, index: int) -> Bracket:
        """Return the rungs of bracket `index`."""
        if index in self.planned:
            return Bracket.of(self.planned[index].rungs)
        return self.in_order(self.place(index))

    def random_share(self, index: int) -> float:
        """Return the share of the new configurations of bracket `index` that is drawn at random: ρ.

        In an informed study it is 0 where a random configuration costs too much: on the largest budget alone. So none
        is drawn in a bracket that leaves out the lower rungs, and with one budget, where there are no lower rungs, only
        in every third bracket.
        """
        alone = index % PUBLISHED_EVERY != 0 if len(self.round) == 1 else self.rule(index) == "skip"
        return 0.0 if alone and self.informed else self._settings.random_fraction

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
        self.brackets[index].shorten(Bracket.of(rungs).rungs)
        self._refresh(index)

    def alive(self) -> set[int]:
        """Return the trials whose configuration is running, waiting for its rung or may be promoted."""
        return {number for index in self.open for number in self.brackets[index].alive()}

    def snapshot(self) -> Schedule:
        """Return a copy that later events do not change."""
        still = copy.copy(self)
        still.open, still.ready, still.planned = self.open.copy(), self.ready.copy(), self.planned.copy()
        still.brackets = [bracket if bracket.done else bracket.snapshot() for bracket in self.brackets]
        return still

    def simulated(self) -> Schedule:
        """Return a copy to simulate with: Hyperband's brackets follow, and the lowest losses go on."""
        ahead = self.snapshot()
        ahead._order = None
        for index in ahead.open:
            ahead.brackets[index].choose = top_k
        return ahead

    def _opened(self, index: int) -> Halving:
        """Return bracket `index`, which is opened if it is the next one."""
        if index == len(self.brackets):
            choose = self._best if self._order else None
            self.brackets.append(Halving(self.plan(index), self._settings.refill, choose, self.promotes(index)))
            self.open[index] = None
        return self.brackets[index]

    def _best(self, losses: list[Loss], k: int) -> list[int]:
        """Choose who goes on by several losses and constraints."""
        assert self._order is not None
        return self._order.best_first(number for _, number in losses)[:k]

    def _refresh(self, index: int) -> None:
        """Update `open` and `ready`."""
        bracket = self.brackets[index]
        if bracket.ready:
            self.ready[index] = None
        else:
            self.ready.pop(index, None)
            if bracket.done:
                self.open.pop(index, None)
