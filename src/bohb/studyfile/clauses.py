"""Clauses of a study file: comparisons joined by `and` and `or`, such as `layers > 1 and optimizer in [sgd, adam]`.

Clauses are parsed and never executed as code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bohb.errors import InvalidSpace

_OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "in")
_TOKEN = re.compile(r"""\s*(==|!=|<=|>=|[<>()\[\],]|"[^"]*"|'[^']*'|[^\s()\[\],<>=!"']+)""")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with a value, a list of values or (in a forbidden clause) another hyperparameter."""

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


def parse(text: object) -> Clause:
    """Parse the text of a clause."""
    if not isinstance(text, str):
        raise InvalidSpace("a clause must be a text such as 'layers > 1'")
    return _Parser(text).whole()


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
