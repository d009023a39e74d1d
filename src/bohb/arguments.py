"""Arguments that are declared once: name, type, default, rule and help, for Python, study files and the command line.

A group of arguments is a frozen dataclass. A field is declared with `argument`, and its help is what the docstring of
the class says about it. `check` tests all values of a group, `pick` builds a group from the arguments of a function.
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from bohb.errors import InvalidArgument
from bohb.units import memory, moment, seconds

Group = TypeVar("Group")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    rule: what a value must be, for messages.
    holds: whether a value keeps the rule.
    read: parses a value of a study file or of the command line; raises ValueError if it cannot.
    """

    rule: str
    holds: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda value: value

    def checked(self, value: Any) -> Any:
        """Return a value of a study file, parsed. Raises ValueError with the rule that it breaks."""
        found = self.read(value)
        if not self.holds(found):
            raise ValueError(self.rule)
        return found


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _of_type(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool))


NUMBER = Kind("must be a number", _is_number)
POSITIVE = Kind("must be a positive number", _is_positive)
SECONDS = Kind("must be a positive number of seconds", _is_positive, seconds)
GRACE = Kind("must be a number of seconds, at least 0, or math.inf", lambda v: _is_number(v) and v >= 0, seconds)
TIMEOUT = Kind("must be a positive, finite number of seconds", lambda v: _is_positive(v) and v < math.inf, seconds)
BYTES = Kind("must be a positive, finite number of bytes", lambda v: _is_positive(v) and v < math.inf, memory)
MOMENT = Kind("must be a time in seconds since the epoch", _is_positive, moment)
FLAG = Kind("must be true or false", _of_type(bool))
TEXT = Kind("must be a string", _of_type(str))
LIST = Kind("must be a list", _of_type(list))
TABLE = Kind("must be a table", _of_type(dict))


def whole(least: int) -> Kind:
    """Return the kind of whole numbers from `least` on."""
    return Kind(
        f"must be a whole number of at least {least}",
        lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least,
    )


COUNT = whole(1)


def between(low: float, high: float, *, ends: bool) -> Kind:
    """Return the kind of numbers in an interval, with its ends or without."""

    def holds(value: Any) -> bool:
        return _is_number(value) and (low <= value <= high if ends else low < value < high)

    return Kind(f"must be a number {'' if ends else 'strictly '}between {low} and {high}", holds)


def one_of(names: Iterable[str]) -> Kind:
    """Return the kind of texts that are one of these names."""
    known = tuple(names)
    return Kind(f"must be one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known)


def argument(default: Any, kind: Kind, key: str | None = None, *, none: bool = False, public: bool = True) -> Any:
    """Declare a field of a group.

    key: its name in a study file, such as "trial.seconds"; None if it has none there.
    none: whether None is allowed; it always is if it is the default.
    public: whether functions such as `bohb.minimize` take it by name.
    """
    metadata = {"kind": kind, "key": key, "none": none or default is None, "public": public}
    return field(default=default, metadata=metadata)


def check(group: Any) -> None:
    """Raise InvalidArgument for the first value of a group that breaks its rule."""
    for each in fields(group):
        if "kind" in each.metadata:
            check_value(each.name, getattr(group, each.name), each.metadata["kind"], none=each.metadata["none"])


def check_value(name: str, value: object, kind: Kind, *, none: bool = False) -> None:
    """Raise InvalidArgument if a value breaks the rule of this kind; `none` allows None."""
    if not (none and value is None) and not kind.holds(value):
        raise InvalidArgument(f"{name}={value!r} {kind.rule}{', or None' if none else ''}")


def pick(group: type[Group], arguments: Mapping[str, Any]) -> Group:
    """Return the group with those of the arguments that belong to it."""
    known = fields(group)  # type: ignore[arg-type] # a dataclass
    return group(**{each.name: arguments[each.name] for each in known if each.name in arguments})


def helps(group: type) -> dict[str, str]:
    """Return what the docstring of a group says about its fields, by name."""
    text = inspect.cleandoc(group.__doc__ or "")
    found = re.findall(r"^(\w+): (.+(?:\n +.+)*)", text, flags=re.MULTILINE)
    return {name: " ".join(help_.split()) for name, help_ in found}


def summary(group: type, name: str) -> str:
    """Return the help of one argument, up to its first semicolon or the end of its first sentence."""
    return re.split(r";|\.(?= |$)", helps(group).get(name, ""))[0]


def declared(group: type) -> dict[str, tuple[Kind, str | None]]:
    """Return the kind of each public argument of a group and its key in a study file, by name."""
    found = fields(group)
    return {f.name: (f.metadata["kind"], f.metadata["key"]) for f in found if f.metadata.get("public")}


def with_help(groups: Mapping[str, type]) -> Callable[[Group], Group]:
    """Return a decorator that adds the arguments of groups to the docstring of a function or class.

    groups: each with its title.
    """

    def decorate(decorated: Group) -> Group:
        if decorated.__doc__ is not None:  # python -OO has none
            parts = [inspect.cleandoc(decorated.__doc__)]
            parts += [f"{title}:\n\n{_entries(group)}" for title, group in groups.items()]
            decorated.__doc__ = "\n\n".join(parts)
        return decorated

    return decorate


def _entries(group: type) -> str:
    """Return the help of all public arguments of a group, an entry for each."""
    texts = [f"{name}: {text}" for name, text in helps(group).items() if name in declared(group)]
    return "\n".join(textwrap.fill(text, 116, subsequent_indent="    ") for text in texts)
