"""Turn off parts of the preset that have no setting, for the ablation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bohb.core.samplers import gaussian, process, proposal
from bohb.core.samplers.chain import Samplers
from bohb.core.samplers.gaussian import Surrogate
from bohb.core.samplers.process import Kernel
from bohb.core.schedule import rules
from bohb.core.schedule.schedule import Schedule
from bohb.core.space import Array


class Part(NamedTuple):
    """The place of a part, and its replacement."""

    owner: Any
    name: str
    instead: Any


_prior, _process = process.prior, Samplers.process


def noisy_prior(d: int, rungs: int, studies: int = 1) -> tuple[Kernel, Array]:
    """Return priors that expect more noise on the largest budget, and have a wider variance."""
    centre, widths = _prior(d, rungs, studies)
    widths = widths.copy()
    widths[d], widths[d + 2 * rungs - 1] = 0.7, 1.2
    return replace(centre, noises=np.concatenate([[math.log(0.02)], centre.noises[1:]])), widths


PARTS = {
    "novelty": (Part(Surrogate, "_deviation_given_neighbour", lambda _, similar: np.full(len(similar), np.inf)),),
    "gradient": (Part(Surrogate, "rise", None),),
    "spread": (Part(proposal, "SPREAD", 0),),
    "plateaus": (Part(Surrogate, "log_new", lambda _, X: np.zeros(len(X))),),
    "largest_only": (Part(Samplers, "process", lambda self, **_: _process(self)),),
    "no_random": (Part(Schedule, "random_share", lambda self, _index: self._settings.random_fraction),),
    "repeats": (Part(rules, "repeats", lambda *_: False),),
    "priors": (Part(process, "prior", noisy_prior), Part(gaussian, "prior", noisy_prior)),
    "active": (Part(gaussian, "configurations_needed", lambda X: X.shape[1] + 3),),
}


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """Replace a part within the context; do nothing if `name` is None."""
    if name is None:
        yield
        return
    originals = [getattr(part.owner, part.name) for part in PARTS[name]]
    for part in PARTS[name]:
        setattr(part.owner, part.name, part.instead)
    try:
        yield
    finally:
        for part, original in zip(PARTS[name], originals, strict=True):
            setattr(part.owner, part.name, original)
