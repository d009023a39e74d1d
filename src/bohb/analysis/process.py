"""What the Gaussian process expects: its mean and deviation along each hyperparameter, through one configuration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from bohb.analysis.axes import Array, Axis, axes, places
from bohb.core.history import History
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.trial import Trial

_POINTS = 61  # along a numeric axis


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """One hyperparameter; all others have the values of the configuration.

    place: where the configuration lies on the axis, from 0 to 1.
    places: (m,) places at which the process is evaluated; for categories the middle of each cell.
    mean, deviation: (m,) of the loss on the largest budget, without the noise of a single evaluation.
    """

    axis: Axis
    place: float
    places: Array
    mean: Array
    deviation: Array


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """What the current process expects around one configuration.

    budget: the largest budget.
    n: number of results that the process is given.
    slices: the hyperparameters that are active in the configuration.
    """

    trial: Trial
    budget: float
    n: int
    slices: tuple[Slice, ...]


def uses_process(history: History) -> bool:
    """Whether a Gaussian process proposes configurations in this study."""
    return history.created is not None and history.settings.explains == "process"


def beliefs(history: History, number: int | None = None, sampler: GaussianSampler | None = None) -> Beliefs | None:
    """Return what the process expects now; None while there is none.

    number: the trial of the configuration. Default: the incumbent.
    sampler: an earlier sampler of this study, whose fits are used again; fits take seconds.
    """
    best = history.incumbent
    trial = history.trials[number] if number is not None else None if best is None else best.trial
    if trial is None or not uses_process(history):
        return None
    try:
        surrogate = (sampler or GaussianSampler(history.space)).surrogate(history)
    except LinAlgError:
        return None
    if surrogate is None:
        return None
    x = history.space.encode(trial.config)
    here = places(history.space, [trial.config])[0]
    slices = []
    for j, axis in enumerate(axes(history.space)):
        if np.isnan(x[j]):
            continue
        values = np.arange(axis.cells, dtype=float) if axis.kind == "categorical" else np.linspace(0, 1, _POINTS)
        X = np.tile(x, (len(values), 1))
        X[:, j] = values
        mean, deviation = surrogate.process.predict(surrogate.process.similarity(surrogate.embedding(X)))
        spread, centre = surrogate.targets.spread, surrogate.targets.centre
        shown = np.array(axis.ticks) if axis.kind == "categorical" else values
        slices.append(Slice(axis, float(here[j]), shown, mean * spread + centre, deviation * spread))
    return Beliefs(trial, history.budgets[-1], len(surrogate.targets.y), tuple(slices))
