"""Many SGHMC chains at once, in torch: the algorithm of `sghmc.py` with other random numbers.

Chains have their own settings, widths, data sets and numbers of steps. All of them advance together, 100 steps at a
time; a chain that has ended makes room for another one. Chains of similar widths share a padded stack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.problems.bnn import Split
from benchmarks.problems.padded import Graphs, Layout, backward, forward
from benchmarks.problems.sghmc import (
    BATCH,
    KEEP_EVERY,
    NOISE_PRIOR_MEAN,
    NOISE_PRIOR_VARIANCE,
    NOISE_START,
    SMALLEST,
    Chain,
    negative_log_likelihood,
)

Result = dict[str, float | None]
FLOOR = float(SMALLEST)
RECORDED = 20  # steps in one CUDA graph
SIZES = 24  # a stack computes a multiple of this number of chains
WIDTHS = (128, 512)  # chains with fewer units are padded to these
CHUNK = 32  # chains whose predictions are computed together, to bound the memory


class Rows:
    """The standardised rows of all data sets on the device, with inputs padded to the same number."""

    def __init__(self, splits: Sequence[Split], device: torch.device) -> None:
        self.splits = splits
        self.inputs = max(split.X.shape[1] for split in splits)
        self.sizes = [len(split.y) for split in splits]
        self.starts = [sum(self.sizes[:k]) for k in range(len(splits))]
        self.X = torch.cat([self._padded(split.X) for split in splits]).to(device)
        self.y = torch.cat([torch.from_numpy(split.y) for split in splits]).to(device)
        self.held_out = [self._padded(np.concatenate([s.X_valid, s.X_test])).to(device) for s in splits]

    def _padded(self, X: Any) -> Tensor:
        return torch.nn.functional.pad(torch.from_numpy(X), (0, self.inputs - X.shape[1]))


@dataclass(slots=True)
class _Running:
    key: Any
    chain: Chain
    split: int  # position of its data set
    step: int = 0


def gradient(layout: Layout, theta: Tensor, X: Tensor, y: Tensor, share: Tensor) -> Tensor:
    """Return ∇U of chains, given a minibatch for each (n, rows, inputs); see `sghmc.Network.gradient`.

    share: 1/n of the data (chains, 1).
    """
    parts, log_noise = layout.views(theta), theta[:, -1:]
    first, second, output = forward(parts, X)
    error, precision = output - y, torch.exp(-log_noise)
    slopes = backward(parts, X, first, second, error * (precision / y.shape[1]))
    prior = (log_noise - NOISE_PRIOR_MEAN) * share / NOISE_PRIOR_VARIANCE
    noise = 0.5 - 0.5 * precision * (error * error).mean(1, keepdim=True) + prior
    shrinkage = torch.cat([theta[:, :-1] * share, torch.zeros_like(log_noise)], 1)
    return layout.flat(slopes, noise) + shrinkage


def step(
    layout: Layout, theta: Tensor, momentum: Tensor, window: Tensor, mean: Tensor, square: Tensor, X: Tensor, y: Tensor,
    noise: Tensor, mask: Tensor, adapt: Tensor, keep: Tensor, squared: Tensor, sigma: Tensor, share: Tensor,
) -> None:  # fmt: skip
    """Take one step with all chains, in place: adapt the scales of those in burn-in (Eq. 8 and 9), then move (Eq. 10).

    noise: standard normal.
    mask: 1 for the numbers that a network has, 0 for the padding.
    """
    slope = gradient(layout, theta, X, y, share)
    rate = 1 / (window + 1)
    new_window = torch.where(adapt, window * (1 - mean * mean / square) + 1, window)
    new_mean = torch.where(adapt, mean + rate * (slope - mean), mean)
    new_square = (square + rate * (slope * slope - square)).clamp(min=FLOOR)
    new_square = torch.where(adapt, new_square, square)
    root = new_square.sqrt()
    new_momentum = keep * momentum - squared / root * slope + sigma / root.sqrt() * noise * mask
    window.copy_(new_window)
    mean.copy_(new_mean)
    square.copy_(new_square)
    momentum.copy_(new_momentum)
    theta.add_(new_momentum)


class Stack:
    """Chains of networks with at most `units` hidden units; they use the first rows of every tensor."""

    def __init__(self, rows: Rows, units: tuple[int, int], capacity: int, device: torch.device, compiled: bool) -> None:
        self.running: list[_Running] = []
        self._rows, self._graphs = rows, Graphs(device)
        self._take_step = torch.compile(step, dynamic=True) if compiled else step
        self._layout = Layout(rows.inputs, units, extra=1)
        length, held_out = self._layout.length, max(map(len, rows.held_out))
        capacity = self._graphs.size(capacity, SIZES)

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(capacity, *shape, dtype=dtype, device=device)

        self._theta, self._momentum, self._mask = zeros(length), zeros(length), zeros(length)
        self._window, self._mean, self._square = (zeros(length) + 1 for _ in range(3))
        self._noise = zeros(length)
        self._keep, self._squared, self._sigma = zeros(1), zeros(1), zeros(1)
        self._share = zeros(1)  # 1/n
        self._size, self._start = zeros(1), zeros(1, dtype=torch.int64)  # of the data set
        self._step, self._burn_in = zeros(1, dtype=torch.int64), zeros(1, dtype=torch.int64)
        self._total, self._squares = zeros(held_out, dtype=torch.float64), zeros(held_out, dtype=torch.float64)
        self._noises = zeros(dtype=torch.float64)
        self._state = [
            self._theta, self._momentum, self._mask, self._window, self._mean, self._square, self._keep, self._squared,
            self._sigma, self._share, self._size, self._start, self._step, self._burn_in, self._total, self._squares,
            self._noises,
        ]  # fmt: skip

    def add(self, key: Any, chain: Chain, split: int) -> None:
        """Start a chain."""
        k, inputs, n = len(self.running), self._rows.splits[split].X.shape[1], self._rows.sizes[split]
        self.running.append(_Running(key, chain, split))
        for tensor in self._state:
            tensor[k] = 0
        for tensor in (self._window, self._mean, self._square):
            tensor[k] = 1
        self._layout.draw(self._theta[k], inputs, chain.units)
        self._layout.mark(self._mask[k], inputs, chain.units)
        self._theta[k, -1], self._mask[k, -1] = NOISE_START, 1
        self._keep[k] = 1 - chain.momentum_decay
        self._squared[k] = chain.step_length**2
        self._sigma[k] = math.sqrt(2 * chain.step_length**2 * chain.momentum_decay / n)
        self._share[k], self._size[k], self._start[k] = 1 / n, n, self._rows.starts[split]
        self._burn_in[k] = int(chain.burn_in * chain.steps)

    def advance(self) -> dict[Any, Result]:
        """Look at all chains, return the results of those that have ended, and take 100 steps with the others."""
        if not self.running:
            return {}
        finite = self._theta[: len(self.running)].sum(1).isfinite().tolist()
        self._keep_samples([k for k, r in enumerate(self.running) if finite[k] and r.step in r.chain.kept])
        done: dict[Any, Result] = {}
        for k in reversed(range(len(self.running))):
            running = self.running[k]
            if not finite[k]:
                done[running.key] = {"loss": None, "test": None}
            elif running.step == running.chain.kept[-1]:
                done[running.key] = self._result(k)
            if running.key in done:
                self._remove(k)
        if self.running:
            for _ in range(KEEP_EVERY // RECORDED):
                self._graphs.run(self.steps, self._graphs.size(len(self.running), SIZES))
            for running in self.running:
                running.step += KEEP_EVERY
        return done

    def steps(self, n: int) -> None:
        """Take some steps with the first n chains."""
        for _ in range(RECORDED):
            rows = (torch.rand(n, BATCH, device=self._theta.device) * self._size[:n]).long() + self._start[:n]
            adapt = self._step[:n] < self._burn_in[:n]
            self._take_step(
                self._layout, self._theta[:n], self._momentum[:n], self._window[:n], self._mean[:n], self._square[:n],
                self._rows.X[rows], self._rows.y[rows], self._noise[:n].normal_(), self._mask[:n], adapt,
                self._keep[:n], self._squared[:n], self._sigma[:n], self._share[:n],
            )  # fmt: skip
            self._step[:n].add_(1)

    def _keep_samples(self, chains: list[int]) -> None:
        """Add the predictions of these chains to their sums."""
        for split, X in enumerate(self._rows.held_out):
            mine = [k for k in chains if self.running[k].split == split]
            for start in range(0, len(mine), CHUNK):
                which = torch.tensor(mine[start : start + CHUNK], device=X.device)
                theta = self._theta[which]
                output = forward(self._layout.views(theta), X.expand(len(which), -1, -1))[-1].double()
                self._total[which, : len(X)] += output
                self._squares[which, : len(X)] += output * output
                self._noises[which] += theta[:, -1].double().clamp(max=700.0).exp()

    def _result(self, k: int) -> Result:
        """Return loss and test loss of a chain that has ended; see `BayesianNetwork`."""
        chain, split = self.running[k].chain, self._rows.splits[self.running[k].split]
        count, at = len(chain.kept), len(split.y_valid)
        rows = at + len(split.y_test)
        mean = self._total[k, :rows].cpu().numpy() / count
        squares = self._squares[k, :rows].cpu().numpy() / count
        variance = np.maximum(squares - mean**2, 0.0) + float(self._noises[k]) / count
        if not np.isfinite(variance).all():
            return {"loss": None, "test": None}
        losses = [
            negative_log_likelihood(split.y_valid, mean[:at], variance[:at]) + math.log(split.scale),
            negative_log_likelihood(split.y_test, mean[at:], variance[at:]) + math.log(split.scale),
        ]
        return dict(zip(("loss", "test"), (x if math.isfinite(x) else None for x in losses), strict=True))

    def _remove(self, k: int) -> None:
        """Move the last chain into the row of one that has ended."""
        last = len(self.running) - 1
        if k < last:
            self.running[k] = self.running[last]
            for tensor in self._state:
                tensor[k] = tensor[last]
        self.running.pop()


class Chains:
    """Chains of all widths, on data sets that are known by name."""

    def __init__(
        self, splits: Mapping[str, Split], capacity: int, device: torch.device, compiled: bool = False
    ) -> None:
        """Prepare the stacks.

        splits: the data sets.
        capacity: the largest number of chains at the same time.
        compiled: whether to fuse the update of the parameters into one kernel.
        """
        self._names = list(splits)
        rows = Rows(list(splits.values()), device)
        pairs = [(a, b) for a in WIDTHS for b in WIDTHS]
        self._stacks = {units: Stack(rows, units, capacity, device, compiled) for units in pairs}

    def __len__(self) -> int:
        return sum(len(stack.running) for stack in self._stacks.values())

    def add(self, key: Any, chain: Chain, dataset: str) -> None:
        """Start a chain.

        key: identifies its result.
        """
        first, second = (next(width for width in WIDTHS if units <= width) for units in chain.units)
        self._stacks[first, second].add(key, chain, self._names.index(dataset))

    def advance(self) -> dict[Any, Result]:
        """Take 100 steps; return the results of the chains that had ended before."""
        done: dict[Any, Result] = {}
        with np.errstate(all="ignore"):  # a chain may diverge; that is looked for
            for stack in self._stacks.values():
                done |= stack.advance()
        return done
