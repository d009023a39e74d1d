"""The six data sets of §5.2.2, ready to train on. Needs only numpy.

Appendix I does not say how the data were split or scaled; these are our choices. One third of the rows is used for
validation (of MNIST, the last 10 000 training images), at most 5 000. Nominal columns are one-hot: those of adult, and
the suits and ranks of poker, where a network learns almost nothing otherwise. All columns have mean 0 and
variance 1 on the training rows. Adult and MNIST keep 10 000 training rows, so that training takes minutes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILES = {
    "adult": "adult.npz",
    "higgs": "higgs11k.npz",
    "letter": "letter.npz",
    "mnist": "mnist.npz",
    "optdigits": "optdigits.npz",
    "poker": "poker25k.npz",
}
TRAIN_ROWS = {"adult": 10_000, "mnist": 10_000}  # the others keep all rows
VALID_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Data:
    """A data set split for training and validation; X is standardised (rows, columns), y counts classes from 0."""

    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_valid: NDArray[np.float32]
    y_valid: NDArray[np.int64]
    classes: int


def data_root() -> Path:
    """Return the directory of the raw files: `raw` in BOHB_DATA, by default in ../shared/data."""
    default = Path(__file__).parents[4] / "shared" / "data"
    return Path(os.environ.get("BOHB_DATA", default)) / "raw"


def load(name: str, root: Path, *, train_rows: int | None = None, valid_rows: int = VALID_ROWS) -> Data:
    """Read, split and standardise one data set; the split is the same every time.

    name: a key of FILES.
    root: the directory of the raw files.
    train_rows: largest number of training rows; None means TRAIN_ROWS.
    valid_rows: largest number of validation rows.
    """
    if name not in FILES:
        raise ValueError(f"data set {name!r} must be one of {', '.join(FILES)}")
    path = root / FILES[name]
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: set BOHB_DATA to the directory that holds raw/{FILES[name]}")
    with np.load(path) as raw:
        X, y, split = _mnist(raw) if name == "mnist" else _table(raw, all_nominal=name == "poker")
    rng = np.random.default_rng(0)
    if name != "mnist":
        order = rng.permutation(len(X))
        X, y = X[order], y[order]
    kept = TRAIN_ROWS.get(name) if train_rows is None else train_rows
    train, valid = rng.permutation(split)[:kept], split + rng.permutation(len(X) - split)[:valid_rows]
    mean, std = X[train].mean(0), X[train].std(0)
    std[std == 0] = 1  # a constant column, such as the rim of MNIST's images
    scaled = ((X - mean) / std).astype(np.float32)
    return Data(scaled[train], y[train], scaled[valid], y[valid], int(y.max()) + 1)


def _mnist(raw: Any) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    return raw["Xtr"].reshape(60_000, -1).astype(np.float32), raw["ytr"].astype(np.int64), 50_000


def _table(raw: Any, all_nominal: bool) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    X, y = raw["X"], raw["y"].astype(np.int64)
    nominal = raw["categorical"] if "categorical" in raw else np.full(X.shape[1], all_nominal)
    columns = [
        (column[:, None] == np.unique(column)) if is_nominal else column[:, None]
        for column, is_nominal in zip(X.T, nominal, strict=True)
    ]
    return np.concatenate(columns, axis=1, dtype=np.float32), y, len(X) * 2 // 3
