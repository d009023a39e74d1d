"""How much single evaluations deviate, and whether the lead of the best result exceeds the noise."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from bohb.core.confirm import last_confirmed
from bohb.core.confirm_start import promising

if TYPE_CHECKING:
    from bohb.core.history import History
from bohb.core.settings import MODELS

_DISTINCT = 1.96 * math.sqrt(2)  # deviations by which two single evaluations differ in 5 of 100 cases, by chance alone


def known_noise(history: History) -> tuple[float, str] | None:
    """Return the standard deviation of single evaluations on the incumbent's budget, and how it is known.

    It is known from a confirmation, from repetitions of a configuration, or from the Gaussian process of the study.
    """
    best = history.incumbent
    if best is None:
        return None
    confirmed = last_confirmed(history.confirmations)
    if confirmed is not None and confirmed.budget == best.budget and confirmed.noise is not None:
        return confirmed.noise, "measured by the confirmation"
    repeated = _repetitions(history, best.budget)
    if repeated is not None:
        return repeated, "measured by repeated evaluations"
    estimated = _of_process(history)
    return None if estimated is None else (estimated, "estimated by the model")


def _repetitions(history: History, budget: float) -> float | None:
    """Return the deviation between evaluations of one configuration on a budget; None without repetitions."""
    groups: dict[str, list[float]] = {}
    for result in history.results:
        if result.budget == budget and result.trial.reuses is None:
            groups.setdefault(repr(sorted(result.config.items())), []).append(result.loss)
    repeated = [(losses, fmean(losses)) for losses in groups.values() if len(losses) > 1]
    if not repeated:
        return None
    squares = math.fsum((loss - mean) ** 2 for losses, mean in repeated for loss in losses)
    return math.sqrt(squares / sum(len(losses) - 1 for losses, _ in repeated))


def _of_process(history: History) -> float | None:
    """Return σ on the largest budget as the Gaussian process has learnt it; None if the study has none."""
    full, best = history.budgets[-1], history.incumbent
    if MODELS[history.settings.model] != "process" or best is None or best.budget != full or not history.goals.single:
        return None
    from scipy.linalg import LinAlgError

    from bohb.core.samplers.gaussian import GaussianSampler  # slow to import, and most studies do without

    try:
        surrogate = GaussianSampler(history.space).surrogate(history)
    except LinAlgError:
        return None
    return None if surrogate is None else surrogate.noise


def lead_within_noise(history: History) -> str | None:
    """Return a sentence if the best result leads by no more than noise explains; None if it leads, or if unknown."""
    best, first = history.incumbent, promising(history, 2)
    if best is None or len(first) < 2 or not history.goals.single:
        return None
    number = first[1]
    lead = history.outcomes[number].ranking_loss - best.loss
    if history.trials[number].budget != best.budget:
        return None
    noise = known_noise(history)
    if noise is None or lead > _DISTINCT * noise[0] or noise[0] == 0:
        return None
    deviation, source = noise
    return (
        f"the next best, trial {number}, is {lead:.3g} behind: within the noise, since single evaluations deviate by "
        f"{deviation:.3g} ({source})"
    )
