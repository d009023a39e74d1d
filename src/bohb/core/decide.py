"""What a free worker does next (§4.2)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bohb.core.history import History
from bohb.core.schedule.halving import Done, Promote, Sample, Wait
from bohb.core.trial import LONGEST_DELAY, Trial, retry_delay

if TYPE_CHECKING:
    from bohb.core.times.deadline import TimeLeft


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
    """Choose the rungs of the next bracket, and open it.

    given_on: the budget on which the user wants a configuration to be evaluated; the bracket consists of that alone.
    """

    bracket: int
    given_on: float | None = None


Run = StartSample | StartPromotion | Restart
Decision = Run | PlanBracket | Wait | Done


def decide(
    history: History,
    max_brackets: int | None = None,
    left: TimeLeft | None = None,
    kept: Container[int] = (),
    time: float | None = None,
) -> Decision:
    """Return the waiting run with the smallest budget; a new bracket opens only if no open one has a run ready.

    A configuration that the user wants on a certain budget comes first, in a bracket of its own that does not count.
    Runs of equal budget start in the order of their brackets. With `start_order="oldest_bracket"` the brackets'
    order decides alone, as in HpBandSter.

    left: the time until a deadline. A run that would not end in time waits, and does not keep others from starting.
    kept: with a deadline, the open brackets that end in time; their runs come first.
    time: the time of day, until which trials may have to wait that asked to be started again; None: nothing waits.
    """
    index, given = len(history.brackets), history.given.on_budget
    too_late = bool(given) and left is not None and not left.fits(given[0].budget or 0.0)
    if given and not too_late:
        if history.schedule.rule(index) == "given":
            return first_run(history, index)
        if index not in history.schedule.planned:
            return PlanBracket(index, given[0].budget)
    ready = ready_runs(history, time)
    if left is not None:
        ready = sorted((run for run in ready if fits(history, run, left)), key=lambda run: bracket_of(run) not in kept)
    if ready:
        return ready[0]
    if too_late:
        return Wait()
    following = next_bracket(history, max_brackets)
    if left is None or isinstance(following, PlanBracket | Wait | Done) or fits(history, following, left):
        return following
    return Wait()


def delayed(history: History, time: float | None) -> dict[int, float]:
    """Return the trials that have asked to be started again, and for how many seconds they wait at this time of day."""
    if time is None or not history.retries:
        return {}
    asked = {number: times for number, times in history.retries.items() if number in history.lost}
    left = {number: (times[-1].time or 0.0) + retry_delay(len(times)) - time for number, times in asked.items()}
    # a clock that was set back does not make them wait for longer
    return {number: seconds for number, seconds in left.items() if 0 < seconds <= LONGEST_DELAY}


def next_bracket(history: History, max_brackets: int | None = None) -> Decision:
    """Return the decision if no open bracket has a run ready."""
    index = len(history.brackets)
    if max_brackets is not None and history.schedule.n_counted >= max_brackets:
        return Wait() if history.pending else Done()
    return first_run(history, index) if index in history.schedule.planned else PlanBracket(index)


def first_run(history: History, index: int) -> StartSample | StartPromotion:
    """Return the run that opens bracket `index`, the next one."""
    budget, promoted = history.schedule.plan(index).rungs[0].budget, history.schedule.promotes(index)
    return StartPromotion(index, 0, budget, promoted[0]) if promoted else StartSample(index, 0, budget)


def restart(history: History, left: TimeLeft | None = None, time: float | None = None) -> Restart | Wait:
    """Return what starts once a limit is reached: the cheapest trial that lost its worker and ends in time, or none."""
    lost = [history.pending[number] for number in history.lost.keys() - delayed(history, time)]
    lost = [trial for trial in lost if left is None or fits(history, Restart(trial), left)]
    return Restart(min(lost, key=lambda trial: (trial.budget, trial.number))) if lost else Wait()


def fits(history: History, run: Run, left: TimeLeft) -> bool:
    """Whether a run is likely to end before a deadline."""
    match run:
        case Restart(trial):
            return left.fits(trial.budget, trial.previous_budget, trial.config_id)
        case StartPromotion(budget=budget, number=number):
            source = history.trials[number]
            return left.fits(budget, source.budget, source.config_id)
        case StartSample(budget=budget):
            return left.fits(budget)


def ready_runs(history: History, time: float | None = None) -> list[Run]:
    """Return what the open brackets can start, in the order in which it would be started."""
    by_age = history.settings.start_order == "oldest_bracket"
    ready: list[tuple[float, int, int, Run]] = []
    for number in history.lost.keys() - delayed(history, time):
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
