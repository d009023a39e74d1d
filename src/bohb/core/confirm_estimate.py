"""How a confirmation begins and ends: what is evaluated again, and what the evaluations say about expected losses.

The latter is a hierarchical normal model, by simulation:

    y_ij ~ N(μ_i, σ_i²),   μ_i ~ N(m, τ²),   σ_i² ~ scaled inverse χ²(ν, σ²)

The lowest of several means is too low, since it was chosen for being low. The posterior of μ_i corrects for that: means
are drawn together by as much as the noise explains their differences. Noise is learnt from all candidates together,
because a few repetitions of one say little. m and log σ have flat priors, τ has a half-Cauchy prior with the scale of
the noise. The default configuration was not selected, so that its μ has a flat prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.core import streams
from bohb.core.confirm import PILOT, Confirmation, promising
from bohb.core.events import ConfirmationFinished, ConfirmationStarted
from bohb.core.history import History
from bohb.core.samplers.proposal import significant
from bohb.errors import InvalidArgument

Array = NDArray[np.float64]

LEVEL = 0.95  # of intervals
NU = 12.0  # ν: how alike the noise of the candidates is
CHAINS, BURN_IN, KEPT = 128, 8, 32  # Gibbs chains, and their steps before and after draws are kept
_TAU = np.concatenate([[0.0], np.geomspace(0.03, 30, 40)])  # τ in units of the noise
_TAU_PRIOR = np.log(np.gradient(_TAU)) - np.log1p(_TAU**2)
_DIGITS = 6


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
    numbers = tuple(promising(history.results, top))
    checked = None if default is None else dict(default)
    if checked is not None:
        history.space.encode(checked)  # raises InvalidConfiguration
    return ConfirmationStarted(len(history.confirmations), numbers, history.budgets[-1], repeats, checked)


def conclusion(confirmation: Confirmation, seed: int) -> ConfirmationFinished:
    """Return the event that ends a confirmation: the winner, and an estimate for each candidate.

    A candidate that failed wins only if all of them failed at least once. Its estimate is about its other evaluations.

    seed: that of the study.
    """
    known = [np.array(confirmation.losses(i)) for i in range(len(confirmation.candidates))]
    ok = [i for i, losses in enumerate(known) if np.isfinite(losses).any()]
    if not ok:
        return ConfirmationFinished(confirmation.index, None, (None,) * len(known), None, None)
    flat = np.array([confirmation.candidates[i].trial is None for i in ok])
    rng = streams.estimate_stream(seed, confirmation.index)
    draws, noise = posterior(rng, [known[i][np.isfinite(known[i])] for i in ok], flat)
    means = draws.mean(axis=0)
    failed = [int(np.isinf(known[i]).sum()) for i in ok]
    best = min(range(len(ok)), key=lambda a: (failed[a], means[a], a))
    chances = np.bincount(draws.argmin(axis=1), minlength=len(ok)) / len(draws)
    estimates: list[tuple[float, float, float, float] | None] = [None] * len(known)
    for a, i in enumerate(ok):
        estimates[i] = (*_interval(draws[:, a]), round(float(chances[a]), 3))
    gain = None
    if flat.any() and not flat.all():
        rival = min(np.flatnonzero(~flat), key=lambda a: (failed[a], means[a], a))
        gain = _interval(draws[:, -1] - draws[:, rival])
    return ConfirmationFinished(confirmation.index, ok[best], tuple(estimates), significant(noise, _DIGITS), gain)


def _interval(draws: Array) -> tuple[float, float, float]:
    """Return the mean of draws and the ends of their interval."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean, low, high = (significant(float(x), _DIGITS) for x in (draws.mean(), low, high))
    return mean, low, high


def posterior(rng: np.random.Generator, losses: Sequence[Array], flat: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return draws of all μ from their posterior, (draws, candidates), and the standard deviation of the noise.

    losses: the finite losses of each candidate, at least one.
    flat: which candidates have a flat prior instead of N(m, τ²).
    """
    n = np.array([len(values) for values in losses], dtype=float)
    unit = max(float(np.abs(np.concatenate(losses)).max()), 1e-300)  # so that no square overflows
    mean = np.array([values.mean() for values in losses]) / unit
    within = np.array([float(((values / unit - m) ** 2).sum()) for values, m in zip(losses, mean, strict=True)])
    freedom = float((n - 1).sum())
    pooled = within.sum() / freedom if freedom else 0.0
    if pooled <= 1e-24:  # evaluations do not differ, or there is one of each
        return np.tile(mean * unit, (CHAINS, 1)), 0.0
    mean, within = mean / np.sqrt(pooled), within / pooled
    unit *= float(np.sqrt(pooled))
    variance, scale = np.ones((CHAINS, len(n))), np.ones(CHAINS)
    kept = []
    for step in range(BURN_IN + KEPT):
        mu = _means(rng, mean, variance / n, flat)
        squares = within + n * (mean - mu) ** 2
        variance = (NU * scale[:, None] + squares) / rng.chisquare(NU + n, size=mu.shape)
        scale = rng.chisquare(NU * len(n), size=CHAINS) / (NU * (1 / variance).sum(axis=1))
        if step >= BURN_IN:
            kept.append(mu)
    return np.concatenate(kept) * unit, unit


def _means(rng: np.random.Generator, mean: Array, error: Array, flat: NDArray[np.bool_]) -> Array:
    """Draw all μ given their mean losses and the squared standard errors of these, (chains, candidates).

    τ is drawn first, from a grid, with m and μ integrated out; then m, then μ.
    """
    chains = np.arange(len(error))
    precision = np.where(flat, 0.0, 1 / (error[:, None, :] + _TAU[:, None] ** 2))  # (chains, τ, candidates)
    total = precision.sum(axis=2)
    centre = (precision * mean).sum(axis=2) / np.maximum(total, 1e-300)
    log_chance = _TAU_PRIOR - 0.5 * (precision * (mean - centre[..., None]) ** 2).sum(axis=2)
    log_chance += 0.5 * np.log(np.where(flat, 1.0, precision)).sum(axis=2) - 0.5 * np.log(np.maximum(total, 1e-300))
    cumulative = np.exp(log_chance - log_chance.max(axis=1, keepdims=True)).cumsum(axis=1)
    at = (cumulative < rng.random((len(error), 1)) * cumulative[:, -1:]).sum(axis=1)
    m = centre[chains, at] + rng.standard_normal(len(error)) / np.sqrt(np.maximum(total[chains, at], 1e-300))
    weight = np.where(flat, 0.0, 1 / np.maximum(_TAU[at] ** 2, 1e-12)[:, None])  # 1/τ²
    variance = 1 / (1 / error + weight)
    drawn = variance * (mean / error + weight * m[:, None])
    return np.asarray(drawn + np.sqrt(variance) * rng.standard_normal(error.shape))
