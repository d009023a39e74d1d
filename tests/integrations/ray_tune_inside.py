"""Ray Tune on a real cluster; `test_ray_tune.py` runs this file with loopback as the only network."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune.experiment import Trial

from bohb.errors import InvalidArgument, InvalidSpace
from bohb.integrations.foreign import Ladder, Results
from bohb.integrations.ray_tune import BOHBScheduler, BOHBSearch, TuneSpace

pytestmark = pytest.mark.filterwarnings("default")  # warnings of Ray itself
RNG = np.random.default_rng(0)
NO_CONTROLLER: Any = None  # the scheduler does not use it
SPACE = {"x": tune.uniform(0.0, 1.0), "layer": {"units": tune.qrandint(8, 64, 8)}, "kind": tune.choice(["a", None])}


def train(config: dict[str, Any]) -> None:
    if config["x"] > 0.9:
        raise ArithmeticError
    score = -((config["x"] - 0.3) ** 2) - abs(config["layer"]["units"] - 32) / 100
    for epoch in range(1, 10):
        tune.report({"score": score - 1 / epoch})


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    if not ray.is_initialized():
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_tuner_stops_most_trials_early_and_goes_on_after_a_restore(tmp_path: Path, cluster: None) -> None:
    tuner = tune.Tuner(
        train,
        param_space={**SPACE, "constant": 7},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            num_samples=8,
            max_concurrent_trials=1,
            search_alg=BOHBSearch(seed=0, points_to_evaluate=[{"x": 0.95, "layer": {"units": 16}, "kind": None}]),
            scheduler=BOHBScheduler(max_t=9),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="study", storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert len(results) == 8
    assert results.num_errors >= 1  # the given point fails
    ended = [results[i] for i in range(len(results))]
    lengths = [result.metrics["training_iteration"] for result in ended if result.metrics and not result.error]
    assert set(lengths) <= {1, 3, 9}
    assert min(lengths) < 9
    best = results.get_best_result()
    assert best.config is not None
    assert best.config["constant"] == 7
    assert best.config["layer"]["units"] % 8 == 0
    state = sorted((tmp_path / "study").glob("searcher-state-*.pkl"))
    restored = BOHBSearch({**SPACE}, metric="score", mode="max")
    restored.restore(str(state[-1]))
    assert restored.results is not None
    assert len({trial for trial, _, _ in restored.results.losses}) == 8
    assert restored.suggest("next") is not None


def test_another_scheduler_is_refused() -> None:
    search = BOHBSearch(SPACE, metric="score", mode="max", seed=0)
    assert search.suggest("first") is not None
    with pytest.raises(InvalidArgument, match=r"use scheduler=BOHBScheduler"):
        search.on_trial_result("first", {"score": 1.0})


def test_trials_of_a_restored_tuner_keep_their_fate_unless_they_failed(tmp_path: Path) -> None:
    search, scheduler = BOHBSearch(SPACE, metric="score", mode="max", seed=0), BOHBScheduler(max_t=9)
    scheduler.set_search_properties("score", "max")
    trials = [Trial("train", trial_id=name, stub=True) for name in ("good", "bad", "fails")]

    def report(trial: Trial, score: float, iteration: int = 1) -> str:
        return scheduler.on_trial_result(NO_CONTROLLER, trial, {"score": score, "training_iteration": iteration})

    for trial in trials:
        search.suggest(trial.trial_id)
        search.on_trial_add(trial, scheduler._results)
    assert [report(trials[0], 2.0), report(trials[1], 1.0)] == ["CONTINUE", "STOP"]
    search.on_trial_complete("fails", error=True)
    search.save(str(tmp_path / "state"))

    search, scheduler = BOHBSearch(SPACE, metric="score", mode="max"), BOHBScheduler(max_t=9)
    scheduler.set_search_properties("score", "max")
    search.restore(str(tmp_path / "state"))
    for trial in trials:  # all of them run again, since none had ended when the state was saved
        search.on_trial_add(trial, scheduler._results)
    again = Trial("train", trial_id="again", evaluated_params={"x": 0.5, "layer/units": 16, "kind": "a"}, stub=True)
    search.on_trial_add(again, scheduler._results)
    assert search.results is not None
    scheduler._results = search.results
    assert [name for name, _, _ in search.results.losses] == ["good", "bad"]
    assert search._running == {"good", "bad", "fails", "again"}
    assert [report(trial, 3.0) for trial in trials] == ["CONTINUE", "STOP", "CONTINUE"]
    assert search.suggest("next") is not None


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: b"", lambda content: content[::-1]])
def test_a_damaged_state_is_refused_and_changes_nothing(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "state"
    for saved in (BOHBSearch(SPACE, metric="score", mode="max"), BOHBScheduler(max_t=9)):
        saved.save(str(file))
        file.write_bytes(damage(file.read_bytes()))
        before = dict(vars(saved))
        with pytest.raises(InvalidArgument, match="state is damaged"):
            saved.restore(str(file))
        assert vars(saved) == before


def test_a_state_of_another_format_or_space_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    search = BOHBSearch(SPACE, metric="score", mode="max", seed=0)
    search.suggest("first")
    search.save(str(tmp_path / "state"))
    other = BOHBSearch({"y": tune.uniform(0.0, 1.0)}, metric="score", mode="max", seed=1)
    before = dict(vars(other))
    with pytest.raises(InvalidArgument, match="another space"):
        other.restore(str(tmp_path / "state"))
    later = (tmp_path / "state").read_text().replace('"bohb": 1', '"bohb": 2', 1)
    (tmp_path / "state").write_text(later)
    with pytest.raises(InvalidArgument, match="has the format 2, not 1"):
        other.restore(str(tmp_path / "state"))
    assert vars(other) == before


def test_a_restored_search_suggests_what_the_saved_one_would(tmp_path: Path) -> None:
    points = [{"x": x, "layer": {"units": 16}, "kind": "a"} for x in (0.1, 0.2, 0.3)]
    search = BOHBSearch(SPACE, metric="score", mode="max", seed=0, points_to_evaluate=points)
    search.suggest("first")
    search.results = Results(Ladder.of(1, 9, 3))
    search.results.fail("first")
    search.save(str(tmp_path / "state"))
    restored = BOHBSearch(SPACE, metric="score", mode="max", seed=7, points_to_evaluate=points)
    restored.restore(str(tmp_path / "state"))
    names = ("second", "third", "fourth")
    assert [restored.suggest(name) for name in names] == [search.suggest(name) for name in names]
    assert restored.results is not None
    assert restored.results.losses == search.results.losses == [("first", 0, np.inf)]


def test_the_domains_of_tune_become_hyperparameters_and_keep_their_grids() -> None:
    domains = {
        "a": tune.loguniform(1e-4, 1.0),
        "b": {"c": tune.quniform(0.0, 1.0, 0.25), "d": tune.randint(1, 4), "e": tune.lograndint(1, 9)},
        "f": tune.choice([[1, 2], None, "x"]),
        "constant": 3,
    }
    space = TuneSpace(domains)
    assert set(space.space.names) == {"a", "b/c", "b/d", "b/e", "f"}
    for _ in range(50):
        config = space.space.sample(RNG)
        found = space.to_tune(config)
        assert found["b"]["c"] in (0.0, 0.25, 0.5, 0.75, 1.0)
        assert found["b"]["d"] in (1, 2, 3)
        assert found["f"] in ([1, 2], None, "x")
        assert space.to_space(found) == config
    with pytest.raises(InvalidSpace, match="cannot read this distribution"):
        TuneSpace({"x": tune.sample_from(lambda spec: 1)})
    with pytest.raises(InvalidSpace, match=r"use tune\.choice"):
        TuneSpace({"x": tune.grid_search([1, 2])})


def test_the_example_saves_most_epochs(cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "ray_tune.py"
    runpy.run_path(str(example))["main"](trials=4)
    printed = capsys.readouterr().out
    assert "4 trials, " in printed
    assert "lowest loss" in printed
