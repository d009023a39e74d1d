"""Models of the loss: the densities l and g, the Gaussian process, and a surface over two hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import LARGEST, Array, Axis, axes, configurations, loss_range, places, telling_budget
from bohb.analysis.importance import importance, most_important_pair
from bohb.core.goals import Objective
from bohb.core.history import History
from bohb.core.samplers import kde
from bohb.core.samplers.chain import Samplers
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.samplers.kde import Density
from bohb.core.space.scales import Coordinates
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument

_POINTS, _MANY = 201, 1001  # along a numeric axis; the second where kernels may be as narrow as `min_bandwidth`


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """Both densities of one hyperparameter, all others integrated out.

    places: (m,) places at which they are evaluated, from 0 to 1; for categories the middle of each cell.
    good, bad: (m,) densities that integrate to one; for categories, probabilities that add up to one.
    good_points, bad_points: (n,) places of the fitted configurations in which it is active.
    good_inactive, bad_inactive: number of configurations in which it is inactive; the model treats it as uniform there.
    """

    axis: Axis
    places: Array
    good: Array
    bad: Array
    good_points: Array
    bad_points: Array
    good_inactive: int
    bad_inactive: int

    @property
    def distance(self) -> float:
        """How much the two differ: the total variation distance, from 0 if they are equal to 1 without an overlap."""
        differences = np.abs(self.good - self.bad)
        total = differences.sum() if self.axis.kind == "categorical" else differences.mean()
        return float(total) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Densities:
    """The model that the next proposal would use.

    budget, n: budget and number of the results it is fitted to.
    good, bad: number of results in each density; they can overlap while there are few.
    """

    budget: float
    n: int
    good: int
    bad: int
    marginals: tuple[Marginal, ...]


def densities(history: History) -> Densities | None:
    """Return the marginals of l and g; None while there is no model."""
    if history.created is None:
        return None
    model = Samplers(history).model()
    if model is None:
        return None
    boundary = history.settings.boundary
    marginals = tuple(_marginal(axis, j, model.good, model.bad, boundary) for j, axis in enumerate(axes(history.space)))
    return Densities(model.budget, model.n, len(model.good.points), len(model.bad.points), marginals)


def _marginal(axis: Axis, j: int, good: Density, bad: Density, boundary: bool) -> Marginal:
    categorical = axis.kind == "categorical"
    points = _MANY if min(good.bandwidths[j], bad.bandwidths[j]) < 0.01 else _POINTS
    coordinates = np.arange(axis.cells, dtype=float) if categorical else np.linspace(0, 1, points)
    places = np.array(axis.ticks) if categorical else coordinates

    def column(density: Density) -> Array:
        values = density.points[:, j]
        active = values[~np.isnan(values)]
        return (active + 0.5) / axis.cells if categorical else active

    good_points, bad_points = column(good), column(bad)
    return Marginal(
        axis=axis,
        places=places,
        good=_integrated(good, j, coordinates, boundary),
        bad=_integrated(bad, j, coordinates, boundary),
        good_points=good_points,
        bad_points=bad_points,
        good_inactive=len(good.points) - len(good_points),
        bad_inactive=len(bad.points) - len(bad_points),
    )


def _integrated(density: Density, j: int, coordinates: Array, boundary: bool) -> Array:
    """Integrate all coordinates but j out of a mixture of product kernels, which leaves the mixture of j's kernels."""
    kind = Coordinates(density.coordinates.choices[[j]], density.coordinates.optional[[j]])
    alone = kde.fit(density.points[:, [j]], kind, density.bandwidths[[j]], boundary)
    values: Array = np.exp(alone.log_density(coordinates[:, None]))
    return values


_ALONG = 61  # places along a numeric axis at which the process is evaluated


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


def proposed(trial: Trial, objective: Objective) -> tuple[float, float] | None:
    """Return the loss and the deviation that the process expected when it proposed a configuration; None if unknown.

    objective: the one whose loss is wanted, if the study has several objectives or constraints.
    """
    reason = trial.reason
    if "expected_loss" in reason:
        return reason["expected_loss"], reason["deviation"]
    value = reason.get("expected", {}).get(objective.name)
    return None if value is None else (objective.loss(value), reason["deviations"][objective.name])


def beliefs(history: History, number: int | None = None, sampler: GaussianSampler | None = None) -> Beliefs | None:
    """Return what the process expects now; None while there is none.

    number: the trial of the configuration. Default: the incumbent.
    sampler: an earlier sampler of this study, whose fits are used again; fits take seconds.
    """
    best = history.incumbent
    trial = history.trials[number] if number is not None else None if best is None else best.trial
    if trial is None or not uses_process(history):
        return None
    surrogate = (sampler or GaussianSampler(history.space)).surrogate(history)
    if surrogate is None:
        return None
    x = history.space.encode(trial.config)
    here = places(history.space, [trial.config])[0]
    slices = []
    for j, axis in enumerate(axes(history.space)):
        if np.isnan(x[j]):
            continue
        values = np.arange(axis.cells, dtype=float) if axis.kind == "categorical" else np.linspace(0, 1, _ALONG)
        X = np.tile(x, (len(values), 1))
        X[:, j] = values
        mean, deviation = surrogate.process.predict(surrogate.process.similarity(surrogate.embedding(X)))
        spread, centre = surrogate.targets.spread, surrogate.targets.centre
        with np.errstate(over="ignore"):  # losses can be so large that only their signs and order can be drawn
            mean = np.clip(mean * spread + centre, -LARGEST, LARGEST)
            deviation = np.minimum(deviation * spread, LARGEST)
        shown = np.array(axis.ticks) if axis.kind == "categorical" else values
        slices.append(Slice(axis, float(here[j]), shown, mean, deviation))
    return Beliefs(trial, history.budgets[-1], len(surrogate.targets.y), tuple(slices))


_CELLS = 41  # grid points along a numeric axis
_NEAR = 0.5  # grid points with less kernel weight than this, in trials, are left blank
_MOST = 2000  # trials for the surface; of more than these, the latest are used


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """Two hyperparameters on one budget.

    x, y: the axes.
    points: (n, 2) places of the trials; losses: (n,) +inf for a failed trial; numbers: (n,) the trials.
    grid_x, grid_y: places at which the surface is computed.
    surface: (len(grid_y), len(grid_x)) the mean loss nearby; NaN where no trial is near.
    log: whether it is the geometric mean, because losses are positive and several powers of ten apart.
    inactive: number of trials in which one of the two is inactive.
    """

    budget: float
    x: Axis
    y: Axis
    points: Array
    losses: Array
    numbers: NDArray[np.int64]
    grid_x: Array
    grid_y: Array
    surface: Array
    log: bool
    inactive: int


def contour(
    history: History, x: str | None = None, y: str | None = None, budget: float | None = None
) -> Contour | None:
    """Return the loss over two hyperparameters; None if there is no trial or no second hyperparameter.

    x, y: their names. Default: the pair that matters most.
    budget: the budget of the trials. Default: the largest with at least a hundred losses, else the one with the most.
    """
    budget = telling_budget(history, enough=100) if budget is None else budget
    if budget is None or history.space.d < 2:
        return None
    table = configurations(history, budget)
    names = [axis.name for axis in table.axes]
    pair = [names.index(name) for name in _pair(history, names, x, y)]
    places = table.places[:, pair]
    active = ~np.isnan(places).any(axis=1)
    points, losses = places[active], table.losses[active]
    both = table.axes[pair[0]], table.axes[pair[1]]
    grid_x, grid_y = _grid(both[0]), _grid(both[1])
    usual = loss_range(losses)
    shown = losses if usual is None else usual.clip(losses)  # one outlier would dominate every mean around it
    log = usual is not None and usual.log
    surface = smoothed(both, points, np.log(shown) if log else shown, grid_x, grid_y)
    return Contour(
        budget=budget,
        x=both[0],
        y=both[1],
        points=points,
        losses=losses,
        numbers=table.numbers[active],
        grid_x=grid_x,
        grid_y=grid_y,
        surface=np.exp(surface) if log else surface,
        log=log,
        inactive=int((~active).sum()),
    )


def smoothed(both: tuple[Axis, Axis], points: Array, losses: Array, grid_x: Array, grid_y: Array) -> Array:
    """Return the mean loss, weighted by a Gaussian of Scott's width per axis (Nadaraya and Watson's regression).

    Categories and named values are not smoothed. Failed trials have no loss and are ignored.
    """
    finite = np.flatnonzero(np.isfinite(losses))[-_MOST:]
    if not len(finite):
        return np.full((len(grid_y), len(grid_x)), np.nan)
    z = losses[finite]
    weight_x = _weights(both[0], points[finite, 0], grid_x)  # (gx, n)
    weight_y = _weights(both[1], points[finite, 1], grid_y)  # (gy, n)
    total = weight_y @ weight_x.T
    near = np.where(total >= _NEAR, total, np.nan)
    unit = float(np.abs(z).max()) or 1.0  # sums of huge losses could overflow
    surface: Array = unit * ((weight_y * (z / unit)) @ weight_x.T / near)
    return surface


def _pair(history: History, names: list[str], x: str | None, y: str | None) -> tuple[str, str]:
    """Return the two names: the pair that matters most, or the most important one for a given one."""
    for name in (x, y):
        if name is not None and name not in names:
            raise InvalidArgument(f"{name!r} is not a hyperparameter that varies; there are {names}")
    if x is None and y is None:
        return most_important_pair(history) or (names[0], names[1])
    ranked = importance(history, shuffles=0) if x is None or y is None else None
    order = names if ranked is None else [row.name for row in ranked.rows]
    first = x if x is not None else next(name for name in order if name != y)
    second = y if y is not None else next(name for name in order if name != first)
    if first == second:
        raise InvalidArgument(f"x={first!r} and y={second!r} must be two different hyperparameters")
    return first, second


def _grid(axis: Axis) -> Array:
    return np.array(axis.ticks) if axis.discrete else np.linspace(0, 1, _CELLS)


def _weights(axis: Axis, column: Array, grid: Array) -> Array:
    """Return the kernel of every trial at every grid point, (grid, n); it is 1 at the trial itself."""
    if axis.discrete:
        return (np.abs(grid[:, None] - column) < 1e-9).astype(float)
    width = max(0.03, float(column.std()) * len(column) ** (-1 / 6))
    weights: Array = np.exp(-0.5 * ((grid[:, None] - column) / width) ** 2)
    return weights
