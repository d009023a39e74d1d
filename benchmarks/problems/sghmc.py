"""A Bayesian neural network sampled by SGHMC with scale adaptation (Springenberg et al., NIPS 2016), with numpy only.

The network has two hidden layers of tanh units and one noise level for all data. The chain runs in single precision
over one flat vector of parameters, so that a step is a dozen calls of numpy whatever the number of layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.problems.perceptron import Array, Perceptron

Double = np.ndarray[Any, np.dtype[np.float64]]

BATCH = 20  # rows per step
KEEP_EVERY = 100  # steps between two samples that are kept
NOISE_START = math.log(1e-3)  # the log noise variance of a fresh network; targets have unit variance
# Springenberg et al. put a log-normal prior around 1e-4 on the noise variance; its variance on the log scale:
NOISE_PRIOR_MEAN, NOISE_PRIOR_VARIANCE = math.log(1e-4), 0.01
SMALLEST = np.float32(1e-16)  # lower bound of a mean squared gradient, by which masses divide


class Sampler:
    """The state of one SGHMC chain on a flat vector θ, which it changes in place.

    The target is exp(−n·U), where the gradients handed to `step` are (noisy, unbiased) ones of U: the mean over the n
    data of their negative log-density, priors shared out among them. The scale estimates of Eq. 8 and 9 change only
    in steps that say `adapt`, before they are used; without one such step the masses are 1. The momentum starts at
    rest. The correction for gradient noise (−ε⁴ in Eq. 10), of higher order in ε, is left out, as in the authors'
    program.
    """

    def __init__(
        self, rng: np.random.Generator, theta: Array, *, step_length: float, momentum_decay: float, data_size: int
    ) -> None:
        """Start a chain.

        rng: draws the injected noise.
        theta: the start of the chain.
        step_length: ε.
        momentum_decay: the share of the momentum lost per step, in [0, 1].
        data_size: n.
        """
        self.theta = theta
        self._rng = rng
        self._keep = np.float32(1 - momentum_decay)
        self._squared = np.float32(step_length**2)
        self._noise = np.float32(math.sqrt(2 * step_length**2 * momentum_decay / data_size))
        self._momentum = np.zeros_like(theta)
        self._window, self._mean, self._square = (np.ones_like(theta) for _ in range(3))  # τ, ĝ, V̂
        self._drift, self._sigma = np.empty_like(theta), np.empty_like(theta)
        self._buffer = np.empty_like(theta)
        self._rescale()

    def step(self, gradient: Array, *, adapt: bool) -> None:
        """Update momentum and parameters once (Eq. 10).

        gradient: ∇U at θ.
        adapt: whether to adapt the scales, as during burn-in.
        """
        if adapt:
            self._adapt(gradient)
            self._rescale()
        buffer, momentum = self._buffer, self._momentum
        momentum *= self._keep
        np.multiply(self._drift, gradient, out=buffer)
        momentum -= buffer
        self._rng.standard_normal(out=buffer, dtype=np.float32)
        buffer *= self._sigma
        momentum += buffer
        self.theta += momentum

    def _adapt(self, gradient: Array) -> None:
        """Update moving averages of gradient and squared gradient, each parameter with its own window (Eq. 8 and 9)."""
        window, mean, square, buffer = self._window, self._mean, self._square, self._buffer
        rate, square_now = self._drift, self._sigma  # reused as buffers: `_rescale` overwrites them
        np.add(window, 1, out=rate)
        np.reciprocal(rate, out=rate)
        np.multiply(mean, mean, out=buffer)
        buffer /= square
        np.subtract(1, buffer, out=buffer)
        window *= buffer
        window += 1
        np.subtract(gradient, mean, out=buffer)
        buffer *= rate
        mean += buffer
        np.multiply(gradient, gradient, out=square_now)
        square_now -= square
        square_now *= rate
        square += square_now
        np.maximum(square, SMALLEST, out=square)

    def _rescale(self) -> None:
        """Compute the gradient's factor and the noise's standard deviation from the masses V̂^(−1/2)."""
        np.sqrt(self._square, out=self._buffer)
        np.divide(self._squared, self._buffer, out=self._drift)
        np.sqrt(self._buffer, out=self._buffer)
        np.divide(self._noise, self._buffer, out=self._sigma)


class Network(Perceptron):
    """A perceptron whose last parameter is the logarithm of the noise variance."""

    def __init__(self, rng: np.random.Generator, inputs: int, units: tuple[int, int]) -> None:
        """Draw the weights; see `Perceptron`."""
        super().__init__(rng, inputs, units, extra=1)
        self.theta[-1] = NOISE_START
        self._shrinkage = np.empty_like(self.theta)

    @property
    def log_noise(self) -> float:
        """The logarithm of the noise variance."""
        return float(self.theta[-1])

    def energy(self, X: Array, y: Array, data_size: int) -> float:
        """Return U up to a constant: the negative log-likelihood per datum, and 1/n of the priors.

        X, y: a minibatch.
        data_size: n, by which the priors are divided: N(0, 1) for weights and biases, log-normal for the noise.
        """
        log_noise = self.log_noise
        fit = 0.5 * float(np.mean((self.predict(X) - y) ** 2)) * math.exp(-log_noise) + 0.5 * log_noise
        weights = 0.5 * float(np.sum(self.theta[:-1] ** 2))
        return fit + (weights + 0.5 * (log_noise - NOISE_PRIOR_MEAN) ** 2 / NOISE_PRIOR_VARIANCE) / data_size

    def gradient(self, X: Array, y: Array, data_size: int) -> Array:
        """Return the derivative of `energy`; the next call overwrites the array."""
        first, second, output = self.forward(X)
        log_noise, precision = self.theta[-1], np.exp(-self.theta[-1])
        error = output - y
        self.backward(X, first, second, error * (precision / np.float32(len(y))))
        self.slope[-1] = 0
        np.multiply(self.theta, np.float32(1 / data_size), out=self._shrinkage)
        self.slope += self._shrinkage
        prior = (log_noise - NOISE_PRIOR_MEAN) / (NOISE_PRIOR_VARIANCE * data_size)
        self.slope[-1] = 0.5 - 0.5 * precision * (error @ error) / len(y) + prior
        return self.slope


@dataclass(frozen=True, slots=True)
class Chain:
    """The settings of a chain.

    units: widths of the two hidden layers.
    step_length: ε.
    burn_in: the share of the steps in which scales are adapted and no sample is kept.
    momentum_decay: the share of the momentum lost per step.
    steps: total number of steps, including burn-in.
    """

    units: tuple[int, int]
    step_length: float
    burn_in: float
    momentum_decay: float
    steps: int

    @property
    def kept(self) -> range:
        """Return the steps before which a sample is kept: every hundredth after burn-in."""
        first = -(-int(self.burn_in * self.steps) // KEEP_EVERY) * KEEP_EVERY
        return range(first, self.steps, KEEP_EVERY)


def samples(rng: np.random.Generator, chain: Chain, X: Array, y: Array) -> Iterator[Network]:
    """Run a chain and yield the network at every sample; later steps change it. Ends early if the chain diverges.

    rng: draws the initial weights, the minibatches and the noise.
    chain: the settings.
    X, y: the standardised training data.
    """
    network = Network(rng, X.shape[1], chain.units)
    sampler = Sampler(
        rng,
        network.theta,
        step_length=chain.step_length,
        momentum_decay=chain.momentum_decay,
        data_size=len(X),
    )
    burn_in = int(chain.burn_in * chain.steps)
    for start in range(0, chain.steps, KEEP_EVERY):
        if not np.isfinite(network.theta.sum()):
            return
        if start in chain.kept:
            yield network
        rows = rng.integers(len(X), size=(min(KEEP_EVERY, chain.steps - start), BATCH))
        for step, batch in enumerate(rows, start):
            sampler.step(network.gradient(X[batch], y[batch], len(X)), adapt=step < burn_in)


def predictive(networks: Iterator[Network], X: Array, *, expected: int) -> tuple[Double, Double] | None:
    """Return mean and variance of the mixture of all samples (App. J); None if the chain diverged.

    networks: the samples of a chain.
    X: standardised rows.
    expected: number of samples of a chain that does not diverge.
    """
    total, squares, noise, count = np.zeros(len(X)), np.zeros(len(X)), 0.0, 0
    for network in networks:
        output = network.predict(X).astype(float)
        total += output
        squares += output**2
        noise += math.exp(min(network.log_noise, 700.0))
        count += 1
    if count < expected:
        return None
    mean = total / count
    variance = np.maximum(squares / count - mean**2, 0.0) + noise / count
    return (mean, variance) if np.isfinite(variance).all() else None


def negative_log_likelihood(y: Array | Double, mean: Double, variance: Double) -> float:
    """Return the mean of −log N(y; mean, variance)."""
    return float(np.mean(0.5 * np.log(2 * math.pi * variance) + 0.5 * (y - mean) ** 2 / variance))
