"""Measure how long one network takes per epoch when it trains alone on one CPU core, as in the paper.

    python -m benchmarks.paper.networks.timing --out DIR            # 100 configurations per data set, about ten minutes

`train` trains hundreds of networks at once, so its wall time does not apply to a single one. Here each network is an
ordinary torch module with torch's own Adam; a few dozen steps are timed (at least --least seconds of CPU time) and
scaled to the steps of an epoch, and one pass over the validation rows is added. Writes time.npz:
the hyperparameters (n,) and, for each data set, `seconds_NAME` (n,) per epoch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.paper.networks.data import FILES, Data, data_root, load
from benchmarks.paper.networks.space import sample
from benchmarks.report import cpu_model


def network(config: Mapping[str, float], columns: int, classes: int) -> nn.Sequential:
    """Return the network of Table 2: rectified layers of equal width, followed by dropout; Glorot's initialisation."""
    sizes = [columns, *[int(config["units"])] * int(config["layers"])]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU(), nn.Dropout(config["dropout"])]
    layers.append(nn.Linear(sizes[-1], classes))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def seconds_per_epoch(config: Mapping[str, float], data: Data, least: float) -> float:
    """Return the CPU seconds of one epoch and its validation.

    config: the hyperparameters.
    data: the data set.
    least: shortest measurement in seconds, unless the epoch ends earlier.
    """
    X, y, X_valid = (torch.from_numpy(array) for array in (data.X_train, data.y_train, data.X_valid))
    model, batch = network(config, X.shape[1], data.classes), int(config["batch_size"])
    optimizer = torch.optim.Adam(model.parameters(), lr=config["initial_lr"])
    steps = -(-len(X) // batch)
    warm, taken, began = min(5, steps - 1), 0, time.process_time()
    for step, rows in enumerate(torch.split(torch.randperm(len(X)), batch)):
        if step == warm:
            began = time.process_time()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        taken = step + 1 - warm
        if taken > 0 and time.process_time() - began > least:
            break
    per_step, began = (time.process_time() - began) / taken, time.process_time()
    with torch.no_grad():
        model.eval()(X_valid).argmax(1)
    return per_step * steps + time.process_time() - began


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_root())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--configs", type=int, default=100)
    parser.add_argument("--rows", type=int, help="largest number of training rows (default: see data.py)")
    parser.add_argument("--sets", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--least", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(words)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    configs = sample(np.random.default_rng(args.seed), args.configs)
    rows = [dict(zip(configs, values, strict=True)) for values in zip(*configs.values(), strict=True)]
    notes = json.dumps({"torch": torch.__version__, "cpu": cpu_model(), "seed": args.seed})
    found: dict[str, Any] = {"notes": notes, **configs}
    for name in args.sets:
        data = load(name, args.data, train_rows=args.rows)
        seconds = np.array([seconds_per_epoch(config, data, args.least) for config in rows])
        found[f"seconds_{name}"] = seconds
        np.savez_compressed(args.out / "time.npz", **found)
        low, middle, high = np.quantile(seconds, [0, 0.5, 1])
        print(f"{name}: {low:.3g} to {high:.3g} s per epoch, median {middle:.3g}", flush=True)


if __name__ == "__main__":
    main()
