"""Clauses of a space as text: comparisons joined by `and` and `or`, such as `layers > 1 and optimizer in [sgd, adam]`.

Clauses are parsed and never executed as code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
from ConfigSpace import conditions, forbidden

from bohb.errors import InvalidSpace

_OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "in")
_TOKEN = re.compile(r"""\s*(==|!=|<=|>=|[<>()\[\],]|"[^"]*"|'[^']*'|[^\s()\[\],<>=!"']+)""")
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "None": None}
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
Compare = Callable[[str, str, Any], Any]
Join = Callable[..., Any]


def condition(space: CS.ConfigurationSpace, child: Any, text: object) -> Any:
    """Return the condition of ConfigSpace under which a hyperparameter is active."""

    def compare(name: str, operator: str, value: Any) -> Any:
        if operator in ("<=", ">="):  # ConfigSpace has only strict comparisons
            return conditions.OrConjunction(compare(name, "==", value), compare(name, operator[0], value))
        return _CONDITIONS[operator](child, _known(space, name), value)

    return parse(text, compare, conditions.AndConjunction, conditions.OrConjunction)


def forbidding(space: CS.ConfigurationSpace, text: object) -> Any:
    """Return the forbidden clause of ConfigSpace."""

    def compare(name: str, operator: str, value: Any) -> Any:
        if operator == "!=":
            raise InvalidSpace(f"'!=' cannot be forbidden; list the other values: {name} in [...]")
        if isinstance(value, str) and value in space and operator in _RELATIONS:
            return _RELATIONS[operator](_known(space, name), space[value])
        if operator == ">=":  # ConfigSpace 1.2's own clause prints to stdout whenever it is evaluated
            return forbidden.ForbiddenOrConjunction(compare(name, "==", value), compare(name, ">", value))
        return _FORBIDDEN[operator](_known(space, name), value)

    return parse(text, compare, forbidden.ForbiddenAndConjunction, forbidden.ForbiddenOrConjunction)


def words(part: Any) -> str:
    """Return a condition or a forbidden clause of ConfigSpace as text."""
    match part:
        case conditions.AndConjunction() | forbidden.ForbiddenAndConjunction():
            return " and ".join(words(each) for each in part.components)
        case conditions.OrConjunction() | forbidden.ForbiddenOrConjunction():
            texts = [words(each) for each in part.components]
            for sign in "<>":  # how `condition` and `forbidding` write "<=" and ">="
                if texts[1:] == [texts[0].replace(" == ", f" {sign} ", 1)]:
                    return texts[0].replace(" == ", f" {sign}= ", 1)
            return f"({' or '.join(texts)})"
        case forbidden.ForbiddenRelation():
            return f"{part.left.name} {_sign(part, _RELATIONS)} {part.right.name}"
        case forbidden.ForbiddenClause():
            name, sign = part.hyperparameter.name, _sign(part, _FORBIDDEN)
        case _:
            name, sign = part.parent.name, _sign(part, _CONDITIONS)
    return f"{name} {sign} {list(part.values)!r}" if sign == "in" else f"{name} {sign} {part.value!r}"


def _sign(part: Any, kinds: Mapping[str, Any]) -> str:
    return next(sign for sign, kind in kinds.items() if type(part) is kind)


def _known(space: CS.ConfigurationSpace, name: str) -> Any:
    if name not in space:
        raise InvalidSpace(f"{name!r} is not a hyperparameter of this space; it has {', '.join(space)}")
    return space[name]


def parse(text: object, compare: Compare, all_of: Join, any_of: Join) -> Any:
    """Parse a clause and build it with the given functions.

    compare: builds a comparison from a hyperparameter's name, an operator and a value, for `in` a list of values.
    all_of, any_of: build the conjunction or disjunction of their arguments.
    """
    if not isinstance(text, str):
        raise InvalidSpace("a clause must be a string such as 'layers > 1'")
    return _Parser(text, compare, all_of, any_of).whole()


class _Parser:
    """Recursive descent: either := both (or both)*; both := atom (and atom)*; atom := comparison | ( either )."""

    def __init__(self, text: str, compare: Compare, all_of: Join, any_of: Join) -> None:
        self._compare, self._all_of, self._any_of = compare, all_of, any_of
        self._tokens: list[str] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise InvalidSpace(f"{text[place:].strip()!r} cannot be read")
            self._tokens.append(found[1])
            place = found.end()

    def whole(self) -> Any:
        clause = self._either()
        if self._tokens:
            raise InvalidSpace(f"{self._tokens[0]!r} is left over; join comparisons with 'and' or 'or'")
        return clause

    def _either(self) -> Any:
        return self._joined("or", self._both, self._any_of)

    def _both(self) -> Any:
        return self._joined("and", self._atom, self._all_of)

    def _joined(self, word: str, part: Callable[[], Any], join: Join) -> Any:
        parts = [part()]
        while self._skip(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(*parts)

    def _atom(self) -> Any:
        if self._skip("("):
            clause = self._either()
            self._expect(")")
            return clause
        name = self._next("the name of a hyperparameter").strip("\"'")
        operator = self._next(f"one of {' '.join(_OPERATORS)} after {name!r}")
        if operator not in _OPERATORS:
            raise InvalidSpace(f"{operator!r} after {name!r} must be one of {' '.join(_OPERATORS)}")
        return self._compare(name, operator, self._values() if operator == "in" else self._value())

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
        if token in _CONSTANTS:
            return _CONSTANTS[token]
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
