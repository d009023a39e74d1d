"""Arguments that are declared once: name, type, default, rule and help, for Python, study files and the command line.

A group of arguments is a frozen dataclass. A field is declared with `argument`, and its help is what the docstring of
the class says about it. `check` tests all values of a group, `pick` builds a group from the arguments of a function,
and `check_names` refuses arguments that do not exist, with a guess at what was meant.
"""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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
    with suppress(OverflowError):  # raised for a larger whole number than floats can hold
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)
    return False


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _of_type(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool))


NUMBER = Kind("must be a number", _is_number)
POSITIVE = Kind("must be a positive number", _is_positive)
SECONDS = Kind("must be a positive number of seconds", _is_positive, seconds)
LEASE = Kind("must be at least 1 second and at most a year", lambda v: _is_number(v) and 1 <= v <= 31_536_000, seconds)
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


# What other libraries call it: the argument here, or what to do instead.
_ARGUMENTS = {
    "n_trials": "max_trials",
    "max_evals": "max_trials",
    "n_iterations": "max_brackets",
    "n_iter": "max_trials",
    "walltime_limit": "max_seconds",
    "n_jobs": "workers",
    "n_workers": "workers",
    "num_workers": "workers",
    "max_concurrent_trials": "workers",
    "storage": "journal",
    "study_name": "study",
    "run_id": "study",
    "working_directory": "directory",
    "random_state": "seed",
    "min_resource": "min_budget",
    "max_resource": "max_budget",
    "reduction_factor": "eta",
    "points_to_evaluate": "initial_configs",
    "previous_result": "warm_start",
    "verbose": "progress",
    "show_progress_bar": "progress",
    "rho": "random_fraction",
    "top_n_percent": "good_fraction",
    "min_points_in_model": "min_points",
}
_MAXIMISE = "use direction='maximize' for one score, or a minus for each value to maximise: objectives=['-accuracy']"
_ADVICE = {
    "settings": "write preset='best', preset='paper' or preset='hpbandster'; single settings are given by name",
    "timeout": "use max_seconds for the whole study or trial_seconds for a single trial",
    "directions": _MAXIMISE,
    "mode": _MAXIMISE,
    "maximize": _MAXIMISE,
    "metric": "the objective returns the loss, or {'loss': …, 'info': {…}}",
    "callbacks": "it is an argument of bohb.minimize; with ask and tell, call your functions after tell",
    "pruner": "leave it out: the brackets already stop poor configurations early",
    "catch": "leave it out: a failing trial never ends the study",
    "load_if_exists": "leave it out: the same journal and study name continue the study",
}


def known_names(function: Callable[..., Any], options: type) -> set[str]:
    """Return the names of all arguments of a function.

    options: the TypedDict of those that its signature does not list.
    """
    listed = inspect.signature(function).parameters.keys() - {"self", "options"}
    return listed | options.__optional_keys__  # type: ignore[attr-defined,no-any-return]


def check_names(function: Callable[..., Any], options: type, given: Iterable[str]) -> None:
    """Refuse arguments that a function does not have, with a guess at what was meant."""
    known = known_names(function, options)
    for name in given:
        if name not in known:
            raise InvalidArgument(f"there is no argument {name!r}; {_hint(name, sorted(known))}")


def _hint(name: str, known: list[str]) -> str:
    if name in _ADVICE:
        return _ADVICE[name]
    close = difflib.get_close_matches(name, known, 1)
    meant = _ARGUMENTS.get(name) or (close[0] if close else None)
    return f"did you mean {meant!r}?" if meant else "help(bohb.minimize) lists all arguments"
