"""Workers written for HpBandSter run as they are, and its logs are a warm start."""

from __future__ import annotations

import os
import runpy
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import Space
from bohb.errors import InvalidArgument
from bohb.integrations.hpbandster import objective_of, read_logs

ROOT = Path(__file__).parent.parent.parent
LOGS = ROOT / "tests" / "cli" / "assets" / "hpbandster"
HPBANDSTER = ROOT / ".venvs" / "hpbandster" / "bin" / "python"
SPACE = {"x": (0.0, 1.0), "c": ["a", "b"]}


class Worker:
    """The shape of hpbandster.core.worker.Worker, with the lock that keeps it from being pickled."""

    def __init__(self, run_id: str, nameserver: str | None = None) -> None:
        self.run_id, self.nameserver = run_id, nameserver
        self.thread, self.timer = None, None
        self.thread_cond = threading.Condition(threading.Lock())


class Squares(Worker):
    """A worker as its users write them: it continues where the smaller budget stopped."""

    def __init__(self, target: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target = target

    def compute(self, config_id: Any, config: Any, budget: float, working_directory: str, **kwargs: Any) -> Any:
        file = Path(working_directory) / "reached.txt"
        before = float(file.read_text()) if file.exists() else 0.0
        file.write_text(str(budget))
        loss = (config["x"] - self.target) ** 2 + 1 / budget
        return {"loss": loss, "info": {"id": list(config_id), "before": before, "pid": os.getpid()}}


def minimise(objective: Any, **keywords: Any) -> bohb.Study:
    return bohb.minimize(objective, SPACE, min_budget=1, max_budget=9, seed=1, max_brackets=1, **keywords)


def ended(study: bohb.Study) -> list[tuple[bohb.Trial, bohb.Outcome]]:
    return [(study.history.trials[number], outcome) for number, outcome in study.history.outcomes.items()]


@pytest.mark.parametrize("workers", [None, 2])
def test_a_worker_runs_unchanged_and_finds_what_it_left_on_the_smaller_budget(workers: int | None) -> None:
    study = minimise(objective_of(Squares(0.3, run_id="x", nameserver="127.0.0.1")), workers=workers)
    assert len(study.trials) == 13
    assert study.failures == []
    ids = set()
    for trial, outcome in ended(study):
        assert outcome.info["before"] == (trial.previous_budget or 0.0)
        assert outcome.info["id"] == [trial.bracket, 0, trial.config_id]
        assert (outcome.info["pid"] == os.getpid()) == (workers is None)
        ids.add(tuple(outcome.info["id"]))
    assert len(ids) == 9


def test_a_function_that_makes_the_worker_is_called_once_per_process() -> None:
    made = []

    def make() -> Squares:
        made.append(1)
        return Squares(0.3, run_id="x")

    minimise(objective_of(make))
    assert len(made) == 1
    pids = {outcome.info["pid"] for _, outcome in ended(minimise(objective_of(make), workers=1))}
    assert len(pids) == 1


def test_one_working_directory_for_all_is_possible(tmp_path: Path) -> None:
    minimise(objective_of(Squares(0.3, run_id="x"), working_directory=tmp_path))
    assert (tmp_path / "reached.txt").exists()


def test_a_worker_without_checkpoints_gets_the_current_directory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    objective_of(Squares(0.3, run_id="x"))(bohb.BOHB(SPACE, budgets=[1]).ask())
    assert (tmp_path / "reached.txt").exists()


def test_what_hpbandster_would_wait_for_for_ever_is_a_failed_trial_here() -> None:
    class Careless:
        def compute(self, config_id: Any, config: Any, budget: float, working_directory: str) -> Any:
            return {"info": {}} if config["c"] == "a" else {"loss": budget, "info": None}

    study = minimise(objective_of(Careless()))
    assert {outcome.status.value for _, outcome in ended(study)} == {"ok", "bad_result"}


@pytest.mark.parametrize(("worker", "message"), [(Squares, "is a class; give an instance"), (3, "must have a method")])
def test_what_is_no_worker_is_refused(worker: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        objective_of(worker)


def test_logs_are_a_warm_start() -> None:
    history = read_logs(LOGS, Space(SPACE))
    study = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=0, warm_start=history, random_fraction=0)
    assert len(study.history.observed) == 20
    assert study.history.n_failures_known == 2
    assert study.ask().origin == "model"


@pytest.mark.skipif(not HPBANDSTER.exists(), reason="needs make hpbandster-env: HpBandSter runs with numpy 1 only")
def test_a_subclass_of_the_real_worker_runs_unchanged_here_and_after_pickling() -> None:
    script = """
import pickle
from hpbandster.core.worker import Worker
from bohb.core.trial import Origin, Trial
from bohb.integrations.hpbandster import objective_of
class Mine(Worker):
    def __init__(self, *args, sleep_interval=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.sleep_interval = sleep_interval
    def compute(self, config, budget, **kwargs):
        return {"loss": config["x"] * budget, "info": [kwargs["config_id"], kwargs["working_directory"]]}
objective = objective_of(Mine(sleep_interval=0, nameserver="127.0.0.1", run_id="example1"))
trial = Trial(5, {"x": 0.5}, 3.0, 2, 1, 1, 0, Origin.PROMOTED)
print(objective(trial) == pickle.loads(pickle.dumps(objective))(trial) == {"loss": 1.5, "info": [(1, 0, 2), "."]})
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run([HPBANDSTER, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert ran.stdout == "True\n", ran.stderr


def test_the_example_continues_its_trainings(capsys: Any) -> None:
    runpy.run_path(str(ROOT / "examples" / "hpbandster_worker.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith("20 of 69 trials continued")
