"""Workers written for HpBandSter run as they are; its logs are read, and written so that it can read them."""

from __future__ import annotations

import json
import math
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
from bohb.integrations.hpbandster import (
    InterchangeError,
    objective_of,
    read_hpbandster,
    read_logs,
    write_hpbandster,
)
from tests import objectives

ROOT = Path(__file__).parent.parent.parent
# Written by HpBandSter 0.7.4: three brackets on budgets 1, 3, 9, with a crash and a NaN.
LOGS = ROOT / "tests" / "cli" / "assets" / "hpbandster"
HPBANDSTER = ROOT / ".venvs" / "hpbandster" / "bin" / "python"
SPACE = {"x": (0.0, 1.0), "c": ["a", "b"]}
COMPILED = Space(SPACE)


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
    history = read_logs(LOGS, COMPILED)
    study = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=0, warm_start=history, random_fraction=0)
    assert len(study.history.observed) == 20
    assert study.history.evidence.n_failures == 2
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


def logs(directory: Path, configs: list[Any], results: list[Any]) -> Path:
    for name, lines in (("configs.json", configs), ("results.json", results)):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (directory / name).write_text(text)
    return directory


CONFIG = [[0, 0, 0], {"x": 0.5, "c": "a"}, {"model_based_pick": True}]
TIMES = {"submitted": 1.0, "started": 2.0, "finished": 3.0}


def test_logs_of_a_real_run_are_read_with_its_crash_and_its_nan() -> None:
    runs = read_hpbandster(LOGS, COMPILED)
    assert [run.index for run in runs] == list(range(20))
    assert {run.budget for run in runs} == {1.0, 3.0, 9.0}
    assert [run.source for run in runs if run.loss is None] == ["HpBandSter [0, 0, 6]", "HpBandSter [2, 0, 2]"]
    assert runs[0].config == {"c": "a", "x": 0.7203244934421581}


def test_runs_become_observations_that_a_model_learns_from() -> None:
    study = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    events = read_hpbandster(LOGS, COMPILED, study.history.budgets)
    study.history.extend(events)
    assert len(study.history.observed) == 20
    assert study.history.evidence.n_failures == 2
    assert {budget: len(d_b) for budget, d_b in study.history.evidence.observations.items()} == {1: 9, 3: 6, 9: 5}
    assert study.model() is not None


@pytest.mark.parametrize(
    ("result", "loss"),
    [
        ({"loss": 0.5, "info": {}}, 0.5),
        ({"loss": 0.5}, 0.5),
        ({"loss": None, "info": None}, None),
        ({"info": {}}, None),
        (None, None),
        (math.nan, None),
        ({"loss": -math.inf}, None),
        ({"loss": "0.5"}, None),
        ({"loss": 3}, 3.0),
    ],
)
def test_whatever_a_result_looks_like_it_has_a_loss_or_failed(tmp_path: Path, result: Any, loss: float | None) -> None:
    runs = read_hpbandster(logs(tmp_path, [CONFIG], [[[0, 0, 0], 1.0, TIMES, result, None]]), COMPILED)
    assert [run.loss for run in runs] == [loss]


def test_a_last_line_that_was_torn_is_left_out_and_a_repeated_run_counts_once(tmp_path: Path) -> None:
    first, second = [[0, 0, 0], 1.0, TIMES, {"loss": 1}, None], [[0, 0, 0], 1.0, TIMES, {"loss": 2}, None]
    runs = read_hpbandster(logs(tmp_path, [CONFIG], [first, second, "", '[[0, 0, 0], 3.0, {"subm']), COMPILED)
    assert [run.loss for run in runs] == [2]


@pytest.mark.parametrize(
    ("configs", "results", "message"),
    [
        (["{}"], [], r"configs.json:1: a line must be a list"),
        ([[[0, 0], {}, {}]], [], r"configs.json:1: \[0, 0\] must be the id of a configuration"),
        ([CONFIG], ["nonsense", "[]"], r"results.json:1: not JSON"),
        ([CONFIG], [[[0, 0, 0], "1.0", TIMES, None]], r"results.json:1: a line must be"),
        ([CONFIG], [[[0, 0, 9], 1.0, TIMES, None]], r"results.json:1: the configuration \[0, 0, 9\] is not in"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(
    tmp_path: Path, configs: list[Any], results: list[Any], message: str
) -> None:
    with pytest.raises(InterchangeError, match=message):
        read_hpbandster(logs(tmp_path, configs, results), COMPILED)


def test_a_missing_file_says_what_a_directory_should_hold(tmp_path: Path) -> None:
    with pytest.raises(InterchangeError, match=r"configs.json: no such file.* and results.json"):
        read_hpbandster(tmp_path, COMPILED)


def test_a_configuration_of_another_space_is_refused_by_line() -> None:
    with pytest.raises(InterchangeError, match=r"results.json:1: .*'c' is not a hyperparameter"):
        read_hpbandster(LOGS, Space({"x": (0.0, 1.0)}))


def test_budgets_that_differ_by_rounding_are_the_same(tmp_path: Path) -> None:
    directory = logs(tmp_path, [CONFIG], [[[0, 0, 0], 3.0000000001, TIMES, {"loss": 1}, None]])
    for budgets, expected in (([1, 3, 9], 3), ([1, 4], 3.0000000001)):
        assert [run.budget for run in read_hpbandster(directory, COMPILED, budgets)] == [expected]


def a_study() -> bohb.History:
    return bohb.minimize(
        objectives.half_nan, objectives.SPACE, min_budget=1, max_budget=9, seed=1, max_trials=40, progress=False
    ).history


def test_what_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    history = a_study()
    configs, runs = write_hpbandster(history, tmp_path / "new")
    back = read_hpbandster(tmp_path / "new", history.space)
    assert (configs, runs) == (len({t.config_id for t in history.trials.values()}), 40)
    assert [(run.config, run.budget, run.loss) for run in back] == [
        (history.trials[n].config, history.trials[n].budget, outcome.loss) for n, outcome in history.outcomes.items()
    ]
    assert any(run.loss is None for run in back)
    assert len({run.source for run in back}) == configs
    assert "NaN" not in (tmp_path / "new" / "results.json").read_text()


@pytest.mark.skipif(not HPBANDSTER.exists(), reason="make hpbandster-env installs HpBandSter")
def test_hpbandster_itself_reads_what_is_written(tmp_path: Path) -> None:
    history = a_study()
    write_hpbandster(history, tmp_path)
    script = (
        "import sys, json, hpbandster.core.result as r\n"
        "result = r.logged_results_to_HBS_result(sys.argv[1])\n"
        "runs = result.get_all_runs()\n"
        "best = result.get_runs_by_id(result.get_incumbent_id())[-1]\n"
        "print(json.dumps([len(runs), best.loss, len(result.get_id2config_mapping())]))"
    )
    told = subprocess.run(
        [HPBANDSTER, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120, check=True
    )
    n_runs, loss, n_configs = json.loads(told.stdout)
    assert history.incumbent is not None
    assert (n_runs, loss) == (40, history.incumbent.loss)
    assert n_configs == len({trial.config_id for trial in history.trials.values()})
