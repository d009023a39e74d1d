"""Run a study repeatedly in child processes and kill each with SIGKILL, until one finishes.

The children are forked from this process, which has imported everything, so that a kill costs milliseconds. A child is
killed after a random number of trials has begun, plus up to a millisecond, so the speed of the machine does not matter.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from bohb import minimize
from tests.objectives import SPACE, logged, quadratic


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


def begun(calls: Path) -> int:
    """Return the number of trials that have begun, in all processes so far."""
    return calls.read_bytes().count(b"\n") if calls.exists() else 0


def main(journal: str, trials: int, workers: int | None, seed: int, fewest: int, most: int, kills_at_most: int) -> int:
    """Return the number of kills; each comes after between `fewest` and `most` more trials have begun."""
    # the first study imports everything
    minimize(quadratic, SPACE, budgets=[1], journal=f"{journal}.first", max_trials=20, progress=False)
    rng = random.Random(seed)
    calls = Path(os.environ["BOHB_CALLS"])
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
        let_live = kills >= kills_at_most
        enough = begun(calls) + rng.randint(fewest, most)
        while let_live or begun(calls) < enough:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                if status != 0:
                    raise SystemExit(f"the study itself failed with status {status}")
                return kills
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.001))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1


if __name__ == "__main__":
    path, trials, workers, *rest = sys.argv[1:]
    n = main(path, int(trials), int(workers) or None, *map(int, rest))
    sys.stdout.write(json.dumps(n))
