"""Types of options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bohb.studykeys import memory, seconds

if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # older versions of click cannot be subscripted


class Quantity(_Type):
    """A number with an optional unit, as study files have it."""

    def __init__(self, name: str, read: Callable[[object], float]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


SECONDS = Quantity("seconds", seconds)
MEMORY = Quantity("bytes", memory)
