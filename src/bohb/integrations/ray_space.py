"""A search space of Ray Tune as a `Space`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
from ray._private.dict import flatten_dict, unflatten_dict
from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Quantized, Uniform
from ray.tune.search.variant_generator import parse_spec_vars

from bohb.core.space import Space
from bohb.errors import InvalidSpace


@dataclass(frozen=True, slots=True)
class Parameter:
    """A domain of Tune as a hyperparameter.

    hyperparameter: has indices instead of categories and of quantised values, so that any value of Tune is allowed.
    values: the categories, or None.
    step: what an index is multiplied with, or None.
    """

    hyperparameter: Any
    values: tuple[Any, ...] | None = None
    step: float | None = None

    def to_space(self, value: Any) -> Any:
        """Return the value that the space has for a value of Tune."""
        if self.values is not None:
            return self.values.index(value)
        return value if self.step is None else round(value / self.step)

    def from_space(self, value: Any) -> Any:
        """Return the value of Tune for a value of the space."""
        if self.values is not None:
            return self.values[value]
        return value if self.step is None else value * self.step


def parameter(name: str, domain: Domain) -> Parameter:
    """Return the hyperparameter of a domain; raise InvalidSpace for one without bounds."""
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    if isinstance(domain, Categorical) and isinstance(sampler, Uniform):
        return Parameter(CS.CategoricalHyperparameter(name, list(range(len(domain)))), tuple(domain.categories))
    if not isinstance(domain, Float | Integer) or not isinstance(sampler, Uniform | LogUniform):
        raise InvalidSpace(
            f"{name} has no bounds, or is not drawn uniformly; BOHBSearch takes tune.uniform, loguniform, randint, "
            "lograndint, their quantised forms, and choice"
        )
    log = isinstance(sampler, LogUniform)
    if step is not None and not (isinstance(domain, Integer) and step == 1):
        low, high = math.ceil(round(domain.lower / step, 9)), math.floor(round(domain.upper / step, 9))
        return Parameter(CS.Integer(name, (low, high), log=log), step=step)
    if isinstance(domain, Integer):  # Tune's upper bound is exclusive
        return Parameter(CS.Integer(name, (domain.lower, domain.upper - 1), log=log))
    return Parameter(CS.Float(name, (domain.lower, domain.upper), log=log))


class TuneSpace:
    """Translates between configurations of Tune, which may be nested, and those of a `Space`.

    space: the hyperparameters; what is constant in Tune's space is left out, and Tune adds it.
    """

    def __init__(self, space: Mapping[str, Any] | CS.ConfigurationSpace) -> None:
        self._parameters: dict[str, Parameter] = {}
        if isinstance(space, CS.ConfigurationSpace):
            self.space = Space(space)
            return
        _, _, grids = parse_spec_vars(dict(space))
        if grids:
            names = ["/".join(map(str, path)) for path, _ in grids]
            raise InvalidSpace(f"BOHBSearch cannot run the grid_search of {names}; use tune.choice")
        _, domains, _ = parse_spec_vars(flatten_dict(dict(space), prevent_delimiter=True))
        configspace = CS.ConfigurationSpace()
        for path, domain in domains:
            name = "/".join(map(str, path))
            self._parameters[name] = parameter(name, domain)
            configspace.add(self._parameters[name].hyperparameter)
        self.space = Space(configspace)

    def to_tune(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration as Tune has it."""
        known = self._parameters
        flat = {name: known[name].from_space(value) if name in known else value for name, value in config.items()}
        return dict(unflatten_dict(flat))

    def to_space(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of the space for one of Tune."""
        return self.from_flat(flatten_dict(dict(config), prevent_delimiter=True))

    def from_flat(self, flat: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of the space for one of Tune with names such as "layer/units"."""
        known = self._parameters
        return {name: known[name].to_space(value) if name in known else value for name, value in flat.items()}
