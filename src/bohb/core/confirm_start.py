"""Which configurations a confirmation evaluates again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bohb.core.confirm import PILOT
from bohb.core.events import ConfirmationStarted
from bohb.core.history import History
from bohb.errors import InvalidArgument


def promising(history: History, top: int) -> list[int]:
    """Return the trials of the `top` most promising configurations: the largest budget first, then the lowest loss."""
    found: dict[int, int] = {}
    results = sorted(history.results, key=lambda r: (-r.budget, r.loss, r.trial.number))
    for result in results:
        found.setdefault(result.trial.config_id, result.trial.number)
        if len(found) == top:
            break
    return list(found.values())


def planned(history: History, top: int, repeats: int, default: Mapping[str, Any] | None) -> ConfirmationStarted:
    """Return the event that begins a confirmation. Raises InvalidArgument or NoResult."""
    for name, value, least in (("top", top, 1), ("repeats", repeats, PILOT)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidArgument(f"{name}={value!r} must be a whole number of at least {least}")
    if not history.goals.single:
        raise InvalidArgument(
            "a study with several objectives or with constraints cannot be confirmed: which configuration is best "
            "depends on what you prefer; evaluate those of `study.front` again with new seeds"
        )
    history.require_incumbent()
    numbers = tuple(promising(history, top))
    checked = None if default is None else dict(default)
    if checked is not None:
        history.space.encode(checked)  # raises InvalidConfiguration
    return ConfirmationStarted(len(history.confirmations), numbers, history.budgets[-1], repeats, checked)
