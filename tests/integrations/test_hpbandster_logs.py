"""HpBandSter's logs: read as it wrote them, and written so that it reads them."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bohb import BOHB, History, Space, minimize
from bohb.integrations.hpbandster import InterchangeError, observations, read_hpbandster, write_hpbandster
from tests import objectives

# Written by HpBandSter 0.7.4: three brackets on budgets 1, 3, 9, with a crash and a NaN.
LOGS = Path(__file__).parent.parent / "cli" / "assets" / "hpbandster"
SPACE = Space({"x": (0.0, 1.0), "c": ["a", "b"]})
HPBANDSTER = Path(__file__).parent.parent / ".venvs" / "hpbandster" / "bin" / "python"


def logs(directory: Path, configs: list[Any], results: list[Any]) -> Path:
    for name, lines in (("configs.json", configs), ("results.json", results)):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (directory / name).write_text(text)
    return directory


CONFIG = [[0, 0, 0], {"x": 0.5, "c": "a"}, {"model_based_pick": True}]
TIMES = {"submitted": 1.0, "started": 2.0, "finished": 3.0}


def test_logs_of_a_real_run_are_read_with_its_crash_and_its_nan() -> None:
    runs = read_hpbandster(LOGS)
    assert len(runs) == 20
    assert {run.budget for run in runs} == {1.0, 3.0, 9.0}
    assert [run.id for run in runs if run.loss is None] == [(0, 0, 6), (2, 0, 2)]
    assert runs[0].config == {"c": "a", "x": 0.7203244934421581}


def test_runs_become_observations_that_a_model_learns_from() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    events = observations(read_hpbandster(LOGS), SPACE, study.history.budgets)
    study.history.extend(events)
    assert len(study.history.observed) == 20
    assert study.history.n_failures_known == 2
    assert {budget: len(d_b) for budget, d_b in study.history.observations.items()} == {1: 9, 3: 6, 9: 5}
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
    runs = read_hpbandster(logs(tmp_path, [CONFIG], [[[0, 0, 0], 1.0, TIMES, result, None]]))
    assert [run.loss for run in runs] == [loss]


def test_a_last_line_that_was_torn_is_left_out_and_a_repeated_run_counts_once(tmp_path: Path) -> None:
    first, second = [[0, 0, 0], 1.0, TIMES, {"loss": 1}, None], [[0, 0, 0], 1.0, TIMES, {"loss": 2}, None]
    runs = read_hpbandster(logs(tmp_path, [CONFIG], [first, second, "", '[[0, 0, 0], 3.0, {"subm']))
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
        read_hpbandster(logs(tmp_path, configs, results))


def test_a_missing_file_says_what_a_directory_should_hold(tmp_path: Path) -> None:
    with pytest.raises(InterchangeError, match=r"configs.json: no such file.* and results.json"):
        read_hpbandster(tmp_path)


def test_a_configuration_of_another_space_is_refused_by_line() -> None:
    with pytest.raises(InterchangeError, match=r"results.json:1: .*'c' is not a hyperparameter"):
        observations(read_hpbandster(LOGS), Space({"x": (0.0, 1.0)}), [1, 3, 9])


def test_budgets_that_differ_by_rounding_are_the_same(tmp_path: Path) -> None:
    runs = read_hpbandster(logs(tmp_path, [CONFIG], [[[0, 0, 0], 3.0000000001, TIMES, {"loss": 1}, None]]))
    assert [event.budget for event in observations(runs, SPACE, [1, 3, 9])] == [3]
    assert [event.budget for event in observations(runs, SPACE, [1, 4])] == [3.0000000001]


def a_study() -> History:
    return minimize(
        objectives.half_nan, objectives.SPACE, min_budget=1, max_budget=9, seed=1, max_trials=40, progress=False
    ).history


def test_what_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    history = a_study()
    configs, runs = write_hpbandster(history, tmp_path / "new")
    back = read_hpbandster(tmp_path / "new")
    assert (configs, runs) == (len({t.config_id for t in history.trials.values()}), 40)
    assert [(run.config, run.budget, run.loss) for run in back] == [
        (history.trials[n].config, history.trials[n].budget, outcome.loss) for n, outcome in history.outcomes.items()
    ]
    assert any(run.loss is None for run in back)
    first = {tuple(run.id): run for run in back}
    assert len(first) == configs
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
