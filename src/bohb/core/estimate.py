"""How long a plan takes with a number of workers, by the rule that studies are run by (§4.2, `decide`)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from bohb.core.decide import StartPromotion, StartSample, decide
from bohb.core.events import BracketPlanned, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket
from bohb.core.settings import Settings
from bohb.core.trial import Origin, Outcome, Status, Trial


def makespan(plan: Sequence[Bracket], workers: int, seconds: float, continued: bool) -> float:
    """Return the seconds until the last trial of the brackets ends.

    seconds: duration of an evaluation on the largest budget; smaller budgets take less in proportion.
    continued: whether a promoted trial continues its training, so that it takes only what the budgets differ by.
    """
    budgets = tuple(rung.budget for rung in plan[0].rungs)
    settings = Settings(duplicates=True)  # then no configuration is encoded, and the space may stay empty
    history = History().extend([StudyCreated({}, budgets, 3, 0, settings.to_json())])
    running: list[tuple[float, int]] = []  # (end, number)
    now = 0.0
    while True:
        while len(running) < workers and (trial := _next(history, plan)) is not None:
            history.apply(TrialStarted(trial))
            spent = trial.budget - (trial.previous_budget or 0.0 if continued else 0.0)
            heapq.heappush(running, (now + spent * seconds / plan[-1].rungs[-1].budget, trial.number))
        if not running:
            return now
        now, number = heapq.heappop(running)
        history.apply(TrialFinished(number, Outcome(Status.OK, loss=float(number))))


def _next(history: History, plan: Sequence[Bracket]) -> Trial | None:
    """Return the trial that starts next, with an empty configuration; None if nothing can start."""
    number, index = len(history.trials), len(history.brackets)
    if index < len(plan) and index not in history.planned:
        history.apply(BracketPlanned(index, tuple((rung.budget, rung.size) for rung in plan[index].rungs), {}))
    match decide(history, len(plan)):
        case StartSample(bracket, rung, budget):
            return Trial(number, {}, budget, number, bracket, rung, 0, Origin.RANDOM)
        case StartPromotion(bracket, rung, budget, source):
            before = history.trials[source]
            return Trial(number, {}, budget, before.config_id, bracket, rung, 0, Origin.PROMOTED, before.budget)
        case _:
            return None
