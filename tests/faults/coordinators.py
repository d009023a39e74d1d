"""Runs a study again and again in child processes and kills each with SIGKILL, until one comes to its end.

The children are forked from this process, which has everything imported, so that a kill costs milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

from bohb import minimize
from tests.objectives import SPACE, logged


def study(journal: str, trials: int, workers: int | None) -> None:
    """The study that is killed."""
    minimize(
        logged,
        SPACE,
        min_budget=1,
        max_budget=9,
        seed=11,
        journal=journal,
        workers=workers,
        max_trials=trials,
        progress=False,
    )


def main(journal: str, trials: int, workers: int | None, seed: int, shortest: float, longest: float, most: int) -> int:
    """The number of kills it took."""
    rng = random.Random(seed)
    kills = 0
    while True:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                study(journal, trials, workers)
                status = 0
            finally:
                os._exit(status)
        deadline = time.monotonic() + rng.uniform(shortest, longest)
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                if status != 0:
                    raise SystemExit(f"the study itself failed with status {status}")
                return kills
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        if kills >= most:  # let it finish
            shortest = longest = 60.0


if __name__ == "__main__":
    path, trials, workers, seed, shortest, longest, most = sys.argv[1:]
    n = main(path, int(trials), int(workers) or None, int(seed), float(shortest), float(longest), int(most))
    sys.stdout.write(json.dumps(n))
