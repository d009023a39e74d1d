"""The rules by which the rungs of the next bracket are chosen.

A bracket that no rule chooses is the next one in Hyperband's order (Alg. 1), and opens without an event. When the user
raises the largest budget, the next bracket continues the best configurations on larger budgets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from bohb.core.events import BracketPlanned
from bohb.core.history import History
from bohb.core.schedule.brackets import PUBLISHED_EVERY
from bohb.core.schedule.schedule import Schedule

if TYPE_CHECKING:
    from bohb.core.samplers.gaussian import GaussianSampler

MOST_PROMOTED = 9  # configurations of the old largest budget


def chosen(
    history: History, index: int, rng: np.random.Generator, process: Callable[[], GaussianSampler]
) -> BracketPlanned | None:
    """Return the choice of bracket `index`, which is the next one; None if it is Hyperband's.

    In an informed study it may leave out lower rungs that do not pay, or repeat a bracket that is unfinished.

    process: returns the Gaussian process of the study, which is slow to import.
    """
    if not history.schedule.informed:
        return None
    schedule, reason = history.schedule, dict[str, Any]()
    skippable, repeated = may_skip(schedule, index), repeats(schedule, index)
    if skippable:
        from bohb.core.schedule.informed import lower_rungs_pay  # slow to import, like the process itself

        pay, reason = lower_rungs_pay(rng, history, process())
        if not pay:
            return BracketPlanned(index, schedule.round[-1].pairs, "skip", reason=reason)
    if repeated:
        last = schedule.in_order(schedule.place(index) - 1)
        return BracketPlanned(index, last.pairs, "repeat", reason=reason)
    return BracketPlanned(index, schedule.plan(index).pairs, "hyperband", reason=reason) if skippable else None


def may_skip(schedule: Schedule, index: int) -> bool:
    """Whether bracket `index` may leave out lower rungs.

    It may not while no more brackets have opened than a round has, nor if the last two left them out.
    """
    before = range(index - PUBLISHED_EVERY + 1, index)
    n_extra = schedule.n_planned(index, lambda rule: rule not in ("hyperband", "repeat"))
    n_opened = index - schedule.first_of_round - n_extra
    return 1 < len(schedule.round) < n_opened and not all(schedule.rule(other) == "skip" for other in before)


def repeats(schedule: Schedule, index: int) -> bool:
    """Whether bracket `index`, the next one, has to repeat the last one in Hyperband's order.

    With several workers a bracket opens before earlier ones have finished. Hyperband's next one would start on a larger
    budget without having learnt from them. So the last one is repeated while none with the same rungs has finished.
    """
    if len(schedule.round) == 1:
        return False
    for other in range(index - 1, schedule.first_of_round - 1, -1):
        rule, done = schedule.rule(other), schedule.brackets[other].done
        if rule == "hyperband" or (rule == "repeat" and done):
            return not done
    return False


def grown(budgets: Sequence[float], largest: float, eta: float) -> tuple[float, ...]:
    """Return the budgets with larger ones up to `largest`, in even steps of about eta; whole numbers stay whole."""
    factor = largest / budgets[-1]
    steps = max(1, round(math.log(factor) / math.log(eta)))
    between = [budgets[-1] * factor ** (step / steps) for step in range(1, steps)]
    if all(isinstance(budget, int) for budget in (*budgets, largest)):
        between = [round(budget) for budget in between]
    return (*budgets, *between, largest)


def best_on_largest(history: History) -> list[int]:
    """Return the trials on the largest budget that are promoted if it grows: the best 1/eta, one at least, best first.

    Empty while there is no result on that budget.
    """
    assert history.created is not None
    ranked = _ranked_on_largest(history)
    n = math.floor(len(ranked) / Fraction(str(history.created.eta)))
    return ranked[: max(1, min(n, MOST_PROMOTED))]


def kept_for_growth(history: History) -> set[int]:
    """Return the config_ids that may be continued if the largest budget grows, or that wait because it has grown.

    With more results more are promoted, so all that may then be among them are kept, not only those of now.
    """
    waiting = history.schedule.promotes(len(history.brackets))  # of a bracket that is not open yet
    return {history.trials[number].config_id for number in (*_ranked_on_largest(history)[:MOST_PROMOTED], *waiting)}


def _ranked_on_largest(history: History) -> list[int]:
    """Return one trial on the largest budget for each configuration that has a result there, best first."""
    top = history.budgets[-1]
    there = [n for n, outcome in history.outcomes.items() if outcome.ok and history.trials[n].budget == top]
    seen: dict[int, int] = {}
    for number in history.order.best_first(there):
        seen.setdefault(history.trials[number].config_id, number)
    return list(seen.values())


def promoting_bracket(history: History, larger: Sequence[float]) -> BracketPlanned | None:
    """Return a bracket that continues the best configurations of the largest budget on larger ones, if it has any."""
    assert history.created is not None
    numbers, index = best_on_largest(history), len(history.brackets)
    if not numbers or index in history.schedule.planned:
        return None
    eta = history.created.eta
    rungs = tuple((budget, max(1, math.floor(len(numbers) / eta**i))) for i, budget in enumerate(larger))
    return BracketPlanned(index, rungs, "promote", promotes=tuple(numbers))
