"""The upper tail of the normal distribution, from a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

# Q(t) = 1 − Φ(t) and its first three derivatives (over k!) at 4,097 points of [0, 8.5]; beyond, Q < 1e-17.
_END, _N = 8.5, 4096
_STEP = _END / _N
_t = np.arange(_N + 1) * _STEP
_pdf = np.exp(-0.5 * _t**2) / np.sqrt(2 * np.pi)
_TAYLOR = np.array([ndtr(-_t), -_pdf, _t * _pdf / 2, (1 - _t**2) * _pdf / 6]).T.copy()


def upper_tail(t: Array) -> Array:
    """Return Q(t) for t ≥ 0 with an absolute error below 1e-13, by a cubic around the nearest point of the table.

    scipy's `ndtr` takes three times as long, and a fit to 10,000 points needs 160,000 values.
    """
    x = np.minimum(t * (1 / _STEP), _N)
    nearest = np.rint(x)
    f = (x - nearest) * _STEP
    c = _TAYLOR.take(nearest.astype(np.intp), axis=0)
    tail: Array = ((c[..., 3] * f + c[..., 2]) * f + c[..., 1]) * f + c[..., 0]
    return tail
