"""The events a study consists of, and their JSON form.

A study is one append-only list of these; everything else is a fold over it (`history.py`). Each event has a `key`
that can occur once per study, so that appending twice has the effect of appending once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from bohb.core.trial import Origin, Outcome, Status, Trial, jsonable
from bohb.errors import JournalError

FORMAT = 2  # raised whenever the meaning of a stored event changes; older formats stay readable
"""1: the first. 2: `from_trial` and `reuses` are fields of a trial; in format 1 they were entries of its `reason`."""


@dataclass(frozen=True, slots=True)
class StudyCreated:
    """The first event: all that decides the rest, but for the results."""

    kind: ClassVar[str] = "created"
    space: dict[str, Any]
    budgets: tuple[float, ...]
    eta: float
    seed: int
    settings: dict[str, Any]
    version: str = ""
    format: int = 1  # a study that does not state its format has the first one
    time: float | None = None

    @property
    def key(self) -> str:
        return "created"


@dataclass(frozen=True, slots=True)
class ConfigGiven:
    """The user asks for this configuration before the sampler is asked."""

    kind: ClassVar[str] = "given"
    index: int
    config: dict[str, Any]

    @property
    def key(self) -> str:
        return f"given/{self.index}"


@dataclass(frozen=True, slots=True)
class ObservationAdded:
    """A result from an earlier study: known to the model, part of no bracket."""

    kind: ClassVar[str] = "observed"
    index: int
    config: dict[str, Any]
    budget: float
    loss: float | None
    source: str = ""

    @property
    def key(self) -> str:
        return f"observed/{self.index}"


@dataclass(frozen=True, slots=True)
class BudgetsRaised:
    """The study was continued with a larger max_budget: brackets from `first_bracket` on use these budgets."""

    kind: ClassVar[str] = "budgets"
    budgets: tuple[float, ...]
    first_bracket: int

    @property
    def key(self) -> str:
        return f"budgets/{self.first_bracket}"


@dataclass(frozen=True, slots=True)
class BracketPlanned:
    """An adaptive study has chosen the rungs of a bracket to come; `reason` has the numbers behind it."""

    kind: ClassVar[str] = "bracket"
    index: int
    rungs: tuple[tuple[float, int], ...]  # budget and size of each
    reason: dict[str, Any]

    @property
    def key(self) -> str:
        return f"bracket/{self.index}"


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial was handed out. It holds the whole trial, so that no replay has to fit a model."""

    kind: ClassVar[str] = "started"
    trial: Trial
    time: float | None = None  # of the day, for people; nothing is decided from it
    elapsed: float | None = None  # seconds the study had been at work, by a clock that cannot be set
    session: int | None = None  # whose trial it is, where several runners share a study

    @property
    def key(self) -> str:
        return f"started/{self.trial.number}/{self.trial.attempt}"


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """An evaluation ended, well or badly."""

    kind: ClassVar[str] = "finished"
    number: int
    outcome: Outcome
    elapsed: float | None = None

    @property
    def key(self) -> str:
        return f"finished/{self.number}"


@dataclass(frozen=True, slots=True)
class TrialLost:
    """The worker or runner of a trial disappeared; the trial waits to be started again."""

    kind: ClassVar[str] = "lost"
    number: int
    attempt: int
    reason: str
    time: float | None = None
    counts: bool = True  # whether it counts towards the number of attempts; not if the whole runner stopped

    @property
    def key(self) -> str:
        return f"lost/{self.number}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class ResultLate:
    """A result of a trial that somebody else had been given meanwhile: kept, but nothing is decided from it."""

    kind: ClassVar[str] = "late"
    number: int
    attempt: int
    outcome: Outcome
    elapsed: float | None = None

    @property
    def key(self) -> str:
        return f"late/{self.number}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class RungCut:
    """A finite space has nothing new left on this rung's budget: the bracket goes on with what it has."""

    kind: ClassVar[str] = "cut"
    bracket: int
    rung: int

    @property
    def key(self) -> str:
        return f"cut/{self.bracket}/{self.rung}"


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A runner took the study up, for the first time or again."""

    kind: ClassVar[str] = "session"
    index: int
    runner: str
    time: float

    @property
    def key(self) -> str:
        return f"session/{self.index}"


@dataclass(frozen=True, slots=True)
class FailuresForgotten:
    """The objective was broken: failures from the `since`-th finished trial on, up to here, are no evidence."""

    kind: ClassVar[str] = "forgotten"
    session: int  # the one that begins
    since: int = 0

    @property
    def key(self) -> str:
        return f"forgotten/{self.session}"


Event = (
    StudyCreated
    | ConfigGiven
    | ObservationAdded
    | BudgetsRaised
    | BracketPlanned
    | TrialStarted
    | TrialFinished
    | TrialLost
    | ResultLate
    | RungCut
    | SessionStarted
    | FailuresForgotten
)
_KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        StudyCreated,
        ConfigGiven,
        ObservationAdded,
        BudgetsRaised,
        BracketPlanned,
        TrialStarted,
        TrialFinished,
        TrialLost,
        ResultLate,
        RungCut,
        SessionStarted,
        FailuresForgotten,
    )
}

_ORIGINS = {origin.value: origin for origin in Origin}  # a tenth of the time of Origin(value), 100,000 times a study
_STATUSES = {status.value: status for status in Status}
_NOT_STORED = {"checkpoint_dir", "reporter"}  # they exist only while a trial runs


def _defaults(cls: type) -> dict[str, Any]:
    """The stored fields of a dataclass and their defaults; MISSING where a value is required."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in fields(cls)
        if f.name not in _NOT_STORED
    }


_TRIAL = _defaults(Trial)
_OUTCOME = _defaults(Outcome)
_EVENTS = {cls: _defaults(cls) for cls in _KINDS.values()}


def _pack(value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `value` that differ from their defaults, as JSON."""
    body: dict[str, Any] = {}
    for name, default in defaults.items():
        item = getattr(value, name)
        if item != default or type(item) is not type(default):
            body[name] = item
    return body


def to_json(event: Event) -> dict[str, Any]:
    """The body of an event: plain JSON, fields at their default left out."""
    body = _pack(event, _EVENTS[type(event)])
    match event:
        case TrialStarted():
            body["trial"] = _pack(event.trial, _TRIAL)
        case TrialFinished() | ResultLate():
            body["outcome"] = _pack(event.outcome, _OUTCOME)
    clean: dict[str, Any] = jsonable(body)
    return clean


def from_json(kind: str, body: Mapping[str, Any]) -> Event:
    """The event that `to_json` wrote. Raises JournalError for what this version cannot read."""
    cls = _KINDS.get(kind)
    if cls is None:
        raise JournalError(
            f"unknown event kind {kind!r}: the study was written by a newer version of bohb; upgrade to read it"
        )
    if body.get("format", 0) > FORMAT:
        raise JournalError(
            f"the study has format {body['format']}, this version reads up to {FORMAT}; upgrade to read it"
        )
    try:
        return cls(**_decoded(body))
    except (TypeError, KeyError, ValueError) as error:
        raise JournalError(f"a stored {kind!r} event cannot be read: {error}") from error


def _decoded(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an event with the types that JSON does not have."""
    if "trial" in body:
        return {**body, "trial": _trial(body["trial"])}
    if "outcome" in body:
        return {**body, "outcome": _outcome(body["outcome"])}
    if "config" in body:
        return {**body, "config": _config(body["config"])}
    if "rungs" in body:
        return {**body, "rungs": tuple((budget, size) for budget, size in body["rungs"])}
    return {**body, "budgets": tuple(body["budgets"])} if "budgets" in body else body


def _trial(body: Mapping[str, Any]) -> Trial:
    origin = _ORIGINS[body["origin"]]
    values = {**body, "origin": origin, "config": _config(body["config"])}
    if origin is Origin.PROMOTED and "from_trial" in body.get("reason", ()):  # format 1
        values["reason"] = reason = dict(body["reason"])
        values["from_trial"], values["reuses"] = reason.pop("from_trial"), reason.pop("reuses", None)
    return Trial(**values)


def _config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration as it was before JSON turned its tuples, the only sequences it can have, into lists."""
    if list in map(type, config.values()):
        return {name: _tuples(value) for name, value in config.items()}
    return config


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if type(value) is list else value


def _outcome(body: Mapping[str, Any]) -> Outcome:
    values = {**body, "status": _STATUSES[body["status"]]}
    if "curve" in values:
        values["curve"] = tuple((float(step), float(loss)) for step, loss in values["curve"])  # "nan" is stored as text
    return Outcome(**values)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON, for the way from a worker to its coordinator."""
    body: dict[str, Any] = jsonable(_pack(outcome, _OUTCOME))
    return body


def outcome_from_json(body: Mapping[str, Any]) -> Outcome:
    """The outcome that `outcome_to_json` wrote."""
    return _outcome(body)


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """A trial as JSON, for the way from a coordinator to its worker: with its checkpoint directory."""
    body: dict[str, Any] = jsonable(_pack(trial, _TRIAL))
    if trial.checkpoint_dir is not None:
        body["checkpoint_dir"] = str(trial.checkpoint_dir)
    return body


def trial_from_json(body: Mapping[str, Any]) -> Trial:
    """The trial that `trial_to_json` wrote."""
    if "checkpoint_dir" in body:
        body = {**body, "checkpoint_dir": Path(body["checkpoint_dir"])}
    return _trial(body)
