"""Clauses of a study file: comparisons joined by `and` and `or`, such as `layers > 1 and optimizer in [sgd, adam]`.

Clauses are parsed and never executed as code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bohb.errors import InvalidSpace

_OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "in")
_TOKEN = re.compile(r"""\s*(==|!=|<=|>=|[<>()\[\],]|"[^"]*"|'[^']*'|[^\s()\[\],<>=!"']+)""")

Compare = Callable[[str, str, Any], Any]
Join = Callable[..., Any]


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
