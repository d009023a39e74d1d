"""The current model: the densities l of good and g of bad configurations, one hyperparameter at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bohb.analysis.axes import Array, Axis, axes
from bohb.core.history import History
from bohb.core.samplers import kde
from bohb.core.samplers.chain import Samplers
from bohb.core.samplers.kde import Density
from bohb.core.space.coordinates import Coordinates

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
