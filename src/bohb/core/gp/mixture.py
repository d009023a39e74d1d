"""The sampler of `bohb.BEST`: Gaussian processes propose most configurations, and the density the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bohb.core.density.sampler import DensitySampler
from bohb.core.goals import Goals
from bohb.core.gp.sampler import GaussianSampler
from bohb.core.gp.several import SeveralSampler
from bohb.core.gp.targets import FOCUSED_CUT
from bohb.core.history import History
from bohb.core.proposal import Declined, Proposal, Proposer, Situation
from bohb.core.settings import Settings
from bohb.core.space import Space

_FEW = 3  # losses on a rung that tell something of it


class MixtureSampler:
    """Asks the Gaussian process with probability `gp_share`, less often until the larger budgets were seen.

    Results on the lowest rung alone may mislead. The density answers the rest, and whenever the process declines.

    Once the largest budget was seen, a share `focus_share` of the process's proposals comes from a second, focused one.
    To it, all losses above about the median are equal. It learns the shape of the good region alone, and since the rest
    is no worse than mediocre to it, it also looks where the first process, which has seen how bad results can be, never
    would. With several objectives there is none.
    """

    def __init__(self, space: Space, settings: Settings, density: DensitySampler, goals: Goals) -> None:
        self._share = 1.0 if settings.model == "gp" else settings.gp_share
        self._focus_share = settings.focus_share if goals.single else 0.0
        self._process: Proposer = GaussianSampler(space) if goals.single else SeveralSampler(space, goals)
        self._focused = GaussianSampler(space, cut=FOCUSED_CUT)
        self._density = density

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose a configuration by one of the models."""
        own = rng.spawn(1)[0]  # so that the density draws the same numbers as without a process
        seen = reach(situation.history)
        if own.random() < self._share * seen:
            if self._focus_share and own.random() < self._focus_share and seen == 1:
                proposal = self._focused.propose(own, situation)
                if isinstance(proposal, Proposal):
                    return replace(proposal, reason={**proposal.reason, "focused": True})
            proposal = self._process.propose(own, situation)
            if isinstance(proposal, Proposal):
                return proposal
        return self._density.propose(rng, situation)


def reach(history: History) -> float:
    """Return the share of rungs up to the highest one with a few losses: what the process can know of the top."""
    known, budgets = history.observations, history.budgets
    seen = [i for i, b in enumerate(budgets, 1) if b in known and known[b].n_finite >= _FEW]
    return max(seen, default=1) / len(budgets)
