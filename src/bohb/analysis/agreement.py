"""The agreement of neighbouring budgets, and the brackets that a study chose instead of Hyperband's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bohb.analysis.correlation import losses_by_budget
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket, BracketRule
from bohb.core.schedule.correlations import Agreement, agreements, correlations
from bohb.core.schedule.gains import ladder

_VERDICTS: Mapping[BracketRule, str] = {
    "hyperband": "published",
    "repeat": "repeated",
    "skip": "skips",
    "given": "given",
    "promote": "grown",
    "deadline": "deadline",
}


@dataclass(frozen=True, slots=True)
class BracketChoice:
    """One opened or planned bracket, and why it has its rungs.

    published: whether it is a bracket of Hyperband as published, or one that the user wanted; then the numbers below
        are empty.
    start: the budget of its first rung.
    verdict: "published", or "given" if the user wanted a configuration there, "deadline" if it was chosen to end in
        time, "grown" if it continues the best configurations after the largest budget has grown, "skips" if it leaves
        out lower rungs that do not pay, "repeated" if it repeats a bracket of Hyperband that is unfinished, or "kept",
        "raised" or "lowered", compared with the study's smallest budget.
    settled: whether it promotes a single configuration to the top, because the last two rungs agree.
    starts, gains: the budgets it could have started on, and the expected gain of each: how far below the mean its best
        configuration was expected to be on the largest budget, in standard deviations.
    agreement: for each pair of neighbouring rungs low, high, shared, rho with its 90 % interval, to_top, and the ρ that
        was drawn to compute the gains.
    to_top: in an informed study, the expected correlation of a result on each of the smaller budgets with one on the
        largest, for promising configurations; `starts` and `gains` are known as well, also of published brackets.
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
    to_top: tuple[float, ...] = ()


def rung_agreement(history: History) -> list[Agreement]:
    """Return the agreement of each pair of neighbouring budgets, smallest first; empty before the study begins."""
    if history.created is None:
        return []
    rng = np.random.default_rng(history.created.seed)
    if history.adaptive:
        return ladder(rng, history.budgets, history.created.eta, history.evidence.seen)[1]
    seen = losses_by_budget(history)
    return agreements(history.budgets, seen, correlations(rng, history.budgets, seen))


def bracket_choice(history: History, index: int) -> BracketChoice:
    """Return why a bracket has its rungs."""
    opened = index < len(history.brackets)
    bracket = history.brackets[index].bracket if opened else history.bracket_plan(index)
    start = bracket.rungs[0].budget
    event = history.planned.get(index)
    if event is None:
        return BracketChoice(index, bracket, True, start, "published")
    reason = event.reason
    if event.rule != "adaptive":
        starts, gains, to_top = (tuple(reason.get(name, ())) for name in ("starts", "gains", "to_top"))
        choice = BracketChoice(index, bracket, event.rule != "skip", start, _VERDICTS[event.rule])
        return replace(choice, starts=starts, gains=gains, to_top=to_top)
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
    """Return the choices of all brackets in order."""
    known = max([len(history.brackets), *(index + 1 for index in history.planned)])
    return [bracket_choice(history, index) for index in range(known)]
