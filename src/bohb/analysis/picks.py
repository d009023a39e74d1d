"""Losses of new configurations by origin: does the model pick better ones than chance?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bohb.core.history import History
from bohb.core.standings import levels
from bohb.core.trial import Origin, Trial


@dataclass(frozen=True, slots=True)
class Picks:
    """The new configurations of one origin on one budget.

    losses: losses of those that succeeded, in the order in which they finished.
    quantiles: 0, 25, 50, 75 and 100 % of all losses; a failed trial counts as +inf.
    """

    budget: float
    origin: Origin
    n: int
    failed: int
    losses: tuple[float, ...]
    quantiles: tuple[float, float, float, float, float]


def picks(history: History) -> list[Picks]:
    """Return new configurations by budget and origin, without promoted ones, which were selected."""
    groups: dict[tuple[float, Origin], list[float]] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if trial.origin is not Origin.PROMOTED:
            groups.setdefault((trial.budget, trial.origin), []).append(outcome.ranking_loss)
    order = list(Origin)
    rows = []
    for budget, origin in sorted(groups, key=lambda key: (key[0], order.index(key[1]))):
        losses = groups[budget, origin]
        finite = tuple(loss for loss in losses if np.isfinite(loss))
        # inverted_cdf gives a loss that occurred; interpolating between +inf and +inf would give NaN.
        levels = np.quantile(losses, [0, 0.25, 0.5, 0.75, 1], method="inverted_cdf").tolist()
        rows.append(Picks(budget, origin, len(losses), len(losses) - len(finite), finite, tuple(levels)))
    return rows


@dataclass(frozen=True, slots=True)
class Record:
    """How the new configurations of one proposer have done.

    proposer: "process", "density", "prior", "user", or the name of a sampler.
    n: how many of them have finished.
    rank: their mean rank among all new configurations on the same budget, from 0 (all better) to 1 (all worse).
    """

    proposer: str
    n: int
    rank: float


def records(history: History) -> list[Record]:
    """Return the record of each proposer, the best first."""
    budgets: dict[float, list[int]] = {}
    for number in history.outcomes:
        trial = history.trials[number]
        if trial.origin is not Origin.PROMOTED:
            budgets.setdefault(trial.budget, []).append(number)
    ranks: dict[str, list[float]] = {}
    for new in budgets.values():
        compared = levels(history.goals, history.outcomes, new)
        losses = np.array(list(compared.values()))
        for number, loss in compared.items():
            name = proposer(history.trials[number])
            ties = (losses == loss).sum() - 1
            ranks.setdefault(name, []).append(float(((losses < loss).sum() + ties / 2) / max(1, len(new) - 1)))
    found = [Record(name, len(known), float(np.mean(known))) for name, known in ranks.items()]
    return sorted(found, key=lambda record: (record.rank, record.proposer))


def proposer(trial: Trial) -> str:
    """Return who proposed the configuration of a trial that was not promoted."""
    match trial.origin:
        case Origin.GIVEN:
            return "user"
        case Origin.MODEL:
            return str(trial.reason["sampler"]) if trial.explains == "function" else str(trial.explains)
        case _:
            return "prior"
