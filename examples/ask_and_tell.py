"""Ask and tell: a loop of one's own around BOHB, here with three threads.

python examples/ask_and_tell.py [seed]
"""

from __future__ import annotations

import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import bohb

SPACE = {"x": (-5.0, 10.0), "y": (0.0, 15.0), "shape": ["round", "flat"]}


def measure(trial: bohb.Trial) -> float:
    x, y = trial.config["x"], trial.config["y"]
    if x > 9.5:
        raise ValueError("nothing to measure here")
    return float((x - 3) ** 2 + (y - 2) ** 2 + (trial.config["shape"] == "flat") + 1 / trial.budget)


def main(seed: int = 0, trials: int = 100) -> bohb.BOHB:
    study = bohb.BOHB(SPACE, min_budget=1, max_budget=27, seed=seed)
    print(study.plan())
    running: dict[Future[float], bohb.Trial] = {}
    with ThreadPoolExecutor(3) as pool:
        while len(study.history.outcomes) < trials:
            running |= {pool.submit(measure, trial): trial for trial in study.ask_many(3 - len(running))}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                study.tell(running.pop(future), future.exception() or future.result())
    assert study.incumbent is not None
    print(f"loss {study.incumbent.loss:.4f} on budget {study.incumbent.budget:g}: {study.incumbent.config}")
    return study


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
