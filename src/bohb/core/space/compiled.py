"""Space: a search space, compiled once so that encoding and decoding are fast.

A vector has one coordinate per hyperparameter that can vary (`scales.py`); NaN marks an inactive one. Constants cost
no coordinate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from bohb.core.space.scales import Categorical, Coordinates, Mask, Numeric, Ordinal, Scale, bins, index_of
from bohb.errors import ForbiddenConfiguration, InvalidConfiguration, InvalidSpace

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Array = NDArray[np.float64]
_MOST_LOG_DENSITY = math.log(1e6)  # a bound of what the prior says about one coordinate
_DRAWS = 10_000  # random draws after which the forbidden clauses seem to leave nothing


class Space:
    """A search space, compiled.

    names: all hyperparameters, constants included, in the order configurations list them.
    dimensions: the ones that vary, in the order of the vector's coordinates.
    choices: per dimension the number of choices, 0 if it is not categorical.
    finite: whether no dimension is a float, so that configurations can repeat.
    coordinates: the kinds of the dimensions, for models over vectors.
    has_prior: whether some values are more likely than others.
    """

    def __init__(self, space: ConfigurationSpace | Mapping[str, Any]) -> None:
        # ConfigSpace is slow to import, and not needed to read a stored study.
        from bohb.core.space.configspace import condition_of, declared_values, parents_first, scale_of
        from bohb.core.space.shorthand import as_configspace

        self.configspace = as_configspace(space)
        self._forbidden = tuple(self.configspace.forbidden_clauses)
        self._constants: dict[str, Any] = {}
        scales: list[Scale] = []
        for name, hyperparameter in self.configspace.items():
            values = declared_values(hyperparameter)
            if values is not None and len(values) == 1:
                self._constants[name] = values[0]
            else:
                scales.append(scale_of(hyperparameter, values))
        self.names: tuple[str, ...] = tuple(self.configspace)
        self.dimensions: tuple[Scale, ...] = tuple(scales)
        self._index = {scale.name: j for j, scale in enumerate(scales)}
        self._conditions = {
            name: condition_of(self.configspace.parent_conditions_of[name], self._comparable)
            for name in self.configspace.conditional_hyperparameters
        }
        self._order = parents_first(self.names, self._conditions)
        self._compile_columns()
        if not self.dimensions:
            raise InvalidSpace("the space has nothing to choose: every hyperparameter is a constant")

    def _compile_columns(self) -> None:
        """Compute what `snap` and `_columns` need to work on whole columns."""
        dims = self.dimensions
        self.finite = not any(isinstance(s, Numeric) and not s.step for s in dims)
        self.choices = np.array([len(s.values) if isinstance(s, Categorical) else 0 for s in dims], dtype=np.int64)
        self.coordinates = Coordinates(self.choices, np.array([s.name in self._conditions for s in dims], dtype=bool))
        grid = [j for j, s in enumerate(dims) if isinstance(s, Ordinal) or (isinstance(s, Numeric) and s.step)]
        self._linear_grid = [j for j in grid if not (isinstance(s := dims[j], Numeric) and s.log)]
        self._bins = np.array([bins(dims[j]) for j in self._linear_grid], dtype=float)
        self._log_grid = [j for j in grid if j not in self._linear_grid]
        densities = ((j, scale.log_density()) for j, scale in enumerate(dims))
        self._log_densities = [(j, density) for j, density in densities if density is not None]
        self.has_prior = bool(self._log_densities)

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return name, kind, values and condition of every hyperparameter."""
        from bohb.core.space.clauses import words

        parents = self.configspace.parent_conditions_of
        rows = []
        for name in self.names:
            constant = name in self._constants
            kind, values = ("constant", repr(self._constants[name])) if constant else self._scale(name).words
            rows.append((name, kind, values, " and ".join(words(part) for part in parents[name])))
        return rows

    @property
    def forbidden(self) -> list[str]:
        """The forbidden clauses as text."""
        from bohb.core.space.clauses import words

        return [words(clause) for clause in self._forbidden]

    def __repr__(self) -> str:
        """Return a line per hyperparameter and forbidden clause."""
        rows, forbidden = self.table(), self.forbidden
        width = max(map(len, [*self.names, *(["forbidden"] if forbidden else [])]))
        lines = [
            f"{name:{width}}  {kind:8}  {values}{f', if {condition}' if condition else ''}"
            for name, kind, values, condition in rows
        ]
        return "\n".join([*lines, *(f"{'forbidden':{width}}  {clause}" for clause in forbidden)])

    def _scale(self, name: str) -> Scale:
        return self.dimensions[self._index[name]]

    @property
    def d(self) -> int:
        """The number of hyperparameters that vary: the paper's d."""
        return len(self.dimensions)

    @property
    def conditional(self) -> bool:
        """Whether some hyperparameters can be inactive."""
        return bool(self._conditions)

    @property
    def size(self) -> float:
        """The number of different configurations if there were no conditions; infinite with a float."""
        sizes = [float("inf") if isinstance(s, Numeric) and not s.step else bins(s) for s in self.dimensions]
        return float(np.prod(sizes))

    def encode(self, config: Mapping[str, Any]) -> Array:
        """Return the vector of a configuration; raise InvalidConfiguration if it is not one of this space."""
        for name in config:
            if name not in self._index and name not in self._constants:
                raise InvalidConfiguration(f"{name!r} is not a hyperparameter of this space; it has {list(self.names)}")
        missing = float("nan")
        vector = np.array(
            [s.encode(config[s.name]) if s.name in config else missing for s in self.dimensions], dtype=float
        )
        self._check_activity(config, vector)
        for name, value in self._constants.items():
            if name in config:
                index_of(name, (value,), config[name])
        self._check_forbidden(config)
        return vector

    def default(self) -> dict[str, Any]:
        """Return the default configuration: the declared default values, by default the middle of each range."""
        return self.decode(self.encode(dict(self.configspace.get_default_configuration())))

    def decode(self, vector: Array | Sequence[float]) -> dict[str, Any]:
        """Return the configuration at a vector, without inactive hyperparameters; may raise ForbiddenConfiguration."""
        row = np.asarray(vector, dtype=float)
        if row.shape != (self.d,):
            raise InvalidConfiguration(f"a vector of shape {row.shape} does not fit a space of {self.d} dimensions")
        active = self._activity(row[None, :]) if self.conditional else None
        config: dict[str, Any] = {}
        for name in self.names:
            if active is not None and not active[name][0]:
                continue
            if name in self._constants:
                config[name] = self._constants[name]
                continue
            j = self._index[name]
            u = float(row[j])
            if not 0 <= u <= max(1, self.choices[j] - 1):
                raise InvalidConfiguration(f"coordinate {j} of {name!r} is {u}, outside its range")
            config[name] = self.dimensions[j].decode(u)
        self._check_forbidden(config)
        return config

    def restore(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration in the space's order, with tuples where JSON has lists."""
        if list(config) == [name for name in self.names if name in config] and not any(
            type(value) is list for value in config.values()
        ):
            return config if isinstance(config, dict) else dict(config)
        restored: dict[str, Any] = {}
        for name in self.names:
            if name in config:
                value = config[name]
                if isinstance(value, list):
                    constant = name in self._constants
                    values = (self._constants[name],) if constant else getattr(self._scale(name), "values", ())
                    value = values[index_of(name, values, value)]
                restored[name] = value
        return restored

    def snap(self, X: Array) -> Array:
        """Return the nearest legal vectors: integers and ordinals at the centre of their bin, NaN where inactive."""
        snapped = np.array(X, dtype=float)  # (n, d)
        if self._linear_grid:
            n_bins = self._bins
            column = np.floor(snapped[:, self._linear_grid] * n_bins)
            snapped[:, self._linear_grid] = (np.clip(column, 0, n_bins - 1) + 0.5) / n_bins
        for j in self._log_grid:
            log_scale = cast("Numeric", self.dimensions[j])
            values = np.exp(log_scale.start + snapped[:, j] * log_scale.width)
            values = log_scale.lower + np.rint((values - log_scale.lower) / log_scale.step) * log_scale.step
            values = np.clip(values, log_scale.lower, log_scale.upper)
            snapped[:, j] = (np.log(values) - log_scale.start) / log_scale.width
        if self.conditional:
            active = self._activity(snapped)
            for j, scale in enumerate(self.dimensions):
                snapped[~active[scale.name], j] = np.nan
        return snapped

    def sample(self, rng: np.random.Generator, uniform: bool = False) -> dict[str, Any]:
        """Draw a configuration from the prior, again while it is forbidden.

        uniform: whether all values are equally likely, whatever the prior.
        """
        for _ in range(_DRAWS):
            try:
                return self.decode(self.draw(rng, 1, snapped=False, uniform=uniform)[0])
            except ForbiddenConfiguration:
                continue
        raise InvalidSpace(
            f"{_DRAWS} random configurations were all forbidden; loosen the forbidden clauses: {self.forbidden}"
        )

    def draw(self, rng: np.random.Generator, n: int, snapped: bool = True, uniform: bool = False) -> Array:
        """Draw n vectors from the prior, (n, d), including forbidden ones.

        snapped: whether integers move to the centre of their bin, and inactive coordinates to NaN.
        uniform: whether all values are equally likely, whatever the prior, except choices of weight 0.
        """
        X = self.at_quantiles(rng.random((n, self.d)), uniform)
        return self.snap(X) if snapped else X

    def at_quantiles(self, U: Array, uniform: bool = False) -> Array:
        """Return the vectors at quantiles of the prior, (n, d), including forbidden ones and inactive coordinates."""
        U = U.copy()
        for j, scale in enumerate(self.dimensions):
            if uniform and isinstance(scale, Categorical):
                possible = scale.possible
                U[:, j] = possible[(U[:, j] * len(possible)).astype(np.intp)]
            elif not uniform:
                U[:, j] = scale.draw(U[:, j])
        return U

    def log_prior(self, X: Array) -> Array:
        """Return the logarithm of the prior density of legal vectors relative to the uniform density, (n,).

        Inactive coordinates do not count. Each of the others is bounded, since a prior may be zero or infinite at the
        end of a range.
        """
        total = np.zeros(len(X))
        for j, log_density in self._log_densities:
            active = ~np.isnan(X[:, j])
            total[active] += np.clip(log_density(X[active, j]), -_MOST_LOG_DENSITY, _MOST_LOG_DENSITY)
        return total

    def enumerate(self, most: int) -> Iterator[dict[str, Any]]:
        """Yield all configurations of a finite space; none if there are more than `most` combinations."""
        if self.size > most:
            return
        seen: set[bytes] = set()
        for vector in itertools.product(*(scale.grid() for scale in self.dimensions)):
            try:
                config = self.decode(vector)
            except ForbiddenConfiguration:
                continue
            key = self.encode(config).tobytes()  # combinations that differ only in inactive coordinates are one
            if key not in seen:
                seen.add(key)
                yield config

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Space:
        """Return the space that `to_json` wrote."""
        from bohb.core.space.configspace import from_serialised

        return cls(from_serialised(stored))

    def to_json(self) -> dict[str, Any]:
        """Return the space as ConfigSpace serialises it."""
        return self.configspace.to_serialized_dict()

    def forbids(self, config: Mapping[str, Any]) -> bool:
        """Whether a forbidden clause rules this configuration out."""
        if not self._forbidden:
            return False
        from bohb.core.space.configspace import violates

        return any(violates(clause, config) for clause in self._forbidden)

    def _check_forbidden(self, config: Mapping[str, Any]) -> None:
        if self.forbids(config):
            from bohb.core.space.clauses import words
            from bohb.core.space.configspace import violates

            broken = [words(clause) for clause in self._forbidden if violates(clause, config)]
            raise ForbiddenConfiguration(f"the configuration {dict(config)!r} is ruled out by {broken}")

    def _check_activity(self, config: Mapping[str, Any], vector: Array) -> None:
        """Check that all active hyperparameters are given, and no inactive one."""
        if not self.conditional and sum(map(config.__contains__, self._index)) == self.d:
            return
        active = self._activity(vector[None, :])
        for name in self.names:
            if active[name][0] and name not in config and name not in self._constants:
                raise InvalidConfiguration(f"{name!r} is missing from the configuration {dict(config)!r}")
            if not active[name][0] and name in config:
                raise InvalidConfiguration(
                    f"{name}={config[name]!r} is given although its condition does not hold; leave it out"
                )

    def _activity(self, X: Array) -> dict[str, Mask]:
        """Return whether each hyperparameter is active in each of n configurations."""
        columns, active = self._columns(X), dict[str, Mask]()
        for name in self._order:  # parents first
            condition = self._conditions.get(name)
            active[name] = np.ones(len(X), dtype=bool) if condition is None else condition.holds(columns, active)
        return active

    def _columns(self, X: Array) -> dict[str, Array]:
        """Return what conditions compare: values of numeric, indices of other hyperparameters."""
        columns: dict[str, Array] = {}
        for name in frozenset[str]().union(*(condition.parents for condition in self._conditions.values())):
            if name in self._constants:
                columns[name] = np.zeros(len(X))
                continue
            scale, column = self._scale(name), X[:, self._index[name]]
            match scale:
                case Categorical():
                    columns[name] = column
                case Ordinal(values=values):
                    columns[name] = np.floor(column * len(values))
                case Numeric():
                    columns[name] = np.array([scale.decode(u) if u == u else np.nan for u in column.tolist()])
        return columns

    def _comparable(self, name: str, value: Any) -> float:
        """Return a value as conditions compare it: a number, or the index of a choice."""
        if name in self._constants:
            return 0.0 if value == self._constants[name] else -1.0
        scale = self._scale(name)
        return float(value) if isinstance(scale, Numeric) else float(index_of(name, scale.values, value))
