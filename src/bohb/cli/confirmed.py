"""Confirmations as JSON and as text, for several commands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bohb.cli.text import table
from bohb.core.confirm_text import columns, last_verdict, rows, verdict
from bohb.units import printable

if TYPE_CHECKING:
    from bohb.core.confirm import Confirmation
    from bohb.core.history import History


def confirmation_data(found: Confirmation) -> dict[str, Any]:
    """Return a confirmation as JSON."""
    estimates = found.estimates or (None,) * len(found.candidates)
    return {
        "finished": found.finished,
        "budget": found.budget,
        "evaluations": len(found.outcomes),
        "noise": found.noise,
        "winner": found.chosen,
        "gain_over_default": found.gain,
        "candidates": [
            {
                "trial": None if candidate.trial is None else candidate.trial.number,
                "config": candidate.config,
                "selected_loss": found.goals.shown(candidate.selected_loss),
                "losses": [found.goals.shown(outcome.loss) for outcome in found.evaluations(i)],
                "estimate": None if estimate is None else asdict(found.shown(estimate)),
            }
            for i, (candidate, estimate) in enumerate(zip(found.candidates, estimates, strict=True))
        ],
    }


def confirmation_text(found: Confirmation) -> str:
    """Return a confirmation for people."""
    listed = table(columns(found), rows(found), left=("candidate",))
    return "\n".join([*map(printable, verdict(found)), "", listed])


def confirmed_rows(seen: History) -> list[tuple[str, str]]:
    """Return what the last confirmation found, as rows of `bohb status`."""
    return [("confirm" if i == 0 else "", line) for i, line in enumerate(last_verdict(seen))]
