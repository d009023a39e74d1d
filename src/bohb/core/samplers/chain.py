"""The samplers of a study in the order in which they are asked for a configuration, and a user's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bohb.core.history import History
from bohb.core.samplers.density import DensitySampler, Model, min_points
from bohb.core.samplers.proposal import (
    SPREAD,
    TRIES,
    Declined,
    Failures,
    Proposal,
    Proposer,
    Situation,
    fit_failures,
    propose_random,
)
from bohb.core.space import Array, Space
from bohb.core.trial import Origin, jsonable
from bohb.errors import ForbiddenConfiguration, InvalidArgument, InvalidConfiguration

if TYPE_CHECKING:
    from bohb.core.samplers.front import SeveralSampler
    from bohb.core.samplers.gaussian import GaussianSampler

Answer = Mapping[str, Any] | Array | Sequence[float]
Sampler = Callable[[np.random.Generator, Situation], Answer | tuple[Answer, Mapping[str, Any]] | None]


class Samplers:
    """The samplers that the settings of a study name, and the models that they have fitted.

    function: the user's function that replaces the built-in sampler, if the study was created with one.
    """

    def __init__(self, history: History, function: Sampler | None = None) -> None:
        self._history, self._function = history, function
        self._density = DensitySampler()
        self._processes: dict[bool, GaussianSampler] = {}  # whether of the largest budget alone -> process
        self._several: SeveralSampler | None = None
        self._chain: Sequence[Proposer] = ()
        self._spreads = False  # whether the first random configurations are those of a Sobol sequence
        self._failures: Failures | None = None

    def propose(
        self, rng: np.random.Generator, number: int, budget: float, random_share: float, on_largest: bool = False
    ) -> Proposal | None:
        """Propose a configuration by Algorithm 2; None if nothing new is left on this budget.

        number: of the trial that will evaluate it.
        budget: the one that the configuration will be evaluated on first.
        random_share: ρ.
        on_largest: whether the process knows the results on the largest budget alone.
        """
        history = self._history
        chain = self._chain or self._make_chain()
        if on_largest:
            chain = (self.process(on_largest=True), *chain)
        may_repeat = not history.space.finite or history.settings.duplicates

        def is_new(config: Mapping[str, Any]) -> bool:
            return may_repeat or (history.key(config), budget) not in history.evaluated

        spread = number if self._spreads and number < SPREAD else None
        situation = Situation(history, budget, is_new, self.failures(), spread)
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

    def process(self, on_largest: bool = False) -> GaussianSampler:
        """Return the Gaussian process of all results, or of those on the largest budget alone."""
        if on_largest not in self._processes:
            from bohb.core.samplers.gaussian import GaussianSampler  # slow to import, and not every study has a process

            self._processes[on_largest] = GaussianSampler(self._history.space, largest_only=on_largest)
        return self._processes[on_largest]

    def model(self) -> Model | None:
        """Return the densities of the next proposal; None while there are too few results, or if it uses none."""
        return None if self._history.settings.explains == "function" else self._density.model(self._history)

    def failures(self) -> Failures | None:
        """Return where evaluations fail, as far as is known; None while none did."""
        history = self._history
        if not history.settings.avoid_failures or not history.evidence.n_failures:
            return None
        known = history.evidence
        n, n_failed = sum(len(d_b) for d_b in known.observations.values()), known.n_failures
        if self._failures is None or self._failures.n_ok + self._failures.n_failed != n:
            n_min = min_points(history.space, history.settings)
            self._failures = fit_failures(
                history.space.coordinates, known.recent_ok, known.recent_failed, n - n_failed, n_failed, n_min
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
                self._spreads = True
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


def sampler_name(sampler: Sampler) -> str:
    """Return the name of a sampler in the journal: that of the function, or of its class."""
    function = getattr(sampler, "func", sampler)  # of a functools.partial
    return str(getattr(function, "__name__", type(function).__name__))


class CustomSampler:
    """Turns the answers of a user's function into proposals."""

    def __init__(self, function: Sampler) -> None:
        self._function = function
        self._name = sampler_name(function)

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Ask the function, again if its answer is forbidden or known; decline if it returns None.

        Exceptions of the function are not caught: a bug must not look like a random configuration.
        """
        before: dict[str, Any] | None = None
        for _ in range(TRIES):
            answer: Any = self._function(rng, situation)
            reason: Mapping[str, Any] = {}
            if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
                answer, reason = answer
            if answer is None:
                return Declined("sampler declined")
            try:
                config = _config(situation.space, answer)
            except ForbiddenConfiguration:
                continue
            except InvalidConfiguration as error:
                raise InvalidConfiguration(f"the sampler {self._name!r} proposed {answer!r:.200}: {error}") from error
            if situation.is_new(config):
                return Proposal(config, Origin.MODEL, {"sampler": self._name, **jsonable(reason)}, "function")
            if config == before:  # it would repeat itself
                break
            before = config
        return Declined("no candidate allowed")


def _config(space: Space, answer: Answer) -> dict[str, Any]:
    """Return the legal configuration of an answer: a configuration as it is, or the one nearest to a vector."""
    if isinstance(answer, Mapping):
        return space.decode(space.encode(answer))
    try:
        vector = np.array(answer, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"it must be a configuration, a vector or None ({error})") from error
    if vector.shape != (space.d,):
        raise InvalidConfiguration(f"its shape {vector.shape} does not fit a space of {space.d} dimensions")
    for j, scale in enumerate(space.dimensions):
        highest = max(1, space.choices[j] - 1)
        if vector[j] < 0 or vector[j] > highest:
            raise InvalidConfiguration(f"coordinate {j}, {scale.name!r}, must lie in [0, {highest}]")
    categorical = space.coordinates.categorical
    vector[categorical] = np.rint(vector[categorical])
    return space.decode(space.snap(vector[None, :])[0])
