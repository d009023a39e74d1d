"""Random promotions of an adaptive study: who goes on to the next rung besides the best (Alg. 3, line 4)."""

from __future__ import annotations

import math
from collections.abc import Callable

from bohb.core.schedule.halving import Loss, top_k

EXPLORE_FROM = 4  # a rung that passes on this many gives one of the places to chance


def one_at_random(losses: list[Loss], k: int, draw: Callable[[int], int]) -> tuple[list[int], int | None]:
    """Return the k trials that go on, and the one among them that was chosen at random, to see how well rungs agree.

    draw: returns a random number below its argument.
    """
    best = top_k(losses, k)
    if k < EXPLORE_FROM:
        return best, None
    rest = sorted(number for loss, number in losses if math.isfinite(loss) and number not in best[: k - 1])
    if not rest:
        return best, None
    lucky = rest[draw(len(rest))]
    return [*best[: k - 1], lucky], lucky
