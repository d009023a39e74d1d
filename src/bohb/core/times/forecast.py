"""How long the rest of a study takes, by simulating the rule that studies are run by (§4.2, `decide`)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist, fmean

from bohb.core.decide import PlanBracket, Restart, StartPromotion, StartSample, decide, first_run
from bohb.core.events import BracketPlanned, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket
from bohb.core.settings import Settings
from bohb.core.times.durations import DurationModel, learnt
from bohb.core.trial import Outcome, Status, Trial, first_trial, promoted_trial

SecondsOf = Callable[[Trial], float]
_COUNTED = frozenset({"max_trials", "max_cost", "max_brackets"})
MOST_TRIALS = 2000  # that a simulation starts; the rest is extrapolated
_DRAWS = 19  # simulations with random durations, from which a mean and an interval are read
_ENDS = 3  # simulations with random durations, of which the mean end is taken
_GOLDEN = 0.6180339887498949  # its multiples are spread evenly


def forecast(
    history: History, workers: int, seconds_of: SecondsOf, limits: Mapping[str, float], plan: Sequence[Bracket] = ()
) -> float:
    """Return the seconds until nothing of a simulated study is left to run; `history` itself is not changed.

    workers: number of trials that run at once.
    seconds_of: returns how long a trial takes, or from now on if it is running.
    limits: on trials, brackets and budget, by name.
    plan: the brackets from the first on; those after it are Hyperband's.
    """
    ahead = history.ahead()
    before, now, last = _progress(ahead, limits), 0.0, len(ahead.trials) + MOST_TRIALS
    running = [(seconds_of(trial), number) for number, trial in ahead.running.items()]  # (end, number)
    heapq.heapify(running)
    while True:
        while len(ahead.trials) < last and len(running) < workers and _progress(ahead, limits) < 1:
            trial = _next(ahead, limits, plan)
            if trial is None:
                break
            ahead.apply(TrialStarted(trial))
            heapq.heappush(running, (now + seconds_of(trial), trial.number))
        if not running:
            break
        now, number = heapq.heappop(running)
        trial = ahead.trials[number]
        known = None if trial.from_trial is None else ahead.outcomes[trial.from_trial].loss
        loss = float(number) if known is None else known  # invented; a promoted configuration keeps its rank
        ahead.apply(TrialFinished(number, Outcome(Status.OK, loss=loss)))
    after = _progress(ahead, limits)
    simulated = 1.0 if len(ahead.trials) < last or after <= before else (after - before) / (1 - before)
    return now / simulated


def time_to_end(history: History, seconds: float, time: float) -> float | None:
    """Return the expected time until a running study ends, by the limits and workers that its runners have stored.

    None if nothing runs, or nothing is known about its end. It imports nothing heavy.
    """
    owners = {history.owner(number) for number in history.running} - {None}
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
    if model is not None and limits.keys() & _COUNTED:
        ends.append(_counted_end(history, model, limits, workers, time))
    return max(0.0, min(ends)) if ends else None


def _counted_end(
    history: History, model: DurationModel, limits: Mapping[str, float], workers: int, time: float
) -> float:
    """Return the time until a limit on trials, brackets or budget is reached and the last trial has ended.

    Several workers wait for the slowest trial of a rung, and at last for the slowest of all. Durations are therefore
    drawn at random; if all took as long as expected, the end would be too early.
    """

    def seconds_of(draw: int, trial: Trial) -> float:
        since = _since(history, trial.number, time) if trial.number in history.running else 0.0
        duration = model.duration(trial)
        return duration.left(since) if workers == 1 else duration.drawn(_share(trial, draw / _ENDS), since)

    draws = range(1 if workers == 1 else _ENDS)
    return fmean(forecast(history, workers, partial(seconds_of, draw), limits) for draw in draws)


def _share(trial: Trial, shift: float) -> float:
    """Return which share of trials like this one is quicker in a simulation."""
    return ((trial.number + 1) * _GOLDEN + shift) % 1.0


def _progress(history: History, limits: Mapping[str, float]) -> float:
    """Return which share of the first limit on trials, brackets or budget is used; 0 without such a limit."""
    used = {
        "max_trials": len(history.trials) - len(history.forgotten),
        "max_cost": history.budget_spent / history.budgets[-1] * (1 + 1e-12),
        "max_brackets": history.schedule.n_counted - len(history.schedule.open),
    }
    return max((used[name] / limits[name] for name in _COUNTED & limits.keys()), default=0.0)


def makespan(plan: Sequence[Bracket], workers: int, seconds_of: SecondsOf) -> float:
    """Return the seconds until the last trial of the brackets ends."""
    budgets = tuple(rung.budget for rung in plan[0].rungs)
    empty = History().extend([StudyCreated({}, budgets, 3, 0, Settings().to_json())])
    return forecast(empty, workers, seconds_of, {"max_brackets": len(plan)}, plan)


def planned_time(plan: Sequence[Bracket], workers: int, model: DurationModel) -> tuple[float, float, float]:
    """Return the expected seconds until the last trial of the brackets ends, and the interval around it.

    Durations vary by trial, and all of them by the error of the model.
    """

    def seconds_of(draw: int, trial: Trial) -> float:
        common = NormalDist().inv_cdf((draw + 0.5) / _DRAWS) * model.error
        duration = model.duration(replace(trial, config_id=-1))  # a new study has other configurations
        return duration.drawn(_share(trial, draw / _DRAWS)) * math.exp(common)

    ends = sorted(makespan(plan, workers, partial(seconds_of, draw)) for draw in range(_DRAWS))
    return fmean(ends), ends[1], ends[-2]


def proportional(seconds: float, full: float, continued: bool) -> SecondsOf:
    """Return durations in proportion to the budget.

    seconds: duration of an evaluation on the budget `full`.
    continued: whether a promoted trial continues its training, so that it takes only what the budgets differ by.
    """
    return lambda trial: (trial.budget - (trial.previous_budget or 0.0 if continued else 0.0)) * seconds / full


def remaining(history: History, model: DurationModel | None, time: float) -> dict[int, float]:
    """Return the expected seconds until the running trials end, by number.

    time: the time of day.
    """
    if model is None:
        return {}
    return {n: model.duration(trial).left(_since(history, n, time)) for n, trial in history.running.items()}


def _since(history: History, number: int, time: float) -> float:
    """Return for how many seconds a trial has been running; 0 if the clock was set back."""
    return max(0.0, time - (history.started.get(number) or time))


def _next(ahead: History, limits: Mapping[str, float], plan: Sequence[Bracket]) -> Trial | None:
    """Return the trial that starts next; None if nothing can start. A new configuration is empty."""
    number, index = len(ahead.trials), len(ahead.brackets)
    if index < len(plan) and index not in ahead.schedule.planned:
        ahead.apply(BracketPlanned(index, plan[index].pairs, "deadline"))
    most = limits.get("max_brackets")
    decision = decide(ahead, None if most is None else int(most))
    match first_run(ahead, index) if isinstance(decision, PlanBracket) else decision:
        case Restart(trial):
            return replace(trial, attempt=trial.attempt + 1)
        case StartSample(bracket, rung, budget):
            return first_trial(number, {}, budget, bracket, rung)
        case StartPromotion(bracket, rung, budget, source):
            return promoted_trial(ahead.trials[source], number, budget, bracket, rung)
        case _:
            return None
