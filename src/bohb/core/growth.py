"""A larger largest budget for a study: the budgets that follow, and the configurations that are promoted first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from bohb.core.events import BracketPlanned
from bohb.core.history import History
from bohb.core.standings import best_first

MOST_PROMOTED = 9  # configurations of the old largest budget


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
    for number in best_first(history.goals, history.outcomes, there):
        seen.setdefault(history.trials[number].config_id, number)
    return list(seen.values())


def promoting_bracket(history: History, larger: Sequence[float]) -> BracketPlanned | None:
    """Return a bracket that continues the best configurations of the largest budget on larger ones.

    None if there are none, and in an adaptive study, which chooses its brackets by itself.
    """
    assert history.created is not None
    numbers, index = best_on_largest(history), len(history.brackets)
    if not numbers or history.adaptive or index in history.planned:
        return None
    eta = history.created.eta
    rungs = tuple((budget, max(1, math.floor(len(numbers) / eta**i))) for i, budget in enumerate(larger))
    return BracketPlanned(index, rungs, "promote", promotes=tuple(numbers))
