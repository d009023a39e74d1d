"""Reading a ConfigSpace: its hyperparameters, priors, conditions and forbidden clauses, in our own terms."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
from ConfigSpace.forbidden import ForbiddenRelation
from scipy.special import betaincinv, betaln, ndtr, ndtri, xlog1py, xlogy

from bohb.core.space.scales import Categorical, Condition, Numeric, Ordinal, Prior, Scale
from bohb.errors import InvalidSpace

STEP = "bohb_step"  # in the meta data of a numeric hyperparameter: the distance of two values
Comparable = Callable[[str, Any], float]  # a value as conditions compare it: a number, or the index of a choice
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    CS.EqualsCondition: operator.eq,
    CS.NotEqualsCondition: operator.ne,
    CS.LessThanCondition: operator.lt,
    CS.GreaterThanCondition: operator.gt,
}


def from_serialised(stored: Mapping[str, Any]) -> CS.ConfigurationSpace:
    """Return the space that ConfigSpace's `to_serialized_dict` wrote; it turned tuples among the choices into lists."""
    try:
        return CS.ConfigurationSpace.from_serialized_dict(copy.deepcopy(dict(stored)))  # it empties what it reads
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InvalidSpace(f"the stored space cannot be read ({type(error).__name__}: {error!s:.200})") from error


def declared_values(hyperparameter: Any) -> tuple[Any, ...] | None:
    """Return the values of a constant, categorical or ordinal, checked to be storable; None for a numeric one."""
    match hyperparameter:
        case CS.Constant():
            values: tuple[Any, ...] = (hyperparameter.value,)
        case CS.CategoricalHyperparameter():
            values = tuple(hyperparameter.choices)
        case CS.OrdinalHyperparameter():
            values = tuple(hyperparameter.sequence)
        case _:
            return None
    return tuple(_storable(hyperparameter.name, value) for value in values)


def _storable(name: str, value: Any) -> Any:
    """Return a choice as plain Python: text, a number, a bool, None or a tuple, since studies are stored as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple | list):
        return tuple(_storable(name, item) for item in value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidSpace(
        f"{name!r} has the choice {value!r} of type {type(value).__name__}, which JSON cannot store; "
        "use its name and look the object up in the objective"
    )


def scale_of(hyperparameter: Any, values: tuple[Any, ...] | None) -> Scale:
    """Return the scale of a hyperparameter that varies."""
    name = hyperparameter.name
    match hyperparameter:
        case CS.CategoricalHyperparameter():
            weights = np.asarray(hyperparameter.probabilities, dtype=float)
            cumulative = np.cumsum(weights / weights.sum())
            return Categorical(name, values or (), tuple(cumulative.tolist()))
        case CS.OrdinalHyperparameter():
            return Ordinal(name, values or ())
        case CS.UniformFloatHyperparameter() | CS.NormalFloatHyperparameter() | CS.BetaFloatHyperparameter():
            integer = False
        case CS.UniformIntegerHyperparameter() | CS.NormalIntegerHyperparameter() | CS.BetaIntegerHyperparameter():
            integer = True
        case _:
            raise InvalidSpace(f"{name!r} is a {type(hyperparameter).__name__}, which bohb does not know")
    kind: type = int if integer else float
    lower, upper = kind(hyperparameter.lower), kind(hyperparameter.upper)
    step = hyperparameter.meta.get(STEP, 0) if isinstance(hyperparameter.meta, dict) else 0
    if not isinstance(step, int | float) or not 0 <= step <= upper - lower:  # of an event that nobody has written
        raise InvalidSpace(f"{name!r} has the step {step!r}; it must be between 0 and its range")
    plain = Numeric(name, lower, upper, hyperparameter.log, integer, step=float(step))
    return replace(plain, prior=_prior(hyperparameter, plain))


def _prior(hyperparameter: Any, scale: Numeric) -> Prior | None:
    """Return the prior on the unit scale; None if it is uniform."""
    match hyperparameter:
        case CS.BetaFloatHyperparameter() | CS.BetaIntegerHyperparameter():
            alpha, beta = float(hyperparameter.alpha), float(hyperparameter.beta)
            return Prior(
                lambda u: np.asarray(betaincinv(alpha, beta, u)),
                lambda x: np.asarray(xlogy(alpha - 1, x) + xlog1py(beta - 1, -x) - betaln(alpha, beta)),
            )
        case CS.NormalFloatHyperparameter() | CS.NormalIntegerHyperparameter():
            mean, sigma = float(hyperparameter.mu), float(hyperparameter.sigma)
            if hyperparameter.log:  # ConfigSpace's own reading of sigma on a log scale
                mean, sigma = math.log(mean), abs(math.log(scale.lower + sigma)) or 1.0
            mean, sigma = (mean - scale.start) / scale.width, sigma / scale.width
            below, above = float(ndtr(-mean / sigma)), float(ndtr((1 - mean) / sigma))
            mass = max(above - below, 1e-300)  # 0 if the mean lies far outside the range
            return Prior(
                lambda u: np.asarray(mean + sigma * ndtri(below + u * (above - below))),
                lambda x: -(((x - mean) / sigma) ** 2) / 2 - math.log(math.sqrt(2 * math.pi) * sigma * mass),
            )
        case _:
            return None


def condition_of(parts: Sequence[Any], comparable: Comparable) -> Condition:
    """Return the condition of a hyperparameter: all of these must hold."""
    return _combined(np.logical_and, [_compile(part, comparable) for part in parts])


def _compile(condition: Any, comparable: Comparable) -> Condition:
    """Compile a condition of ConfigSpace and those nested in it; an inactive parent satisfies none."""
    if isinstance(condition, CS.AndConjunction | CS.OrConjunction):
        operation = np.logical_and if isinstance(condition, CS.AndConjunction) else np.logical_or
        return _combined(operation, [_compile(part, comparable) for part in condition.components])
    name, compare = condition.parent.name, _COMPARISONS.get(type(condition))
    if isinstance(condition, CS.InCondition):
        values = [comparable(name, value) for value in condition.values]
        return Condition(frozenset([name]), lambda columns, active: active[name] & np.isin(columns[name], values))
    if compare is None:
        raise InvalidSpace(f"the condition {condition} is of a kind bohb does not know: {type(condition).__name__}")
    value = comparable(name, condition.value)
    return Condition(frozenset([name]), lambda columns, active: active[name] & compare(columns[name], value))


def _combined(operation: np.ufunc, parts: Sequence[Condition]) -> Condition:
    parents = frozenset[str]().union(*(part.parents for part in parts))
    return Condition(parents, lambda columns, active: operation.reduce([part.holds(columns, active) for part in parts]))


def parents_first(names: Sequence[str], compiled: Mapping[str, Condition]) -> tuple[str, ...]:
    """Return all names, every parent before its children."""
    parents = {name: compiled[name].parents if name in compiled else frozenset[str]() for name in names}
    try:
        return tuple(TopologicalSorter(parents).static_order())
    except CycleError as error:
        raise InvalidSpace(f"the conditions of {error.args[1][1:]} depend on each other in a circle") from error


def violates(clause: Any, config: Mapping[str, Any]) -> bool:
    """Whether a forbidden clause applies; one on an inactive hyperparameter never does."""
    match clause:
        case CS.ForbiddenAndConjunction():
            return all(violates(part, config) for part in clause.components)
        case CS.ForbiddenOrConjunction():
            return any(violates(part, config) for part in clause.components)
        case ForbiddenRelation():
            return (
                clause.left.name in config
                and clause.right.name in config
                and bool(clause.is_forbidden_value(dict(config)))
            )
        case _:
            return clause.hyperparameter.name in config and bool(clause.is_forbidden_value(dict(config)))


def chosen_default(hyperparameter: Any) -> Any:
    """Return the default that the user has declared; None if it is the one that ConfigSpace chooses by itself."""
    if STEP in (hyperparameter.meta or {}):
        return None  # the middle step
    match hyperparameter:
        case CS.UniformFloatHyperparameter() | CS.UniformIntegerHyperparameter():
            plain = type(hyperparameter)("x", hyperparameter.lower, hyperparameter.upper, log=hyperparameter.log)
            automatic = plain.default_value
        case CS.CategoricalHyperparameter():
            choices, weights = hyperparameter.choices, hyperparameter.weights
            automatic = CS.CategoricalHyperparameter("x", choices, weights=weights).default_value
        case CS.OrdinalHyperparameter():
            automatic = hyperparameter.sequence[0]
        case _:
            return None  # a constant, or a prior, of which the default is just the most likely value
    return None if hyperparameter.default_value == automatic else hyperparameter.default_value
