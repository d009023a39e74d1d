"""Ray Tune on a real cluster; `test_ray_tune.py` runs this file with loopback as the only network."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune

from bohb.errors import InvalidArgument, InvalidSpace
from bohb.integrations.ray_space import TuneSpace
from bohb.integrations.ray_tune import BOHBScheduler, BOHBSearch

pytestmark = pytest.mark.filterwarnings("default")  # warnings of Ray itself
RNG = np.random.default_rng(0)
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
    with pytest.raises(InvalidSpace, match="has no bounds"):
        TuneSpace({"x": tune.randn(0, 1)})
    with pytest.raises(InvalidSpace, match=r"use tune\.choice"):
        TuneSpace({"x": tune.grid_search([1, 2])})


def test_the_example_saves_most_epochs(cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "ray_tune.py"
    runpy.run_path(str(example))["main"](trials=4)
    printed = capsys.readouterr().out
    assert "4 trials, " in printed
    assert "lowest loss" in printed
