"""Networks with two hidden layers of tanh units and one output, in single precision, with numpy only."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]


class Perceptron:
    """One network, or a stack of independent networks that are computed together.

    All parameters lie in one flat vector, and their gradient in another: few calls of numpy change them all.

    theta: weights and biases, layer by layer, then `extra` further numbers.
    slope: the gradient that `backward` computed last; its extra numbers do not change.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        inputs: int,
        units: tuple[int, int],
        *,
        stack: tuple[int, ...] = (),
        extra: int = 0,
    ) -> None:
        """Draw weights as in He et al. (2015); biases are zero.

        rng: draws the weights.
        inputs: columns of X.
        units: of the two hidden layers.
        stack: the leading axes of every array: () is one network, (9,) are nine.
        extra: further numbers at the end of `theta`, zero at first.
        """
        sizes = [inputs, *units, 1]
        self._shapes = [shape for a, b in pairwise(sizes) for shape in ((a, b), (1, b))]
        length = math.prod(stack) * sum(map(math.prod, self._shapes)) + extra
        self.theta: Array = np.zeros(length, dtype=np.float32)
        self.slope: Array = np.zeros(length, dtype=np.float32)
        self._parts = self._views(self.theta, stack)
        self._slopes = self._views(self.slope, stack)
        for weights in self._parts[::2]:
            weights[:] = rng.standard_normal(weights.shape) * math.sqrt(2 / weights.shape[-2])

    def forward(self, X: Array) -> tuple[Array, Array, Array]:
        """Return both hidden activations (…, rows, units) and the outputs (…, rows) for X (…, rows, inputs)."""
        w1, b1, w2, b2, w3, b3 = self._parts
        first: Array = X @ w1
        first += b1
        np.tanh(first, out=first)
        second: Array = first @ w2
        second += b2
        np.tanh(second, out=second)
        output: Array = second @ w3
        output += b3
        return first, second, output[..., 0]

    def predict(self, X: Array) -> Array:
        """Return the output for every row of X."""
        return self.forward(X)[-1]

    def backward(self, X: Array, first: Array, second: Array, error: Array) -> None:
        """Fill `slope`, given the derivatives of a scalar by the outputs.

        X, first, second: what `forward` was given and returned.
        error: the derivatives by the outputs (…, rows).
        """
        w2, w3 = self._parts[2], self._parts[4]
        d_w1, d_b1, d_w2, d_b2, d_w3, d_b3 = self._slopes
        delta = error[..., None]
        np.matmul(second.mT, delta, out=d_w3)
        delta.sum(axis=-2, keepdims=True, out=d_b3)
        delta = delta * w3.mT
        delta *= 1 - second * second
        np.matmul(first.mT, delta, out=d_w2)
        delta.sum(axis=-2, keepdims=True, out=d_b2)
        delta = delta @ w2.mT
        delta *= 1 - first * first
        np.matmul(X.mT, delta, out=d_w1)
        delta.sum(axis=-2, keepdims=True, out=d_b1)

    def keep(self, which: list[int], *others: Array) -> list[Array]:
        """Keep some networks of a stack with one axis, also in further flat vectors, which are returned.

        which: the positions of the networks to keep.
        others: vectors laid out like `theta`.
        """
        stack, left = (self._parts[0].shape[0],), (len(which),)
        selected = [
            np.concatenate([view[which].ravel() for view in self._views(flat, stack)]) for flat in (self.theta, *others)
        ]
        self.theta, self.slope = selected[0], np.zeros_like(selected[0])
        self._parts, self._slopes = self._views(self.theta, left), self._views(self.slope, left)
        return selected[1:]

    def _views(self, flat: Array, stack: tuple[int, ...]) -> list[Array]:
        """Return the consecutive pieces of a flat vector in the shapes of weights and biases."""
        views, start = [], 0
        for shape in self._shapes:
            stop = start + math.prod(stack) * math.prod(shape)
            views.append(flat[start:stop].reshape(*stack, *shape))
            start = stop
        return views
