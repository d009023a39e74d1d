"""Several studies beside each other: their results, their best losses at equal cost, and their best configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bohb.analysis.overview import Overview
from bohb.analysis.trajectory import Step, trajectory
from bohb.core.history import History
from bohb.units import DASH, duration, grouped, number, value_text

SHARES = (0.1, 0.25, 0.5, 1.0)  # of the cost that all studies have spent


@dataclass(frozen=True, slots=True)
class Comparison:
    """Studies in numbers.

    studies: an overview of each.
    budget: the largest budget on which all of them have a result; None if there is none.
    costs: numbers of full evaluations, up to what the study that spent least has spent; a promoted configuration counts
        for what it added.
    losses: for each study its best loss on that budget at each of these costs; None while it had none.
    """

    studies: tuple[Overview, ...]
    budget: float | None
    costs: tuple[float, ...]
    losses: tuple[tuple[float | None, ...], ...]

    def data(self) -> list[dict[str, Any]]:
        """Return each study as JSON."""
        return [self._of_study(place, study) for place, study in enumerate(self.studies)]

    def _of_study(self, place: int, study: Overview) -> dict[str, Any]:
        shown, best = study.history.goals.shown, study.best
        return {
            "finished": study.counts["finished"],
            "failed": study.counts["failed"],
            "full_evaluations": study.cost,
            "seconds": study.seconds,
            "loss": None if best is None else shown(best.loss),
            "budget": None if best is None else best.budget,
            "config": None if best is None else best.config,
            "losses": [shown(loss) for loss in self.losses[place]] if self.losses else [],
        }

    def results(self) -> list[tuple[str, ...]]:
        """Return the best loss, its budget, finished and failed trials, cost and time of each study, as text."""
        rows: list[tuple[str, ...]] = []
        for study in self.studies:
            best, n = study.best, study.counts
            shown = None if best is None else study.history.goals.shown(best.loss)
            budget = number(None if best is None else best.budget, 4)
            counts = grouped(n["finished"]), grouped(n["failed"]), number(study.cost, 4), duration(study.seconds)
            rows.append((number(shown), budget, *counts))
        return rows

    def progress(self) -> list[tuple[str, ...]]:
        """Return the best loss of each study at each of the costs, as text."""
        shown = [study.history.goals.shown for study in self.studies]
        return [tuple(number(of(loss)) for loss in row) for of, row in zip(shown, self.losses, strict=False)]


def comparison(histories: Sequence[History]) -> Comparison:
    """Compare the best losses of studies at equal cost, on the largest budget that all of them have reached."""
    studies = tuple(Overview(history) for history in histories)
    tables = [trajectory(history) for history in histories]
    common = set(tables[0].per_budget).intersection(*(table.per_budget for table in tables[1:])) if tables else set()
    if not common:
        return Comparison(studies, None, (), ())
    budget = max(common)
    least = min(0.0 if table.end is None else table.end.continued for table in tables)
    costs = tuple(share * least for share in SHARES)
    losses = tuple(tuple(_best(table.per_budget[budget], cost) for cost in costs) for table in tables)
    return Comparison(studies, budget, costs, losses)


def configurations_beside(studies: Sequence[Overview]) -> list[tuple[str, ...]]:
    """Return a row per hyperparameter: its name, and its value in the best configuration of each study."""
    configs = [{} if study.best is None else study.best.config for study in studies]
    names = dict.fromkeys(name for config in configs for name in config)
    return [(name, *(value_text(c[name]) if name in c else DASH for c in configs)) for name in names]


def _best(steps: Sequence[Step], cost: float) -> float | None:
    """Return the best loss by the time that this much was spent."""
    reached = [step.loss for step in steps if step.at.continued <= cost * (1 + 1e-9)]
    return reached[-1] if reached else None
