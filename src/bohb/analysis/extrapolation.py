"""From runs at small sizes to a recommendation for a size that was never trained."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bohb.analysis.valley import COVERED, Runs, Valley, contradicts, fitted
from bohb.core.space import Array
from bohb.core.trial import jsonable
from bohb.errors import InvalidArgument
from bohb.units import aligned, number, value_text

Kind = Literal["log", "linear", "choice"]
FEWEST_RUNS = 10
_POINTS = 41  # of a line that is drawn
_STORED = ("at", "config", "config_intervals", "loss", "loss_interval", "cost", "cost_of_search", "warnings")
_EDGE = 0.1  # share of the tried range within which an optimum counts as on its edge


@dataclass(frozen=True, slots=True)
class SizedRun:
    """A finished run: its configuration, its scale variables by name, its loss and, if known, its cost."""

    config: Mapping[str, Any]
    scale: Mapping[str, float]
    loss: float
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Moving:
    """A hyperparameter whose optimum follows the size.

    path: its optimum at each size that was tried, the smallest first, and at the target.
    values: values from the lowest to the highest that was tried.
    valleys: for each size, the fitted loss at these values if the other hyperparameters have their optimum.
    """

    path: tuple[float, ...]
    values: tuple[float, ...]
    valleys: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Extrapolation:
    """A configuration for a size that was never trained, and what it is expected to give.

    config: the configuration.
    config_intervals: for each hyperparameter that follows the size, where its optimum lies in 90 % of such cases.
    loss: the loss that is expected with it; `loss_interval` covers 90 % of such cases.
    at: the target's scale variables.
    cost: the cost of all runs together; None if it is unknown.
    cost_of_search: what as many runs as a size had here would cost at the target; None if costs are unknown.
    warnings: reasons to trust it less.
    runs: the runs that it was computed from.
    sizes: the scale variables of each size that was tried, the smallest first.
    losses: the loss at the optimum of each size, as fitted.
    moving: the hyperparameters that follow the size.
    """

    config: dict[str, Any]
    config_intervals: dict[str, tuple[float, float]]
    loss: float
    loss_interval: tuple[float, float]
    at: dict[str, float]
    cost: float | None = None
    cost_of_search: float | None = None
    warnings: tuple[str, ...] = ()
    runs: Sequence[SizedRun] = field(default=(), compare=False)
    sizes: Sequence[Mapping[str, float]] = ()
    losses: Sequence[float] = ()
    moving: Mapping[str, Moving] = field(default_factory=dict)

    def __str__(self) -> str:
        share = f"in {100 * COVERED:g} % of such cases"
        rows = [("at", ", ".join(f"{name} = {number(value)}" for name, value in self.at.items()))]
        for name, value in self.config.items():
            low, high = self.config_intervals.get(name, (None, None))
            where = (
                "as in the best run of the nearest size" if low is None else f"{number(low, 3)} to {number(high, 3)}"
            )
            rows.append((name, f"{value_text(value)} ({where})"))
        low, high = self.loss_interval
        rows.append(("loss", f"{number(self.loss)} ({number(low, 4)} to {number(high, 4)} {share})"))
        if self.cost is not None:
            rows.append(("cost", f"{number(self.cost, 3)}; a search at the target: {number(self.cost_of_search, 3)}"))
        return aligned([*rows, *(("warning", text) for text in self.warnings)])

    def __repr__(self) -> str:
        return str(self)

    def to_json(self) -> dict[str, Any]:
        """Return the recommendation without the runs."""
        found: dict[str, Any] = jsonable({name: getattr(self, name) for name in _STORED})
        return found


class _Columns:
    """The runs as arrays, and back from coordinates to values."""

    def __init__(self, runs: Sequence[SizedRun], kinds: Mapping[str, Kind], moves: Collection[str] | None) -> None:
        everywhere = [name for name in kinds if all(name in run.config for run in runs)]
        values = {name: [run.config[name] for run in runs] for name in everywhere}
        varied = [name for name in everywhere if len({*map(repr, values[name])}) > 1]
        self.numeric = [name for name in varied if kinds[name] != "choice"]
        self.kinds = kinds
        self.moving = [name for name in self.numeric if (kinds[name] == "log" if moves is None else name in moves)]
        for name in moves or ():
            if name not in self.numeric:
                raise InvalidArgument(f"moves={name!r} must be a hyperparameter whose value is a number in every run")
        self.whole = {name for name in self.numeric if all(float(v).is_integer() for v in values[name])}
        self.choices = [
            (name, choice) for name in varied if kinds[name] == "choice" for choice in _others(values[name])
        ]
        self.scale = list(runs[0].scale)
        x = np.array([[self.coordinate(name, run.config[name]) for name in self.numeric] for run in runs])
        moving = np.array([name in self.moving for name in self.numeric], dtype=bool)
        effects = np.array([self.effects(run.config) for run in runs], dtype=float).reshape(len(runs), -1)
        s = np.log([[run.scale[name] for name in self.scale] for run in runs])
        self.runs = Runs(x.reshape(len(runs), -1), moving, effects, s, np.log([run.loss for run in runs]))

    def coordinate(self, name: str, value: Any) -> float:
        return math.log(value) if self.kinds[name] == "log" else float(value)

    def value(self, name: str, coordinate: float) -> float:
        return math.exp(coordinate) if self.kinds[name] == "log" else float(coordinate)

    def effects(self, config: Mapping[str, Any]) -> list[float]:
        return [float(config[name] == choice) for name, choice in self.choices]


def _others(values: Sequence[Any]) -> list[Any]:
    """Return the different choices but one, whose effect is part of the level."""
    return [choice for _, choice in sorted({repr(value): value for value in values}.items())][1:]


def extrapolated(
    runs: Sequence[SizedRun], at: Mapping[str, float], kinds: Mapping[str, Kind], moves: Collection[str] | None = None
) -> Extrapolation:
    """Return the recommendation for a size.

    runs: successful runs with positive losses, all with the scale variables of `at`.
    kinds: how each hyperparameter is modelled: by its logarithm, by its value, or as a choice.
    moves: the hyperparameters whose optimum follows the size; by default the numbers on a log scale.
    """
    if len(runs) < FEWEST_RUNS:
        raise InvalidArgument(f"{len(runs)} runs succeeded; an extrapolation needs at least {FEWEST_RUNS}")
    columns = _Columns(runs, kinds, moves)
    found = columns.runs
    sizes = found.sizes()
    if len(sizes) < 2:
        raise InvalidArgument(
            f"all runs have the size {dict(runs[0].scale)}; an extrapolation needs at least two sizes"
        )
    if not columns.moving:
        raise InvalidArgument(
            "no hyperparameter follows the size: none is a positive number that every run has; name some with moves=[…]"
        )
    target = np.log([at[name] for name in columns.scale])
    valley = fitted(found)
    nearest = sizes[np.argmin(((sizes - target) ** 2).sum(axis=1))]
    there = np.flatnonzero(found.at(nearest))
    best = runs[there[np.argmin(found.y[there])]]
    centre, deviation = valley.centre(target)
    reach = valley.quantile * deviation
    config, intervals = dict(best.config), {}
    for j, name in enumerate(columns.numeric):
        if name in columns.moving:
            value = columns.value(name, centre[j])
            config[name] = max(1, round(value)) if name in columns.whole else float(f"{value:.6g}")
            ends = (columns.value(name, centre[j] - reach[j]), columns.value(name, centre[j] + reach[j]))
            intervals[name] = (float(f"{ends[0]:.4g}"), float(f"{ends[1]:.4g}"))
    effects = np.array(columns.effects(best.config))
    level, spread = valley.level(target, effects)
    low, high = (math.exp(level + sign * valley.quantile * spread) for sign in (-1, 1))
    used, searched = _costs(runs, found, target)
    return Extrapolation(
        config,
        intervals,
        float(f"{math.exp(level):.6g}"),
        (float(f"{low:.6g}"), float(f"{high:.6g}")),
        dict(at),
        used,
        searched,
        tuple(_warnings(columns, valley, sizes, target)),
        runs,
        [dict(zip(columns.scale, np.exp(size).round(6).tolist(), strict=True)) for size in sizes],
        [math.exp(valley.level(size, effects)[0]) for size in sizes],
        {name: _moving(columns, valley, name, sizes, target) for name in columns.moving},
    )


def _moving(columns: _Columns, valley: Valley, name: str, sizes: Array, target: Array) -> Moving:
    j = columns.numeric.index(name)
    tried = columns.runs.x[:, j]
    line = np.linspace(tried.min(), tried.max(), _POINTS)
    centres = [valley.centre(size)[0] for size in (*sizes, target)]
    valleys = []
    for size, centre in zip(sizes, centres, strict=False):
        x = np.tile(centre, (_POINTS, 1))
        x[:, j] = line
        none = np.zeros((_POINTS, columns.runs.effects.shape[1]))
        expected = valley.expected(Runs(x, columns.runs.moves, none, np.tile(size, (_POINTS, 1)), np.zeros(_POINTS)))
        valleys.append(tuple(np.exp(expected).tolist()))
    path = tuple(columns.value(name, centre[j]) for centre in centres)
    return Moving(path, tuple(columns.value(name, coordinate) for coordinate in line), tuple(valleys))


def _costs(runs: Sequence[SizedRun], found: Runs, target: Array) -> tuple[float | None, float | None]:
    """Return the cost of all runs, and of as many runs at the target as a size had; a power law of the scale."""
    costs = np.array([math.nan if run.cost is None else run.cost for run in runs])
    if not (costs > 0).all():
        return None, None
    sizes = found.sizes()
    design = np.column_stack([np.ones(len(runs)), found.s])
    law = np.linalg.lstsq(design, np.log(costs), rcond=None)[0]
    one = math.exp(float(law[0] + target @ law[1:]))
    return float(costs.sum()), float(f"{one * len(runs) / len(sizes):.4g}")


def _warnings(columns: _Columns, valley: Valley, sizes: Array, target: Array) -> list[str]:
    found, said = columns.runs, []
    for j, name in enumerate(columns.scale):
        different = len(np.unique(sizes[:, j]))
        if different == 1 and target[j] != sizes[0, j]:
            said.append(f"all runs have the same {name}: nothing is known of what it does")
        elif different == 2:
            said.append(f"{name} has two values only: whether the trend is a power law cannot be seen")
    for name in columns.moving:
        j = columns.numeric.index(name)
        low, high = found.x[:, j].min(), found.x[:, j].max()
        at_sizes = [float(valley.centre(size)[0][j]) for size in sizes]
        margin = _EDGE * (high - low)
        if any(not low + margin <= centre <= high - margin for centre in at_sizes):
            said.append(f"the optimum of {name} lies on the edge of what was tried: widen its range")
        elif not low <= valley.centre(target)[0][j] <= high:
            said.append(f"the {name} of the target was tried at no size")
    if contradicts(found, valley):
        said.append("the losses of the largest size contradict the trend of the smaller ones")
    return said
