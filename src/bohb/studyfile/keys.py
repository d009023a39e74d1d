"""The keys of a study file and the type of each."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bohb.core.settings import PRESETS
from bohb.errors import InvalidArgument
from bohb.running.limits import Limits
from bohb.units import memory, moment, seconds

Check = Callable[[Any], Any]


class StudyFileError(InvalidArgument):
    """A study file breaks a rule; the message names file, key, value and rule."""


def _kind(kind: Any, rule: str) -> Check:
    """Return a check for a type or a union of types; booleans do not count as numbers."""

    def check(value: Any) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(rule)
        return value

    return check


def _one_of(names: Collection[str]) -> Check:
    """Return a check for one of some names."""

    def check(value: Any) -> Any:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return value

    return check


_text = _kind(str, "must be a string")
_number = _kind(int | float, "must be a number")
_whole = _kind(int, "must be a whole number")
_flag = _kind(bool, "must be true or false")
_list = _kind(list, "must be a list")
_table = _kind(dict, "must be a table")


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    return value


_KINDS: dict[str, Check] = {"whole": _whole, "number": _number, "seconds": seconds, "moment": moment}
LIMITS: dict[str, Check] = {limit.name: _KINDS[limit.metadata["kind"]] for limit in fields(Limits)} | {"grace": seconds}
TRIAL: dict[str, Check] = {"seconds": seconds, "memory": memory, "attempts": _whole, "recycle_after": _whole}
BUDGET: dict[str, Check] = {
    "min": _number,
    "max": _number,
    "eta": _number,
    "integer": _flag,
    "adaptive": _flag,
    "values": _list,
    "unit": _text,
}
TOP: dict[str, Check] = {
    "study": _text,
    "journal": _text,
    "directory": _text,
    "objective": _text,
    "command": _kind(str | list, "must be a string or a list of strings"),
    "shell": _flag,
    "space": _kind(str | dict, "must be a table, 'module:object' or a JSON file"),
    "forbidden": _texts,
    "budget": _table,
    "limits": _table,
    "trial": _table,
    "preset": _one_of(PRESETS),
    "settings": _kind(dict, "must be a table of single settings; a preset has the key 'preset'"),
    "objectives": _kind(list | dict, "must be a list of names or a table of directions"),
    "constraints": _table,
    "direction": _text,
    "seed": _whole,
    "workers": _whole,
    "executor": _text,
    "resources": _table,
    "start_method": _text,
    "checkpoint_quota": memory,
    "initial_configs": _list,
    "warm_start": _texts,
}


def check_keys(path: Path, prefix: str, table: Mapping[str, Any], known: Mapping[str, Check]) -> dict[str, Any]:
    """Return the table with every value checked; refuse unknown keys with a guess at what was meant."""
    checked = {}
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise StudyFileError(f"{path}: unknown key '{prefix}{key}' = {shown(value)}; {hint}")
        try:
            checked[key] = known[key](value)
        except ValueError as error:
            raise wrong(path, f"{prefix}{key}", value, str(error)) from error
    return checked


def wrong(path: Path, key: str, value: object, rule: str) -> StudyFileError:
    """Return the error for a value that breaks a rule."""
    return StudyFileError(f"{path}: {key} = {shown(value)} {rule}")


def shown(value: object) -> str:
    """Format a value as in the file, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"
