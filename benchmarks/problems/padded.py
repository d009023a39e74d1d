"""Stacks of perceptrons of different widths in torch, padded with zeros to the same width.

A padded weight is zero and has a zero gradient, so a padded network computes what the narrow one does. One flat row per
network holds its parameters, as in `perceptron.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

Parts = list[Tensor]


class Layout:
    """Where weights and biases lie in the flat row of a network.

    length: of a row; weights and biases come first, zeros follow, and `extra` further numbers come last.
    """

    def __init__(self, inputs: int, units: tuple[int, int], extra: int = 0) -> None:
        self.shapes = [shape for a, b in pairwise([inputs, *units, 1]) for shape in ((a, b), (1, b))]
        self._used = sum(map(math.prod, self.shapes))
        self.length = -(-(self._used + extra) // 4) * 4  # rows start at multiples of 16 bytes, for fast products

    def views(self, rows: Tensor) -> Parts:
        """Return the weights and biases in flat rows (n, …), each of shape (n, …)."""
        views, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            views.append(rows[:, start:stop].view(-1, *shape))
            start = stop
        return views

    def flat(self, parts: Parts, *last: Tensor) -> Tensor:
        """Return weights and biases as flat rows, with these columns (n, 1) at the end."""
        gap = parts[0].new_zeros(len(parts[0]), self.length - self._used - len(last))
        return torch.cat([*(part.flatten(1) for part in parts), gap, *last], 1)

    def draw(self, row: Tensor, inputs: int, units: tuple[int, int]) -> None:
        """Fill a row with the initial weights of a network of this size: those of He et al. (2015), and zero biases."""
        row.zero_()
        sizes = [inputs, *units, 1]
        for weights, (rows, columns) in zip(self.views(row[None])[::2], pairwise(sizes), strict=True):
            weights[0, :rows, :columns].normal_(std=math.sqrt(2 / rows))

    def mark(self, row: Tensor, inputs: int, units: tuple[int, int]) -> None:
        """Set the weights and biases of a network of this size to 1, and all other numbers to 0."""
        row.zero_()
        sizes = [inputs, *units, 1]
        parts = self.views(row[None])
        for weights, biases, (rows, columns) in zip(parts[::2], parts[1::2], pairwise(sizes), strict=True):
            weights[0, :rows, :columns] = 1
            biases[0, :, :columns] = 1


def forward(parts: Parts, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return both hidden activations (n, rows, units) and the outputs (n, rows) for X (n, rows, inputs)."""
    w1, b1, w2, b2, w3, b3 = parts
    first = torch.tanh(torch.bmm(X, w1) + b1)
    second = torch.tanh(torch.bmm(first, w2) + b2)
    return first, second, (torch.bmm(second, w3) + b3)[..., 0]


def backward(parts: Parts, X: Tensor, first: Tensor, second: Tensor, error: Tensor) -> Parts:
    """Return the slopes of all parts, given the derivatives of a scalar by the outputs; see `Perceptron.backward`."""
    w2, w3 = parts[2], parts[4]
    third = error[..., None]
    deltas = [third, third * w3.mT * (1 - second * second)]
    deltas.append(torch.bmm(deltas[1], w2.mT) * (1 - first * first))
    return [
        part
        for below, delta in zip((X, first, second), reversed(deltas), strict=True)
        for part in (torch.bmm(below.mT, delta), delta.sum(1, keepdim=True))
    ]


class Graphs:
    """Repeat functions on a GPU without the cost of launching each of their kernels; on a CPU, just call them.

    The first call with a size runs the function, the second records it as a CUDA graph, and all further ones replay it.
    """

    def __init__(self, device: torch.device) -> None:
        self._on = device.type == "cuda"
        self._graphs: dict[tuple[str, int], Any] = {}
        self._pool: Any = None

    def size(self, number: int, step: int) -> int:
        """Return a number that is at least the given one and one of few, because every size has to be recorded."""
        return -(-number // step) * step if self._on else number

    def run(self, function: Callable[[int], None], size: int) -> None:
        """Call `function(size)`, which must read and write the same tensors in every call."""
        key = (function.__name__, size)
        if not self._on or key not in self._graphs:
            self._graphs[key] = None
            function(size)
            return
        if self._graphs[key] is None:
            self._graphs[key] = self._record(function, size)
        self._graphs[key].replay()

    def _record(self, function: Callable[[int], None], size: int) -> Any:
        """Record the kernels without running them."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            function(size)
        return graph
