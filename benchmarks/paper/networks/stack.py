"""Many small networks trained in lockstep: one matrix product per layer for all of them.

Networks differ in width, depth, batch size, dropout and learning rate. Narrow ones are padded with units whose weights
are zero and stay zero; networks are sorted by depth, so that layer l needs only the first ones; a network with larger
batches finishes its epoch in fewer steps and then waits. So every network is trained as if it were alone. A constant
unit after the padded width carries the biases: its column of a weight matrix is frozen, its row is the bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.paper.networks.adam import Block, clocks
from benchmarks.paper.networks.data import Data
from benchmarks.paper.networks.space import EPOCHS, Configs

ALIGNMENT = 8  # matrix units need rows of a multiple of this length
CHUNK = 16  # steps in one CUDA graph
NEVER = -1e4  # the logit of a padding class


@dataclass(frozen=True, slots=True)
class DeviceData:
    """A data set on the device: inputs with a column of ones, targets one-hot, both padded."""

    X_train: torch.Tensor
    Y_train: torch.Tensor
    X_valid: torch.Tensor
    y_valid: torch.Tensor
    columns: int
    classes: int


def to_device(data: Data, device: torch.device) -> DeviceData:
    """Pad a data set and move it to a device."""
    columns, width = data.X_train.shape[1], _aligned(data.classes)
    X_train, X_valid = (_with_ones(X).to(device) for X in (data.X_train, data.X_valid))
    Y_train = torch.nn.functional.one_hot(torch.from_numpy(data.y_train), width).float().to(device)
    y_valid = torch.from_numpy(data.y_valid).to(device)
    return DeviceData(X_train, Y_train, X_valid, y_valid, columns, data.classes)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _with_ones(X: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> torch.Tensor:
    padded = torch.zeros(len(X), _aligned(X.shape[1] + 1))
    padded[:, : X.shape[1]] = torch.from_numpy(X)
    padded[:, X.shape[1]] = 1
    return padded


class Stack:
    """Networks that train together on one data set.

    configs: the networks, sorted by descending depth.
    data: the data set.
    width: the padded number of units.
    seed: decides initial weights, shuffling and dropout.
    """

    def __init__(self, configs: Configs, data: DeviceData, width: int, seed: int) -> None:
        device = data.X_train.device
        depth = configs["layers"].astype(int)
        if (np.diff(depth) > 0).any():
            raise ValueError("configurations must be sorted by descending number of layers")
        self.data, self.width, self.count = data, width, len(depth)
        self.prefixes = [int((depth >= layer).sum()) for layer in range(1, int(depth.max()) + 1)]
        self.random = torch.Generator(device=device).manual_seed(seed)
        self.columns = {name: torch.tensor(value, device=device) for name, value in configs.items()}
        self.first, self.hidden, self.last = self._blocks()
        owner = torch.cat([torch.arange(n, device=device) for n in self.prefixes])
        # The constant unit is never dropped.
        self.drop = self.columns["dropout"].float()[owner, None, None].repeat(1, 1, width + ALIGNMENT)
        self.drop[..., width] = 0
        self.scale = 1 / (1 - self.drop)
        self._plan_epoch()

    def _blocks(self) -> tuple[Block, Block, Block]:
        """Return first, hidden and last weights: Glorot's uniform initialisation, biases 0."""
        units, width, high = self.columns["units"], self.width, self.width + ALIGNMENT
        everyone = torch.arange(self.count, device=units.device)
        deeper = torch.cat([everyone[:n] for n in self.prefixes[1:]]) if self.prefixes[1:] else everyone[:0]
        ins, outs = torch.full_like(units, self.data.columns), torch.full_like(units, self.data.classes)
        last_high = self.data.Y_train.shape[1]
        first = self._block(everyone, ins, units, (self.data.X_train.shape[1], high), self.data.columns)
        hidden = self._block(deeper, units[deeper], units[deeper], (high, high), width)
        last = self._block(everyone, units, outs, (high, last_high), width, constant=False)
        last.weight[:, width, self.data.classes :] = NEVER
        return first, hidden, last

    def _block(
        self,
        owner: torch.Tensor,
        fan_in: torch.Tensor,
        fan_out: torch.Tensor,
        shape: tuple[int, int],
        bias: int,
        constant: bool = True,
    ) -> Block:
        device = owner.device
        uniform = torch.rand(len(owner), *shape, generator=self.random, device=device) * 2 - 1
        weight = uniform * (6 / (fan_in + fan_out)).sqrt().float()[:, None, None]
        rows, columns = (torch.arange(size, device=device) for size in shape)
        weight *= (rows < fan_in[:, None])[:, :, None] * (columns < fan_out[:, None])[:, None, :]
        if constant:
            weight[:, bias, self.width] = 1  # passes the constant to the next layer
        gradient, mean, square = (torch.zeros_like(weight) for _ in range(3))
        return Block(weight, gradient, mean, square, owner, self.width if constant else -1)

    def _plan_epoch(self) -> None:
        """Compute which shuffled rows each network reads in each step; the last batch may be short."""
        rows, sizes = len(self.data.X_train), self.columns["batch_size"].long()
        self.steps = -(-rows // sizes)
        longest = int(self.steps.max())
        chunks = -(-longest // CHUNK)
        self.chunk = -(-longest // chunks)
        step = torch.arange(chunks * self.chunk, device=sizes.device)[:, None, None]
        place = torch.arange(int(sizes.max()), device=sizes.device)
        at = step * sizes[None, :, None] + place  # (steps, networks, batch)
        valid = (place < sizes[:, None]) & (at < rows)
        self.places = at.clamp_max(rows - 1).int()
        self.shares = (valid / valid.sum(-1, keepdim=True).clamp_min(1)).float()[..., None]
        self.moving = (step[..., 0] < self.steps).float()
        self.taken = torch.minimum(step[..., 0] + 1, self.steps)

    def epoch(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the shuffled rows each network reads in each step of an epoch (from 0), and Adam's clocks."""
        rows = len(self.data.X_train)
        order = torch.rand(rows, generator=self.random, device=self.places.device).argsort()
        rate = self.columns["initial_lr"] * self.columns["final_lr_fraction"] ** (number / EPOCHS)
        clock = clocks(rate, number * self.steps + self.taken, self.moving)
        return order[self.places], clock.float()

    def keep(self, batch: int) -> torch.Tensor:
        """Return dropout factors of all hidden layers (all layers' networks, batch, units)."""
        shape = (len(self.drop), batch, self.drop.shape[2])
        draws = torch.rand(shape, generator=self.random, device=self.drop.device)
        return (draws >= self.drop) * self.scale

    def forward(self, X: torch.Tensor, keep: torch.Tensor | None) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the hidden activations of each layer, and the last ones of each network.

        X: inputs (networks, batch, columns).
        keep: dropout factors, or None to predict.
        """
        activations, start = [X], 0
        for layer, n in enumerate(self.prefixes):
            weight = (
                self.first.weight if layer == 0 else self.hidden.weight[start - self.count : start - self.count + n]
            )
            h = torch.bmm(activations[-1][:n], weight).relu_()
            if keep is not None:
                h.mul_(keep[start : start + n])
            activations.append(h)
            start += n
        ends = [*self.prefixes[1:], 0]
        last = [h[end:] for h, end in zip(activations[1:], ends, strict=True)]
        return activations, torch.cat(last[::-1])

    def backward(
        self, activations: list[torch.Tensor], top: torch.Tensor, error: torch.Tensor, keep: torch.Tensor
    ) -> None:
        """Fill all gradients.

        error: derivative of the loss by the logits (networks, batch, classes).
        """
        torch.bmm(top.mT, error, out=self.last.gradient)
        back = torch.bmm(error, self.last.weight.mT)  # a network's row is used when its last layer is reached
        start = sum(self.prefixes)
        for layer in reversed(range(len(self.prefixes))):
            n = self.prefixes[layer]
            start -= n
            inner = torch.ops.aten.threshold_backward(back[:n] * keep[start : start + n], activations[layer + 1], 0)
            if layer == 0:
                torch.bmm(activations[0].mT, inner, out=self.first.gradient)
                return
            part = slice(start - self.count, start - self.count + n)
            torch.bmm(activations[layer][:n].mT, inner, out=self.hidden.gradient[part])
            torch.bmm(inner, self.hidden.weight[part].mT, out=back[:n])

    def step(
        self, rows: torch.Tensor, share: torch.Tensor, clock: torch.Tensor, adam: Callable[[Block, torch.Tensor], None]
    ) -> None:
        """Take one step of Adam on the mean cross-entropy of each network's batch.

        rows: (networks, batch).
        share: the weight of each row in its batch, 0 for padding (networks, batch, 1).
        clock: from `epoch`, (3, networks).
        """
        keep = self.keep(rows.shape[1])
        activations, top = self.forward(self.data.X_train[rows], keep)
        error = torch.bmm(top, self.last.weight).softmax(-1).sub_(self.data.Y_train[rows]).mul_(share)
        self.backward(activations, top, error, keep)
        for block in (self.first, self.hidden, self.last):
            if len(block.owner):
                adam(block, clock)

    def errors(self) -> torch.Tensor:
        """Return the share of wrong validation rows of each network (networks,)."""
        rows = max(1, 2**28 // (self.count * (self.width + ALIGNMENT)))
        wrong = torch.zeros(self.count, device=self.places.device)
        for X, y in zip(torch.split(self.data.X_valid, rows), torch.split(self.data.y_valid, rows), strict=True):
            _, top = self.forward(X.expand(self.count, *X.shape), None)
            guess = torch.bmm(top, self.last.weight)[..., : self.data.classes].argmax(-1)
            wrong += (guess != y).sum(-1)
        return wrong / len(self.data.y_valid)


def groups(
    configs: Configs, widths: tuple[int, ...], ratio: float
) -> list[np.ndarray[tuple[int, ...], np.dtype[np.intp]]]:
    """Return groups of networks with similar width and batch size, by index; deepest first.

    widths: the padded widths, ascending.
    ratio: the largest batch size of a group divided by its smallest.
    """
    found = []
    classes = np.searchsorted(widths, configs["units"])
    for which in range(len(widths)):
        members = np.flatnonzero(classes == which)
        step = np.floor(np.log(configs["batch_size"][members] / 8) / math.log(ratio))
        for k in np.unique(step):
            chosen = members[step == k]
            found.append(chosen[np.argsort(-configs["layers"][chosen], kind="stable")])
    return found
