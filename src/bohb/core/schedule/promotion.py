"""Who goes on to the next rung, where that is more than the best of one bracket (Alg. 3, line 4)."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Mapping

from bohb.core.schedule.halving import Choose, Loss, top_k
from bohb.core.settings import Settings

EXPLORE_FROM = 4  # a rung that passes on this many gives one of the places to chance, in an adaptive study


class Promotions:
    """The promotions of a study whose brackets do not decide on them alone: a fold, as they are.

    settings: with promote="rung" a bracket takes the best of all that were not promoted from a budget; with
        schedule="adaptive" one of four or more is taken at random, to see how well rungs agree.
    draw: a random number below the third argument, for a bracket and a rung.

    taken: the trials whose configuration was promoted.
    at_random: those of them that chance picked.
    """

    def __init__(self, settings: Settings, draw: Callable[[int, int, int], int]) -> None:
        self._from_rung = settings.promote == "rung"
        self._explores = settings.schedule == "adaptive"
        self._draw = draw
        self._pools: dict[float, list[Loss]] = {}  # by budget, best first
        self.taken: set[int] = set()
        self.at_random: set[int] = set()

    def chooser(self, bracket: int) -> Choose | None:
        """What a bracket asks who goes on; None if its own best do."""
        if not self._from_rung and not self._explores:
            return None
        return lambda rung, budget, losses, k: self._choose(bracket, rung, budget, losses, k)

    def finished(self, budget: float, number: int, loss: float) -> None:
        """A trial ended, with a result of its own. To be told before its bracket is."""
        if self._from_rung and math.isfinite(loss):
            insort(self._pools.setdefault(budget, []), (loss, number))

    def waiting(self, sizes: Mapping[float, int]) -> set[int]:
        """The trials of each budget that are next to be promoted, as many as `sizes` says."""
        return {number for budget, k in sizes.items() for _, number in self._pools.get(budget, [])[:k]}

    def _choose(self, bracket: int, rung: int, budget: float, losses: list[Loss], k: int) -> list[int]:
        pool = self._pools.get(budget, []) if self._from_rung else sorted(losses)
        chosen = top_k(pool, k)
        if self._explores and k >= EXPLORE_FROM:
            best = set(chosen[: k - 1])
            # Of its own rung, all of which are equally likely to be seen again, and still have their checkpoints.
            rest = sorted(n for loss, n in losses if math.isfinite(loss) and n not in best and n not in self.taken)
            if rest:
                lucky = rest[self._draw(bracket, rung, len(rest))]
                chosen = [*chosen[: k - 1], lucky]
                self.at_random.add(lucky)
        if self._from_rung:
            gone = set(chosen)
            self._pools[budget] = [entry for entry in pool if entry[1] not in gone]
        self.taken.update(chosen)
        return chosen
