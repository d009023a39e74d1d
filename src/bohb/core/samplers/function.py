"""A user's function as the sampler, in place of Algorithm 2's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bohb.core.samplers.proposal import TRIES, Declined, Proposal, Situation
from bohb.core.space import Array, Space
from bohb.core.trial import Origin, jsonable
from bohb.errors import ForbiddenConfiguration, InvalidConfiguration

Answer = Mapping[str, Any] | Array | Sequence[float]
Sampler = Callable[[np.random.Generator, Situation], Answer | tuple[Answer, Mapping[str, Any]] | None]


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
            answer, reason = _parts(self._function(rng, situation))
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


def _parts(answer: Any) -> tuple[Answer | None, Mapping[str, Any]]:
    """Return an answer and the reason that may come with it."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
        return answer[0], answer[1]
    return answer, {}


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
