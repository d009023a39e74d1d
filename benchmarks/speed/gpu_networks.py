"""Three kinds of small networks that classify MNIST's digits on one device: what the trials of `gpu_sharing` train.

All images stay on the device, so that a step needs neither the CPU nor the disk. The time of a trial follows from its
number of steps and its width alone.
"""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.paper.networks.data import data_root, load

KINDS = ("mlp", "cnn", "transformer")
BATCH = 128
SIDE = 28


@functools.cache
def images(device: str, rows: int) -> tuple[Any, Any, Any, Any]:
    """Return images and digits to train and to validate on, on the device; a worker loads them once."""
    import torch

    data = load("mnist", data_root(), train_rows=rows)
    return tuple(
        torch.as_tensor(part, device=device) for part in (data.X_train, data.y_train, data.X_valid, data.y_valid)
    )  # type: ignore[return-value]


def network(kind: str, width: int) -> Any:
    """Return an untrained network of one of KINDS.

    width: of hidden layers; a convolution has an eighth as many channels, a transformer a multiple of four.
    """
    from torch import nn

    if kind == "mlp":
        return nn.Sequential(
            nn.Linear(SIDE * SIDE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
        )
    if kind == "cnn":
        channels = max(4, width // 8)
        return nn.Sequential(
            nn.Unflatten(1, (1, SIDE, SIDE)),
            *(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(2 * channels * (SIDE // 4) ** 2, 10)),
        )
    size = max(32, width // 4 * 4)
    layer = nn.TransformerEncoderLayer(size, 4, 2 * size, dropout=0.0, batch_first=True)
    return nn.Sequential(  # each row of an image is a token
        *(nn.Unflatten(1, (SIDE, SIDE)), nn.Linear(SIDE, size)),
        *(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(), nn.Linear(SIDE * size, 10)),
    )


def train(kind: str, width: int, lr: float, steps: int, seed: int, device: str, rows: int) -> float:
    """Train a network for so many steps; return the fraction of the validation images that it gets wrong."""
    import torch

    torch.manual_seed(seed)
    X, y, X_valid, y_valid = images(device, rows)
    model = network(kind, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        batch = torch.randint(len(X), (BATCH,), device=device)
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(model(X[batch]), y[batch])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        wrong = sum(
            int((model(x).argmax(1) != t).sum()) for x, t in zip(X_valid.split(500), y_valid.split(500), strict=True)
        )
    return wrong / len(X_valid)
