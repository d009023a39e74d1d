"""The sampler of `bohb.BEST`: the Gaussian process proposes most configurations, and the density the others."""

from __future__ import annotations

import numpy as np

from bohb.core.density.sampler import DensitySampler
from bohb.core.goals import Goals
from bohb.core.gp.sampler import GaussianSampler
from bohb.core.gp.several import SeveralSampler
from bohb.core.history import History
from bohb.core.proposal import Declined, Proposal, Situation
from bohb.core.settings import Settings
from bohb.core.space import Space

_FEW = 3  # losses on a rung that tell something of it


class MixtureSampler:
    """Asks the Gaussian process with probability `gp_share`, less often until the larger budgets were seen.

    Results on the lowest rung alone may mislead. The density answers the rest, and whenever the process declines.
    """

    def __init__(self, space: Space, settings: Settings, density: DensitySampler, goals: Goals) -> None:
        self._share = 1.0 if settings.model == "gp" else settings.gp_share
        self._process = GaussianSampler(space) if goals.single else SeveralSampler(space, goals)
        self._density = density

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose a configuration by either model."""
        own = rng.spawn(1)[0]  # so that the density draws the same numbers as without a process
        if own.random() < self._share * reach(situation.history):
            proposal = self._process.propose(own, situation)
            if isinstance(proposal, Proposal):
                return proposal
        return self._density.propose(rng, situation)

    def propose_likely(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Draw a random configuration that is likely to keep the constraints; declines for a share of the draws."""
        if isinstance(self._process, GaussianSampler):
            return Declined("no constraints")
        return self._process.propose_likely(rng, situation)


def reach(history: History) -> float:
    """Return the share of rungs up to the highest one with a few losses: what the process can know of the top."""
    known, budgets = history.observations, history.budgets
    seen = [i for i, b in enumerate(budgets, 1) if b in known and known[b].n_finite >= _FEW]
    return max(seen, default=1) / len(budgets)
