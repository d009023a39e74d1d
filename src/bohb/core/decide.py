"""What a free worker does next (§4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.schedule.halving import Done, Promote, Sample, Wait
from bohb.core.trial import Trial


@dataclass(frozen=True, slots=True)
class StartSample:
    """Start a new configuration."""

    bracket: int
    rung: int
    budget: float


@dataclass(frozen=True, slots=True)
class StartPromotion:
    """Start the configuration of trial `number` on the next rung."""

    bracket: int
    rung: int
    budget: float
    number: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart a trial whose worker was lost."""

    trial: Trial


@dataclass(frozen=True, slots=True)
class PlanBracket:
    """Choose the rungs of a new bracket.

    given_on: the budget on which the user wants a configuration to be evaluated; the bracket consists of that alone.
    """

    bracket: int
    given_on: float | None = None


Run = StartSample | StartPromotion | Restart
Decision = Run | PlanBracket | Wait | Done


def decide(history: History, max_brackets: int | None = None, fits: Callable[[Run], bool] = lambda _: True) -> Decision:
    """Return the waiting run with the smallest budget; a new bracket opens only if no open one has a run ready.

    A configuration that the user wants on a certain budget comes first, in a bracket of its own that does not count.
    Runs of equal budget start in the order of their brackets. With `start_order="oldest_bracket"` the brackets'
    order decides alone, as in HpBandSter.

    fits: whether a run would end before the deadline; one that would not waits, and does not keep others from starting.
    """
    index = len(history.brackets)
    if history.given.on_budget and history.schedule.is_given(index):
        return StartSample(index, 0, history.bracket_plan(index).rungs[0].budget)
    if history.given.on_budget and index not in history.planned:
        return PlanBracket(index, history.given.on_budget[0].budget)
    ready = [run for run in ready_runs(history) if fits(run)]
    if ready:
        return ready[0]
    if max_brackets is None or history.schedule.n_counted < max_brackets:
        if history.schedule.is_to_be_planned(index):
            return PlanBracket(index)
        budget = history.bracket_plan(index).rungs[0].budget
        promoted = history.schedule.promotes(index)
        return StartPromotion(index, 0, budget, promoted[0]) if promoted else StartSample(index, 0, budget)
    return Wait() if history.pending else Done()


def ready_runs(history: History) -> list[Run]:
    """Return what the open brackets can start, in the order in which it would be started."""
    by_age = history.settings.start_order == "oldest_bracket"
    ready: list[tuple[float, int, int, Run]] = []
    for number in history.lost:
        trial = history.pending[number]
        ready.append((0.0 if by_age else trial.budget, trial.bracket, number, Restart(trial)))
    for bracket in history.schedule.ready:
        run = _ready(history, bracket)
        if run is not None:
            ready.append((0.0 if by_age else run.budget, bracket, len(history.trials), run))
    return [run for *_, run in sorted(ready, key=lambda entry: entry[:3])]


def bracket_of(run: Run) -> int:
    """Return the bracket that a run belongs to."""
    return run.trial.bracket if isinstance(run, Restart) else run.bracket


def _ready(history: History, index: int) -> StartSample | StartPromotion | None:
    """Return what an open bracket has ready to run."""
    bracket = history.brackets[index]
    match bracket.next_action():
        case Sample(rung):
            return StartSample(index, rung, bracket.budget)
        case Promote(rung, number) if twin(history, number, bracket.budget) not in history.pending:
            return StartPromotion(index, rung, bracket.budget, number)
        case _:
            return None


def twin(history: History, number: int, budget: float) -> int | None:
    """Return the trial that already evaluates this configuration on this budget, which only finite spaces can have."""
    if history.settings.duplicates or not history.space.finite:
        return None
    return history.evaluated.get((history.key(history.trials[number].config), budget))
