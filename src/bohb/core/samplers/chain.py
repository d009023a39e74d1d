"""The samplers of a study in the order in which they are asked for a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bohb.core.history import History
from bohb.core.samplers.density import DensitySampler, Model, min_points
from bohb.core.samplers.failures import Failures, fit_failures
from bohb.core.samplers.function import CustomSampler, Sampler
from bohb.core.samplers.proposal import Proposal, Proposer, Situation, propose_random
from bohb.errors import InvalidArgument

if TYPE_CHECKING:
    from bohb.core.samplers.front import SeveralSampler
    from bohb.core.samplers.gaussian import GaussianSampler


class Samplers:
    """The samplers that the settings of a study name, and the models that they have fitted.

    function: the user's function that replaces the built-in sampler, if the study was created with one.
    """

    def __init__(self, history: History, function: Sampler | None = None) -> None:
        self._history, self._function = history, function
        self._density = DensitySampler()
        self._process: GaussianSampler | None = None
        self._on_largest: GaussianSampler | None = None
        self._several: SeveralSampler | None = None
        self._chain: Sequence[Proposer] = ()
        self._failures: Failures | None = None

    def propose(
        self, rng: np.random.Generator, budget: float, random_share: float, on_largest: bool = False
    ) -> Proposal | None:
        """Propose a configuration by Algorithm 2; None if nothing new is left on this budget.

        budget: the one that the configuration will be evaluated on first.
        random_share: ρ.
        on_largest: whether the process knows the results on the largest budget alone.
        """
        history = self._history
        chain = self._chain or self._make_chain()
        if on_largest:
            chain = (self.process_on_largest(), *chain)
        may_repeat = not history.space.finite or history.settings.duplicates

        def is_new(config: Mapping[str, Any]) -> bool:
            return may_repeat or (history.key(config), budget) not in history.evaluated

        situation = Situation(history, budget, is_new, self.failures())
        if rng.random() < random_share:
            likely = None if self._several is None else self._several.propose_likely(rng, situation)
            return likely if isinstance(likely, Proposal) else propose_random(rng, situation, "random fraction")
        why = ""
        for sampler in chain:
            answer = sampler.propose(rng, situation)
            if isinstance(answer, Proposal):
                return answer
            why = answer.why
        return propose_random(rng, situation, why)

    def process(self) -> GaussianSampler:
        """Return the Gaussian process of all results."""
        if self._process is None:
            from bohb.core.samplers.gaussian import GaussianSampler  # slow to import, and not every study has a process

            self._process = GaussianSampler(self._history.space)
        return self._process

    def process_on_largest(self) -> GaussianSampler:
        """Return the Gaussian process that knows the results on the largest budget alone."""
        if self._on_largest is None:
            from bohb.core.samplers.gaussian import GaussianSampler

            self._on_largest = GaussianSampler(self._history.space, largest_only=True)
        return self._on_largest

    def model(self) -> Model | None:
        """Return the densities of the next proposal; None while there are too few results, or if it uses none."""
        return None if self._history.settings.explains == "function" else self._density.model(self._history)

    def failures(self) -> Failures | None:
        """Return where evaluations fail, as far as is known; None while none did."""
        history = self._history
        if not history.settings.avoid_failures or not history.n_failures_known:
            return None
        n, n_failed = sum(len(d_b) for d_b in history.observations.values()), history.n_failures_known
        if self._failures is None or self._failures.n_ok + self._failures.n_failed != n:
            n_min = min_points(history.space, history.settings)
            self._failures = fit_failures(
                history.space.coordinates,
                history.evidence.recent_ok,
                history.evidence.recent_failed,
                n - n_failed,
                n_failed,
                n_min,
            )
        return self._failures

    def _make_chain(self) -> Sequence[Proposer]:
        """Make the samplers that the settings name; each is asked if those before it decline."""
        history = self._history
        match history.settings.explains:
            case "density":
                self._chain = (self._density,)
            case "process" if history.goals.single:
                self._chain = (self.process(), self._density)
            case "process":
                from bohb.core.samplers.front import SeveralSampler

                self._several = SeveralSampler(history.space, history.goals)
                self._chain = (self._several, self._density)
            case "function" if self._function is not None:
                self._chain = (CustomSampler(self._function),)
            case "function":
                raise InvalidArgument(
                    f"the sampler of this study is {history.settings.sampler!r}; to go on, open it with that function, "
                    "sampler=…"
                )
        return self._chain
