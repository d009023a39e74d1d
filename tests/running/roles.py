"""What the runners of the tests do, each in a process of its own: `python -m tests.running.roles URL DIRECTORY …`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bohb import Trial, minimize

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
LEASE = 1.5


def quadratic(trial: Trial) -> float:
    """A loss at once; nothing to wait for."""
    return float((trial.config["x"] - 0.3) ** 2 + (trial.config["y"] - 0.7) ** 2 + 1 / trial.budget)


def first_waits(trial: Trial) -> dict[str, Any]:
    """The first attempt of trial 0 says that it runs and waits for a file; all others end at once."""
    directory = Path(os.environ["BOHB_TEST_DIRECTORY"])
    if trial.number == 0 and trial.attempt == 1:
        (directory / "running").touch()
        while not (directory / "go").exists():
            time.sleep(0.02)
    return {"loss": quadratic(trial), "info": {"attempt": trial.attempt}}


def gated(trial: Trial) -> float:
    """Leave a trace of every call and wait for a file."""
    directory = Path(os.environ["BOHB_TEST_DIRECTORY"])
    (directory / f"{trial.number}-{trial.attempt}-{os.getpid()}").touch()
    while not (directory / "go").exists():
        time.sleep(0.02)
    return quadratic(trial)


def slow(trial: Trial) -> float:
    """Take so long that a runner is most of the time waiting for its trials."""
    time.sleep(0.3)
    return quadratic(trial)


def counted(trial: Trial) -> float:
    """Leave a trace of every call, and take a moment."""
    directory = Path(os.environ["BOHB_TEST_DIRECTORY"])
    (directory / f"{trial.number}-{trial.attempt}-{os.getpid()}").touch()
    time.sleep(0.02)
    return quadratic(trial)


def held(trial: Trial) -> float:
    """Leave a trace of every call and wait for a file; the first attempt of trial 0 never ends."""
    directory = Path(os.environ["BOHB_TEST_DIRECTORY"])
    (directory / f"{trial.number}-{trial.attempt}-{os.getpid()}").touch()
    while (trial.number, trial.attempt) == (0, 1) or not (directory / "go").exists():
        time.sleep(0.02)
    return quadratic(trial)


def suspended_once(_rng: object, _situation: object) -> None:
    """A sampler that suspends the first runner in the middle of its turn, and proposes nothing."""
    marker = Path(os.environ["BOHB_TEST_DIRECTORY"]) / "suspended"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    """Run one runner with the keywords given as JSON."""
    objective, url, keywords = sys.argv[1:]
    defaults = {"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False, "lease_seconds": LEASE}
    options = {**defaults, **json.loads(keywords)}
    if "sampler" in options:
        options["sampler"] = globals()[options["sampler"]]
    study = minimize(globals()[objective], SPACE, journal=url, **options)
    sys.stdout.write(study.stopped + "\n")


def start(objective: str, url: str, directory: Path, **keywords: Any) -> subprocess.Popen[str]:
    """Start a runner."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.running.roles", objective, url, json.dumps(keywords)],
        env={**os.environ, "BOHB_TEST_DIRECTORY": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    main()
