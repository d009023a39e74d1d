"""The search space of Table 2 as arrays. Needs numpy alone, as the machine that trains has little else."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

EPOCHS = 50
# name: (low, high, on a log scale, whole numbers). The paper gives the decay as a factor d in [−0.185, 0] of
# exp(d · epoch); the authors' code as the fraction of the learning rate that is left after 50 epochs: exp(50 · d).
RANGES: dict[str, tuple[float, float, bool, bool]] = {
    "initial_lr": (1e-6, 1e-2, True, False),
    "batch_size": (8, 256, True, True),
    "units": (16, 256, True, True),
    "final_lr_fraction": (1e-4, 1.0, True, False),
    "layers": (1, 5, False, True),
    "dropout": (0.0, 0.5, False, False),
}
Configs = dict[str, NDArray[np.float64]]  # one array (n,) per hyperparameter, in the order of RANGES


def sample(rng: np.random.Generator, count: int) -> Configs:
    """Uniformly random configurations, uniform in the logarithm where Table 2 says so.

    rng: the source of randomness.
    count: how many.
    """
    return {name: _draw(rng, count, *entry) for name, entry in RANGES.items()}


def _draw(rng: np.random.Generator, count: int, low: float, high: float, log: bool, whole: bool) -> NDArray[np.float64]:
    if not whole:
        return np.exp(rng.uniform(math.log(low), math.log(high), count)) if log else rng.uniform(low, high, count)
    if not log:
        return rng.integers(int(low), int(high) + 1, count).astype(float)
    # Half a unit on either side, so that the first and the last whole number get their full share.
    return np.rint(np.exp(rng.uniform(math.log(low - 0.499), math.log(high + 0.499), count)))
