"""How long the rest of a study takes, by simulating the rule that studies are run by (§4.2, `decide`)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

from bohb.core.decide import PlanBracket, Restart, StartPromotion, StartSample, decide, first_run
from bohb.core.events import BracketPlanned, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket
from bohb.core.settings import Settings
from bohb.core.times.durations import DurationModel, learnt
from bohb.core.trial import Outcome, Status, Trial, first_trial, promoted_trial

SecondsOf = Callable[[Trial], float]
MOST_TRIALS = 2000  # that a simulation starts; the rest is extrapolated
_DRAWS = 19  # simulations with random durations, from which a mean and an interval are read
_ENDS = 3  # simulations with random durations, of which the mean end is taken
_OVERDUE = 0.1  # of a trial's duration, that it takes at least from now on
_GOLDEN = 0.6180339887498949  # its multiples are spread evenly


@dataclass(frozen=True, slots=True)
class Forecast:
    """The simulated rest of a study.

    seconds: until the last trial ends.
    history: the state at that time; its losses are invented.
    complete: False if the simulation gave up after `MOST_TRIALS`.
    """

    seconds: float
    history: History
    complete: bool


def forecast(
    history: History,
    workers: int,
    seconds_of: SecondsOf,
    *,
    remaining: Mapping[int, float] | None = None,
    max_brackets: int | None = None,
    plan: Sequence[Bracket] = (),
    is_over: Callable[[History, float], bool] = lambda _history, _now: False,
) -> Forecast:
    """Simulate a study until nothing is left to run; `history` itself is not changed.

    workers: number of trials that run at once.
    seconds_of: returns the duration of a trial.
    remaining: seconds until the running trials end, by number.
    plan: the brackets from the first on; those after it are Hyperband's.
    is_over: returns whether no further trial starts, given the state and the simulated seconds.
    """
    ahead = history.ahead()
    left = remaining or {}
    running = [(left.get(n, 0.0), n) for n in ahead.running]  # (end, number)
    heapq.heapify(running)
    now, started = 0.0, 0
    while True:
        while started < MOST_TRIALS and len(running) < workers and not is_over(ahead, now):
            trial = _next(ahead, max_brackets, plan)
            if trial is None:
                break
            ahead.apply(TrialStarted(trial))
            heapq.heappush(running, (now + seconds_of(trial), trial.number))
            started += 1
        if not running:
            return Forecast(now, ahead, started < MOST_TRIALS)
        now, number = heapq.heappop(running)
        trial = ahead.trials[number]
        known = None if trial.from_trial is None else ahead.outcomes[trial.from_trial].loss
        loss = float(number) if known is None else known  # invented; a promoted configuration keeps its rank
        ahead.apply(TrialFinished(number, Outcome(Status.OK, loss=loss)))


def time_to_end(history: History, seconds: float, time: float) -> float | None:
    """Return the expected time until a running study ends, by the limits and workers that its runners have stored.

    None if nothing runs, or nothing is known about its end. It imports nothing heavy.
    """
    owners = {history.owners.get(number) for number in history.running} - {None}
    sessions = [session for session in history.sessions if session.index in owners] or history.sessions[-1:]
    if not history.running or not sessions:
        return None
    workers = sum(session.workers or 0 for session in sessions) or len(history.running)
    return seconds_to_end(history, learnt(history), sessions[-1].limits, workers, seconds, time)


def seconds_to_end(
    history: History,
    model: DurationModel | None,
    limits: Mapping[str, float],
    workers: int,
    seconds: float,
    time: float,
) -> float | None:
    """Return the expected time until a study ends; None if nothing is known about it.

    Limits that depend on losses are not foreseen: the study may end earlier.

    limits: the limits of its runner by name, as a session stores them.
    workers: number of trials that run at once.
    seconds, time: the working time of the study so far, and the time of day.
    """
    ends = [limits[name] - now for name, now in (("max_seconds", seconds), ("until", time)) if name in limits]
    reported = history.cost_reported / limits.get("max_reported_cost", math.inf)
    if reported > 0:
        ends.append(seconds / reported - seconds)
    if model is not None and _progress(history, limits) is not None:
        ends.append(_counted_end(history, model, limits, workers, time))
    return max(0.0, min(ends)) if ends else None


def _counted_end(
    history: History, model: DurationModel, limits: Mapping[str, float], workers: int, time: float
) -> float:
    """Return the time until a limit on trials, brackets or budget is reached and the last trial has ended.

    Several workers wait for the slowest trial of a rung, and at last for the slowest of all. Durations are therefore
    drawn at random; if all took as long as expected, the end would be too early.
    """
    if workers == 1:
        expected = remaining(history, model, time)
        return _simulated_end(history, limits, workers, lambda trial: model.duration(trial).mean, expected)
    ends = []
    for draw in range(_ENDS):

        def share(number: int, draw: int = draw) -> float:
            return ((number + 1) * _GOLDEN + draw / _ENDS) % 1.0

        def seconds_of(trial: Trial, share: Callable[[int], float] = share) -> float:
            return model.duration(trial).drawn(share(trial.number))

        running = {
            number: model.duration(trial).drawn(share(number), _since(history, number, time))
            for number, trial in history.running.items()
        }
        ends.append(_simulated_end(history, limits, workers, seconds_of, running))
    return fmean(ends)


def _simulated_end(
    history: History,
    limits: Mapping[str, float],
    workers: int,
    seconds_of: SecondsOf,
    running: Mapping[int, float],
) -> float:
    """Return the time until the last trial has ended, given the seconds until the running ones end."""
    n = limits.get("max_brackets")
    ahead = forecast(
        history,
        workers,
        seconds_of,
        remaining=running,
        max_brackets=None if n is None else int(n),
        is_over=lambda state, _: (_progress(state, limits) or 0.0) >= 1,
    )
    before, after = _progress(history, limits) or 0.0, _progress(ahead.history, limits) or 0.0
    if ahead.complete or after <= before:
        return ahead.seconds
    return ahead.seconds * (1 - before) / (after - before)


def _progress(history: History, limits: Mapping[str, float]) -> float | None:
    """Return which share of the first limit on trials, brackets or budget is used; None without such a limit."""
    used = {
        "max_trials": len(history.trials) - len(history.forgotten),
        "max_cost": history.budget_spent / history.budgets[-1] * (1 + 1e-12),
        "max_brackets": history.schedule.n_counted - len(history.schedule.open),
    }
    return max((value / limits[name] for name, value in used.items() if name in limits), default=None)


def makespan(plan: Sequence[Bracket], workers: int, seconds_of: SecondsOf) -> float:
    """Return the seconds until the last trial of the brackets ends."""
    budgets = tuple(rung.budget for rung in plan[0].rungs)
    empty = History().extend([StudyCreated({}, budgets, 3, 0, Settings().to_json())])
    return forecast(empty, workers, seconds_of, max_brackets=len(plan), plan=plan).seconds


def planned_time(plan: Sequence[Bracket], workers: int, model: DurationModel) -> tuple[float, float, float]:
    """Return the expected seconds until the last trial of the brackets ends, and the interval around it."""
    ends = drawn_ends(model, lambda seconds_of: makespan(plan, workers, seconds_of))
    return fmean(ends), ends[1], ends[-2]


def proportional(seconds: float, full: float, continued: bool) -> SecondsOf:
    """Return durations in proportion to the budget.

    seconds: duration of an evaluation on the budget `full`.
    continued: whether a promoted trial continues its training, so that it takes only what the budgets differ by.
    """
    return lambda trial: (trial.budget - (trial.previous_budget or 0.0 if continued else 0.0)) * seconds / full


def drawn_ends(model: DurationModel, simulate: Callable[[SecondsOf], float]) -> list[float]:
    """Return simulated times in order: durations vary by trial, and all of them by the error of the model."""
    ends = []
    for draw in range(_DRAWS):
        common = NormalDist().inv_cdf((draw + 0.5) / _DRAWS) * model.error

        def seconds_of(trial: Trial, draw: int = draw, common: float = common) -> float:
            share = ((trial.number + 1) * _GOLDEN + draw / _DRAWS) % 1.0
            duration = model.duration(replace(trial, config_id=-1))  # a new study has other configurations
            return duration.drawn(share) * math.exp(common)

        ends.append(simulate(seconds_of))
    return sorted(ends)


def remaining(history: History, model: DurationModel | None, time: float) -> dict[int, float]:
    """Return the expected seconds until the running trials end, by number.

    time: the time of day. A trial that runs longer than expected is expected to run for a while longer.
    """
    if model is None:
        return {}
    found: dict[int, float] = {}
    for number, trial in history.running.items():
        since = _since(history, number, time)
        expected = model.duration(trial).mean
        found[number] = max(expected - since, _OVERDUE * max(since, expected))
    return found


def _since(history: History, number: int, time: float) -> float:
    """Return for how many seconds a trial has been running; 0 if the clock was set back."""
    return max(0.0, time - (history.started.get(number) or time))


def _next(ahead: History, max_brackets: int | None, plan: Sequence[Bracket]) -> Trial | None:
    """Return the trial that starts next; None if nothing can start. A new configuration is empty."""
    number, index = len(ahead.trials), len(ahead.brackets)
    if index < len(plan) and index not in ahead.schedule.planned:
        ahead.apply(BracketPlanned(index, plan[index].pairs, "deadline"))
    decision = decide(ahead, max_brackets)
    match first_run(ahead, index) if isinstance(decision, PlanBracket) else decision:
        case Restart(trial):
            return replace(trial, attempt=trial.attempt + 1)
        case StartSample(bracket, rung, budget):
            return first_trial(number, {}, budget, bracket, rung)
        case StartPromotion(bracket, rung, budget, source):
            return promoted_trial(ahead.trials[source], number, budget, bracket, rung)
        case _:
            return None
