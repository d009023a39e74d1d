"""The rules by which the rungs of the next bracket are chosen.

A bracket that no rule chooses is the next one in Hyperband's order (Alg. 1), and opens without an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bohb.core.adaptive.adaptation import choose_bracket
from bohb.core.events import BracketPlanned
from bohb.core.history import History
from bohb.core.schedule.brackets import PUBLISHED_EVERY, is_published
from bohb.core.schedule.schedule import Schedule

if TYPE_CHECKING:
    from bohb.core.gp.sampler import GaussianSampler


class Rule(Protocol):
    """Chooses the rungs of brackets."""

    def plan(self, history: History, index: int, rng: np.random.Generator, /) -> BracketPlanned | None:
        """Return the choice of bracket `index`, which is the next one; None if it is Hyperband's."""
        ...

    def random_share(self, history: History, index: int, /) -> float:
        """Return ρ, the share of the new configurations of bracket `index` that is drawn at random."""
        ...


class HyperbandRule:
    """Every bracket is Hyperband's."""

    def plan(self, _history: History, _index: int, _rng: np.random.Generator) -> BracketPlanned | None:
        """Return None."""
        return None

    def random_share(self, history: History, _index: int) -> float:
        """Return ρ."""
        return history.settings.random_fraction


class AdaptiveRule(HyperbandRule):
    """Every third bracket is Hyperband's; the others are chosen by how well the budgets agree."""

    def plan(self, history: History, index: int, rng: np.random.Generator) -> BracketPlanned | None:
        """Return the bracket with the largest expected gain."""
        if is_published(index):
            return None
        assert history.created is not None
        sizes = history.settings.bracket_sizes
        choice = choose_bracket(rng, history.budgets, history.created.eta, history.evidence.seen, sizes)
        return BracketPlanned(index, choice.bracket.pairs, "adaptive", reason=choice.reason)


class InformedRule:
    """A bracket leaves out lower rungs of which the Gaussian process expects nothing, and waits for those before it.

    process: returns the Gaussian process of the study, which is slow to import.
    """

    def __init__(self, process: Callable[[], GaussianSampler]) -> None:
        self._process = process

    def plan(self, history: History, index: int, rng: np.random.Generator) -> BracketPlanned | None:
        """Choose whether a bracket leaves out the lower rungs, and whether it repeats one that is unfinished."""
        schedule = history.schedule
        may_skip, repeats = self.may_skip(schedule, index), self.repeats(schedule, index)
        if not may_skip and not repeats:
            return None
        reason: dict[str, Any] = {}
        if may_skip:
            from bohb.core.adaptive.informed import lower_rungs_pay  # slow to import, like the process itself

            pay, reason = lower_rungs_pay(rng, history, self._process())
            if not pay:
                return BracketPlanned(index, history.round[-1].pairs, "skip", reason=reason)
        if repeats:
            last = schedule.in_order(schedule.place(index) - 1)
            return BracketPlanned(index, last.pairs, "repeat", reason=reason)
        return BracketPlanned(index, schedule.plan(index).pairs, "hyperband", reason=reason)

    def may_skip(self, schedule: Schedule, index: int) -> bool:
        """Whether bracket `index` may leave out lower rungs.

        It may not while no more brackets have opened than a round has, nor if the last two left them out.
        """
        before = range(index - PUBLISHED_EVERY + 1, index)
        n_extra = schedule.n_planned(index, lambda rule: rule not in ("hyperband", "repeat"))
        n_opened = index - schedule.first_of_round - n_extra
        return 1 < len(schedule.round) < n_opened and not all(schedule.rule(other) == "skip" for other in before)

    def repeats(self, schedule: Schedule, index: int) -> bool:
        """Whether bracket `index`, the next one, has to repeat the last one in Hyperband's order.

        With several workers a bracket opens before earlier ones have finished. Hyperband's next one would start on a
        larger budget without having learnt from them. So the last one is repeated while none with the same rungs has
        finished.
        """
        if len(schedule.round) == 1:
            return False
        for other in range(index - 1, schedule.first_of_round - 1, -1):
            rule, done = schedule.rule(other), schedule.brackets[other].done
            if rule == "hyperband" or (rule == "repeat" and done):
                return not done
        return False

    def random_share(self, history: History, index: int) -> float:
        """Return ρ, or 0 where a random configuration costs too much: on the largest budget alone.

        So none is drawn in a bracket that leaves out the lower rungs, and with one budget, where there are no lower
        rungs, only in every third bracket.
        """
        draws = is_published(index) if len(history.round) == 1 else history.schedule.rule(index) != "skip"
        return history.settings.random_fraction if draws else 0.0


def rule_of(history: History, process: Callable[[], GaussianSampler]) -> Rule:
    """Return the rule of a study.

    A study is informed only if it has one loss and a Gaussian process of it, which is asked for proposals.
    """
    settings = history.settings
    if settings.schedule == "adaptive":
        return AdaptiveRule()
    informed = settings.schedule == "informed" and settings.explains == "process" and settings.random_fraction < 1
    return InformedRule(process) if informed and history.goals.single else HyperbandRule()
