"""How one hyperparameter becomes one coordinate, and when it is active.

Numeric and ordinal ones lie in [0, 1] (integers and ordinals at the centre of their bin), categorical ones are the
index of their choice. Values are rounded to 12 digits when decoded. They then survive text files, command lines and
encode ∘ decode unchanged, although `log` differs in the last bit between platforms.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.errors import InvalidConfiguration, InvalidSpace

_DIGITS = 12
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Prior:
    """A prior on [0, 1] that is not uniform.

    quantile: maps uniform numbers to coordinates.
    log_density: the logarithm of its density at coordinates.
    """

    quantile: Callable[[Array], Array]
    log_density: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Numeric:
    """A float or integer on a linear or logarithmic scale.

    step: the distance of two values; 0 if every value of the range is legal. That of integers is at least 1.
    """

    name: str
    lower: float
    upper: float
    log: bool = False
    integer: bool = False
    prior: Prior | None = None
    step: float = 0.0
    start: float = field(init=False)  # the transformed lower edge
    width: float = field(init=False)  # the transformed upper edge minus the lower
    decimals: int = field(init=False)

    def __post_init__(self) -> None:
        """Compute the edges; a value covers half a step to either side, so that the ends are not rarer."""
        object.__setattr__(self, "step", self.step or float(self.integer))
        low, high = self.lower - self.step / 2, self.upper + self.step / 2
        start = self._transform(low)
        if not math.isfinite(self.upper - self.lower):
            raise InvalidSpace(
                f"{self.name!r} ranges from {self.lower!r} to {self.upper!r}, which floats cannot measure"
            )
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "width", self._transform(high) - start)
        # Fine enough for the range, coarse enough that rounding absorbs the error of decode ∘ encode.
        fine = _DIGITS - 1 - math.floor(math.log10(self.upper - self.lower or 1.0))
        coarse = 14 - math.floor(math.log10(max(abs(self.lower), abs(self.upper))))
        object.__setattr__(self, "decimals", min(fine, coarse))

    @property
    def spaced(self) -> bool:
        """Whether it has a step, and not just that of all integers."""
        return self.step > self.integer

    @property
    def words(self) -> tuple[str, str]:
        """Its kind, and its values."""
        text = f"{self.lower:.12g} to {self.upper:.12g}" + (f" in steps of {self.step:.12g}" if self.spaced else "")
        text += (", log scale" if self.log else "") + ("" if self.prior is None else ", with a prior")
        return "integer" if self.integer else "float", text

    def encode(self, value: Any) -> float:
        """Return the coordinate of a legal value."""
        real = type(value) is float or type(value) is int  # by far the most frequent, and quick to check
        real = real or (isinstance(value, numbers.Real) and not isinstance(value, bool))
        try:
            number = float(value) if real else math.nan
        except OverflowError as error:
            raise InvalidConfiguration(f"{self.name} has a larger whole number than floats can hold") from error
        if not math.isfinite(number):
            raise InvalidConfiguration(f"{self.name}={value!r} must be a finite number, not {type(value).__name__}")
        if self.integer and not number.is_integer():
            raise InvalidConfiguration(f"{self.name}={value!r} must be a whole number")
        if not self.lower <= number <= self.upper:
            slack = 1e-9 * (abs(self.lower) + abs(self.upper))
            if self.integer or not self.lower - slack <= number <= self.upper + slack:
                raise InvalidConfiguration(f"{self.name}={value!r} must lie between {self.lower!r} and {self.upper!r}")
            number = min(max(number, self.lower), self.upper)
        if self.spaced and abs(number - self._nearest(number)) > 1e-6 * self.step:
            raise InvalidConfiguration(f"{self.name}={value!r} must be {self.lower!r} plus a multiple of {self.step:g}")
        return self.place(number)

    def place(self, number: float) -> float:
        """Return the coordinate of any number in the range, also between two steps."""
        return min(max((self._transform(number) - self.start) / self.width, 0.0), 1.0)

    def decode(self, u: float) -> float | int:
        """Return the value at a coordinate in [0, 1]."""
        x = self.start + u * self.width
        if self.log:
            x = math.exp(x)
        if self.spaced:
            x = self._nearest(x)
        if self.integer:
            return int(min(max(round(x), self.lower), self.upper))
        rounded = float(f"{x:.{_DIGITS}g}") if self.log else round(x, self.decimals)
        return min(max(rounded, self.lower), self.upper)

    def grid(self) -> list[float]:
        """Return the coordinates of all values, which have a step."""
        return [self.encode(self.lower + index * self.step) for index in range(int(bins(self)))]

    def draw(self, uniform: Array) -> Array:
        """Return the coordinates at these quantiles of the prior."""
        return uniform if self.prior is None else np.clip(self.prior.quantile(uniform), 0.0, 1.0)

    def log_density(self) -> Callable[[Array], Array] | None:
        """Return the logarithm of the prior as a function of coordinates; None if it is uniform."""
        return None if self.prior is None else self.prior.log_density

    def _nearest(self, x: float) -> float:
        return self.lower + round((x - self.lower) / self.step) * self.step

    def _transform(self, x: float) -> float:
        return math.log(x) if self.log else float(x)


@dataclass(frozen=True, slots=True)
class Ordinal:
    """Named values with an order, spread evenly over [0, 1] as integers are."""

    name: str
    values: tuple[Any, ...]

    @property
    def words(self) -> tuple[str, str]:
        """Its kind, and its values."""
        return "ordinal", " < ".join(map(repr, self.values))

    def encode(self, value: Any) -> float:
        """Return the centre of the value's bin."""
        return (index_of(self.name, self.values, value) + 0.5) / len(self.values)

    def decode(self, u: float) -> Any:
        """Return the value whose bin contains the coordinate."""
        return self.values[min(max(int(u * len(self.values)), 0), len(self.values) - 1)]

    def grid(self) -> list[float]:
        """Return the coordinates of all values."""
        return [(index + 0.5) / len(self.values) for index in range(len(self.values))]

    def draw(self, uniform: Array) -> Array:
        """Return the quantiles themselves: all values are equally likely."""
        return uniform

    def log_density(self) -> None:
        """Return None: the prior is uniform."""


@dataclass(frozen=True, slots=True)
class Categorical:
    """Values without an order; the coordinate is the index of the choice."""

    name: str
    values: tuple[Any, ...]
    cumulative: tuple[float, ...]  # probabilities added up, the last one is 1
    known: dict[tuple[type, Any], float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the choices by type and value, because True is not 1."""
        object.__setattr__(self, "known", {(type(v), v): float(i) for i, v in enumerate(self.values)})

    @property
    def words(self) -> tuple[str, str]:
        """Its kind, and its values."""
        return "choice", ", ".join(map(repr, self.values)) + ("" if self.log_density() is None else ", weighted")

    def encode(self, value: Any) -> float:
        """Return the index of the choice."""
        try:
            index = self.known.get((type(value), value))
        except TypeError:  # a list, as JSON has it
            index = None
        return float(index_of(self.name, self.values, value)) if index is None else index

    def decode(self, u: float) -> Any:
        """Return the choice with this index."""
        return self.values[int(u)]

    def grid(self) -> list[float]:
        """Return the coordinates of all choices."""
        return [float(index) for index in range(len(self.values))]

    @property
    def possible(self) -> NDArray[np.intp]:
        """The choices whose weight is not 0."""
        return np.flatnonzero(np.diff(self.cumulative, prepend=0.0) > 0)

    def draw(self, uniform: Array) -> Array:
        """Return the choices at these quantiles of the prior."""
        return np.minimum(np.searchsorted(self.cumulative, uniform, side="right"), len(self.values) - 1).astype(float)

    def log_density(self) -> Callable[[Array], Array] | None:
        """Return the logarithm of a choice's weight relative to equal weights; None if they are equal."""
        relative = np.diff(self.cumulative, prepend=0.0) * len(self.values)
        if np.allclose(relative, 1.0, rtol=0, atol=1e-9):
            return None
        with np.errstate(divide="ignore"):
            logs = np.log(relative)
        return lambda codes: np.asarray(logs[codes.astype(np.intp)])


Scale = Numeric | Ordinal | Categorical


def index_of(name: str, values: tuple[Any, ...], value: Any) -> int:
    """Return the position of a value among the declared ones. True is not 1; a list, as in JSON, equals a tuple."""
    if isinstance(value, np.generic):
        value = value.item()
    wanted = tuple(value) if isinstance(value, list) else value
    for index, candidate in enumerate(values):
        if candidate is value or (candidate == wanted and isinstance(candidate, bool) == isinstance(value, bool)):
            return index
    raise InvalidConfiguration(f"{name}={value!r} must be one of {list(values)!r}")


def bins(scale: Scale) -> float:
    """Return the number of different values of a hyperparameter that is not a float, or has a step."""
    if isinstance(scale, Numeric):
        return float(round((scale.upper - scale.lower) / scale.step) + 1)
    return float(len(scale.values))


@dataclass(frozen=True, slots=True)
class Condition:
    """When a hyperparameter is active.

    parents: the hyperparameters that it depends on.
    holds: returns for many configurations whether it holds, given what conditions compare of each parent (the value of
        a numeric one, the index of another), and where the parents are active.
    """

    parents: frozenset[str]
    holds: Callable[[Mapping[str, Array], Mapping[str, Mask]], Mask]


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The coordinates of a space's vectors.

    choices: (d,) the declared number of choices; 0 for a numeric or ordinal coordinate, which lies in [0, 1].
    optional: (d,) whether the coordinate can be inactive (NaN).

    numeric, categorical: the indices of either kind.
    owner, choice: one entry per choice of every categorical coordinate: the index of the coordinate, and the choice.
    """

    choices: NDArray[np.int64]
    optional: NDArray[np.bool_]
    numeric: NDArray[np.intp] = field(init=False)
    categorical: NDArray[np.intp] = field(init=False)
    owner: NDArray[np.intp] = field(init=False)
    choice: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the indices."""
        categorical = np.flatnonzero(self.choices)
        object.__setattr__(self, "numeric", np.flatnonzero(self.choices == 0))
        object.__setattr__(self, "categorical", categorical)
        object.__setattr__(self, "owner", np.repeat(categorical, self.choices[categorical]))
        object.__setattr__(self, "choice", np.concatenate([np.empty(0), *map(np.arange, self.choices)]))
