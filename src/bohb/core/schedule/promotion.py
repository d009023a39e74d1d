"""Random promotions of an adaptive study: who goes on to the next rung besides the best (Alg. 3, line 4)."""

from __future__ import annotations

import math
from collections.abc import Callable

from bohb.core.schedule.halving import Choose, Loss, top_k
from bohb.core.settings import Settings

EXPLORE_FROM = 4  # a rung that passes on this many gives one of the places to chance


class Promotions:
    """Chooses who goes on, and remembers who was promoted at random.

    settings: with schedule="adaptive" one of four or more promotions is random, to see how well rungs agree.
    draw: returns a random number below its third argument, for a bracket and a rung.

    at_random: the trials that were promoted at random.
    """

    def __init__(self, settings: Settings, draw: Callable[[int, int, int], int]) -> None:
        self._explores = settings.schedule == "adaptive"
        self._draw = draw
        self.at_random: set[int] = set()

    def chooser(self, bracket: int) -> Choose | None:
        """Return the function that chooses the promotions of a bracket; None if its best go on."""
        if not self._explores:
            return None
        return lambda rung, losses, k: self._choose(bracket, rung, losses, k)

    def _choose(self, bracket: int, rung: int, losses: list[Loss], k: int) -> list[int]:
        chosen = top_k(losses, k)
        if k < EXPLORE_FROM:
            return chosen
        best = chosen[: k - 1]
        rest = sorted(number for loss, number in losses if math.isfinite(loss) and number not in best)
        if not rest:
            return chosen
        lucky = rest[self._draw(bracket, rung, len(rest))]
        self.at_random.add(lucky)
        return [*best, lucky]
