"""Types of options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bohb.units import memory, seconds

if TYPE_CHECKING:
    _Type = click.ParamType[float]
    _PairType = click.ParamType[tuple[str, float]]
else:
    _Type = _PairType = click.ParamType  # older versions of click cannot be subscripted


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


class Resource(_PairType):
    """An amount of something that a trial needs, such as gpu=1 or memory=8GB."""

    name = "name=amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        name, equals, amount = value.partition("=")
        if not (name and equals):
            self.fail(f"{value!r} must be of the form name=amount, such as gpu=1", param, ctx)
        try:
            return name, memory(amount) if name == "memory" else float(amount)
        except ValueError:
            self.fail(f"{value!r} must end with a number, such as gpu=1 or memory=8GB", param, ctx)


RESOURCE = Resource()
SECONDS = Quantity("seconds", seconds)
MEMORY = Quantity("bytes", memory)
