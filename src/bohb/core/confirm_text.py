"""A confirmation as text: what the study, the command line, reports and the dashboard say about it."""

from __future__ import annotations

import math

from bohb.core.confirm import Confirmation, Estimate, last_confirmed
from bohb.core.history import History


def columns(confirmation: Confirmation) -> tuple[str, ...]:
    """Return the names of the columns of `rows`."""
    what = confirmation.goals.label
    return "candidate", "evaluations", f"{what} when selected", f"expected {what}", "95 % interval", "P(best)"


def verdict(confirmation: Confirmation) -> list[str]:
    """Return what a confirmation found, in a few sentences."""
    n = len(confirmation.outcomes)
    if not confirmation.finished:
        done = f"{n} of at most {confirmation.most} evaluations"
        return [f"a confirmation is unfinished after {done}; confirm again to continue it"]
    if confirmation.chosen is None:
        return [f"the confirmation found no winner: all of its {n} evaluations failed"]
    winner, (low, high), what = confirmation.winner, confirmation.interval, confirmation.goals.label
    lines = [
        f"confirmed: {winner.name} has the expected {what} {_spread(confirmation.loss, low, high)} on budget "
        f"{confirmation.budget:g}"
    ]
    if len(confirmation.candidates) > 1:
        chance = f"with probability {_chance(confirmation.probability)}"
        lines.append(f"it is the best of {len(confirmation.candidates)} {chance}, by {n} new evaluations")
        if confirmation.probability < 0.95:
            lines.append(f"its lead over the next, {rows(confirmation)[1][0]}, is within the noise")
    if confirmation.noise == 0:
        lines.append("new seeds change nothing: two evaluations of one configuration never differed")
    elif winner.selected_loss is not None:
        selected = confirmation.goals.shown(winner.selected_loss)
        lines.append(f"the {what} by which it was selected, {selected:.6g}, is not used")
    return [*lines, *_default(confirmation)]


def _default(confirmation: Confirmation) -> list[str]:
    """Return how the default configuration compares, if there is one."""
    if confirmation.gain is None:
        return []
    gain, low, high = confirmation.gain
    if confirmation.winner.trial is None:
        return [f"no other configuration is better than the default; the next one is worse by {-gain:.3g}"]
    sure = "" if low > 0 else "; that may be chance"
    return [f"it is better than the default by {_spread(gain, low, high)}{sure}"]


def rows(confirmation: Confirmation) -> list[tuple[str, ...]]:
    """Return one row per candidate with the cells of `columns`, the winner first."""
    estimates = confirmation.estimates or (None,) * len(confirmation.candidates)
    found = []
    for i, (candidate, estimate) in enumerate(zip(confirmation.candidates, estimates, strict=True)):
        losses = confirmation.losses(i)
        failed = sum(math.isinf(loss) for loss in losses)
        n = f"{len(losses)}" + (f" ({failed} failed)" if failed else "")
        selected = "" if candidate.selected_loss is None else f"{confirmation.goals.shown(candidate.selected_loss):.6g}"
        row = (candidate.name, n, selected, *_cells(None if estimate is None else confirmation.shown(estimate)))
        found.append((i != confirmation.chosen, math.inf if estimate is None else estimate.loss, i, row))
    return [row for *_, row in sorted(found)]


def _cells(estimate: Estimate | None) -> tuple[str, str, str]:
    if estimate is None:
        return "", "", ""
    loss, low, high = _rounded(estimate.loss, estimate.low, estimate.high)
    return loss, f"{low} to {high}", _chance(estimate.probability)


def _spread(value: float, low: float, high: float) -> str:
    """Return an estimate with its interval."""
    value_text, low_text, high_text = _rounded(value, low, high)
    return f"{value_text} (95 % interval {low_text} to {high_text})"


def _rounded(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return three numbers with as many digits as the width of their interval justifies: two of the width."""
    largest, width = max(abs(value), abs(low), abs(high)), high - low
    if not 0 < width < math.inf or not 1e-4 <= largest < 1e6 or largest > 1e9 * width:
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    return f"{value:.{decimals}f}", f"{low:.{decimals}f}", f"{high:.{decimals}f}"


def _chance(probability: float) -> str:
    """Return a probability; those near 0 and 1 are not known exactly."""
    return "< 0.01" if probability < 0.01 else "> 0.99" if probability > 0.99 else f"{probability:.2f}"


def last_verdict(history: History) -> list[str]:
    """Return what the study's confirmations found, and what they do not cover."""
    if not history.confirmations:
        return []
    known, last = last_confirmed(history.confirmations), history.confirmations[-1]
    lines = [] if known is None else verdict(known)
    lines += [] if last is known else verdict(last)
    best, covered = history.incumbent, {c.trial.config_id for c in last.candidates if c.trial is not None}
    if best is not None and last.finished and best.trial.config_id not in covered:
        lines.append(f"trial {best.trial.number}, the incumbent, is newer; confirm again to include it")
    return lines
