"""Events, trials and outcomes as JSON, for journals and for workers on other machines."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from bohb.core.events import FORMAT, Event
from bohb.core.goals import goals_of
from bohb.core.schedule.brackets import BracketRule
from bohb.core.trial import Origin, Outcome, Status, Trial, jsonable
from bohb.errors import InvalidResult, JournalError

LARGEST_BODY = 16 * 2**20  # bytes of an event; a huge `info` would make the study slow for good
LARGEST_RESULT = LARGEST_BODY - 1024  # bytes of an outcome; the rest is for the other fields of its event

encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode  # ASCII only, which every database accepts

_ORIGINS = {origin.value: origin for origin in Origin}  # ten times as fast as Origin(value)
_STATUSES = {status.value: status for status in Status}


def _defaults(cls: type) -> dict[str, Any]:
    """Return the stored fields of a dataclass and their defaults; MISSING if a value is required."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in fields(cls)
        if f.compare  # what does not count in a comparison is used only while a trial runs
    }


_PLAIN = {bool, int, float, str, list, dict, tuple, NoneType}


def _types(cls: type) -> dict[str, set[type]]:
    """Return the types that the stored fields of a dataclass may have, where those are plain."""
    found = {}
    for name, hint in get_type_hints(cls).items():
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        allowed = {get_origin(part) or part for part in parts}
        if allowed <= _PLAIN:
            found[name] = allowed | {int} if float in allowed else allowed
    return found


_KINDS: dict[str, type[Event]] = {cls.kind: cls for cls in get_args(Event)}
_DEFAULTS = {cls: _defaults(cls) for cls in (*_KINDS.values(), Trial, Outcome)}
_TYPES = {cls: _types(cls) for cls in _DEFAULTS}
_LARGEST_INTEGER = 2**1000  # a larger one cannot be a float


def _checked(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the stored fields of a dataclass. Raises TypeError for a value that cannot be one of them."""
    known = _TYPES[cls]
    for name, value in values.items():
        allowed, kind = known.get(name), type(value)
        if allowed is not None and (kind not in allowed or (kind is int and not _fits(value, float in allowed))):
            raise TypeError(f"{name}={value!r:.40}")
    return values


def _fits(integer: int, real: bool) -> bool:
    """Whether a stored integer is one that we count with, or a real number."""
    return abs(integer) < _LARGEST_INTEGER if real else integer >= 0


def _pack(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    body: dict[str, Any] = {}
    for name, default in _DEFAULTS[type(value)].items():
        item = getattr(value, name)
        if item != default or type(item) is not type(default):
            body[name] = _pack(item) if type(item) in _DEFAULTS else item
    return body


def to_json(value: Event | Outcome | Trial) -> dict[str, Any]:
    """Return the body of an event, an outcome or a trial: plain JSON without fields that have their default value."""
    body: dict[str, Any] = jsonable(_pack(value))
    return body


def digest(event: Event) -> str:
    """Return a text that differs for different events."""
    return hashlib.sha256(json.dumps(to_json(event), sort_keys=True).encode()).hexdigest()[:16]


def check_storable(outcome: Outcome) -> Outcome:
    """Return an outcome that a journal can store. Raises InvalidResult for any other.

    The size is that of the stored text, in which a character outside ASCII takes 6 bytes or 12.
    """
    try:
        size = len(encode(to_json(outcome)))
    except (ValueError, RecursionError) as error:
        raise InvalidResult(f"the result cannot be stored as JSON ({error}); store it as text or in a file") from error
    if size > LARGEST_RESULT:
        raise InvalidResult(
            f"the result has {size:,} bytes as JSON, more than the {LARGEST_RESULT:,} a journal takes; store large "
            "data in files and their paths in `info`"
        )
    return outcome


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """Return a trial, its checkpoint directory and its goals as JSON, to be sent from a coordinator to a worker."""
    body = to_json(trial)
    if not trial.goals.plain:
        body["goals"] = trial.goals.to_json()
    if trial.checkpoint_dir is not None:
        body["checkpoint_dir"] = str(trial.checkpoint_dir)
    return body


def trial_from_json(body: Mapping[str, Any]) -> Trial:
    """Return the trial that `trial_to_json` wrote."""
    values = dict(body)
    values["origin"] = _ORIGINS[body["origin"]]
    values["config"] = _with_shared_keys(_config(body["config"]))
    values["reason"] = _with_shared_keys(body["reason"]) if "reason" in body else _EMPTY
    for name in ("budget", "bracket"):
        values[name] = _NUMBERS.setdefault((type(body[name]), body[name]), body[name])
    if body["config_id"] == body["number"]:
        values["config_id"] = body["number"]  # one object instead of two
    if "checkpoint_dir" in body:
        values["checkpoint_dir"] = Path(body["checkpoint_dir"])
    if "goals" in body:
        values["goals"] = goals_of(**body["goals"])
    return Trial(**_checked(Trial, values))


def outcome_from_json(body: Mapping[str, Any]) -> Outcome:
    """Return the outcome that `to_json` wrote."""
    values = dict(body)
    values["status"] = _STATUSES[body["status"]]
    values.setdefault("values", _EMPTY)
    if type(body.get("worker")) is str:
        values["worker"] = sys.intern(body["worker"])  # thousands of trials share a few names
    if "curve" in body:
        # JSON has no NaN, which is stored as text
        values["curve"] = tuple((float(step), float(loss)) for step, loss in body["curve"])
    return Outcome(**_checked(Outcome, values))


_EMPTY: dict[str, Any] = {}  # shared by what was read and is empty; nothing changes it
_NUMBERS: dict[tuple[type, float], float] = {}  # budgets and brackets, shared by the trials that were read
_ROWS: dict[tuple[str, ...], type] = {}  # a class for each combination of active hyperparameters
_MOST_ROWS = 1000


def _with_shared_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Return an equal dict of half the size: instances of one class share the table of their attributes' names."""
    names = tuple(values)
    if names not in _ROWS:
        if len(_ROWS) == _MOST_ROWS:
            return values
        _ROWS[names] = type("Row", (), {})
    shared: dict[str, Any] = vars(_ROWS[names]())
    for name, value in values.items():  # one by one: `update` would copy the whole table
        shared[name] = value
    return shared


def _config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration as it was before JSON turned its tuples, the only sequences it can have, into lists."""
    if list in map(type, config.values()):
        return {name: _tuples(value) for name, value in config.items()}
    return config


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if type(value) is list else value


def _rule(name: str) -> BracketRule:
    """Return the rule of that name."""
    if name not in get_args(BracketRule):
        raise ValueError(f"no bracket is chosen by a rule {name!r}")
    return cast(BracketRule, name)


def _space(space: dict[str, Any]) -> dict[str, Any]:
    """Return a space whose ranges can be read; all else is checked when the space is used."""
    for found in space.get("hyperparameters", ()):
        texts, numbers = (found["name"], found["type"]), (found.get("lower"), found.get("upper"))
        if {*map(type, texts)} != {str} or not {*map(type, numbers)} <= {int, float, NoneType}:
            raise TypeError(f"the hyperparameter {found!r:.40}")
    return space


# The fields whose types JSON does not have.
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "space": _space,
    "trial": trial_from_json,
    "outcome": outcome_from_json,
    "config": _config,
    "rungs": _tuples,
    "rule": _rule,
    "promotes": tuple,
    "budgets": tuple,
    "trials": tuple,
    "default": lambda config: None if config is None else _config(config),
    "estimates": _tuples,
    "gain": _tuples,
    "tags": tuple,
}
_TO_DECODE = {
    kind: [(name, decode) for name, decode in _DECODERS.items() if name in _DEFAULTS[cls]]
    for kind, cls in _KINDS.items()
}


def from_json(kind: str, body: Mapping[str, Any]) -> Event:
    """Return the event that `to_json` wrote. Raises JournalError if this version cannot read it."""
    cls = _KINDS.get(kind)
    if cls is None:
        raise JournalError(
            f"unknown event kind {kind!r}: the study was written by a newer version of bohb; upgrade to read it"
        )
    try:
        if body.get("format", FORMAT) != FORMAT:
            raise JournalError(
                f"the study has format {body['format']}, but this version of bohb reads format {FORMAT} only; "
                "read it with the version that wrote it"
            )
        values = dict(body)
        for name, decode in _TO_DECODE[kind]:
            if name in body:
                values[name] = decode(body[name])
        return cls(**_checked(cls, values))
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        what = f"{type(error).__name__}: {error!s:.200}"
        raise JournalError(f"a stored {kind!r} event cannot be read ({what})") from error
