"""The search space of a study file: a table per hyperparameter, with conditions and forbidden clauses as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
from ConfigSpace import conditions, forbidden
from ConfigSpace.exceptions import ForbiddenValueError

from bohb.core.space import Space
from bohb.core.space.configspace import violates
from bohb.core.space.shorthand import checked_choices, looks_like_a_range
from bohb.errors import InvalidSpace
from bohb.studyfile.clauses import parse

_DRAWS = 10_000
_DEEPEST = 14  # conditions in a chain
_KINDS = ("float", "int", "choice", "ordinal", "constant")
_CONDITIONS: dict[str, Any] = {
    "==": conditions.EqualsCondition,
    "!=": conditions.NotEqualsCondition,
    "<": conditions.LessThanCondition,
    ">": conditions.GreaterThanCondition,
    "in": conditions.InCondition,
}
_FORBIDDEN: dict[str, Any] = {
    "==": forbidden.ForbiddenEqualsClause,
    "<": forbidden.ForbiddenLessThanClause,
    "<=": forbidden.ForbiddenLessThanEqualsClause,
    ">": forbidden.ForbiddenGreaterThanClause,
    "in": forbidden.ForbiddenInClause,
}
_RELATIONS: dict[str, Any] = {
    "==": forbidden.ForbiddenEqualsRelation,
    "<": forbidden.ForbiddenLessThanRelation,
    "<=": forbidden.ForbiddenLessThanEqualsRelation,
    ">": forbidden.ForbiddenGreaterThanRelation,
    ">=": forbidden.ForbiddenGreaterThanEqualsRelation,
}


def build_space(table: Mapping[str, Any], forbidden_clauses: Sequence[str] = ()) -> CS.ConfigurationSpace:
    """Build the space from the table `space` and the list `forbidden` of a study file."""
    entries = {name: entry if isinstance(entry, Mapping) else _entry(name, entry) for name, entry in table.items()}
    space = _without_forbidden(entries, {})
    clauses = [_checked(f'forbidden "{text}"', lambda t=text: _forbid(space, t)) for text in forbidden_clauses]
    try:
        space.add(*clauses)
    except ForbiddenValueError:  # the default configuration is forbidden; nothing depends on it, so we change it
        space = _without_forbidden(entries, _allowed_config(entries, clauses))
        space.add(*(_forbid(space, text) for text in forbidden_clauses))
    return space


def _entry(name: str, value: Any) -> dict[str, Any]:
    """Return the table for which a plain value stands: a list has choices, anything else is a constant."""
    if isinstance(value, list) and looks_like_a_range(value):
        pair = value[:2]
        kind = "int" if all(isinstance(v, int) for v in pair) else "float"
        log = ", log = true" if len(value) == 3 else ""
        raise InvalidSpace(
            f"space.{name} = {value!r} could be a range or a choice: write {{{kind} = {pair!r}{log}}} for a range, "
            f"or {{choice = {pair!r}}} to choose between the two values"
        )
    return {"choice" if isinstance(value, list) else "constant": value}


def _without_forbidden(entries: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> CS.ConfigurationSpace:
    """Build the space with hyperparameters and conditions only."""
    space = CS.ConfigurationSpace()
    for name, entry in entries.items():
        given = {"default": defaults[name]} if name in defaults else {}
        where = f"space.{name} = {_shown(entry)}"
        _checked(where, lambda n=name, e=entry, g=given: space.add(_hyperparameter(n, e, g)))
    texts = {name: f'space.{name}.if = "{entry["if"]}"' for name, entry in entries.items() if "if" in entry}
    found = {
        name: _checked(where, lambda n=name: _condition(space, space[n], entries[n]["if"]))
        for name, where in texts.items()
    }
    _check_depth(found)
    for name, condition in found.items():
        _checked(texts[name], lambda c=condition: space.add(c))
    return space


def _check_depth(found: Mapping[str, Any]) -> None:
    """Refuse long chains of conditions: ConfigSpace takes four times as long for each one (37 seconds for 15)."""
    parents = {name: [c.parent.name for c in getattr(one, "dlcs", (one,))] for name, one in found.items()}
    waiting, depth = set(parents), 0
    while waiting:  # one level of the chains at a time
        ready = {name for name in waiting if waiting.isdisjoint(parents[name])}
        if not ready:
            return  # a circle, which ConfigSpace reports
        depth, waiting = depth + 1, waiting - ready
        if depth > _DEEPEST:
            raise InvalidSpace(
                f"space.{min(ready)} depends on a chain of more than {_DEEPEST} conditions, which take ConfigSpace "
                "minutes or hours; let it depend on an earlier hyperparameter, or join several into one choice"
            )


def _allowed_config(entries: Mapping[str, Mapping[str, Any]], clauses: Sequence[Any]) -> dict[str, Any]:
    """Return a configuration that no clause forbids, the same one each time."""
    space = Space(_without_forbidden(entries, {}))
    for seed in range(_DRAWS):
        config = space.sample(np.random.default_rng(seed))
        if not any(violates(clause, config) for clause in clauses):
            return config
    raise InvalidSpace(f"forbidden: {_DRAWS} random configurations were all ruled out; loosen the clauses")


def _checked(where: str, action: Any) -> Any:
    """Return the result of an action; errors name the place in the file."""
    try:
        return action()
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise InvalidSpace(f"{where}: {' '.join(str(error).split())}") from error


def _shown(entry: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {value!r}" for key, value in entry.items()) + "}"


def _hyperparameter(name: str, entry: Mapping[str, Any], default: Mapping[str, Any]) -> Any:
    """Build one hyperparameter from its table."""
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        raise InvalidSpace(f"it must have exactly one of {', '.join(_KINDS)}")
    kind, value = kinds[0], entry[kinds[0]]
    allowed = {kind, "if", *({"log"} if kind in ("float", "int") else {"weights"} if kind == "choice" else ())}
    unknown = [key for key in entry if key not in allowed]
    if unknown:
        raise InvalidSpace(f"unknown key {unknown[0]!r}; a {kind} may have {', '.join(sorted(allowed))}")
    if kind == "constant":
        return CS.Constant(name, _plain(value))
    if kind in ("choice", "ordinal"):
        if not isinstance(value, list) or not value:
            raise InvalidSpace(f"{kind} must be a list with at least one value")
        values = checked_choices(name, [_plain(item) for item in value])
        return CS.Categorical(name, values, weights=entry.get("weights"), ordered=kind == "ordinal", **default)
    return _numeric(name, kind, value, entry.get("log", False), default)


def _numeric(name: str, kind: str, value: Any, log: object, default: Mapping[str, Any]) -> Any:
    if not isinstance(log, bool):
        raise InvalidSpace(f"log = {log!r} must be true or false")
    wanted = int if kind == "int" else int | float
    numbers = isinstance(value, list) and all(isinstance(v, wanted) and not isinstance(v, bool) for v in value)
    if not numbers or len(value) != 2:
        what = "whole numbers" if kind == "int" else "numbers"
        raise InvalidSpace(f"{kind} must be a list of two {what}, [lower, upper]")
    lower, upper = value
    if not lower < upper:
        raise InvalidSpace(f"lower = {lower!r} must be less than upper = {upper!r}")
    if log and lower <= 0:
        raise InvalidSpace(f"lower = {lower!r} must be positive on the log scale")
    make = CS.Integer if kind == "int" else CS.Float
    return make(name, (lower, upper), log=log, **default)


def _plain(value: Any) -> Any:
    """Return a value that JSON can store; lists become tuples, which ConfigSpace can hash."""
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if not isinstance(value, str | bool | int | float):
        raise InvalidSpace(f"{value!r} is of type {type(value).__name__}; use text, numbers, true, false or lists")
    return value


def _condition(space: CS.ConfigurationSpace, child: Any, text: str) -> Any:
    def compare(name: str, operator: str, value: Any) -> Any:
        if operator in ("<=", ">="):  # ConfigSpace has only strict comparisons
            return conditions.OrConjunction(compare(name, "==", value), compare(name, operator[0], value))
        return _CONDITIONS[operator](child, _known(space, name), value)

    return parse(text, compare, conditions.AndConjunction, conditions.OrConjunction)


def _forbid(space: CS.ConfigurationSpace, text: str) -> Any:
    def compare(name: str, operator: str, value: Any) -> Any:
        if operator == "!=":
            raise InvalidSpace(f"'!=' cannot be forbidden; list the other values: {name} in [...]")
        if isinstance(value, str) and value in space and operator in _RELATIONS:
            return _RELATIONS[operator](_known(space, name), space[value])
        if operator == ">=":  # ConfigSpace 1.2's own clause prints to stdout whenever it is evaluated
            return forbidden.ForbiddenOrConjunction(compare(name, "==", value), compare(name, ">", value))
        return _FORBIDDEN[operator](_known(space, name), value)

    return parse(text, compare, forbidden.ForbiddenAndConjunction, forbidden.ForbiddenOrConjunction)


def _known(space: CS.ConfigurationSpace, name: str) -> Any:
    if name not in space:
        raise InvalidSpace(f"{name!r} is not a hyperparameter of this space; it has {', '.join(space)}")
    return space[name]
