"""From what `tell` is given to the events that store it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from bohb.core.encoding import check_storable
from bohb.core.events import Event, ResultLate, TrialFinished
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.trial import Outcome, Status, Trial, outcome_of
from bohb.errors import AlreadyTold, InvalidResult, UnknownTrial

log = logging.getLogger("bohb")


def known_number(history: History, trial: Trial | int) -> int:
    """Return the number of a trial that this study has started. Raises UnknownTrial."""
    number = trial.number if isinstance(trial, Trial) else trial
    if not isinstance(number, int) or isinstance(number, bool) or number not in history.trials:
        raise UnknownTrial(f"trial {number!r} was never asked for; this study has started {len(history.trials)} trials")
    if isinstance(trial, Trial) and trial.seed != history.trials[number].seed:
        raise UnknownTrial(f"trial {number} of this study has another seed; does it belong to another study?")
    return number


def result_events(
    history: History, results: Iterable[tuple[Trial | int, object]], elapsed: float | None
) -> list[Event]:
    """Return the events that store these results; a result that is already stored needs none.

    elapsed: how long the study has been running.
    """
    events: list[Event] = []
    ended: dict[int, Outcome] = {}
    late = {(event.number, event.attempt) for event in history.late}
    for trial, result in results:
        number = known_number(history, trial)
        outcome = _storable_outcome(result, history.goals)
        if isinstance(trial, Trial) and (number, trial.attempt) in history.given_up:
            if (number, trial.attempt) not in late:
                log.warning("the result of trial %d, attempt %d, is late and not used", number, trial.attempt)
                events.append(ResultLate(number, trial.attempt, outcome, elapsed))
            continue
        before = history.outcomes.get(number, ended.get(number))
        if before is None:
            ended[number] = outcome
            events.append(TrialFinished(number, outcome, elapsed))
        elif not before.same_effect(outcome):
            raise AlreadyTold(
                f"trial {number} has already ended with {_describe(before)}; {_describe(outcome)} is not recorded"
            )
    return events


def _storable_outcome(result: object, goals: Goals) -> Outcome:
    """Return a result as an outcome to store. Raises InvalidResult, except for an Outcome.

    An Outcome comes from an executor after the evaluation, so that it fails as a bad result and the study goes on.
    """
    try:
        return check_storable(outcome_of(result, goals))
    except InvalidResult as error:
        if not isinstance(result, Outcome):
            raise
        bare = Outcome(Status.BAD_RESULT, error=str(error))
        return replace(bare, started=result.started, finished=result.finished, worker=result.worker)


def _describe(outcome: Outcome) -> str:
    return f"loss {outcome.loss!r}" if outcome.ok else f"{outcome.status.value} ({outcome.error})"
