"""Learning curves of trials, and the losses of each configuration from budget to budget."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.trial import Status


@dataclass(frozen=True, slots=True)
class Curve:
    """The learning curve of one trial.

    losses: what the objective reported, a score if the study maximises one; NaN and infinities are possible.
    """

    number: int
    config_id: int
    budget: float
    status: Status
    loss: float | None
    steps: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """The budgets on which one configuration was evaluated, in order, with the losses.

    failed: the budget on which it failed, or None; the path ends there.
    """

    config_id: int
    bracket: int
    budgets: tuple[float, ...]
    losses: tuple[float, ...]
    numbers: tuple[int, ...]
    failed: float | None


def curves(history: History) -> list[Curve]:
    """Return the learning curves that objectives reported, in the order in which trials finished."""
    found = []
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if outcome.curve and trial.reuses is None:
            steps, losses = zip(*outcome.curve, strict=True)
            found.append(
                Curve(number, trial.config_id, trial.budget, outcome.status, outcome.loss, tuple(steps), tuple(losses))
            )
    return found


def paths(history: History) -> list[Path]:
    """Return every configuration with its losses from budget to budget."""
    numbers: dict[int, list[int]] = {}
    for number in history.outcomes:
        numbers.setdefault(history.trials[number].config_id, []).append(number)
    found = []
    for config_id, mine in numbers.items():
        mine.sort(key=lambda n: history.trials[n].budget)
        good = [n for n in mine if history.outcomes[n].ok]
        bad = [n for n in mine if not history.outcomes[n].ok]
        found.append(
            Path(
                config_id=config_id,
                bracket=history.trials[config_id].bracket,
                budgets=tuple(history.trials[n].budget for n in good),
                losses=tuple(history.outcomes[n].ranking_loss for n in good),
                numbers=tuple(good),
                failed=history.trials[bad[0]].budget if bad else None,
            )
        )
    return found
