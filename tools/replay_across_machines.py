"""Store studies with one kind of linear algebra and replay them with others: does another machine decide the same?

    python tools/replay_across_machines.py                # 50 studies, about ten minutes of CPU time
    python tools/replay_across_machines.py --studies 6    # a quick look

OpenBLAS chooses its kernels by OPENBLAS_CORETYPE, numpy its vector instructions by NPY_DISABLE_CPU_FEATURES. Each kind
runs in a process of its own. The objectives use plain Python arithmetic, so that they are equal everywhere.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STORED_WITH = "SkylakeX"
CORES = ("Prescott", "Haswell", "SkylakeX", "Zen")
PLAIN = "no vector instructions"


def kinds() -> dict[str, dict[str, str]]:
    """The environment variables of every kind."""
    import numpy as np

    features = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
    return {name: {"OPENBLAS_CORETYPE": name} for name in CORES} | {PLAIN: {"NPY_DISABLE_CPU_FEATURES": features}}


def spaces() -> list[Any]:
    """Three spaces of five hyperparameters: mixed, conditional, and floats alone."""
    import ConfigSpace as CS  # noqa: N817 - the field's abbreviation

    conditional = CS.ConfigurationSpace(
        {"kind": ["svm", "forest", "net"], "c": (1e-3, 1e3), "depth": (1, 12), "width": (0.0, 1.0), "drop": (0.0, 0.9)}
    )
    for child, parent in {"c": "svm", "depth": "forest", "width": "net", "drop": "net"}.items():
        conditional.add(CS.EqualsCondition(conditional[child], conditional["kind"], parent))
    mixed = {"lr": (1e-5, 1e-1, "log"), "momentum": (0.0, 1.0), "units": (8, 512, "log"), "depth": (1, 6)}
    floats = dict.fromkeys("abcd", (0.0, 1.0)) | {"decay": (1e-6, 1e-2, "log")}
    return [{**mixed, "optimiser": ["sgd", "adam", "rmsprop"]}, conditional, floats]


def loss(space: Any, config: dict[str, Any], budget: float, seed: int) -> float:
    """A bowl on the unit scale with a little noise; one configuration in twenty fails."""
    parts = [(i + 1) * (float(u) - 0.3) ** 2 for i, u in enumerate(space.encode(config)) if u == u]
    noise = ((seed * 2654435761) % 1000) / 1000
    return math.nan if seed % 20 == 7 else sum(parts) + (0.3 + 0.2 * noise) / budget


def make(directory: Path, studies: int) -> None:
    """Store the studies: half with the default settings, half with BEST; every fourth has four workers."""
    import bohb
    from bohb.journal import MemoryJournal, export_jsonl

    for index in range(studies):
        journal = MemoryJournal()
        study = bohb.BOHB(
            spaces()[index // 2 % 3],
            min_budget=1,
            max_budget=27,
            seed=index,
            preset="best" if index % 2 else "paper",
            journal=journal,
        )
        running: list[bohb.Trial] = []
        while len(study.history.outcomes) < 120 + 20 * (index % 5):
            running += study.ask_many((4 if index % 4 > 1 else 1) - len(running))
            trial = running.pop(0)
            study.tell(trial, loss(study.history.space, trial.config, trial.budget, trial.seed))
        export_jsonl(journal, directory / f"study-{index}.jsonl")


def replay_all(directory: Path) -> dict[str, int]:
    """Count the decisions that are exact, equal within the tolerance of `bohb.replay`, and different."""
    import bohb
    from bohb.journal import import_jsonl

    counts = {"studies": 0, "exact": 0, "within tolerance": 0, "different": 0, "studies that differ": 0}
    for path in sorted(directory.glob("*.jsonl")):
        found = bohb.replay(import_jsonl(path).events)
        counts["studies"] += 1
        counts["exact"] += found.exact
        counts["within tolerance"] += found.within_tolerance
        counts["different"] += found.different
        counts["studies that differ"] += found.different > 0
        for difference in found.differences:
            print(f"{path.name}: {difference}", file=sys.stderr)
    return counts


def core_of(environment: dict[str, str]) -> str:
    """The kernels that OpenBLAS says it uses."""
    command = [sys.executable, "-c", "import numpy"]
    verbose = os.environ | environment | {"OPENBLAS_VERBOSE": "2"}
    said = subprocess.run(command, env=verbose, capture_output=True, text=True, check=True)
    return (said.stdout + said.stderr).strip().removeprefix("Core: ") or "unknown"


def child(kind: str, *arguments: str) -> str:
    """Run this script in the environment of a kind, and return what it prints."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | kinds()[kind]
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=50)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make is not None:
        make(args.make, args.studies)
    elif args.replay is not None:
        print(json.dumps(replay_all(args.replay)))
    else:
        with tempfile.TemporaryDirectory() as directory:
            child(STORED_WITH, "--studies", str(args.studies), "--make", directory)
            compare(directory)


def compare(directory: str) -> None:
    """Replay the stored studies with every kind, and print a table."""
    print("| replayed with | kernels | studies | exact | within tolerance | different | studies that differ |")
    print("|---|---|---|---|---|---|---|")
    for kind, environment in kinds().items():
        counts = json.loads(child(kind, "--replay", directory))
        print("|", " | ".join([kind, core_of(environment), *map(str, counts.values())]), "|", flush=True)


if __name__ == "__main__":
    main()
