"""The short form of a search space: a dict with one plain value per hyperparameter."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np

from bohb.errors import InvalidSpace


def hyperparameter(name: object, value: Any) -> Any:
    """Return the ConfigSpace hyperparameter for one entry of a plain dict.

    A list of two numbers is refused, because it could be a range or two choices.
    """
    if not isinstance(name, str):
        raise InvalidSpace(f"the hyperparameter name {name!r} must be a string")
    if hasattr(value, "name") and hasattr(value, "default_value"):
        if value.name != name:
            raise InvalidSpace(f"the space has {value.name!r} under the key {name!r}; use the same name for both")
        return value
    match value:
        case tuple():
            return _range(name, value)
        case list() if looks_like_a_range(value):
            choices = [item for item in value if item != "log"]
            raise InvalidSpace(
                f"{name}={value!r} could be a range or a choice: write {tuple(value)!r} for a range, "
                f"or {{'choice': {choices!r}}} to choose between the two values"
            )
        case list():
            return checked_choices(name, value)
        case {"choice": list(choices)} if len(value) == 1:
            return CS.Categorical(name, checked_choices(name, choices))
        case range() | set() | frozenset() | Mapping():
            raise InvalidSpace(
                f"{name}={value!r}: use a tuple (lower, upper) or (lower, upper, 'log') for a range, "
                "and a list or {'choice': […]} for choices"
            )
    instead = _instead_of(value)
    if instead is not None:
        raise InvalidSpace(f"{name} is a {type(value).__name__} of another library; write {instead} instead")
    return value


def checked_choices(name: str, choices: list[Any]) -> list[Any]:
    """Return the choices; raise InvalidSpace if there is none, or if two of them are equal."""
    if not choices:
        raise InvalidSpace(f"{name}=[] has no choice; give at least one value")
    for i, choice in enumerate(choices):
        if choice in choices[:i]:
            first = choices[choices.index(choice)]
            which = f"{choice!r} twice" if repr(first) == repr(choice) else f"{first!r} and {choice!r}, which are equal"
            raise InvalidSpace(f"{name}={choices!r:.80} has {which}; give each value once")
    return choices


def looks_like_a_range(values: list[Any]) -> bool:
    """Whether a list consists of two numbers, perhaps followed by "log"."""
    pair = values[:2] if values[2:] in ([], ["log"]) else []
    return len(pair) == 2 and all(isinstance(v, numbers.Real) and not isinstance(v, bool | np.bool_) for v in pair)


def _range(name: str, value: tuple[Any, ...]) -> Any:
    log = len(value) == 3 and value[2] == "log"
    if len(value) != 2 and not log:
        raise InvalidSpace(f"{name}={value!r}: a range is (lower, upper) or (lower, upper, 'log'); choices are a list")
    lower, upper = value[:2]
    if isinstance(lower, bool) or isinstance(upper, bool):
        raise InvalidSpace(f"{name}={value!r}: write [False, True] for a choice between two values")
    real = isinstance(lower, numbers.Real) and isinstance(upper, numbers.Real)
    if not real or not -math.inf < lower < upper < math.inf:
        raise InvalidSpace(f"{name}={value!r}: the bounds must be finite numbers, the lower one below the upper one")
    if log and lower <= 0:
        raise InvalidSpace(f"{name}={value!r}: on a log scale the lower bound must be positive")
    try:
        with np.errstate(all="ignore"):
            if isinstance(lower, float | np.floating) or isinstance(upper, float | np.floating):
                return CS.Float(name, (float(lower), float(upper)), log=log)
            return CS.Integer(name, (lower, upper), log=log)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise InvalidSpace(
            f"{name}={value!r:.80}: ConfigSpace cannot represent this range ({error!s:.120}); use the range of "
            "an exponent or a fraction, and compute the value in the objective"
        ) from error


def _instead_of(value: Any) -> str | None:
    """Return what to write instead of a distribution of scipy or Optuna; None if `value` is not one."""
    if hasattr(value, "low") and hasattr(value, "high"):  # Optuna
        bounds, log = (value.low, value.high), bool(getattr(value, "log", False))
    elif hasattr(value, "choices"):  # Optuna's categorical
        return repr(list(value.choices))
    elif hasattr(value, "rvs") and hasattr(value, "support"):  # scipy
        bounds, log = value.support(), getattr(value.dist, "name", "") in ("loguniform", "reciprocal")
    else:
        return None
    lower, upper = (b.item() if isinstance(b, np.generic) else b for b in bounds)
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return "a range (lower, upper) or (lower, upper, 'log')"
    return repr((lower, upper, "log") if log else (lower, upper))
