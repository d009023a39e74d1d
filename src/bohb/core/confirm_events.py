"""The events of confirmations. No bracket uses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bohb.core.event_base import BaseEvent
from bohb.core.trial import Outcome


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
