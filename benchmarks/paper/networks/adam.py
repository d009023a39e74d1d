"""Adam for stacks of networks, with individual learning rates and step counts: fused on a GPU, else plain torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # torch comes without it where there is no GPU
    triton = None

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True)
class Block:
    """Weights of one kind for several networks, with gradient and moments; each (n, fan in, fan out), contiguous.

    owner: the network that each of the n matrices belongs to.
    frozen: a column that never changes, or −1.
    """

    weight: torch.Tensor
    gradient: torch.Tensor
    mean: torch.Tensor
    square: torch.Tensor
    owner: torch.Tensor
    frozen: int


def clocks(rate: torch.Tensor, count: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
    """Return step size and epsilon of each network, corrected for bias, and whether it takes the step.

    rate: learning rates (n,).
    count: steps taken, this one included (…, n).
    active: 1 where the network takes this step, else 0 (…, n).
    """
    steps = count.double()
    correction = (1 - BETA_2**steps).sqrt()
    size = active * rate * correction / (1 - BETA_1**steps)
    return torch.stack([size, EPSILON * correction, active.double()], dim=-2)


def step_plain(block: Block, clock: torch.Tensor) -> None:
    """Take one step of Adam with all networks of a block.

    clock: from `clocks`, (3, networks).
    """
    size, epsilon, active = clock[:, block.owner, None, None]
    block.mean.lerp_(block.gradient, (1 - BETA_1) * active)
    block.square.lerp_(block.gradient.square(), (1 - BETA_2) * active)
    change = size * block.mean / (block.square.sqrt() + epsilon)
    if block.frozen >= 0:
        change[..., block.frozen] = 0
    block.weight.sub_(change)


def step_fused(block: Block, clock: torch.Tensor) -> None:
    """Take the step in one Triton kernel, with a third of the memory traffic, which limits the speed of training."""
    n, fan_in, fan_out = block.weight.shape
    tile = 1024
    _kernel[(n, triton.cdiv(fan_in * fan_out, tile))](
        block.weight, block.gradient, block.mean, block.square, block.owner, clock,
        clock.shape[1], fan_in * fan_out, fan_out, block.frozen,
        beta_1=BETA_1, beta_2=BETA_2, tile=tile,
    )  # fmt: skip


def fused_available() -> bool:
    """Whether `step_fused` may work here."""
    return triton is not None and torch.cuda.is_available()


# Triton reads the annotations, so only its own are allowed here.
def _kernel_source(  # type: ignore[no-untyped-def]
    weight, gradient, mean, square, owner, clock, networks, size, columns, frozen,
    beta_1: tl.constexpr, beta_2: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    matrix = tl.program_id(0)
    network = tl.load(owner + matrix)
    rate = tl.load(clock + network)
    epsilon = tl.load(clock + networks + network)
    active = tl.load(clock + 2 * networks + network)
    inside = tl.program_id(1) * tile + tl.arange(0, tile)
    mask = inside < size
    at = matrix.to(tl.int64) * size + inside
    g = tl.load(gradient + at, mask=mask, other=0.0)
    m = tl.load(mean + at, mask=mask, other=0.0)
    v = tl.load(square + at, mask=mask, other=0.0)
    w = tl.load(weight + at, mask=mask, other=0.0)
    m += (1 - beta_1) * active * (g - m)
    v += (1 - beta_2) * active * (g * g - v)
    change = tl.where(inside % columns == frozen, 0.0, rate * m / (tl.sqrt(v) + epsilon))
    tl.store(mean + at, m, mask=mask)
    tl.store(square + at, v, mask=mask)
    tl.store(weight + at, w - change, mask=mask)


_kernel: Any = triton.jit(_kernel_source) if triton is not None else None
