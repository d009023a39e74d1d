"""The range of losses that a figure should show: diverged losses must not flatten all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array

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
