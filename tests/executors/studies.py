"""A study on an engine, during which one worker is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bohb
from bohb.core.trial import Origin
from bohb.testing.executors import noted

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
TRIALS = 14
VICTIM = 4


def objective_of(note: Path) -> Callable[[Any], float]:
    """Return an objective that, in the first attempt of trial VICTIM, waits to be killed."""
    where = str(note)

    def objective(trial: Any) -> float:
        import os
        import time

        state = trial.checkpoint_dir / "state"
        assert not state.exists() or trial.previous_budget is not None, "the files of a killed attempt must be removed"
        state.write_text(str(trial.budget))
        if trial.number == VICTIM and trial.attempt == 1:
            with open(where + ".part", "w") as file:
                file.write(str(os.getpid()))
            os.rename(where + ".part", where)
            time.sleep(600)
        return float((trial.config["x"] - 0.3) ** 2 + trial.config["y"] / trial.budget)

    return objective


def run_study(where: Any, directory: Path, trials: int = TRIALS, **arguments: Any) -> bohb.Study:
    """Run the study, or continue it."""
    return bohb.minimize(
        objective_of(directory / "note"),
        SPACE,
        min_budget=1,
        max_budget=9,
        seed=3,
        executor=where,
        journal=directory / "study.db",
        max_trials=trials,
        progress=False,
        **arguments,
    )


def kill_in_the_middle(directory: Path, host_of: Callable[[int], int]) -> threading.Thread:
    """Kill the worker of trial VICTIM as soon as it runs."""
    thread = threading.Thread(target=lambda: os.kill(host_of(noted(directory / "note")), signal.SIGKILL))
    thread.start()
    return thread


def assert_whole(study: bohb.Study, trials: int = TRIALS) -> None:
    """Assert that every trial ended once, and that the first decisions are those of a serial run."""
    history = study.history
    assert sorted(history.outcomes) == list(range(trials))
    assert all(outcome.ok for outcome in history.outcomes.values())
    assert history.losses.get(VICTIM) == 1
    assert history.trials[VICTIM].attempt >= 2
    serial = bohb.minimize(
        lambda trial: (trial.config["x"] - 0.3) ** 2 + trial.config["y"] / trial.budget,
        SPACE,
        min_budget=1,
        max_budget=9,
        seed=3,
        max_trials=trials,
        progress=False,
    ).history
    alike = [n for n, trial in serial.trials.items() if trial.origin is Origin.RANDOM and trial.rung == 0][:5]
    for number in alike:  # decided by seed and number alone
        assert history.trials[number].config == serial.trials[number].config
        assert history.outcomes[number].loss == serial.outcomes[number].loss
