"""Hyperband with LC-Net: a Bayesian network of learning curves proposes configurations (Klein et al., ICLR 2017).

Three layers of 64 tanh units map a configuration to an asymptote and to the weights and shapes of five families of
curves over training time; SGHMC with scale adaptation samples the posterior. These parts follow the program of the
paper's authors: curves are running maxima of accuracy, scaled to [0, 1]; the network is fitted again after 2 000 new
points; a configuration is drawn from random candidates with a probability proportional to the upper confidence bound
at the end of the largest budget.

These parts are simplified: at most 8 points of a curve are used, a geometric sequence of its epochs (all points count
towards the 2 000); a new fit also needs a fifth more points than the last one; each family has one or two parameters in
[0, 1]; there is one noise level; a pool of candidates is used until a quarter of it has been drawn. A run of 512 full
evaluations fits about 15 times; a fit takes 3 000 steps, seconds on one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.methods import Ours
from benchmarks.paper.networks.surrogate import Networks
from benchmarks.problem import Evaluation, Problem, Suggestion
from benchmarks.problems.sghmc import NOISE_PRIOR_MEAN, NOISE_PRIOR_VARIANCE, NOISE_START, Sampler
from bohb.core.samplers.proposal import Situation
from bohb.core.space import Array

Single = NDArray[np.float32]
UNITS = 64
HEADS = 15  # the asymptote, 5 weights, 9 parameters of the families
REFIT, GROWTH = 2000, 1.2  # a new fit needs REFIT new points, and GROWTH times the points of the last fit
KEPT = 8  # largest number of points of one curve
BURN_IN, STEPS, EVERY = 500, 3000, 25  # steps of the chain; 100 networks are kept
STEP_LENGTH, MOMENTUM_DECAY = 1e-2, 0.05
BATCH = 32
CANDIDATES = 1024
WIDTH = 1.0  # standard deviations above the mean


def families(shape: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Return five increasing curves (…, 5) at times t in (0, 1], after Domhan et al. (2015).

    shape: nine parameters in [0, 1], (…, 9).
    """
    a, b, c, d, e, f, g, h, i = shape.unbind(-1)
    vapour_pressure = torch.exp(-a - b / (10 * t))
    power = c * t ** (4 * d)
    log_power = e * torch.log1p(20 * f * t)
    exponential = 1 - torch.exp(-20 * g * t)
    power_of_t = t ** (1 + 4 * i)
    hill = power_of_t / ((h + 1e-3) ** (1 + 4 * i) + power_of_t)
    return torch.stack([vapour_pressure, power, log_power, exponential, hill], dim=-1)


@dataclass(frozen=True, slots=True)
class Net:
    """The layout of a network's parameters in one flat vector; the last one is the logarithm of the noise."""

    inputs: int

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Return the shape of each layer's weights; the last row holds the biases."""
        return [(fan_in + 1, fan_out) for fan_in, fan_out in pairwise([self.inputs, UNITS, UNITS, UNITS, HEADS])]

    def start(self, rng: np.random.Generator) -> Single:
        """Return random weights; the biases are 0."""
        layers = []
        for rows, columns in self.shapes:
            weight = rng.standard_normal((rows, columns)) / np.sqrt(rows - 1)
            weight[-1] = 0
            layers.append(weight.ravel())
        return np.concatenate([*layers, [NOISE_START]]).astype(np.float32)

    def mean(self, theta: torch.Tensor, X: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the means of the curves for inputs (rows, inputs) at times (rows,).

        theta: one network (p,), or many (n, p), which give (n, rows).
        """
        h, start = X, 0
        for number, (rows, columns) in enumerate(self.shapes):
            layer = theta[..., start : start + rows * columns].reshape(*theta.shape[:-1], rows, columns)
            start += rows * columns
            h = (torch.tanh(h) if number else h) @ layer[..., :-1, :] + layer[..., -1:, :]
        weights, shape = h[..., 1:6], torch.sigmoid(h[..., 6:])
        return h[..., 0] + (weights * families(shape, t)).sum(-1)

    def energy(self, theta: torch.Tensor, X: torch.Tensor, t: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        """Return the negative log-density per datum up to a constant, with 1/n of the priors (see `sghmc`)."""
        log_noise = theta[-1]
        fit = 0.5 * ((self.mean(theta, X, t) - y) ** 2).mean() * torch.exp(-log_noise) + 0.5 * log_noise
        prior = 0.5 * (theta[:-1] ** 2).sum() + 0.5 * (log_noise - NOISE_PRIOR_MEAN) ** 2 / NOISE_PRIOR_VARIANCE
        return fit + prior / n


def posterior(rng: np.random.Generator, net: Net, X: Single, t: Single, y: Single) -> Single:
    """Return networks (n, p) from a chain of SGHMC, in the order of the chain."""
    sampler = Sampler(rng, net.start(rng), step_length=STEP_LENGTH, momentum_decay=MOMENTUM_DECAY, data_size=len(y))
    theta = torch.from_numpy(sampler.theta).requires_grad_()  # shares memory with the sampler, which changes both
    kept = []
    for step in range(STEPS):
        rows = rng.integers(len(y), size=BATCH)
        batch = [torch.from_numpy(array[rows]) for array in (X, t, y)]
        energy = net.energy(theta, batch[0], batch[1], batch[2], len(y))
        (gradient,) = torch.autograd.grad(energy, theta)
        sampler.step(gradient.numpy(), adapt=step < BURN_IN)
        if step >= BURN_IN and step % EVERY == 0:
            kept.append(sampler.theta.copy())
    return np.array(kept)


def scaled(vectors: Array) -> Single:
    """Scale vectors in [0, 1] to mean 0 and variance 1."""
    return np.asarray((vectors - 0.5) * np.sqrt(12), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Curve:
    """The accuracies of a configuration so far, and their times as shares of the largest budget."""

    config: Mapping[str, Any]
    times: list[float]
    accuracies: list[float]


def curve_of(problem: Networks, config: Mapping[str, Any], budget: float) -> Curve:
    """Return the running maximum of accuracy during training; 0 at the end if there was no epoch."""
    seconds, errors = problem.curve(config, budget)
    if not errors:
        return Curve(config, [budget / problem.budgets[-1]], [0.0])
    best = 1 - np.minimum.accumulate(errors)
    epochs = np.unique(np.rint(np.geomspace(1, len(errors), KEPT)).astype(int))
    return Curve(config, (epochs * seconds / problem.budgets[-1]).tolist(), best[epochs - 1].tolist())


class HyperbandLCNet(Ours):
    """The method "hb-lcnet"."""

    def __init__(self, problem: Problem, seed: int) -> None:
        if not isinstance(problem, Networks):
            raise ValueError(f"hb-lcnet needs whole learning curves, which {problem.name} does not have")
        super().__init__(problem, seed, {"preset": "paper", "sampler": self._propose, "random_fraction": 0})
        self._problem = problem
        self._asked: dict[int, Suggestion] = {}
        self._curves: dict[tuple[Any, ...], Curve] = {}
        self._points, self._fitted_to = 0, 0
        self.fits, self.drawn = 0, 0  # counts of fits and of candidates drawn
        self._networks: Single | None = None
        self._pool: Array = np.empty((0, 0))
        self._chances: Array = np.empty(0)

    def ask(self) -> Suggestion | None:
        suggestion = super().ask()
        if suggestion is not None:
            self._asked[suggestion.number] = suggestion
        return suggestion

    def tell(self, number: int, evaluation: Evaluation) -> None:
        super().tell(number, evaluation)
        asked = self._asked.pop(number)
        key = tuple(asked.config.values())
        if key not in self._curves or asked.previous is not None:
            self._curves[key] = curve_of(self._problem, asked.config, asked.budget)
        self._points += max(1, len(self._problem.curve(asked.config, asked.budget)[1]))

    def _propose(self, rng: np.random.Generator, situation: Situation) -> Array | None:
        """Draw a candidate with a probability proportional to its upper confidence bound; None before the first fit."""
        if self._points >= max(self._fitted_to + REFIT, GROWTH * self._fitted_to):
            self._fit(rng, situation)
        if self._networks is None:
            return None
        if (self._chances == 0).sum() > CANDIDATES // 4:
            self._fill_pool(rng, situation)
        drawn = int(rng.choice(CANDIDATES, p=self._chances / self._chances.sum()))
        self._chances[drawn] = 0
        self.drawn += 1
        return np.asarray(self._pool[drawn])

    def _fit(self, rng: np.random.Generator, situation: Situation) -> None:
        curves = list(self._curves.values())
        vectors = np.array([situation.space.encode(curve.config) for curve in curves])
        X = np.repeat(scaled(vectors), [len(curve.times) for curve in curves], axis=0)
        t = np.array([time for curve in curves for time in curve.times], np.float32)
        y = np.array([accuracy for curve in curves for accuracy in curve.accuracies], np.float32)
        y = (y - y.min()) / (np.ptp(y) or 1)
        self._networks, self._fitted_to = posterior(rng, Net(X.shape[1]), X, t, y), self._points
        self.fits += 1
        self._fill_pool(rng, situation)

    def _fill_pool(self, rng: np.random.Generator, situation: Situation) -> None:
        """Draw new candidates and compute their upper confidence bounds at the end of the largest budget."""
        self._pool = situation.space.snap(rng.random((CANDIDATES, situation.space.d)))
        assert self._networks is not None
        X, t = torch.from_numpy(scaled(self._pool)), torch.ones(CANDIDATES)
        with torch.no_grad():
            means = Net(X.shape[1]).mean(torch.from_numpy(self._networks), X, t).numpy().astype(float)
        noise = float(np.exp(self._networks[:, -1]).mean())
        bound = means.mean(0) + WIDTH * np.sqrt(means.var(0) + noise)
        self._chances = np.maximum(bound, 1e-9)
