"""Hyperparameters and losses as axes: the finished trials as points between them, and the losses worth showing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.core.history import History
from bohb.core.space import Space
from bohb.core.space.scales import Categorical, Numeric, Ordinal, Scale, bins
from bohb.errors import InvalidArgument

Array = NDArray[np.float64]
_TICKS = 6  # approximate number on a numeric axis
_NARROWEST = 1e-290  # a range with round numbers in it; the powers of ten of a narrower one underflow


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from 0 to 1.

    kind: "float", "int", "ordinal" or "categorical".
    log: whether equal distances are equal factors.
    ticks, labels: places and texts of the tick labels.
    cells: number of different values; 0 for a float without steps.
    """

    name: str
    kind: str
    log: bool
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    cells: int

    @property
    def discrete(self) -> bool:
        """Whether its values are named: categorical or ordinal."""
        return self.kind in ("categorical", "ordinal")


def axes(space: Space) -> tuple[Axis, ...]:
    """Return the axes of all hyperparameters that vary, in the order of the encoded coordinates."""
    return tuple(axis(scale) for scale in space.dimensions)


def axis(scale: Scale) -> Axis:
    """Return the axis of one hyperparameter."""
    match scale:
        case Categorical() | Ordinal():
            n = len(scale.values)
            kind = "categorical" if isinstance(scale, Categorical) else "ordinal"
            ticks = tuple((index + 0.5) / n for index in range(n))
            return Axis(scale.name, kind, False, ticks, tuple(text(value) for value in scale.values), n)
        case Numeric():
            values = round_values(scale.lower, scale.upper, log=scale.log, integer=scale.integer)
            cells = int(bins(scale)) if scale.step else 0
            return Axis(
                scale.name,
                "int" if scale.integer else "float",
                scale.log,
                tuple(scale.place(value) for value in values),
                tuple(text(value) for value in values),
                cells,
            )


def places(space: Space, configs: list[dict[str, Any]]) -> Array:
    """Return where the values of configurations lie on their axes, (n, d); NaN where inactive."""
    X = np.array([space.encode(config) for config in configs], dtype=float).reshape(len(configs), space.d)
    return np.where(space.choices > 0, (X + 0.5) / np.maximum(space.choices, 1), X)


def text(value: object) -> str:
    """Format a value as people write it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else repr(value)


def round_values(low: float, high: float, *, log: bool = False, integer: bool = False) -> list[float]:
    """Return values for tick labels from `low` to `high`, which must be larger: round numbers or powers of ten."""
    return _decades(low, high, integer) if log else _round_numbers(low, high, integer)


def _round_numbers(low: float, high: float, integer: bool) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within the range; whole ones for integers."""
    width = high - low
    if integer and width < _TICKS:
        return [float(value) for value in range(int(low), int(high) + 1)]
    if not _NARROWEST < width < math.inf:
        return [float(low), float(high)]
    power = 10.0 ** math.floor(math.log10(width / _TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if width / (factor * power) <= _TICKS)
    if integer:
        step = max(1.0, round(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [min(max(float(f"{k * step:.12g}"), low), high) for k in range(first, last + 1)]
    return values if len(values) > 1 else [float(low), float(high)]


def _decades(low: float, high: float, integer: bool) -> list[float]:
    """Powers of ten within the range, thinned out; its ends if there are fewer than two."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        middle = math.sqrt(low) * math.sqrt(high)  # the product could overflow
        inner = round(middle) if integer else float(f"{middle:.1g}")
        return sorted({float(low), float(high), *([inner] if low < inner < high else [])})
    every = math.ceil((last - first + 1) / _TICKS)
    return [min(max(10.0**k, low), high) for k in range(first, last + 1, every)]


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """Finished trials, one row each, in the order in which they finished, without reused results.

    axes: the hyperparameters that vary.
    places: (n, d) where each value lies on its axis, from 0 to 1; NaN where the hyperparameter is inactive.
    losses: (n,) +inf for a failed trial.
    budgets: (n,) the budget of each trial.
    numbers: (n,) the number of each trial.
    """

    axes: tuple[Axis, ...]
    places: Array
    losses: Array
    budgets: Array
    numbers: NDArray[np.int64]


def configurations(history: History, budget: float | None = None) -> Configurations:
    """Return the finished trials on one budget, or on all budgets.

    budget: must have a finished trial. Default: all budgets.
    """
    numbers = [
        number
        for number in history.outcomes
        if history.trials[number].reuses is None and budget in (None, history.trials[number].budget)
    ]
    if budget is not None and not numbers:
        seen = sorted({history.trials[number].budget for number in history.outcomes})
        raise InvalidArgument(f"budget={budget!r} has no finished trial; there are some on {seen}")
    trials = [history.trials[number] for number in numbers]
    return Configurations(
        axes(history.space),
        places(history.space, [trial.config for trial in trials]),
        np.array([history.outcomes[number].ranking_loss for number in numbers], dtype=float),
        np.array([trial.budget for trial in trials], dtype=float),
        np.array(numbers, dtype=np.int64),
    )


def telling_budget(history: History, enough: int | None = None) -> float | None:
    """Return the largest budget with enough losses, else the one with the most losses; None without any loss.

    enough: required number of losses. Default: 2·(d + 1), at least 10.
    """
    counts: dict[float, int] = {}
    for number, outcome in history.outcomes.items():
        if outcome.ok:
            budget = history.trials[number].budget
            counts[budget] = counts.get(budget, 0) + 1
    if not counts:
        return None
    needed = max(10, 2 * (history.space.d + 1)) if enough is None else enough
    return max((b for b, n in counts.items() if n >= needed), default=max(counts, key=lambda b: (counts[b], b)))


_FAR = 10.0  # how far beyond the median an outlier lies, in distances between median and lower quartile
_WORTH = 5.0  # outliers are cut off only if the axis becomes this many times shorter
_DECADES = 1.5  # losses that span more than this suit a logarithmic axis
_SMALLEST, LARGEST = 1e-250, 1e250  # sizes that can be drawn: their sums, ratios and ticks stay finite
_FACTOR = 3.0  # the same for lines whose ends are compared; and how much longer an axis with all of them may be


@dataclass(frozen=True, slots=True)
class LossRange:
    """The losses from `low` to `high`, without outliers.

    positive: whether all finite losses are positive, so that a logarithmic axis can show them.
    log: whether a logarithmic axis suits them: they are positive and several powers of ten apart.
    """

    low: float
    high: float
    positive: bool
    log: bool

    def outside(self, losses: Sequence[float] | Array) -> NDArray[np.bool_]:
        """Whether each loss is finite and outside the range."""
        values = drawable(losses)
        outside: NDArray[np.bool_] = np.isfinite(values) & ((values < self.low) | (values > self.high))
        return outside

    def clip(self, losses: Sequence[float] | Array) -> Array:
        """The losses with outliers moved to the nearest end; NaN and infinities stay."""
        values = drawable(losses)
        return np.where(np.isfinite(values), np.clip(values, self.low, self.high), values)


def drawable(losses: Sequence[float] | Array) -> Array:
    """The losses, with 0 for those that are too close to it for an axis."""
    values = np.asarray(losses, dtype=float)
    return np.where(np.abs(values) < _SMALLEST, 0.0, values)


def loss_range(losses: Sequence[float] | Array) -> LossRange | None:
    """The range of the finite losses without outliers; None if no loss is finite."""
    values = _finite(losses)
    if not len(values):
        return None
    positive = bool(values.min() > 0)
    if positive:
        powers = np.log10(values)
        first, last = np.quantile(powers, [0.05, 0.95], method="inverted_cdf").tolist()
        low, high = _without_outliers(powers)
        if min(last, high) - max(first, low) > _DECADES:
            shown = values[(powers >= low) & (powers <= high)]
            return LossRange(float(shown.min()), float(shown.max()), True, True)
    return LossRange(*_without_outliers(values), positive, False)


def settled_range(settled: Sequence[float] | Array, losses: Sequence[float] | Array) -> LossRange | None:
    """The range for lines that fall steeply at first and are compared by how they end; None if no loss is finite.

    settled: the losses of all lines without their beginnings, which may be outside the range.
    losses: all losses.
    """
    values = _finite(losses)
    if not len(values):
        return None
    low, highest = float(values.min()), float(values.max())
    _, high = _without_outliers(_finite(settled))
    positive = low > 0
    log = positive and high / low > _FACTOR
    short = math.log(high / low) if log else high - low
    whole = math.log(highest / low) if log else highest - low
    if short <= 0 or whole <= _FACTOR * short:
        return LossRange(low, highest, positive, positive and highest / low > _FACTOR)
    room = float(values[values <= (high * (high / low) ** 0.5 if log else high + 0.5 * short)].max())
    return LossRange(low, room, positive, log)


def _finite(losses: Sequence[float] | Array) -> Array:
    """The finite losses, those that are too large for an axis moved to its end."""
    values = drawable(losses)
    return np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)


def _without_outliers(values: Array) -> tuple[float, float]:
    """The smallest and the largest value that are not far out.

    Only the lower half decides what is far, so that even many diverged losses count as outliers.
    """
    low, high = float(values.min()), float(values.max())
    quartile, median = np.quantile(values, [0.25, 0.5], method="inverted_cdf").tolist()
    reach = _FAR * max(median - quartile, 0.1 * abs(median))  # the second counts if most values are equal
    near = values[(values >= quartile - reach) & (values <= median + reach)]
    first, last = float(near.min()), float(near.max())
    width = last - first
    if width > 0 and high / 2 - low / 2 > _WORTH * width / 2:  # halves cannot overflow
        shown = values[(values >= first - width) & (values <= last + width)]
        return float(shown.min()), float(shown.max())
    return low, high
