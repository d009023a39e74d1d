"""The study of the soak, and one runner of it: `python -m tests.faults.soak.study URL WORKERS MAX_TRIALS`.

The objective mostly sleeps. It continues from its checkpoint and checks it, writes a line before and after each
evaluation into a log of its own, and obeys orders to misbehave: the first trial that finds one takes it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bohb import Trial, minimize

PLACE = "BOHB_SOAK"  # the environment variable with the directory of the soak
SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
LEASE = 10.0
TRIAL_SECONDS = 60.0
TRIAL_MEMORY = 400 * 2**20
ORDERS = {"hang": "timeout", "segfault": "crashed", "hog": "memory"}  # and the status that each leads to


def objective(trial: Trial) -> dict[str, Any]:
    place = Path(os.environ[PLACE])
    note(place, "begin", trial)
    for order in ORDERS:
        if _take(place / "orders" / order):
            note(place, order, trial)
            _obey(order)
    if (problem := _problem_of_checkpoint(trial)) is not None:
        note(place, problem, trial)
    time.sleep(1 + trial.budget / 2)
    _write_patiently(trial)
    noise = np.random.default_rng([trial.seed, int(trial.budget)]).normal() / (10 * trial.budget)
    loss = float((trial.config["x"] - 0.3) ** 2 + (trial.config["y"] - 0.7) ** 2 + noise)
    note(place, "end", trial, loss)
    return {"loss": loss, "info": {"attempt": trial.attempt}}


def note(place: Path, what: str, trial: Trial, loss: float | None = None) -> None:
    """Append a line to the log of evaluations, in one write, so that lines of several processes do not mix."""
    line = json.dumps([what, trial.number, trial.attempt, loss, time.time()]) + "\n"
    descriptor = os.open(place / "evaluations", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def _take(order: Path) -> bool:
    try:
        order.unlink()
    except FileNotFoundError:
        return False
    return True


def _obey(order: str) -> None:
    match order:
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen(["sleep", "10000"], start_new_session=True)
            time.sleep(10_000)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hog":
            kept = []
            while True:
                kept.append(b"x" * (16 * 2**20))
                time.sleep(0.05)


def _problem_of_checkpoint(trial: Trial) -> str | None:
    """Say what is wrong with the checkpoint; None if it is as promised."""
    assert trial.checkpoint_dir is not None
    if trial.previous_budget is None:
        if any(trial.checkpoint_dir.iterdir()):
            return "dirty"
        return None if trial.from_trial is None else "afresh"
    try:
        state = json.loads((trial.checkpoint_dir / "state.json").read_text())
    except (OSError, ValueError):
        return "torn"
    right = [trial.config_id, trial.seed, trial.previous_budget, zlib.crc32(state["weights"].encode())]
    return None if state["of"] == right else "wrong"


def _write_patiently(trial: Trial) -> None:
    """Write the checkpoint; wait while the disk is full."""
    assert trial.checkpoint_dir is not None
    weights = np.random.default_rng([trial.seed, int(trial.budget)]).bytes(10_000).hex()
    state = {"of": [trial.config_id, trial.seed, trial.budget, zlib.crc32(weights.encode())], "weights": weights}
    while True:
        try:
            (trial.checkpoint_dir / "state.json").write_text(json.dumps(state))
            return
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            time.sleep(0.2)


def proportional_kib(pid: int | str = "self") -> int:
    """Return the memory of a process in KiB, with its share of what it shares (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def main(url: str, workers: int, max_trials: int) -> None:
    logging.basicConfig(format="%(asctime)s %(message)s")
    study = minimize(
        objective,
        SPACE,
        min_budget=1,
        max_budget=9,
        seed=0,
        journal=url,
        directory=Path(os.environ[PLACE]) / "files",
        workers=workers,
        max_trials=max_trials,
        max_initial_failures=None,
        trial_seconds=TRIAL_SECONDS,
        trial_memory=TRIAL_MEMORY,
        lease_seconds=LEASE,
        progress=False,
    )
    sys.stdout.write(json.dumps({"stopped": study.stopped, "kib": proportional_kib()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
