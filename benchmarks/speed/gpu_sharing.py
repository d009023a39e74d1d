"""Measure trials per hour over the number of trials that share one GPU, for three kinds of networks.

    python -m benchmarks.speed.gpu_sharing                                    # one GPU, about half an hour
    python -m benchmarks.speed.gpu_sharing --smoke --out /tmp/sharing         # without a GPU, seconds

Each study trains networks of random width on data that are made on the device, with 1, 2, 4 and 8 trials on it
(`resources={"gpu": 1 / k}`) and with as many as fit (`"shared"`). Modules are preloaded. The time of a study includes
all start-ups. Writes gpu_sharing.json and .csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bohb
from benchmarks.report import provenance, table, write

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ["bohb", "torch", "nvidia-ml-py", "numpy"]
MOST = 8  # workers where as many trials share the device as fit
SHARES: tuple[int | str, ...] = (1, 2, 4, 8, "shared")


def mlp(torch: Any, width: int) -> tuple[Any, Any]:
    layers = torch.nn
    return layers.Sequential(layers.Linear(784, width), layers.ReLU(), layers.Linear(width, 10)), (256, 784)


def cnn(torch: Any, width: int) -> tuple[Any, Any]:
    layers, channels = torch.nn, max(4, width // 8)
    body = layers.Sequential(
        layers.Conv2d(1, channels, 3), layers.ReLU(), layers.Conv2d(channels, channels, 3), layers.AdaptiveAvgPool2d(1)
    )
    return layers.Sequential(body, layers.Flatten(), layers.Linear(channels, 10)), (128, 1, 28, 28)


def transformer(torch: Any, width: int) -> tuple[Any, Any]:
    size = max(32, width // 32 * 32)
    layer = torch.nn.TransformerEncoderLayer(size, 4, 2 * size, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (32, 64, size)


NETWORKS: dict[str, Callable[[Any, int], tuple[Any, Any]]] = {"mlp": mlp, "cnn": cnn, "transformer": transformer}


def training(name: str, steps: int, device: str) -> Callable[[bohb.Trial], dict[str, float]]:
    """Return an objective that makes so many steps of training, and reports its peak of device memory."""

    def objective(trial: bohb.Trial) -> dict[str, float]:
        import torch

        torch.manual_seed(trial.seed)
        network, shape = NETWORKS[name](torch, trial.config["width"])
        network = network.to(device)
        optimizer = torch.optim.Adam(network.parameters(), trial.config["lr"])
        loss = torch.zeros(())
        for _ in range(int(steps * trial.budget)):
            optimizer.zero_grad()
            loss = network(torch.randn(*shape, device=device)).square().mean()
            loss.backward()
            optimizer.step()
        peak = torch.cuda.max_memory_reserved() if device == "cuda" else 0
        return {"loss": float(loss), "device_memory": peak}

    return objective


def measure(name: str, share: int | str, args: argparse.Namespace) -> dict[str, Any]:
    """Run one study, and return how many trials it made per hour."""
    resources = None if args.smoke else {"gpu": share if share == "shared" else 1 / int(share)}
    began = time.monotonic()
    study = bohb.minimize(
        training(name, args.steps, "cpu" if args.smoke else "cuda"),
        {"width": (16, 512), "lr": (1e-4, 1e-1, "log")},
        budgets=[1],
        seed=args.seed,
        preset="paper",
        workers=MOST if share == "shared" else int(share),
        resources=resources,
        preload=["torch"],
        max_trials=args.trials,
        progress=False,
    )
    hours = (time.monotonic() - began) / 3600
    again = sum(trial.attempt - 1 for trial, _ in study.trials)
    peaks = [outcome.info.get("device_memory", 0) for _, outcome in study.trials if outcome is not None]
    return {
        "network": name,
        "share": share,
        "trials_per_hour": len(study.trials) / hours,
        "failed": len(study.failures),
        "started_again": again,
        "largest_peak": max(peaks, default=0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=sorted(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--trials", type=int, default=48)
    parser.add_argument("--steps", type=int, default=2000, help="of training, in each trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--smoke", action="store_true", help="without a GPU: one small network, few trials")
    args = parser.parse_args(arguments)
    shares = SHARES
    if args.smoke:
        args.networks, args.trials, args.steps, shares = ["mlp"], 3, 2, (1,)
    rows = [measure(name, share, args) for name in args.networks for share in shares]
    print(table(rows))
    write(args.out, "gpu_sharing", provenance([args.seed], PACKAGES), {"rows": rows}, rows)


if __name__ == "__main__":
    main()
