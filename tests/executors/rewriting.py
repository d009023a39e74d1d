"""A study whose workers are killed while they write their state, on engines that may run a lost task again."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bohb
from tests.sizes import size

TRIALS = size(12, 40)
KILLS = size(3, 10)
FIRST = 2  # the first trial whose worker is killed; the others follow at equal distances


def victims() -> list[int]:
    return [FIRST + k * (TRIALS - FIRST) // KILLS for k in range(KILLS)]


def _objective(notes: Path) -> Callable[[Any], float]:
    """Return an objective that notes each start with what it found, and waits to be killed with half of its state."""
    where, doomed = str(notes), frozenset(victims())

    def objective(trial: Any) -> float:
        import json
        import os
        import time
        import uuid
        from pathlib import Path

        place = trial.checkpoint_dir or Path(where, f"none-{uuid.uuid4().hex}")
        place.mkdir(exist_ok=True)
        state = place / "state.json"
        found = state.read_text() if state.exists() else None
        with open(f"{where}/start-{uuid.uuid4().hex}", "w") as file:
            json.dump([trial.number, trial.attempt, trial.config_id, trial.previous_budget, found], file)
        if trial.number in doomed and trial.attempt == 1:
            state.write_text("half")
            with open(f"{where}/part", "w") as file:
                file.write(str(os.getpid()))
            os.rename(f"{where}/part", f"{where}/kill-{trial.number}-{uuid.uuid4().hex}")
            time.sleep(600)
        state.write_text(json.dumps([trial.config_id, trial.budget]))
        return float((trial.config["x"] - 0.3) ** 2 + 1 / trial.budget)

    return objective


def check_that_no_trial_starts_in_a_dirty_directory(
    where: Any, directory: Path, host_of: Callable[[int], int], **arguments: Any
) -> bohb.Study:
    """Run a study on an engine, kill the worker of each victim in the middle of writing, and check every start."""
    notes = directory / "notes"
    notes.mkdir()
    over = threading.Event()

    def kill() -> None:
        killed: set[str] = set()
        while not over.wait(0.05):
            for note in notes.glob("kill-*"):
                if note.name not in killed:
                    killed.add(note.name)
                    os.kill(host_of(int(note.read_text())), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        study = bohb.minimize(
            _objective(notes),
            {"x": (0.0, 1.0)},
            min_budget=1,
            max_budget=9,
            seed=3,
            executor=where,
            directory=directory / "files",
            max_trials=TRIALS,
            progress=False,
            **arguments,
        )
    finally:
        over.set()
        killer.join()
    assert [outcome.ok for outcome in study.history.outcomes.values()] == [True] * TRIALS
    starts = [json.loads(path.read_text()) for path in notes.glob("start-*")]
    twice = {key: n for key, n in Counter((number, attempt) for number, attempt, *_ in starts).items() if n > 1}
    assert twice == {}, "an attempt of a trial was started twice"
    for number, attempt, config_id, previous_budget, found in starts:
        kept = previous_budget is not None and arguments.get("checkpoints", True)
        expected = json.dumps([config_id, previous_budget]) if kept else None
        assert found == expected, f"attempt {attempt} of trial {number} found {found!r}, not {expected!r}"
    assert {number for number in victims() if (number, 1) in {(n, a) for n, a, *_ in starts}} == set(victims())
    assert all(study.history.trials[number].attempt > 1 for number in victims())
    return study
