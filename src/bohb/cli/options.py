"""Option types and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bohb import arguments
from bohb.arguments import BYTES, COUNT, FLAG, GRACE, MOMENT, NUMBER, POSITIVE, TIMEOUT, Kind, declared, summary
from bohb.core.limits import Limits
from bohb.units import memory, moment, seconds

if TYPE_CHECKING:
    _Type = click.ParamType[float]
    _PairType = click.ParamType[tuple[str, float]]
    _TextsType = click.ParamType[tuple[str, str]]
else:
    _Type = _PairType = _TextsType = click.ParamType  # older versions of click cannot be subscripted


class WithNegativeNumbers(click.Command):
    """A command whose arguments may be negative numbers. Unknown options are still named as such."""

    ignore_unknown_options = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = {name: option for option in self.get_params(ctx) for name in option.opts if name.startswith("-")}
        value = False  # whether the argument belongs to the option before it
        for argument in args:
            name, equals, _ = argument.partition("=")
            if not value and argument.startswith("-") and name not in options and not _is_number(argument):
                raise click.NoSuchOption(name, possibilities=sorted(options), ctx=ctx)
            taking = options.get(name)
            value = not value and not equals and isinstance(taking, click.Option) and not taking.is_flag
        return super().parse_args(ctx, args)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("-", "--")
    return True


class Quantity(_Type):
    """A number with an optional unit, as in study files."""

    def __init__(self, name: str, read: Callable[[object], float]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


class Resource(_PairType):
    """A resource that each trial needs, such as gpu=1 or memory=8GB."""

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


class Bound(_TextsType):
    """A constraint, such as latency<=10ms or accuracy>=0.9."""

    name = "name<=bound"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"\s*(.+?)\s*([<>]=.+)", value)
        if found is None:
            self.fail(f"{value!r} must be of the form name<=bound or name>=bound, such as latency<=10ms", param, ctx)
        return found[1], found[2]


class NamedNumber(_PairType):
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


CONSTRAINT = Bound()
RESOURCE = Resource()
SECONDS = Quantity("seconds", seconds)
_TYPES: dict[Kind, Any] = {
    COUNT: click.IntRange(1),
    NUMBER: float,
    POSITIVE: float,
    arguments.SECONDS: SECONDS,
    TIMEOUT: SECONDS,
    GRACE: SECONDS,
    BYTES: Quantity("bytes", memory),
    MOMENT: Quantity("time", moment),
}
_FORMS = {SECONDS: ", such as 90, 30m or 8h", _TYPES[BYTES]: ", such as 4GB", _TYPES[MOMENT]: ", such as 18:00"}
Command = TypeVar("Command", bound=Callable[..., Any])
Bounds = Sequence[tuple[str, float]]  # what `--max` and `--min` give


def declared_options(group: type, *names: str, prefix: str = "") -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of these arguments of a group; of all without names.

    prefix: what the help of each begins with.
    """
    kinds = declared(group)

    def decorate(command: Command) -> Command:
        for name in reversed(names or tuple(kinds)):
            kind = kinds[name][0]
            flag: dict[str, Any] = {"is_flag": True, "default": None} if kind is FLAG else {"type": _TYPES[kind]}
            text = f"{prefix}{summary(group, name)}{_FORMS.get(_TYPES.get(kind), '')}."
            command = click.option(f"--{name.replace('_', '-')}", help=text[:1].upper() + text[1:], **flag)(command)
        return command

    return decorate


def bound_options(command: Command) -> Command:
    """Give a command the options that restrict results to those within bounds."""
    for name, words in (("--min", "at least"), ("--max", "at most")):
        text = (
            f"Only results with {words} this value, such as latency=10; a named value or an entry of info. Repeatable."
        )
        option = name.removeprefix("--")
        command = click.option(name, f"{option}_bounds", type=NamedNumber(), multiple=True, help=text)(command)
    return command


limit_options = declared_options(Limits, prefix="Limit: ")
