"""The valley of the loss over sizes: where its optimum lies at a size that was never trained.

Near the optimum, the logarithm of the loss is a bowl in the coordinates x of a configuration. With s, the logarithms of
the scale variables (such as parameters and tokens) minus their mean over the runs:

    log loss  = level(s) + 1/2 |R (x - centre(s))|² + effects
    level(s)  = a + log(1 - sum_j w_j + sum_j w_j exp(-alpha_j s_j))      a power law of each variable, and an offset
    centre(s) = c + M s                                 a power law for every hyperparameter that moves

All parameters have normal priors. A run counts less the farther it is above the best of its size, because there the
loss is no bowl. The mode is found by least squares with a loss that limits outliers. Its covariance is too narrow: it
knows nothing of what the model lacks. How well the smaller sizes among the runs predict the larger ones says by how
much, and widens all intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import t as student_t

from bohb.core.space import Array

EXPONENT = 0.35  # prior deviation of the exponents by which hyperparameters follow the scale variables
DECLINE = 0.35, 0.6  # prior median of alpha, and deviation of its logarithm
REDUCIBLE = -1.5, 1.0  # prior mean and deviation of log(w_j / (1 - sum w))
CURVATURE = 0.2  # prior mean of the curvature, if the coordinates span 4
COVERED = 0.9  # share of the cases that every interval is meant to cover
_FAR = 0.4  # share of its excess log loss by which the bowl may miss a run
_LEAST_NOISE = 1e-3  # of log losses: runs with one seed each cannot show less
_EFFECT = 0.1  # prior deviation of an effect
_ROUNDS = 3  # of estimating the noise
_CHECKS, _FACTOR = 3.0, 1.8  # the prior of the factor on all deviations: so many checks that found this factor


@dataclass(frozen=True, slots=True)
class Runs:
    """Finished runs as arrays.

    x: coordinates of the configurations; log values of hyperparameters on a log scale.  # (n, p)
    moves: which of them follow the scale variables.  # (p,)
    effects: columns that shift the log loss, such as choices as 0 and 1.  # (n, m)
    s: logarithms of the scale variables.  # (n, k)
    y: logarithms of the losses.  # (n,)
    """

    x: Array
    moves: Array
    effects: Array
    s: Array
    y: Array

    def sizes(self) -> Array:
        """Return the sizes that were tried, smallest first.  # (sizes, k)"""
        found = np.unique(self.s, axis=0)
        return np.asarray(found[np.argsort(found.sum(axis=1), kind="stable")])

    def at(self, size: Array) -> Array:
        """Return which runs have this size."""
        return np.asarray((self.s == size).all(axis=1))

    def only(self, chosen: Array) -> Runs:
        """Return some of the runs."""
        return Runs(self.x[chosen], self.moves, self.effects[chosen], self.s[chosen], self.y[chosen])

    def excess(self) -> Array:
        """Return by how much the log loss of each run exceeds the lowest of its size."""
        lowest = np.empty_like(self.y)
        for size in self.sizes():
            here = self.at(size)
            lowest[here] = self.y[here].min()
        return self.y - lowest


class Valley:
    """The bowl that fits the runs best, and how certain it is.

    noise: deviation of the log losses of runs near the optimum.
    factor, freedom: by how much all deviations are wider than those of the fit, and how well that is known.
    """

    def __init__(self, runs: Runs) -> None:
        p, k, moving = runs.x.shape[1], runs.s.shape[1], np.flatnonzero(runs.moves)
        self._x0, self._s0, self._moving = runs.x.mean(axis=0), runs.s.mean(axis=0), moving
        self._unit = np.maximum(np.ptp(runs.x, axis=0), 1e-9) / 4
        lengths = {
            "level": 1, "reducible": k, "decline": k, "curvature": p, "tilt": p * (p - 1) // 2,
            "centre": p, "exponents": len(moving) * k, "effects": runs.effects.shape[1],
        }  # fmt: skip
        ends = np.cumsum([*lengths.values()]).tolist()
        self._at = {name: slice(end - n, end) for (name, n), end in zip(lengths.items(), ends, strict=True)}
        self.factor, self.freedom = 1.0, math.inf
        self._fit(runs)

    def _fit(self, runs: Runs) -> None:
        """Find the mode of the parameters, their covariance and the noise."""
        x, s, excess = (runs.x - self._x0) / self._unit, runs.s - self._s0, runs.excess()
        near = excess <= np.median(excess)
        best = np.argsort(excess, kind="stable")[: max(5, len(excess) // 10)]
        lowest = float(np.median(runs.y - excess))
        mean = self._vector(
            level=lowest, reducible=REDUCIBLE[0], decline=math.log(DECLINE[0]), curvature=math.log(CURVATURE)
        )
        width = self._vector(
            level=10.0, reducible=REDUCIBLE[1], decline=DECLINE[1], curvature=0.7, tilt=0.7, centre=2.0,
            exponents=np.repeat(EXPONENT / self._unit[self._moving], runs.s.shape[1]), effects=_EFFECT,
        )  # fmt: skip
        self._mode = mean.copy()
        self._mode[self._at["centre"]] = x[best].mean(axis=0)
        self.noise = 0.01
        for _ in range(_ROUNDS):
            tolerance = np.hypot(self.noise, _FAR * excess)

            def residuals(found: Array, tolerance: Array = tolerance) -> Array:
                missed = (self._log_loss(found, x, s, runs.effects) - runs.y) / tolerance
                limited = np.sign(missed) * np.sqrt(2 * (np.sqrt(1 + missed**2) - 1))
                return np.concatenate([limited, (found - mean) / width])

            fit = least_squares(residuals, self._mode, x_scale="jac", xtol=1e-12, ftol=1e-12, gtol=1e-12, max_nfev=500)
            self._mode = fit.x
            missed = np.abs(self._log_loss(fit.x, x, s, runs.effects) - runs.y)[near]
            self.noise = max(_LEAST_NOISE, float(np.median(missed)) / 0.6745)  # of a normal distribution
        jacobian = np.asarray(fit.jac)
        self._covariance = np.linalg.inv(jacobian.T @ jacobian)

    def _vector(self, **parts: float | Array) -> Array:
        """Return parameters by name as one vector; 0 for those that are left out."""
        found = np.zeros(self._at["effects"].stop)
        for name, values in parts.items():
            found[self._at[name]] = values
        return found

    def _level(self, found: Array, s: Array) -> Array:
        odds, alpha = np.exp(found[self._at["reducible"]]), np.exp(found[self._at["decline"]])
        left = (1 + np.exp(-s * alpha) @ odds) / (1 + odds.sum())
        return np.asarray(found[self._at["level"]] + np.log(left))

    def _centre(self, found: Array, s: Array) -> Array:
        centre = np.tile(found[self._at["centre"]], (len(s), 1))
        exponents = found[self._at["exponents"]].reshape(len(self._moving), -1)
        centre[:, self._moving] += s @ exponents.T
        return centre

    def _log_loss(self, found: Array, x: Array, s: Array, effects: Array) -> Array:
        root = np.diag(np.exp(0.5 * found[self._at["curvature"]]))
        root[np.triu_indices(len(root), 1)] = found[self._at["tilt"]] * math.sqrt(CURVATURE)
        bowl = 0.5 * (((x - self._centre(found, s)) @ root.T) ** 2).sum(axis=1)
        return np.asarray(self._level(found, s) + bowl + effects @ found[self._at["effects"]])

    def centre(self, size: Array) -> tuple[Array, Array]:
        """Return the coordinates of the optimum at a size, and their deviations."""
        s = size - self._s0
        rows = np.zeros((len(self._x0), len(self._mode)))
        rows[:, self._at["centre"]] = np.eye(len(rows))
        for i, each in enumerate(self._moving):
            first = self._at["exponents"].start + i * len(s)
            rows[each, first : first + len(s)] = s
        found = self._x0 + self._unit * self._centre(self._mode, s[None])[0]
        return found, self.factor * self._unit * np.sqrt(np.einsum("ij,jk,ik->i", rows, self._covariance, rows))

    def level(self, size: Array, effects: Array | float = 0.0) -> tuple[float, float]:
        """Return the log loss of the optimum at a size, and its deviation."""
        s = (size - self._s0)[None]
        row = self._vector(effects=effects)

        def value(found: Array) -> float:
            return float(self._level(found, s)[0] + row @ found)

        steps = 1e-5 * np.eye(len(row))
        slope = np.array([(value(self._mode + step) - value(self._mode - step)) / 2e-5 for step in steps])
        variance = float(slope @ self._covariance @ slope)
        return value(self._mode), self.factor * math.sqrt(variance + self.noise**2)

    def expected(self, runs: Runs) -> Array:
        """Return the log losses that the fit expects of runs."""
        return self._log_loss(self._mode, (runs.x - self._x0) / self._unit, runs.s - self._s0, runs.effects)

    @property
    def quantile(self) -> float:
        """How many deviations an interval has on each side."""
        return float(student_t.ppf(0.5 + COVERED / 2, self.freedom))


def fitted(runs: Runs) -> Valley:
    """Return the valley of the runs, with deviations as wide as the runs themselves show that they must be."""
    valley, sizes = Valley(runs), runs.sizes()
    checks = [missed(runs, valley, Valley(_up_to(runs, sizes[:n])), sizes[n]) for n in range(2, len(sizes))]
    valley.freedom = _CHECKS + len(checks)
    total = _CHECKS * _FACTOR**2 + sum(check**2 for check in checks)
    valley.factor = max(1.0, math.sqrt(total / valley.freedom))
    return valley


def missed(runs: Runs, whole: Valley, before: Valley, size: Array) -> float:
    """Return by how many of its deviations a fit to smaller sizes misses the level of a size.

    whole: a fit to all runs, which says how far each run is from the optimum of its size.
    """
    here = runs.only(runs.at(size))
    excess = here.excess()
    above = (here.y - whole.expected(here))[excess <= np.median(excess)]
    level, deviation = before.level(size)
    return (whole.level(size)[0] + float(np.median(above)) - level) / deviation


def _up_to(runs: Runs, sizes: Array) -> Runs:
    return runs.only(np.any([runs.at(size) for size in sizes], axis=0))


def contradicts(runs: Runs, whole: Valley) -> bool:
    """Whether the losses of the largest size contradict the trend of the smaller ones."""
    sizes = runs.sizes()
    if len(sizes) < 3:
        return False
    before = fitted(_up_to(runs, sizes[:-1]))
    return abs(missed(runs, whole, before, sizes[-1])) > before.quantile
