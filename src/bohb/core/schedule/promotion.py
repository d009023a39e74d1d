"""Random promotions of an adaptive study: who goes on to the next rung besides the best (Alg. 3, line 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

EXPLORE_FROM = 4  # a rung that passes on this many gives one of the places to chance


def one_at_random(ordered: Sequence[int], k: int, draw: Callable[[int], int]) -> tuple[list[int], int | None]:
    """Return the k trials that go on, and the one among them that was chosen at random, to see how well rungs agree.

    ordered: the trials of a rung that did not fail, best first.
    draw: returns a random number below its argument.
    """
    rest = sorted(ordered[k - 1 :])
    if k < EXPLORE_FROM or not rest:
        return list(ordered[:k]), None
    lucky = rest[draw(len(rest))]
    return [*ordered[: k - 1], lucky], lucky
