"""A search space as a dict or as a table of a study file: one language for both, read in one place.

    {
        "lr": (1e-5, 1e-1, "log"),  # a tuple is a range; a float if either end is one
        "units": {"int": (16, 512), "step": 16},
        "optimizer": ["adam", "sgd"],  # a list has choices
        "momentum": {"float": (0.0, 0.99), "if": "optimizer == sgd"},
        "size": {"ordinal": ["s", "m", "l"]},
        "data": {"constant": "mnist"},
        "forbidden": ["units > 256 and lr > 0.01"],
    }

Distributions of scipy, Optuna and Ray Tune and the hyperparameters of ConfigSpace may be mixed in. They are recognised
by their types' names, so that those packages need not be imported.
"""

from __future__ import annotations

import copy
import json
import math
import numbers
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
from ConfigSpace.hyperparameters import Hyperparameter

from bohb.core.space.clauses import condition, forbidding, parse
from bohb.core.space.configspace import STEP, declared_values, scale_of, violates
from bohb.core.space.scales import Numeric
from bohb.errors import InvalidSpace
from bohb.units import short

_Bounds: TypeAlias = tuple[float, float] | list[float]  # float includes int
_Entry = TypedDict(
    "_Entry",
    {
        "float": _Bounds, "int": _Bounds, "choice": list[Any], "ordinal": list[Any], "constant": Any,
        "log": bool, "step": float, "normal": _Bounds, "weights": list[float], "if": str,
    },
    total=False,
)  # fmt: skip


class _OfOptuna(Protocol):
    def single(self) -> bool: ...


class _OfRay(Protocol):
    def get_sampler(self) -> Any: ...


_Range: TypeAlias = tuple[float, float] | tuple[float, float, Literal["log"]]
SpaceDict: TypeAlias = Mapping[str, _Range | list[Any] | _Entry | Hyperparameter[Any, Any] | _OfOptuna | _OfRay]

_NUMERIC = {"log", "step", "normal", "if"}
_KEYS = {"float": _NUMERIC, "int": _NUMERIC, "choice": {"weights", "if"}, "ordinal": {"if"}, "constant": {"if"}}
_DEEPEST = 14  # conditions in a chain
_DRAWS = 10_000  # after which the forbidden clauses seem to leave nothing
_TAIL = 3.09  # standard deviations from the mean to the quantiles 0.001 and 0.999 of a normal distribution


def as_configspace(space: CS.ConfigurationSpace | Mapping[str, Any]) -> CS.ConfigurationSpace:
    """Return a ConfigSpace, given one or a dict."""
    if not isinstance(space, Mapping):  # a ConfigSpace is one, too
        raise InvalidSpace(f"the space must be a dict or a ConfigSpace.ConfigurationSpace, not {type(space).__name__}")
    found = space if isinstance(space, CS.ConfigurationSpace) else read_space(space)
    if len(found) == 0:
        raise InvalidSpace("the space is empty; give at least one hyperparameter")
    return found


def read_space(table: Mapping[str, Any], toml: bool = False) -> CS.ConfigurationSpace:
    """Build the space that a dict or a table of a study file describes.

    toml: the table has no tuples; a list of two numbers could then be a range, and is refused.
    """
    table = dict(table)
    clauses = [] if isinstance(table.get("forbidden"), Mapping | Hyperparameter) else table.pop("forbidden", [])
    space = CS.ConfigurationSpace()
    found = []
    for name, value in table.items():
        with _named(name, value, toml):
            found.append(_hyperparameter(name, value, toml))
    space.add(found)
    conditions = {}
    for name, value in table.items():
        if isinstance(value, Mapping) and "if" in value:
            with _named(f"{name}.if", value["if"], toml):
                conditions[name] = condition(space, space[name], value["if"])
    _check_depth(conditions)
    with _named("if", [table[name]["if"] for name in conditions], toml):
        space.add(list(conditions.values()))
    with _named("forbidden", clauses, toml):
        _forbid(space, clauses)
    return space


@contextmanager
def _named(name: object, value: Any, toml: bool) -> Iterator[None]:
    """Put the value that is read in front of the messages of errors, as it is written."""
    try:
        yield
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        where = f"{f'space.{name} = ' if toml else f'{name}='}{short(_written(value, toml))}"
        raise InvalidSpace(f"{where}: {' '.join(str(error).split())}") from error


def _written(value: Any, toml: bool) -> str:
    """Format a value as Python or a study file has it."""
    if not toml:
        of_scipy = getattr(getattr(value, "dist", None), "name", None)  # its repr is an address
        given = [] if of_scipy is None else [*map(repr, value.args), *(f"{k}={v!r}" for k, v in value.kwds.items())]
        return repr(value) if of_scipy is None else f"{of_scipy}({', '.join(given)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_written(of, toml)}" for key, of in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False, default=str)


def _hyperparameter(name: object, value: Any, toml: bool) -> Any:
    if not isinstance(name, str):
        raise InvalidSpace("the name of a hyperparameter must be a string")
    if isinstance(value, Hyperparameter):
        if value.name != name:
            raise InvalidSpace(f"its own name is {value.name!r}; use the same name for both")
        return copy.copy(value)
    entry = _entry(value, toml)
    kinds = [kind for kind in _KEYS if kind in entry]
    if len(kinds) != 1:
        raise InvalidSpace(f"it must have exactly one of {', '.join(_KEYS)}")
    kind = kinds[0]
    unknown = [key for key in entry if key != kind and key not in _KEYS[kind]]
    if unknown:
        raise InvalidSpace(f"unknown key {unknown[0]!r}; besides {kind} there may be {', '.join(sorted(_KEYS[kind]))}")
    if kind == "constant":
        return CS.Constant(name, _hashable(entry[kind]))
    if kind in ("choice", "ordinal"):
        values, weights = _choices(kind, entry[kind]), entry.get("weights")
        if weights is not None and not _are_numbers(weights, len(values), "float"):
            raise InvalidSpace("weights must have a number for each of the choices")
        return CS.Categorical(name, values, weights=weights, ordered=kind == "ordinal")
    return _numeric(name, kind, entry[kind], entry)


def _entry(value: Any, toml: bool) -> Mapping[str, Any]:
    """Return the table that a short form stands for."""
    match value:
        case Mapping():
            return value
        case list() if _are_numbers(value[:2], 2, "float") and (value[2:] == ["log"] or (toml and not value[2:])):
            meant = _range(tuple(value)) if toml else tuple(value)
            raise InvalidSpace(
                f"this could be a range or a choice: write {_written(meant, toml)} for a range, "
                f"or {_written({'choice': value}, toml)} to choose between the values"
            )
        case list():
            return {"choice": value}
        case tuple():
            return _range(value)
    found = _foreign(value)
    if found is None:
        a_range = "{float = [lower, upper]}" if toml else "(lower, upper) or (lower, upper, 'log')"
        a_constant = {"constant": value if isinstance(value, str | bool | int | float | None) else "…"}
        raise InvalidSpace(
            f"write {a_range} for a range, a list for choices, {_written(a_constant, toml)} for a constant"
        )
    return found


def _range(value: tuple[Any, ...]) -> dict[str, Any]:
    if len(value) != 2 and (len(value) != 3 or value[2] != "log"):
        raise InvalidSpace(
            "a range is (lower, upper) or (lower, upper, 'log'), or in steps {'int': (lower, upper), 'step': 2}; "
            "choices are a list"
        )
    if any(isinstance(bound, bool) for bound in value):
        raise InvalidSpace("write [False, True] for a choice between two values")
    kind = "int" if all(isinstance(bound, numbers.Integral) for bound in value[:2]) else "float"
    return {kind: list(value[:2])} | ({"log": True} if value[2:] else {})


def _choices(kind: str, values: Any) -> list[Any]:
    """Return the choices; raise InvalidSpace if there is none, or if two of them are equal."""
    if not isinstance(values, list | tuple) or not values:
        raise InvalidSpace(f"{kind} must be a list of at least one value")
    found = [_hashable(value) for value in values]
    for i, value in enumerate(found):
        if value in found[:i]:
            first = found[found.index(value)]
            which = f"{value!r} twice" if repr(first) == repr(value) else f"{first!r} and {value!r}, which are equal"
            raise InvalidSpace(f"it has {which}; give each value once")
    return found


def _hashable(value: Any) -> Any:
    """Return a value with tuples in place of lists, which ConfigSpace cannot hash."""
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


def _numeric(name: str, kind: str, bounds: Any, entry: Mapping[str, Any]) -> Any:
    log, step, normal = entry.get("log", False), entry.get("step"), entry.get("normal")
    if not isinstance(log, bool):
        raise InvalidSpace(f"log must be true or false, not {log!r}")
    if not _are_numbers(bounds, 2, kind):
        raise InvalidSpace(f"{kind} must have two {'whole numbers' if kind == 'int' else 'numbers'}, [lower, upper]")
    lower, upper = bounds
    if not -math.inf < lower < upper < math.inf:
        raise InvalidSpace("the bounds must be finite numbers, the lower one below the upper one")
    if log and lower <= 0:
        raise InvalidSpace("on a log scale the lower bound must be positive")
    if normal is not None and (log or not _are_numbers(normal, 2, "float") or not 0 < normal[1] < math.inf):
        raise InvalidSpace("normal must be [mean, standard deviation], and the scale must not be logarithmic")
    number = int if kind == "int" else float
    given: dict[str, Any] = {"log": log} if normal is None else {"distribution": CS.Normal(*map(float, normal))}
    try:
        with np.errstate(all="ignore"):
            if step is not None:
                _check_step(lower, upper, step, kind, log)
                middle = Numeric(name, lower, upper, log, kind == "int", step=float(step)).decode(0.5)
                given |= {"meta": {STEP: number(step)}, "default": middle}
            make: Any = CS.Integer if kind == "int" else CS.Float
            return make(name, (number(lower), number(upper)), **given)
    except InvalidSpace:
        raise
    except (ArithmeticError, ValueError, TypeError) as error:
        raise InvalidSpace(
            f"ConfigSpace cannot represent this range ({error!s:.120}); use the range of an exponent or a fraction, "
            "and compute the value in the objective"
        ) from error


def _check_step(lower: Any, upper: Any, step: Any, kind: str, log: bool) -> None:
    if not _are_numbers([step], 1, kind) or not 0 < step <= upper - lower:
        raise InvalidSpace(f"step must be a positive {'whole ' if kind == 'int' else ''}number, at most upper - lower")
    last = lower + math.floor((upper - lower) / step + 1e-9) * step
    if abs(upper - last) > 1e-9 * step:
        raise InvalidSpace(f"steps of {step!r} from {lower!r} do not reach {upper!r}; the last value is {last:.12g}")
    if log and lower <= step / 2:
        raise InvalidSpace("on a log scale the lower bound must be larger than half a step")


def _are_numbers(values: Any, n: int, kind: str) -> bool:
    wanted = numbers.Integral if kind == "int" else numbers.Real
    given = isinstance(values, list | tuple) and len(values) == n
    return given and all(isinstance(value, wanted) and not isinstance(value, bool) for value in values)


def _foreign(value: Any) -> dict[str, Any] | None:
    """Return the table for a distribution of another package; None for anything else."""
    readers = {"scipy": _of_scipy, "optuna": _of_optuna, "ray": _of_ray}
    read = readers.get(type(value).__module__.partition(".")[0])
    found = None if read is None else read(value)
    if read is not None and found is None:
        raise InvalidSpace("bohb cannot read this distribution; write a range (lower, upper) or (lower, upper, 'log')")
    return found


def _of_scipy(value: Any) -> dict[str, Any] | None:
    name = getattr(getattr(value, "dist", None), "name", "")
    if name == "norm":
        return _normal(float(value.mean()), float(value.std()))
    if name not in ("uniform", "loguniform", "reciprocal", "randint"):
        return None
    kind, number = ("int", int) if name == "randint" else ("float", float)
    return {kind: [number(bound) for bound in value.support()], "log": name in ("loguniform", "reciprocal")}


def _of_optuna(value: Any) -> dict[str, Any] | None:
    if hasattr(value, "choices"):
        return {"choice": list(value.choices)}
    if not hasattr(value, "low"):
        return None
    return _stepped("int" if isinstance(value.low, int) else "float", value.low, value.high, value.step, value.log)


def _of_ray(value: Any) -> dict[str, Any] | None:
    sampler, step = value.get_sampler(), None
    if hasattr(sampler, "q"):
        sampler, step = sampler.get_sampler(), sampler.q
    kinds = {each.__name__ for each in type(sampler).__mro__}
    if "Normal" in kinds and step is None:
        return _normal(float(sampler.mean), float(sampler.sd))
    if not kinds & {"Uniform", "LogUniform"}:
        return None
    if hasattr(value, "categories"):
        return {"choice": list(value.categories)}
    kind = type(value).__name__.lower().removesuffix("eger")
    log = "LogUniform" in kinds
    if step is None or (kind == "int" and step == 1):
        return {kind: [value.lower, value.upper - (kind == "int")], "log": log}  # excludes an integer's upper bound
    return _stepped(kind, math.ceil(value.lower / step - 1e-9) * step, value.upper, step, log)


def _stepped(kind: str, lower: Any, upper: Any, step: Any, log: bool) -> dict[str, Any]:
    """Return the table of a range in steps, which may end before its upper bound."""
    if step is None or (kind == "int" and step == 1):
        return {kind: [lower, upper], "log": log}
    last = lower + math.floor((upper - lower) / step + 1e-9) * step
    return {kind: [lower, last], "log": log, "step": step}


def _normal(mean: float, deviation: float) -> dict[str, Any]:
    return {"float": [mean - _TAIL * deviation, mean + _TAIL * deviation], "normal": [mean, deviation]}


def _check_depth(conditions: Mapping[str, Any]) -> None:
    """Refuse long chains of conditions: ConfigSpace takes four times as long for each one (37 seconds for 15)."""
    parents = {name: [c.parent.name for c in getattr(one, "dlcs", (one,))] for name, one in conditions.items()}
    waiting, depth = set(parents), 0
    while waiting:  # one level of the chains at a time
        ready = {name for name in waiting if waiting.isdisjoint(parents[name])}
        if not ready:
            raise InvalidSpace(f"the conditions of {', '.join(sorted(waiting))} depend on each other in a circle")
        depth, waiting = depth + 1, waiting - ready
        if depth > _DEEPEST:
            raise InvalidSpace(
                f"{min(ready)!r} depends on a chain of more than {_DEEPEST} conditions, which take ConfigSpace "
                "minutes or hours; let it depend on an earlier hyperparameter, or join several into one choice"
            )


def _forbid(space: CS.ConfigurationSpace, texts: Any) -> None:
    """Add forbidden clauses; if one rules the default configuration out, that gets other values at random."""
    if not isinstance(texts, list):
        raise InvalidSpace("it must be a list of clauses such as ['layers > 3 and lr > 0.1']")
    clauses = [forbidding(space, text) for text in texts]
    config = {name: each.default_value for name, each in space.items()}
    rng = np.random.default_rng(0)
    for _ in range(_DRAWS):
        broken = next((text for text, clause in zip(texts, clauses, strict=True) if violates(clause, config)), None)
        if broken is None:
            break
        config |= {name: _drawn(space[name], rng) for name in space if name in _names(broken)}
    else:
        raise InvalidSpace(f"{_DRAWS} random configurations were all ruled out; loosen the clauses")
    for name, value in config.items():
        space[name].default_value = value
    space.add(clauses)


def _names(text: str) -> set[str]:
    """Return the hyperparameters that a clause may be about."""

    def compare(name: str, _: str, value: Any) -> set[str]:
        return {name, value} if isinstance(value, str) else {name}

    found: set[str] = parse(text, compare, set[str].union, set[str].union)
    return found


def _drawn(hyperparameter: Any, rng: np.random.Generator) -> Any:
    """Return a random value of a hyperparameter."""
    values = declared_values(hyperparameter)
    if values is not None and len(values) == 1:
        return values[0]
    scale = scale_of(hyperparameter, values)
    return scale.decode(scale.draw(rng.random(1)).item())
