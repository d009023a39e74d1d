"""Turn off parts of the preset that have no setting, for the ablation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from bohb.core.gp.sampler import Surrogate
from bohb.core.policy import Starter


class Part(NamedTuple):
    """The place of a part, and its replacement."""

    owner: Any
    name: str
    instead: Any


PARTS = {
    "novelty": Part(Surrogate, "_deviation_given_neighbour", lambda _, similarity: np.full(len(similarity), np.inf)),
    "plateaus": Part(Surrogate, "log_new", lambda _, X: np.zeros(len(X))),
    "largest_only": Part(Starter, "_make_largest_only", lambda starter: starter._proposers[0]),
    "no_random": Part(Starter, "_random_share", lambda starter, _: starter.history.settings.random_fraction),
}


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """Replace a part within the context; do nothing if `name` is None."""
    if name is None:
        yield
        return
    part = PARTS[name]
    original = getattr(part.owner, part.name)
    setattr(part.owner, part.name, part.instead)
    try:
        yield
    finally:
        setattr(part.owner, part.name, original)
