"""The search space of an Optuna study, inferred from its trials.

Optuna's spaces are defined by running the objective. Ranges and choices are stored with each trial. Conditions are not,
so they are inferred: a parameter that some trials lack depends on the choices or whole numbers that separate the trials
that have it from those that do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from bohb.core.space import Space
from bohb.errors import InvalidConfiguration

Mask = NDArray[np.bool_]
Distribution = CategoricalDistribution | FloatDistribution | IntDistribution  # all that Optuna has
_GRID_TOLERANCE = 1e-8  # of a value's distance from a grid, in steps
_MOST_PARENT_VALUES = 100  # of a whole number that other parameters depend on


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of Optuna as a hyperparameter of a `Space`.

    The space has the index of a choice or of a step instead of the value, so that any value of Optuna is allowed.
    """

    name: str
    distribution: Distribution

    @property
    def hyperparameter(self) -> Any:
        """The ConfigSpace hyperparameter."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution):
            return CS.CategoricalHyperparameter(self.name, list(range(len(d.choices))))
        if self._step is not None:
            return CS.Integer(self.name, (0, round((d.high - d.low) / self._step)))
        if isinstance(d, IntDistribution):
            return CS.Integer(self.name, (d.low, d.high), log=d.log)
        return CS.Float(self.name, (d.low, d.high), log=d.log)

    @property
    def parent_values(self) -> range:
        """The values in the space, if they are few enough for others to depend on them; otherwise an empty range."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution):
            return range(len(d.choices))
        if isinstance(d, FloatDistribution) or (d.high - d.low) / d.step > _MOST_PARENT_VALUES:
            return range(0)
        return range(d.low, d.high + 1) if d.step == 1 else range((d.high - d.low) // d.step + 1)

    @property
    def _step(self) -> float | None:
        step = getattr(self.distribution, "step", None)
        return None if isinstance(self.distribution, IntDistribution) and step == 1 else step

    def to_space(self, value: Any) -> Any:
        """Return the value that the space has for a value of Optuna."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution):
            return int(d.to_internal_repr(value))
        return value if self._step is None else round((value - d.low) / self._step)

    def from_space(self, value: Any) -> Any:
        """Return the value of Optuna for a value of the space."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution):
            return d.choices[value]
        return value if self._step is None else min(d.low + value * self._step, d.high)


def hull(one: Distribution, other: Distribution) -> Distribution:
    """Return the distribution that covers two of the same parameter; Optuna allows ranges to change between trials."""
    if one == other or isinstance(one, CategoricalDistribution) or isinstance(other, CategoricalDistribution):
        return one
    low, high = min(one.low, other.low), max(one.high, other.high)
    step = one.step if one.step == other.step else None
    if step is not None and _GRID_TOLERANCE < (one.low - other.low) / step % 1 < 1 - _GRID_TOLERANCE:
        step = None  # two grids that do not meet
    if isinstance(one, IntDistribution):
        return IntDistribution(int(low), int(high), log=one.log, step=int(step or 1))
    return FloatDistribution(low, high, log=one.log, step=step)


class InferredSpace:
    """The space of some trials that have all their parameters.

    space: what the models work on; empty of parameters with a single value, and of those whose conditions are unknown.
    distributions: the parameters of the space, as Optuna describes them.
    """

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        self._hulls: dict[str, Distribution] = {}
        for trial in trials:
            for name, distribution in _distributions(trial):
                self._hulls[name] = hull(self._hulls.get(name, distribution), distribution)
        parameters = {name: Parameter(name, d) for name, d in self._hulls.items() if not d.single()}
        configspace = CS.ConfigurationSpace()
        self._parameters: dict[str, Parameter] = {}
        for name, parts in _conditions(parameters, trials).items():
            self._parameters[name] = parameters[name]
            child = parameters[name].hyperparameter
            configspace.add(child)
            made = [CS.InCondition(child, configspace[parent], sorted(values)) for parent, values in parts.items()]
            if made:
                configspace.add(made[0] if len(made) == 1 else CS.AndConjunction(*made))
        self.space = Space(configspace) if self._parameters else None
        self.distributions: dict[str, BaseDistribution] = {
            name: parameter.distribution for name, parameter in self._parameters.items()
        }

    def covers(self, trial: FrozenTrial) -> bool:
        """Whether the trial agrees with the space; otherwise the space has to be inferred again."""
        known = self._hulls
        if any(name not in known or hull(known[name], d) != known[name] for name, d in _distributions(trial)):
            return False
        return self.config(trial.params) is not None

    def config(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the configuration of a trial, or None if its parameters do not fit the space."""
        if self.space is None:
            return None if params.keys() - self._hulls else {}
        config = {n: p.to_space(params[n]) for n, p in self._parameters.items() if n in params}
        try:
            self.space.encode(config)
        except InvalidConfiguration:
            return None
        return config

    def params(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a configuration, as Optuna has them."""
        return {name: self._parameters[name].from_space(value) for name, value in config.items()}


def _distributions(trial: FrozenTrial) -> list[tuple[str, Distribution]]:
    return [(name, cast("Distribution", distribution)) for name, distribution in trial.distributions.items()]


def _conditions(
    parameters: Mapping[str, Parameter], trials: Sequence[FrozenTrial]
) -> dict[str, dict[str, frozenset[int]]]:
    """Return the parameters whose activity can be explained, parents first, with the values that each parent must have.

    A parent is present in more trials than its child, so there are no cycles.
    """
    present = {name: np.array([name in trial.params for trial in trials]) for name in parameters}
    columns = {
        name: np.array([p.to_space(t.params[name]) if name in t.params else -1 for t in trials])
        for name, p in parameters.items()
        if p.parent_values
    }
    explained: dict[str, dict[str, frozenset[int]]] = {}
    for name in sorted(parameters, key=lambda name: -int(present[name].sum())):
        candidates: dict[str, tuple[frozenset[int], Mask]] = {}
        for parent in explained:
            if parent in columns and not (present[name] & ~present[parent]).any():
                known = present[parent]
                values = _active_values(parameters[parent], columns[parent][known], present[name][known])
                candidates[parent] = values, ~known | ~np.isin(columns[parent], list(values))
        chosen = _explain(~present[name], candidates, parameters)
        if chosen is not None:
            explained[name] = {parent: candidates[parent][0] for parent in chosen}
    return explained


def _explain(
    absent: Mask, candidates: Mapping[str, tuple[frozenset[int], Mask]], parameters: Mapping[str, Parameter]
) -> list[str] | None:
    """Return the parents that together rule out exactly the trials without the parameter, or None if none do.

    The parent that rules out most comes first; a choice is preferred to a number.
    """

    def merit(parent: str) -> tuple[int, bool]:
        rules_out = int((left & candidates[parent][1]).sum())
        return rules_out, isinstance(parameters[parent].distribution, CategoricalDistribution)

    left, chosen = absent.copy(), list[str]()
    while left.any():
        best = max(candidates, key=merit, default=None)
        if best is None or merit(best)[0] == 0:
            return None
        chosen.append(best)
        left &= ~candidates[best][1]
    return chosen


def _active_values(parent: Parameter, values: NDArray[np.int64], active: Mask) -> frozenset[int]:
    """Return the values of a parent with which a parameter was active; a number never seen counts like the nearest."""
    seen = frozenset(values[active].tolist())
    if isinstance(parent.distribution, CategoricalDistribution):
        return seen
    known = np.unique(values)
    nearest = {value: int(known[np.abs(known - value).argmin()]) for value in parent.parent_values}
    return frozenset(value for value, near in nearest.items() if near in seen)
