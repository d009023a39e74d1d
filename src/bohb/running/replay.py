"""Replay: make every decision of a stored study again and compare it with the stored one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from bohb.core.confirm import promising
from bohb.core.confirm_estimate import conclusion
from bohb.core.decide import next_bracket, ready_runs, restart
from bohb.core.decider import Decider
from bohb.core.events import (
    BracketPlanned,
    ConfirmationEvent,
    ConfirmationStarted,
    Event,
    RepeatFinished,
    RungCut,
    StudyCreated,
    TrialFinished,
    TrialStarted,
)
from bohb.core.history import History
from bohb.core.limits import Now
from bohb.core.samplers.chain import Sampler, sampler_name
from bohb.core.settings import TPE, Settings
from bohb.core.space import Space
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument
from bohb.journal import Journal, open_journal
from bohb.journal.location import shown_journal
from bohb.optimizer.ask_tell import one_thread

TOLERANCE = 1e-6
"""How far two values of one hyperparameter may be apart in the encoded unit cube.

Another machine's linear algebra changes the last of about 16 digits; another candidate differs by far more.
"""
REASON_TOLERANCE = 1e-3
"""How far two numbers of `reason` may be apart, relatively or absolutely: one in the last of their four digits."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay.

    exact: number of decisions that were equal to the stored ones.
    within_tolerance: number of decisions that made the same choice with numbers at most `TOLERANCE` apart.
    differences: one line for every decision that made another choice.
    """

    exact: int
    within_tolerance: int
    differences: tuple[str, ...] = ()

    @property
    def different(self) -> int:
        """Number of decisions that made another choice."""
        return len(self.differences)

    @property
    def decisions(self) -> int:
        """Number of decisions that were made again."""
        return self.exact + self.within_tolerance + self.different

    @property
    def ok(self) -> bool:
        """Whether no decision made another choice."""
        return not self.differences


class _Match(IntEnum):
    EXACT = 0
    WITHIN_TOLERANCE = 1
    DIFFERENT = 2


def replay(
    source: str | Path | Journal | Iterable[Event], study: str = "study", sampler: Sampler | None = None
) -> Replay:
    """Make every decision of a study again, each from the stored events before it, and compare.

    source: a journal (a path, a URL or an object), or the events themselves.
    sampler: the function that proposed the configurations, if the study was created with one.
    """
    events = _events(source, study)
    if not events:
        shown = shown_journal(source) if isinstance(source, str) else source
        raise InvalidArgument(f"there is nothing to replay: {shown!r} has no events")
    _check_sampler(events[0], sampler)
    history = History()
    decider = Decider(history, sampler)
    counts = dict.fromkeys(_Match, 0)
    differences: list[str] = []
    position = 0
    while position < len(events):
        taken = events[position : position + 1]
        # such a bracket follows from the clock or from the user's call, and is taken as it is
        given = isinstance(taken[0], BracketPlanned) and taken[0].rule in ("promote", "deadline")
        if isinstance(taken[0], TrialStarted | RungCut | BracketPlanned) and not given:
            with one_thread(history.settings.explains):
                # the time of the next start decides which trials still waited for another try
                following = itertools.islice(events, position if history.retries else len(events), None)
                now = Now(next((event.time for event in following if isinstance(event, TrialStarted)), None))
                decided = decider.events_in_time(now, None, None)
                match, stored = _match(decided, events[position : position + 2], history, decider, now)
            counts[match] += 1
            if match is _Match.DIFFERENT:
                differences.append(f"event {position}: {_difference(decided, stored)}")
            else:
                taken = list(stored)
        elif isinstance(taken[0], ConfirmationEvent):
            decided_text, match = _confirmed(history, taken[0])
            counts[match] += 1
            if match is _Match.DIFFERENT:
                differences.append(f"event {position}: stored {taken[0]}, decided {decided_text}")
        history.extend(taken)
        position += len(taken)
    return Replay(counts[_Match.EXACT], counts[_Match.WITHIN_TOLERANCE], tuple(differences))


def _match(
    decided: list[Event], following: Sequence[Event], history: History, decider: Decider, now: Now
) -> tuple[_Match, Sequence[Event]]:
    """Return how well a decision agrees with the events that follow, and which of them it should have led to.

    Once a limit is reached, only trials that lost their worker are started, whatever else is ready. In a session with
    a deadline, what would not end in time is passed over.
    """
    again = restart(history, time=now.time)
    made: Iterable[list[Event]] = (decided, decider.carry_out(again, now))
    if any({"until", "max_seconds"} & session.limits.keys() for session in history.sessions):
        possible = [*ready_runs(history), next_bracket(history)]
        made = itertools.chain(made, (decider.carry_out(decision, now) for decision in possible))
    best, taken = _Match.DIFFERENT, following[:1]
    for events in made:
        stored = following[: max(1, len(events))]
        match = _compare(events, stored, history.space)
        if match is _Match.EXACT:
            return match, stored
        if match < best:
            best, taken = match, stored
    return best, taken


def _check_sampler(created: Event, sampler: Sampler | None) -> None:
    stored = Settings.from_json(created.settings).sampler if isinstance(created, StudyCreated) else TPE
    given = TPE if sampler is None else sampler_name(sampler)
    if stored != given:
        raise InvalidArgument(
            f"the configurations of this study were proposed by the sampler {stored!r}, not by {given!r}; only the "
            "same function can propose them again: replay(…, sampler=…)"
        )


def _events(source: str | Path | Journal | Iterable[Event], study: str) -> list[Event]:
    if isinstance(source, str | Path):
        with closing(open_journal(source, study, read_only=True)) as journal:
            return list(journal.read(0))
    return list(source) if isinstance(source, Iterable) else list(source.read(0))


def _compare(decided: Sequence[Event], stored: Sequence[Event], space: Space) -> _Match:
    """How well the events of a decision agree, apart from their times."""
    if [event.key for event in decided] != [event.key for event in stored]:
        return _Match.DIFFERENT
    return max(_compare_event(made, known, space) for made, known in zip(decided, stored, strict=True))


def _compare_event(decided: Event, stored: Event, space: Space) -> _Match:
    match decided, stored:
        case TrialStarted(), TrialStarted():
            return max(
                _compare_configs(decided.trial.config, stored.trial.config, space),
                _compare_values(_choice(decided.trial), _choice(stored.trial)),
            )
        case TrialFinished(), TrialFinished():
            return _Match.EXACT if decided.outcome.same_effect(stored.outcome) else _Match.DIFFERENT
        case BracketPlanned(), BracketPlanned():
            return _compare_values(*([event.rungs, event.rule, event.reason] for event in (decided, stored)))
        case _:
            return _Match.EXACT if decided == stored else _Match.DIFFERENT


def _confirmed(history: History, stored: ConfirmationEvent) -> tuple[str, _Match]:
    """Return what a confirmation decides, and how well the stored event agrees with it."""
    if isinstance(stored, ConfirmationStarted):
        trials = tuple(promising(history.results, len(stored.trials)))
        return f"{trials}", _compare_values([trials, history.budgets[-1]], [stored.trials, stored.budget])
    if isinstance(stored, RepeatFinished):
        due = history.confirmations[stored.confirmation].due()
        return f"{due}", _Match.EXACT if (stored.candidate, stored.repeat) in due else _Match.DIFFERENT
    made = conclusion(history.confirmations[stored.confirmation], history.study.seed)
    numbers = ([event.winner, event.estimates, event.noise, event.gain] for event in (made, stored))
    return f"{made}", _compare_values(*numbers)


def _choice(trial: Trial) -> dict[str, Any]:
    return {field.name: getattr(trial, field.name) for field in fields(Trial) if field.compare} | {"config": None}


def _compare_configs(decided: Mapping[str, Any], stored: Mapping[str, Any], space: Space) -> _Match:
    if decided == stored:
        return _Match.EXACT
    vectors = space.encode(decided), space.encode(space.restore(dict(stored)))
    close = np.allclose(*vectors, rtol=0, atol=TOLERANCE, equal_nan=True)
    return _Match.WITHIN_TOLERANCE if close else _Match.DIFFERENT


def _compare_values(decided: Any, stored: Any) -> _Match:
    """How well two values agree that consist of numbers, texts, lists and dictionaries."""
    if decided == stored:
        return _Match.EXACT
    if isinstance(decided, Mapping) and isinstance(stored, Mapping) and decided.keys() == stored.keys():
        return max(_compare_values(value, stored[name]) for name, value in decided.items())
    if isinstance(decided, list | tuple) and isinstance(stored, list | tuple) and len(decided) == len(stored):
        return max((_compare_values(*pair) for pair in zip(decided, stored, strict=True)), default=_Match.EXACT)
    both_floats = isinstance(decided, float) and isinstance(stored, float)
    close = both_floats and math.isclose(decided, stored, rel_tol=REASON_TOLERANCE, abs_tol=REASON_TOLERANCE)
    return _Match.WITHIN_TOLERANCE if close else _Match.DIFFERENT


def _difference(decided: Sequence[Event], stored: Sequence[Event]) -> str:
    made, known = decided[0] if decided else None, stored[0]
    if isinstance(made, TrialStarted) and isinstance(known, TrialStarted):
        names = [f.name for f in fields(Trial) if getattr(made.trial, f.name) != getattr(known.trial, f.name)]
        return f"trial {known.trial.number}: " + "; ".join(
            f"{name} stored {getattr(known.trial, name)!r}, decided {getattr(made.trial, name)!r}" for name in names
        )
    return f"stored {known}, decided {made}"
