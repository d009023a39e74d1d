"""The Gaussian process without one of its parts that no setting turns off, for the ablation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bohb.core import targets
from bohb.core.gp_sampler import GaussianSampler, Surrogate


class Part(NamedTuple):
    """Where a part lies, and what stands there without it."""

    owner: Any
    name: str
    instead: Any


PARTS = {
    "novelty": Part(Surrogate, "_deviation_of_a_neighbour", lambda _, alike: np.full(len(alike), np.inf)),
    "plateaus": Part(targets, "plateaus", lambda alike, _: np.ones(len(alike))),
    "reach": Part(GaussianSampler, "reach", lambda *_: 1.0),
}


class Without:
    """A part taken away until `restore` is called; nothing, if none is named."""

    def __init__(self, name: str | None) -> None:
        self._part = None if name is None else PARTS[name]
        if self._part is not None:
            self._original = getattr(self._part.owner, self._part.name)
            setattr(self._part.owner, self._part.name, self._part.instead)

    def restore(self) -> None:
        """Put it back."""
        if self._part is not None:
            setattr(self._part.owner, self._part.name, self._original)
