"""The search space of a study file: short tables for hyperparameters, one line for a condition or a forbidden clause.

Clauses are comparisons joined by `and` and `or`, such as `layers > 1 and optimizer in [sgd, adam]`. They are parsed
here and never evaluated as code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
from ConfigSpace import conditions, forbidden

from bohb.errors import InvalidSpace

_KINDS = ("float", "int", "choice", "ordinal", "constant")
_OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "in")
_TOKEN = re.compile(r"""\s*(==|!=|<=|>=|[<>()\[\],]|"[^"]*"|'[^']*'|[^\s()\[\],<>=!"']+)""")
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
    ">=": forbidden.ForbiddenGreaterThanEqualsClause,
    "in": forbidden.ForbiddenInClause,
}
_RELATIONS: dict[str, Any] = {
    "==": forbidden.ForbiddenEqualsRelation,
    "<": forbidden.ForbiddenLessThanRelation,
    "<=": forbidden.ForbiddenLessThanEqualsRelation,
    ">": forbidden.ForbiddenGreaterThanRelation,
    ">=": forbidden.ForbiddenGreaterThanEqualsRelation,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One hyperparameter against a value, a list of values or (in a forbidden clause) another hyperparameter."""

    name: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class Both:
    """All parts hold."""

    parts: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds."""

    parts: tuple[Clause, ...]


Clause = Comparison | Both | Either


def build_space(table: Mapping[str, Any], forbidden_clauses: Sequence[str] = ()) -> CS.ConfigurationSpace:
    """The space that the table `space` and the list `forbidden` of a study file describe."""
    space = CS.ConfigurationSpace()
    entries = {name: entry if isinstance(entry, Mapping) else _shorthand(entry) for name, entry in table.items()}
    for name, entry in entries.items():
        space.add(_checked(f"space.{name} = {_shown(entry)}", lambda n=name, e=entry: _hyperparameter(n, e)))
    for name, entry in entries.items():
        if "if" in entry:
            where = f'space.{name}.if = "{entry["if"]}"'
            clause = _checked(where, lambda e=entry: parse(e["if"]))
            space.add(_checked(where, lambda n=name, c=clause: _condition(space, space[n], c)))
    for text in forbidden_clauses:
        where = f'forbidden "{text}"'
        clause = _checked(where, lambda t=text: parse(t))
        space.add(_checked(where, lambda c=clause: _forbid(space, c)))
    return space


def parse(text: object) -> Clause:
    """A clause from its text."""
    if not isinstance(text, str):
        raise InvalidSpace("a clause is a text such as 'layers > 1'")
    return _Parser(text).whole()


def _checked(where: str, action: Any) -> Any:
    """The result of an action; whatever our rules or ConfigSpace's refuse is said with its place."""
    try:
        return action()
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidSpace(f"{where}: {' '.join(str(error).split())}") from error


def _shorthand(value: Any) -> dict[str, Any]:
    return {"choice": value} if isinstance(value, list) else {"constant": value}


def _shown(entry: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {value!r}" for key, value in entry.items()) + "}"


def _hyperparameter(name: str, entry: Mapping[str, Any]) -> Any:
    """One hyperparameter from its table."""
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        raise InvalidSpace(f"it must have exactly one of {', '.join(_KINDS)}")
    kind, value = kinds[0], entry[kinds[0]]
    allowed = {kind, "if", *({"log"} if kind in ("float", "int") else {"weights"} if kind == "choice" else ())}
    unknown = [key for key in entry if key not in allowed]
    if unknown:
        raise InvalidSpace(f"unknown key {unknown[0]!r}; a {kind} knows {', '.join(sorted(allowed))}")
    if kind == "constant":
        return CS.Constant(name, _plain(value))
    if kind in ("choice", "ordinal"):
        if not isinstance(value, list) or not value:
            raise InvalidSpace(f"{kind} must be a list with at least one value")
        values = [_plain(item) for item in value]
        return CS.Categorical(name, values, weights=entry.get("weights"), ordered=kind == "ordinal")
    return _numeric(name, kind, value, entry.get("log", False))


def _numeric(name: str, kind: str, value: Any, log: object) -> Any:
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
    return CS.Integer(name, (lower, upper), log=log) if kind == "int" else CS.Float(name, (lower, upper), log=log)


def _plain(value: Any) -> Any:
    """A value that JSON can store; lists become tuples, which ConfigSpace can hash."""
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if not isinstance(value, str | bool | int | float):
        raise InvalidSpace(f"{value!r} is of type {type(value).__name__}; use text, numbers, true, false or lists")
    return value


class _Parser:
    """Recursive descent: either := both (or both)*; both := atom (and atom)*; atom := comparison | ( either )."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise InvalidSpace(f"{text[place:].strip()!r} cannot be read")
            self._tokens.append(found[1])
            place = found.end()

    def whole(self) -> Clause:
        clause = self._either()
        if self._tokens:
            raise InvalidSpace(f"{self._tokens[0]!r} is left over; join comparisons with 'and' or 'or'")
        return clause

    def _either(self) -> Clause:
        parts = [self._both()]
        while self._skip("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self) -> Clause:
        parts = [self._atom()]
        while self._skip("and"):
            parts.append(self._atom())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _atom(self) -> Clause:
        if self._skip("("):
            clause = self._either()
            self._expect(")")
            return clause
        name = self._next("the name of a hyperparameter").strip("\"'")
        operator = self._next(f"one of {' '.join(_OPERATORS)} after {name!r}")
        if operator not in _OPERATORS:
            raise InvalidSpace(f"{operator!r} after {name!r} must be one of {' '.join(_OPERATORS)}")
        return Comparison(name, operator, self._values() if operator == "in" else self._value())

    def _values(self) -> list[Any]:
        self._expect("[")
        values = [self._value()]
        while self._skip(","):
            values.append(self._value())
        self._expect("]")
        return values

    def _value(self) -> Any:
        token = self._next("a value")
        if token[0] in "\"'":
            return token[1:-1]
        if token in ("true", "false"):
            return token == "true"
        for kind in (int, float):
            try:
                return kind(token)
            except ValueError:
                continue
        return token

    def _next(self, what: str) -> str:
        if not self._tokens:
            raise InvalidSpace(f"it ends where {what} should follow")
        return self._tokens.pop(0)

    def _skip(self, token: str) -> bool:
        if self._tokens[:1] != [token]:
            return False
        del self._tokens[0]
        return True

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise InvalidSpace(f"{token!r} is missing before {self._tokens[0] if self._tokens else 'its end'!r}")


def _condition(space: CS.ConfigurationSpace, child: Any, clause: Clause) -> Any:
    match clause:
        case Both(parts):
            return conditions.AndConjunction(*(_condition(space, child, part) for part in parts))
        case Either(parts):
            return conditions.OrConjunction(*(_condition(space, child, part) for part in parts))
        case Comparison(name, ("<=" | ">=") as operator, value):  # ConfigSpace has only the strict ones
            equal, strict = Comparison(name, "==", value), Comparison(name, operator[0], value)
            return _condition(space, child, Either((equal, strict)))
        case Comparison(name, operator, value):
            return _CONDITIONS[operator](child, _known(space, name), value)


def _forbid(space: CS.ConfigurationSpace, clause: Clause) -> Any:
    match clause:
        case Both(parts):
            return forbidden.ForbiddenAndConjunction(*(_forbid(space, part) for part in parts))
        case Either(parts):
            return forbidden.ForbiddenOrConjunction(*(_forbid(space, part) for part in parts))
        case Comparison(name, "!=", _):
            raise InvalidSpace(f"'!=' cannot be forbidden; list the other values: {name} in [...]")
        case Comparison(name, operator, str(value)) if value in space and operator in _RELATIONS:
            return _RELATIONS[operator](_known(space, name), space[value])
        case Comparison(name, operator, value):
            return _FORBIDDEN[operator](_known(space, name), value)


def _known(space: CS.ConfigurationSpace, name: str) -> Any:
    if name not in space:
        raise InvalidSpace(f"{name!r} is not a hyperparameter of this space; it has {', '.join(space)}")
    return space[name]
