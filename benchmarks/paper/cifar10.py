"""CIFAR-10 on one GPU (§5.5): BOHB, BEST, Hyperband and random search at equal GPU time, then the winner for longer.

    python -m benchmarks.paper.cifar10 tune --data DIR --out DIR                    # go on with all studies
    python -m benchmarks.paper.cifar10 train --data DIR --out DIR --epochs 150      # train the best configuration
    python -m benchmarks.paper.cifar10 report                                       # write docs/results/cifar10.*

The network, the data and the objective are those of `examples/cifar10.py`. All studies take turns on the GPU: each turn
adds the same number of GPU seconds to each of them, so that they can be compared whenever the time is up. A study is
its journal: the next call goes on where this one stopped, on another machine too. `cifar10_journals/` keeps the
journals as text; `bohb import` turns them into databases again, and `bohb export` writes them back.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import bohb
from benchmarks.paper.cifar10_report import JOURNALS, report
from benchmarks.report import RESULTS
from bohb.journal import SqlJournal

EXAMPLE = Path(__file__).parents[2] / "examples" / "cifar10.py"
RANDOM = {"preset": "paper", "random_fraction": 1.0}
METHODS: dict[str, tuple[dict[str, Any], bool]] = {  # arguments, and whether low budgets are used
    "random": (RANDOM, False),
    "hyperband": (RANDOM, True),
    "bohb": ({"preset": "paper"}, True),
    "best": ({"preset": "best"}, True),
}


def example() -> ModuleType:
    """Import `examples/cifar10.py`."""
    spec = importlib.util.spec_from_file_location("cifar10", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cifar10"] = module
    spec.loader.exec_module(module)
    return module


def tune(
    objective: Any, space: Any, out: Path, seeds: list[int], budgets: list[float], turn: float, until: float = math.inf
) -> Iterator[str]:
    """Go on with every study in turns, until each has spent `until` GPU seconds; yields its name before each turn."""
    out.mkdir(parents=True, exist_ok=True)
    spent = {(method, seed): _spent(out / f"{method}-{seed}.db") for method in METHODS for seed in seeds}
    limit = min(spent.values())
    while limit < until:
        limit = min(limit + turn, until)
        for method, seed in [study for study, before in spent.items() if before < limit]:
            name, (arguments, low) = f"{method}-{seed}", METHODS[method]
            yield name
            study = bohb.minimize(
                objective, space, budgets=budgets if low else budgets[-1:], eta=3, seed=seed, **arguments,
                journal=out / f"{name}.db", directory=out / "files" / name, max_reported_cost=limit, progress=False,
            )  # fmt: skip
            spent[method, seed] = study.history.cost_reported


def _history(path: Path) -> bohb.History:
    with SqlJournal(path, read_only=True) as journal:
        return bohb.History().extend(journal.read(0))


def _spent(path: Path) -> float:
    return _history(path).cost_reported if path.exists() else 0.0


def _say(out: Path, seconds: float) -> None:
    """Print where every study stands, and how the time was spent."""
    busy = 0.0
    for path in sorted(out.glob("*.db")):
        history = _history(path)
        busy += history.cost_reported
        best = history.incumbent
        what = (
            "–" if best is None else f"{best.loss:.4f} on {best.budget:g} (test {best.outcome.info['test_error']:.4f})"
        )
        print(
            f"{path.stem:14} {len(history.outcomes):4} trials {history.cost_reported:7.1f} s  best {what}", flush=True
        )
    print(f"wall {seconds:.1f} s; all studies together {busy:.1f} GPU seconds")


def train(module: ModuleType, data: Any, out: Path, config: dict[str, Any], epochs: int, seed: int) -> None:
    """Train one configuration on all 50 000 training images and print its test error."""
    given = dict(config)
    trainer = module.Trainer(data.all, 2 ** given.pop("log2_batch_size"), compiled=True)
    trainer.start(seed)
    began = time.perf_counter()
    loss = trainer.train(epochs, seed, **given)
    error = trainer.error(data.test)
    seconds = time.perf_counter() - began
    result = {"config": config, "epochs": epochs, "seed": seed, "seconds": seconds, "train_loss": loss}
    result["test_error"] = error
    (out / f"winner-{epochs}-{seed}.json").write_text(json.dumps(result, indent=1))
    print(result, flush=True)


def best_config(out: Path) -> dict[str, Any]:
    """Return the configuration with the lowest validation error on the largest budget among all studies."""
    found = []
    for path in sorted(out.glob("*.db")):
        best = _history(path).incumbent
        if best is not None:
            found.append((-best.budget, best.loss, path.stem, best.config))
    budget, loss, name, config = min(found)
    print(f"winner: {name}, validation error {loss:.4f} on {-budget:g} epochs: {config}")
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tune", "train", "report"])
    parser.add_argument("--data", type=Path, default=Path(".cache/cifar10"))
    parser.add_argument("--out", type=Path, default=Path(".cache/cifar10-studies"))
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time; the next call goes on")
    parser.add_argument("--until", type=float, default=230, help="GPU seconds that each study gets")
    parser.add_argument("--turn", type=float, default=20, help="GPU seconds that a turn adds to each study")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budgets", type=float, nargs="+", default=[1, 3, 9])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args()
    if options.what == "report":
        report(JOURNALS, RESULTS)
        return
    torch.backends.cudnn.benchmark = True
    module = example()
    data = module.load(options.data, torch.device("cuda"))
    if options.what == "train":
        train(module, data, options.out, best_config(options.out), options.epochs, options.seeds[0])
        return
    objective = module.Objective(data, compiled=options.compiled)
    for exponent in (6, 7, 8, 9):  # capture the graphs before the clock starts
        began = time.perf_counter()
        trainer = objective.trainer(2**exponent)
        trainer.start(0)
        trainer.train(1, 0, 0.05, 0.9, 1e-4)
        trainer.error(data.validation)
        print(f"batch {2**exponent}: ready after {time.perf_counter() - began:.1f} s", flush=True)
    began = time.monotonic()
    turns = tune(objective, module.SPACE, options.out, options.seeds, options.budgets, options.turn, options.until)
    for _ in turns:
        if time.monotonic() + options.turn > began + options.seconds:
            break
    _say(options.out, time.monotonic() - began)


if __name__ == "__main__":
    main()
