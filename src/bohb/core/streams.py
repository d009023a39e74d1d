"""The random streams of a study: each random decision has a generator of its own, made from the seed and its place.

A decision is therefore the same whether or not the study was interrupted before it. The tags keep the streams apart;
changing one changes what stored studies decide.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_TRIAL_SEED, _BRACKET, _REPEAT, _ESTIMATE, _OBSERVATION, _SPREAD = 1, 8, 9, 10, 11, 12


def proposal_stream(seed: int, number: int) -> np.random.Generator:
    """Return the generator that the configuration of trial `number` is proposed with."""
    return np.random.default_rng([seed, number])


def spread_point(seed: int, number: int, d: int) -> NDArray[np.float64]:
    """Return the point of trial `number` in the study's scrambled Sobol sequence, (1, d)."""
    from scipy.stats.qmc import Sobol  # slow to import, and few decisions need it

    sequence = Sobol(d, seed=np.random.default_rng([seed, _SPREAD]))
    return (sequence.fast_forward(number) if number else sequence).random()


def trial_seed(seed: int, number: int) -> int:
    """Return the seed that the objective gets as `trial.seed`."""
    return int(np.random.default_rng([seed, number, _TRIAL_SEED]).integers(2**31))


def bracket_stream(seed: int, index: int) -> np.random.Generator:
    """Return the generator that bracket `index` is planned with."""
    return np.random.default_rng([seed, index, _BRACKET])


def observation_stream(seed: int, index: int) -> np.random.Generator:
    """Return the generator of the hyperparameters that the `index`-th result of an earlier study lacks."""
    return np.random.default_rng([seed, index, _OBSERVATION])


def repeat_seed(seed: int, confirmation: int, candidate: int, repeat: int) -> int:
    """Return the seed of one evaluation of a confirmation."""
    return int(np.random.default_rng([seed, confirmation, candidate, repeat, _REPEAT]).integers(2**31))


def estimate_stream(seed: int, confirmation: int) -> np.random.Generator:
    """Return the generator that the estimates of a confirmation are drawn with."""
    return np.random.default_rng([seed, confirmation, _ESTIMATE])
