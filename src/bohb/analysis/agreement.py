"""How well neighbouring budgets agree, and which brackets an adaptive study chose by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bohb.core.adaptive.adaptation import ladder
from bohb.core.adaptive.agreement import Agreement, Losses, agreements, correlations
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket


@dataclass(frozen=True, slots=True)
class BracketChoice:
    """One bracket that was opened, or is planned, and why it has the rungs it has.

    published: whether it is as published; then there are no numbers.
    start: the budget of its first rung.
    verdict: "published", or for a chosen one "kept" if it starts on the study's smallest budget, "raised", "lowered".
    settled: whether it passes a single configuration on to the top, because the last two rungs agree.
    starts, gains: the budgets it could have started on, and what each promised: how far below the mean the best of the
        bracket was expected to end at the top, in standard deviations.
    agreement: what was known then of neighbouring rungs: low, high, shared, rho and its interval (90 %), to_top, and
        the ρ that was drawn from it, by which the gains were computed.
    """

    index: int
    bracket: Bracket
    published: bool
    start: float
    verdict: str
    settled: bool = False
    starts: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()
    agreement: tuple[Mapping[str, Any], ...] = ()


def rung_agreement(history: History) -> list[Agreement]:
    """What is known now of each pair of neighbouring budgets, the smallest first; empty before the study begins."""
    if history.created is None:
        return []
    rng = np.random.default_rng(history.created.seed)
    if history.adaptive:
        return ladder(rng, history.budgets, history.created.eta, history.evidence.seen)[1]
    seen = _seen(history)
    return agreements(history.budgets, seen, correlations(rng, history.budgets, seen))


def bracket_choice(history: History, index: int) -> BracketChoice:
    """Why a bracket that was opened or planned has its rungs."""
    opened = index < len(history.brackets)
    bracket = history.brackets[index].bracket if opened else history.bracket_plan(index)
    start = bracket.rungs[0].budget
    event = history.planned.get(index)
    if event is None:
        return BracketChoice(index, bracket, True, start, "published")
    reason = event.reason
    lowest = reason["lowest"]
    return BracketChoice(
        index,
        bracket,
        False,
        start,
        "kept" if start == lowest else "raised" if start > lowest else "lowered",
        reason["settled"],
        tuple(reason["starts"]),
        tuple(reason["gains"]),
        tuple(reason["agreement"]),
    )


def bracket_choices(history: History) -> list[BracketChoice]:
    """All brackets in turn."""
    known = max([len(history.brackets), *(index + 1 for index in history.planned)])
    return [bracket_choice(history, index) for index in range(known)]


def _seen(history: History) -> dict[float, Losses]:
    """The losses on each budget by configuration, for a study that does not keep them itself."""
    seen: dict[float, dict[bytes, float]] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        # In a finite space a configuration can be chosen again under another id.
        key = history.key(trial.config) if history.space.finite else str(trial.config_id).encode()
        seen.setdefault(trial.budget, {})[key] = outcome.ranking_loss
    return dict(seen)
