"""Whether brackets that start on the largest budget do better than the others, judged by their results at equal cost.

Low rungs help as long as they tell good configurations from bad ones. Where they mislead, or late in a study, when all
new configurations are good, a bracket that skips them yields more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bohb.core.schedule.brackets import Bracket
from bohb.core.schedule.halving import Halving

Levels = Callable[[Iterable[int]], Mapping[int, float]]  # numbers of trials -> what they are compared by

ROUNDS = 2  # how many rounds back results count; older ones were proposed by a model that knew less
FEWEST_ON_TOP, FEWEST_PROMOTED = 3, 2  # results of either kind without which nothing is concluded
PREFERRED_FROM = 0.6  # the chance from which the next bracket starts on the largest budget
_PRIOR = 2.0  # results whose chance is one half, added to those seen


def chance_of_top(brackets: Sequence[Halving], round_: Sequence[Bracket], levels: Levels | None = None) -> float | None:
    """Return the chance that evaluations on the largest budget beat a promoted configuration of the same cost.

    A promoted configuration costs as much as m new ones on the largest budget: its share of its whole bracket. The
    chance that the best of m is better follows from the share of new ones that are. None while results are few.

    brackets: the last ones of a study; unfinished ones and those with another largest budget do not count.
    levels: what to compare instead of losses, by the numbers of trials.
    """
    top = round_[-1].rungs[-1].budget
    finished = [b for b in brackets if b.reached_top and b.bracket.rungs[-1].budget == top]
    losses: Mapping[int, float] = {number: loss for b in finished for loss, number in b.last_losses}
    if levels is not None:
        losses = levels(losses)
    new = [losses[n] for b in finished if len(b.bracket.rungs) == 1 for _, n in b.last_losses]
    promoted = [(cost_of_result(b), losses[n]) for b in finished if len(b.bracket.rungs) > 1 for _, n in b.last_losses]
    if len(new) < FEWEST_ON_TOP or len(promoted) < FEWEST_PROMOTED:
        return None
    chances: list[float] = []
    for cost, loss in promoted:
        better = sum(other < loss for other in new) + 0.5 * sum(other == loss for other in new)
        share = (better + 0.5) / (len(new) + 1)
        chances.append(1 - (1 - share) ** cost)
    return (sum(chances) + 0.5 * _PRIOR) / (len(chances) + _PRIOR)


def cost_of_result(halving: Halving) -> float:
    """Return the cost of a bracket per result on its last rung, in evaluations on that budget."""
    return halving.bracket.continued_cost / halving.bracket.rungs[-1].budget / len(halving.last_losses)
