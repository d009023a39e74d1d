"""A confirmation as text: what the study, the command line, reports and the dashboard say about it."""

from __future__ import annotations

import math

from bohb.core.confirm import Confirmation, Estimate
from bohb.core.history import History

COLUMNS = ("candidate", "evaluations", "loss when selected", "expected loss", "95 % interval", "P(best)")


def verdict(confirmation: Confirmation) -> list[str]:
    """Return what a confirmation found, in a few sentences."""
    n = len(confirmation.outcomes)
    if not confirmation.finished:
        done = f"{n} of at most {confirmation.most} evaluations"
        return [f"a confirmation is unfinished after {done}; confirm again to continue it"]
    if confirmation.chosen is None:
        return [f"the confirmation found no winner: all of its {n} evaluations failed"]
    winner, (low, high) = confirmation.winner, confirmation.interval
    lines = [
        f"confirmed: {winner.name} has the expected loss {_spread(confirmation.loss, low, high)} on budget "
        f"{confirmation.budget:g}"
    ]
    if len(confirmation.candidates) > 1:
        chance = f"with probability {_chance(confirmation.probability)}"
        lines.append(f"it is the best of {len(confirmation.candidates)} {chance}, by {n} new evaluations")
    if confirmation.noise == 0:
        lines.append("new seeds change nothing: two evaluations of one configuration never differed")
    elif winner.selected_loss is not None:
        lines.append(f"the loss by which it was selected, {winner.selected_loss:.6g}, is not used")
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
    """Return one row per candidate with the columns of `COLUMNS`, the lowest expected loss first."""
    estimates = confirmation.estimates or (None,) * len(confirmation.candidates)
    found = []
    for i, (candidate, estimate) in enumerate(zip(confirmation.candidates, estimates, strict=True)):
        losses = confirmation.losses(i)
        failed = sum(math.isinf(loss) for loss in losses)
        n = f"{len(losses)}" + (f" ({failed} failed)" if failed else "")
        selected = "" if candidate.selected_loss is None else f"{candidate.selected_loss:.6g}"
        row = (candidate.name, n, selected, *_cells(estimate))
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
    """Return three numbers with as many digits as the width of their interval justifies."""
    largest = max(abs(value), abs(low), abs(high))
    if not high > low or not math.isfinite(largest / (high - low)):
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    digits = max(1, 2 + math.floor(math.log10(largest)) - math.floor(math.log10(high - low)))
    unit = 10.0 ** (math.floor(math.log10(largest)) + 1 - digits)
    value, low, high = (round(x / unit) * unit for x in (value, low, high))
    return f"{value:.{digits}g}", f"{low:.{digits}g}", f"{high:.{digits}g}"


def _chance(probability: float) -> str:
    """Return a probability; those near 0 and 1 are not known exactly."""
    return "< 0.01" if probability < 0.01 else "> 0.99" if probability > 0.99 else f"{probability:.2f}"


def last_verdict(history: History) -> list[str]:
    """Return what the study's last confirmation found, and whether a later trial is not part of it."""
    if not history.confirmations:
        return []
    last = history.confirmations[-1]
    lines = verdict(last)
    best, known = history.incumbent, {c.trial.config_id for c in last.candidates if c.trial is not None}
    if best is not None and last.finished and best.trial.config_id not in known:
        lines.append(f"trial {best.trial.number}, the incumbent, is newer; confirm again to include it")
    return lines
