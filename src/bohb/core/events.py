"""The events a study consists of.

A study is one append-only list of events; its state is computed from them (`history.py`). The `key` of an event occurs
once per study, so that appending an event twice has the effect of appending it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar

from bohb.core.schedule.brackets import BracketRule
from bohb.core.trial import Outcome, Trial

FORMAT = 1  # raised whenever the meaning of a stored event changes; other formats are refused by name


class BaseEvent:
    """The parent of all events: a kind, and the fields that identify an event among others of the same kind."""

    __slots__ = ()
    kind: ClassVar[str]
    identity: ClassVar[tuple[str, ...]] = ()

    @property
    def key(self) -> str:
        """The kind and the identity, such as "lost/12/1"; unique in a study."""
        return "/".join([self.kind, *(str(attrgetter(name)(self)) for name in self.identity)])


@dataclass(frozen=True, slots=True)
class StudyCreated(BaseEvent):
    """The first event: everything that determines the study, apart from the results."""

    kind = "created"

    space: dict[str, Any]
    budgets: tuple[float, ...]
    eta: float
    seed: int
    settings: dict[str, Any]
    version: str = ""
    format: int = 1  # a stored study that does not state its format has this one
    time: float | None = None
    objectives: list[str] = field(default_factory=list)  # as `Goals.to_json` writes them; empty: the loss alone
    constraints: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigGiven(BaseEvent):
    """The user wants this configuration to be evaluated before the sampler proposes any.

    budget: where to evaluate it, in a bracket of its own; None for the next place of any bracket.
    """

    kind = "given"
    identity = ("index",)

    index: int
    config: dict[str, Any]
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class ObservationAdded(BaseEvent):
    """A result from an earlier study: the model uses it, but it belongs to no bracket.

    study: tells several earlier studies apart.
    """

    kind = "observed"
    identity = ("index",)

    index: int
    config: dict[str, Any]
    budget: float
    loss: float | None
    source: str = ""
    study: int = 0
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BudgetsRaised(BaseEvent):
    """The study was continued with a larger max_budget: brackets from `first_bracket` on use these budgets."""

    kind = "budgets"
    identity = ("first_bracket",)

    budgets: tuple[float, ...]
    first_bracket: int


@dataclass(frozen=True, slots=True)
class BracketPlanned(BaseEvent):
    """The rungs of the next bracket were chosen.

    rungs: budget and size of each.
    rule: by which rule.
    promotes: the trials whose configurations begin the bracket; without any, it begins with new ones.
    seconds_left: the time that was left until the deadline, if there was one that decided.
    reason: the numbers behind the choice, which explain it.
    """

    kind = "bracket"
    identity = ("index",)

    index: int
    rungs: tuple[tuple[float, int], ...]
    rule: BracketRule
    promotes: tuple[int, ...] = ()
    seconds_left: float | None = None
    reason: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrialStarted(BaseEvent):
    """A trial was started. The event has the whole trial, so that reading a study needs no model."""

    kind = "started"
    identity = ("trial.number", "trial.attempt")

    trial: Trial
    time: float | None = None  # seconds since the epoch, for people; no decision uses it
    elapsed: float | None = None  # seconds that the study had been running, by a monotonic clock
    session: int | None = None  # the session that started it, if several runners share the study
    client: str | None = None  # the program that asked for it, if it has a name


@dataclass(frozen=True, slots=True)
class TrialFinished(BaseEvent):
    """An evaluation ended, successfully or not."""

    kind = "finished"
    identity = ("number",)

    number: int
    outcome: Outcome
    elapsed: float | None = None


@dataclass(frozen=True, slots=True)
class TrialLost(BaseEvent):
    """The worker or runner of a trial disappeared, or its objective asked for another try; it will be started again."""

    kind = "lost"
    identity = ("number", "attempt")

    number: int
    attempt: int
    reason: str
    time: float | None = None
    counts: bool = True  # whether it counts as an attempt of the trial; False if the whole runner stopped
    retry: bool = False  # whether the objective asked for it; the trial then waits for a while


@dataclass(frozen=True, slots=True)
class ResultLate(BaseEvent):
    """A result of a trial that had already been declared lost: stored, but not used in any decision."""

    kind = "late"
    identity = ("number", "attempt")

    number: int
    attempt: int
    outcome: Outcome
    elapsed: float | None = None


@dataclass(frozen=True, slots=True)
class RungCut(BaseEvent):
    """A finite space has no new configuration for this rung: the bracket continues with those it has."""

    kind = "cut"
    identity = ("bracket", "rung")

    bracket: int
    rung: int


@dataclass(frozen=True, slots=True)
class BracketShortened(BaseEvent):
    """An open bracket was made smaller, in order to reach the largest budget before a deadline.

    index: position among the events of this kind.
    rungs: budget and size of the current rung and of those that follow it; their old ones no longer count.
    seconds_left: the time that was left until the deadline. It comes from the clock, so that a replay takes this event
        as it is.
    """

    kind = "shortened"
    identity = ("index",)

    index: int
    bracket: int
    rungs: tuple[tuple[float, int], ...]
    seconds_left: float


@dataclass(frozen=True, slots=True)
class SessionStarted(BaseEvent):
    """A runner started to work on the study, for the first time or again.

    limits: when its runner stops, as `Limits` names them; for people, and for estimates of the end.
    workers: number of trials that it can run at once; None if unknown.
    """

    kind = "session"
    identity = ("index",)

    index: int
    runner: str
    time: float
    limits: dict[str, Any] = field(default_factory=dict)
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class FailuresForgotten(BaseEvent):
    """The objective was broken: failures from the `since`-th finished trial on, up to here, are not evidence."""

    kind = "forgotten"
    identity = ("session",)

    session: int  # the one that begins
    since: int = 0


@dataclass(frozen=True, slots=True)
class NoteAdded(BaseEvent):
    """A note of the user on the study or on one of its trials; no decision uses it."""

    kind = "note"
    identity = ("index",)

    index: int
    text: str
    tags: tuple[str, ...] = ()
    number: int | None = None  # of the trial; None: the whole study
    time: float | None = None


@dataclass(frozen=True, slots=True)
class ConfirmationStarted(BaseEvent):
    """Promising configurations are evaluated again with new seeds (`confirm.py`)."""

    kind = "confirm"
    identity = ("index",)

    index: int
    trials: tuple[int, ...]  # by which the configurations were selected, the most promising first
    budget: float
    repeats: int  # evaluations per configuration, on average
    default: dict[str, Any] | None  # a configuration to compare with


@dataclass(frozen=True, slots=True)
class RepeatFinished(BaseEvent):
    """A new evaluation of a configuration that is to be confirmed ended, successfully or not."""

    kind = "repeat"
    identity = ("confirmation", "candidate", "repeat")

    confirmation: int
    candidate: int
    repeat: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ConfirmationFinished(BaseEvent):
    """What the new evaluations say: stored, so that showing it needs no computation."""

    kind = "confirmed"
    identity = ("confirmation",)

    confirmation: int
    winner: int | None  # None: every evaluation failed
    estimates: tuple[tuple[float, float, float, float] | None, ...]  # expected loss, its interval, P(best)
    noise: float | None  # the standard deviation of single evaluations
    gain: tuple[float, float, float] | None  # by how much the others beat the default, and the interval of that


ConfirmationEvent = ConfirmationStarted | RepeatFinished | ConfirmationFinished
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
    | BracketShortened
    | SessionStarted
    | FailuresForgotten
    | NoteAdded
    | ConfirmationEvent
)
