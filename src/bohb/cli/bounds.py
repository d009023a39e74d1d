"""Results within bounds: the options `--max` and `--min`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bohb.errors import InvalidArgument

if TYPE_CHECKING:
    from bohb.core.history import History
    from bohb.core.results import Result

    _Type = click.ParamType[tuple[str, float]]
else:
    _Type = click.ParamType  # older versions of click cannot be subscripted

Command = TypeVar("Command", bound=Callable[..., Any])
Bounds = Sequence[tuple[str, float]]


class NamedNumber(_Type):
    """A value and a number, such as latency=10."""

    name = "name=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        name, found, text = value.partition("=")
        try:
            return name.strip(), float(text if found and name.strip() else "none")
        except ValueError:
            self.fail(f"{value!r} must be of the form name=number, such as latency=10", param, ctx)


def bound_options(command: Command) -> Command:
    """Give a command the options that restrict results to those within bounds."""
    for name, words in (("--min", "at least"), ("--max", "at most")):
        text = (
            f"Only results with {words} this value, such as latency=10; a named value or an entry of info. Repeatable."
        )
        option = name.removeprefix("--")
        command = click.option(name, f"{option}_bounds", type=NamedNumber(), multiple=True, help=text)(command)
    return command


def within(results: Iterable[Result], most: Bounds, least: Bounds) -> list[Result]:
    """Return the results whose values keep the bounds. Raises InvalidArgument for a value that no result has."""
    found = list(results)
    for name in dict.fromkeys(name for name, _ in (*most, *least)):
        if found and all(_value(result, name) is None for result in found):
            every = (each for result in found for each in (*result.values, *result.outcome.info))
            known = [each for each in dict.fromkeys(every) if any(_value(result, each) is not None for result in found)]
            raise InvalidArgument(f"no result has a number named {name!r}; there are {', '.join(known) or 'none'}")

    def keeps(result: Result) -> bool:
        values = [(_value(result, name), bound, 1) for name, bound in most]
        values += [(_value(result, name), bound, -1) for name, bound in least]
        return all(value is not None and sign * value <= sign * bound for value, bound, sign in values)

    return [result for result in found if keeps(result)]


def _value(result: Result, name: str) -> float | None:
    """Return a named value or a number in `info`; None if there is none."""
    value = result.values.get(name, result.outcome.info.get(name))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def best_within(seen: History, budget: float | None, most: Bounds, least: Bounds) -> Result | None:
    """Return the best result within bounds, by default on the largest budget that has one."""
    kept = within(seen.results, most, least)
    chosen = [result for result in kept if budget in (None, result.budget)]
    return min(chosen, key=lambda result: (not result.feasible, -result.budget, result.loss), default=None)
