"""Training that is continued equals training that was not interrupted, and each epoch or round is reported."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bohb
from bohb.core.goals import goals_of
from bohb.integrations import learners

EXAMPLES = Path(__file__).parents[2] / "examples"
os.environ.setdefault("KERAS_BACKEND", "torch")  # before the import


def torch_state(path: Path) -> Any:
    import torch

    return torch.load(path / "torch.pt")


def lightning_state(path: Path) -> Any:
    import torch

    stored = torch.load(path / "lightning.ckpt")
    return [stored[name] for name in ("state_dict", "optimizer_states", "epoch", "global_step", "generators")]


def catboost_state(path: Path) -> Any:
    from catboost import CatBoost

    return CatBoost().load_model(path / "model.cbm").get_leaf_values()


def arrays(path: Path) -> Any:
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


STATES: dict[str, Callable[[Path], Any]] = {
    "torch": torch_state,
    "cartpole": torch_state,
    "lightning": lightning_state,
    "xgboost": lambda path: (path / "xgboost.ubj").read_bytes(),
    "lightgbm": lambda path: (path / "lightgbm.txt").read_text().partition("end of trees")[0],
    "keras": lambda path: arrays(path / "keras.npz"),
    "catboost": catboost_state,  # `make learners` installs this one and the next two
    "jax": lambda path: arrays(path / "state.npz"),
    "flax": lambda path: (path / "state.msgpack").read_bytes(),
}


@pytest.fixture(scope="module", params=STATES)
def example(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    name = request.param
    if importlib.util.find_spec({"cartpole": "torch"}.get(name, name)) is None:
        pytest.skip(f"examples/{name}_continue.py needs {name}")
    if name in ("torch", "cartpole", "lightning", "keras"):
        import torch

        torch.set_num_threads(1)  # the models are tiny
    return name, runpy.run_path(str(EXAMPLES / f"{name}_continue.py"))


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated")  # Lightning 2.6 with PyTorch 2.13
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras 3.15 with NumPy 2.4
def test_training_that_is_continued_equals_training_without_interruption(
    example: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Not only the losses agree, but all that further training depends on."""
    name, module = example
    train, state = module["train"], STATES[name]
    continued, through = tmp_path / "continued", tmp_path / "through"
    continued.mkdir()
    through.mkdir()
    points: list[tuple[float, float]] = []
    trial = bohb.BOHB(module["SPACE"], min_budget=1, max_budget=9, seed=5).ask()
    watched = replace(trial, checkpoint_dir=continued, reporter=lambda step, loss: points.append((step, loss)))
    for budget, previous in ((2.0, None), (3.0, 2.0), (5.0, 3.0)):
        result = train(replace(watched, budget=budget, previous_budget=previous))
    through_points: list[tuple[float, float]] = []
    alone = replace(trial, checkpoint_dir=through, reporter=lambda step, loss: through_points.append((step, loss)))
    assert train(replace(alone, budget=5.0)) == result
    assert points == through_points
    assert not points or [step for step, _ in points] == [1, 2, 3, 4, 5]
    assert bool(points) or name in ("jax", "flax")
    assert same(state(continued), state(through))
    train(replace(alone, budget=6.0, previous_budget=5.0))
    assert not same(state(continued), state(through))  # it could have failed


def same(one: Any, other: Any) -> bool:
    """Whether two nested structures hold the same numbers, bit by bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


LONG = pytest.mark.skipif(not os.environ.get("BOHB_LONG_TESTS"), reason="trains many models, or in several processes")


@pytest.mark.parametrize(
    "name",
    [
        *("torch", "lightning", "keras", "xgboost", "lightgbm", "catboost", "jax", "flax"),
        *(pytest.param(name, marks=LONG) for name in ("ddp", "cartpole", "huggingface", "peft")),
    ],
)
def test_the_examples_of_learners_run(name: str, tmp_path: Path) -> None:
    library = {"ddp": "torch", "cartpole": "torch", "huggingface": "transformers"}.get(name, name)
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    command = [sys.executable, str(EXAMPLES / f"{name}_continue.py")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=560)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "(0 failed)" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_example_for_scikit_learn_tunes_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    accuracy = runpy.run_path(str(EXAMPLES / "sklearn_search.py"))["main"]()
    assert set(accuracy) == {"n_samples", "model__max_iter"}
    assert min(accuracy.values()) > 0.9
    assert "model__max_iter: 1 to 27" in capsys.readouterr().out


@pytest.fixture
def trial() -> bohb.Trial:
    return bohb.BOHB({"eta": (0.1, 0.5)}, min_budget=1, max_budget=9, seed=5).ask()


def boosted(trial: bohb.Trial, **options: Any) -> dict[str, Any]:
    xgboost = pytest.importorskip("xgboost")
    X = np.arange(20.0).reshape(10, 2)
    data = xgboost.DMatrix(X, X[:, 0] > 9)
    params = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "nthread": 1, **trial.config}
    return learners.train_xgboost(trial, params, data, data, **options)


def test_values_that_a_study_names_are_taken_from_the_metrics(trial: bohb.Trial) -> None:
    plain = boosted(trial)
    assert plain["loss"] == plain["info"]["auc"]  # the last metric
    assert boosted(trial, metric="logloss")["loss"] == plain["info"]["logloss"]
    named = boosted(replace(trial, goals=goals_of(["logloss", "-auc"])), metric="logloss")
    assert {name: named[name] for name in ("logloss", "auc")} == plain["info"]
    assert boosted(replace(trial, goals=goals_of(direction="maximize")))["score"] == plain["info"]["auc"]


def test_a_metric_that_is_not_measured_is_an_error_that_lists_the_others(trial: bohb.Trial) -> None:
    with pytest.raises(bohb.errors.InvalidResult, match="measures no 'error'; it has auc, logloss"):
        boosted(trial, metric="error")


def test_a_fraction_of_a_round_is_refused_with_the_way_out(trial: bohb.Trial) -> None:
    with pytest.raises(bohb.errors.InvalidArgument, match=r"budget 2.5 is not a whole number.*integer_budgets=True"):
        boosted(replace(trial, budget=2.5))


def test_a_configuration_whose_checkpoint_is_gone_starts_afresh(trial: bohb.Trial, tmp_path: Path) -> None:
    steps: list[float] = []
    again = replace(trial, budget=3.0, previous_budget=1.0, reporter=lambda step, _: steps.append(step))
    boosted(replace(again, checkpoint_dir=tmp_path))
    boosted(replace(again, checkpoint_dir=None))
    assert steps == [1, 2, 3, 1, 2, 3]


def test_a_missing_library_is_named(trial: bohb.Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(bohb.errors.MissingExtra, match="needs the package 'lightgbm': pip install lightgbm"):
        learners.train_lightgbm(trial, {}, None, None)


def test_a_schedule_of_lightning_that_ends_before_the_budget_is_refused(trial: bohb.Trial) -> None:
    lightning = pytest.importorskip("lightning")
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False)
    with pytest.raises(bohb.errors.InvalidArgument, match=r"ends after 3 epochs, .*; set max_epochs to the"):
        learners.train_lightning(replace(trial, budget=9.0), trainer, None)


def test_a_model_of_keras_without_weights_is_refused(trial: bohb.Trial) -> None:
    keras = pytest.importorskip("keras")
    with pytest.raises(bohb.errors.InvalidArgument, match=r"no weights yet; begin it with keras.Input\(shape\)"):
        learners.train_keras(trial, keras.Sequential([keras.layers.Dense(1)]))
