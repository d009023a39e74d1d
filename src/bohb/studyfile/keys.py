"""The keys of a study file and the kind of each."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bohb.arguments import FLAG, LIST, TABLE, TEXT, Kind, declared, one_of, whole
from bohb.core.limits import Limits
from bohb.core.settings import PRESETS, Budgets, Settings
from bohb.errors import InvalidArgument
from bohb.executors.options import TrialOptions
from bohb.running.run_options import SessionOptions


class StudyFileError(InvalidArgument):
    """A study file breaks a rule; the message names file, key, value and rule."""


def _places() -> dict[str, tuple[str, str, Kind]]:
    """Return the table, the key in it and the kind of every declared argument that a study file can have, by name."""
    found = {}
    for group in (Budgets, Limits, SessionOptions, TrialOptions):
        for name, (kind, key) in declared(group).items():
            if key is not None:
                table, _, last = key.rpartition(".")
                found[name] = table, last, kind
    return found


PLACES = _places()
_TEXTS = Kind("must be a list of strings", lambda value: isinstance(value, list) and all(map(TEXT.holds, value)))


def _either(rule: str, *types: type) -> Kind:
    return Kind(rule, lambda value: isinstance(value, types))


def _table(name: str) -> dict[str, Kind]:
    """Return the declared keys of a table."""
    return {key: kind for table, key, kind in PLACES.values() if table == name}


TABLES: dict[str, dict[str, Kind]] = {
    "budget": {**_table("budget"), "unit": TEXT},
    "limits": _table("limits"),
    "trial": _table("trial"),
    "settings": {name: kind for name, (kind, _) in declared(Settings).items()},
}
# Arguments of `bohb.minimize` that a study file gives as they are.
SAME: dict[str, Kind] = {
    "preset": one_of(PRESETS),
    "objectives": _either("must be a list of names or a table of directions", list, dict),
    "constraints": TABLE,
    "direction": TEXT,
    "seed": whole(0),
    "executor": TEXT,
    "resources": TABLE,
    "initial_configs": LIST,
}
TOP: dict[str, Kind] = {
    "study": TEXT,
    "journal": TEXT,
    "directory": TEXT,
    "objective": TEXT,
    "command": _either("must be a string or a list of strings", str, list),
    "shell": FLAG,
    "space": _either("must be a table, 'module:object' or a JSON file", str, dict),
    "workers": whole(0),
    "warm_start": _TEXTS,
    **SAME,
    **_table(""),
    **dict.fromkeys(TABLES, TABLE),
    "settings": _either("must be a table of single settings; a preset has the key 'preset'", dict),
}
_MISPLACED = {
    "settings.preset": "it belongs at the top of the file, before the first table: write preset = …",
    "forbidden": "it belongs into the table [space]",
}


def check_keys(path: Path, prefix: str, table: Mapping[str, Any], known: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the table with every value checked; refuse unknown keys with a guess at what was meant."""
    checked = {}
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            hint = _MISPLACED.get(f"{prefix}{key}", hint)
            raise StudyFileError(f"{path}: unknown key '{prefix}{key}' = {shown(value)}; {hint}")
        try:
            checked[key] = known[key].checked(value)
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
