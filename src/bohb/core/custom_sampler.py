"""A sampler of the user's own in the place of Algorithm 2's model: one function, and what it may decide from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bohb.core.density.sampler import Allowed, Proposal, propose_random
from bohb.core.failures import Failures
from bohb.core.history import History
from bohb.core.settings import Settings
from bohb.core.space import Array, Space
from bohb.core.trial import Origin, jsonable
from bohb.errors import ForbiddenConfiguration, InvalidConfiguration

_TRIES = 16  # answers that may be forbidden or known before a proposal falls back to the prior
Answer = Mapping[str, Any] | Array | Sequence[float]
Sampler = Callable[[np.random.Generator, "Situation"], Answer | tuple[Answer, Mapping[str, Any]] | None]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a sampler decides from; it looks and changes nothing.

    history: the whole study; the properties and methods below are what most samplers need of it.
    budget: what the configuration will be evaluated on first.
    is_new: whether a configuration may be proposed; in a finite space none is evaluated twice on one budget.
    failures: where evaluations fail, or None while none did.
    """

    history: History
    budget: float
    is_new: Allowed
    failures: Failures | None

    @property
    def space(self) -> Space:
        """The search space; it turns configurations into vectors and back."""
        return self.history.space

    @property
    def settings(self) -> Settings:
        """The study's settings."""
        return self.history.settings

    @property
    def budgets(self) -> tuple[float, ...]:
        """The study's budgets, ascending."""
        return self.history.budgets

    @property
    def pending(self) -> Array:
        """The vectors of the trials that have not finished, (n, d)."""
        vectors = [self.space.encode(trial.config) for trial in self.history.pending.values()]
        return np.array(vectors).reshape(-1, self.space.d)

    def observations(self, budget: float) -> tuple[Array, Array]:
        """Vectors (n, d) and losses (n,) on a budget, best first; a failed evaluation has the loss +inf.

        A coordinate lies in [0, 1], is the index of a choice, or is NaN where the hyperparameter is inactive.
        """
        d_b = self.history.observations.get(budget)
        if d_b is None:
            return np.empty((0, self.space.d)), np.empty(0)
        return d_b.ranked(0, len(d_b)), d_b.losses.copy()

    def largest_budget(self, n: int) -> float | None:
        """The largest budget of the study on which at least n evaluations have a loss, or None."""
        known = self.history.observations
        enough = (b for b, d_b in known.items() if d_b.n_finite >= n and b <= self.budgets[-1])
        return max(enough, default=None)

    def log_chance(self, X: Array) -> Array:
        """log P(an evaluation succeeds) for every row of X; 0 while none failed."""
        return np.zeros(len(X)) if self.failures is None else self.failures.log_chance(X)


def sampler_name(sampler: Sampler) -> str:
    """What the journal calls a sampler: the name of the function, or of its class."""
    function = getattr(sampler, "func", sampler)  # of a functools.partial
    return str(getattr(function, "__name__", type(function).__name__))


def propose_with(rng: np.random.Generator, sampler: Sampler, situation: Situation) -> Proposal | None:
    """Algorithm 2 with another model: the share ρ at random, the rest as the sampler says.

    A sampler that returns None leaves the choice to the prior. What it raises is raised: a bug is not bad luck.
    """
    space, name = situation.space, sampler_name(sampler)
    why = "random fraction"
    if rng.random() >= situation.settings.random_fraction:
        why = "no candidate allowed"
        before: dict[str, Any] | None = None
        for _ in range(_TRIES):
            answer, reason = _parts(sampler(rng, situation))
            if answer is None:
                why = "sampler declined"
                break
            try:
                config = _config(space, answer)
            except ForbiddenConfiguration:
                continue
            except InvalidConfiguration as error:
                raise InvalidConfiguration(f"the sampler {name!r} proposed {answer!r:.200}: {error}") from error
            if situation.is_new(config):
                return Proposal(config, Origin.MODEL, {"sampler": name, **jsonable(reason)})
            if config == before:  # it will not say anything else
                break
            before = config
    return propose_random(rng, space, situation.is_new, situation.failures, why)


def _parts(answer: Any) -> tuple[Answer | None, Mapping[str, Any]]:
    """An answer and the reason that may come with it."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
        return answer[0], answer[1]
    return answer, {}


def _config(space: Space, answer: Answer) -> dict[str, Any]:
    """The legal configuration that a sampler means: a configuration as it is, or the one nearest to a vector."""
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
    categorical = space.choices > 0
    vector[categorical] = np.rint(vector[categorical])
    return space.decode(space.snap(vector[None, :])[0])
