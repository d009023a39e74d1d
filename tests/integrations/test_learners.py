"""The examples for other libraries run as they stand, and training that is continued equals training through."""

from __future__ import annotations

import importlib.util
import os
import re
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

EXAMPLES = Path(__file__).parents[2] / "examples"


def torch_state(path: Path) -> Any:
    import torch

    return torch.load(path / "state.pt")


def lightning_state(path: Path) -> Any:
    import torch

    stored = torch.load(path / "last.ckpt")
    return [stored["state_dict"], stored["optimizer_states"], stored["epoch"], stored["global_step"]]


def keras_state(path: Path) -> Any:
    import keras

    model = keras.models.load_model(path / "model.keras")
    return [np.asarray(keras.ops.convert_to_numpy(v)) for v in [*model.variables, *model.optimizer.variables]]


def catboost_state(path: Path) -> Any:
    from catboost import CatBoost

    return CatBoost().load_model(path / "model.cbm").get_leaf_values()


def jax_state(path: Path) -> Any:
    with np.load(path / "state.npz") as stored:
        return [stored[name] for name in stored.files]


LEARNERS: dict[str, Callable[[Path], Any]] = {
    "torch": torch_state,
    "lightning": lightning_state,
    "xgboost": lambda path: (path / "booster.ubj").read_bytes(),
    "lightgbm": lambda path: (path / "booster.txt").read_text().partition("end of trees")[0],
    "keras": keras_state,
    "catboost": catboost_state,  # `make learners` installs this one and the next two
    "jax": jax_state,
    "flax": lambda path: (path / "state.msgpack").read_bytes(),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated")  # Lightning 2.6 with PyTorch 2.13
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras 3.15 with NumPy 2.4
def test_training_that_is_continued_equals_training_through(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"examples/{name}_continue.py needs {name}")
    if name in ("torch", "lightning", "keras"):
        import torch

        torch.set_num_threads(1)  # the models are tiny
    script = str(EXAMPLES / f"{name}_continue.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script])
    example = runpy.run_path(script, run_name="__main__")
    match = re.search(r"(\d+) of (\d+) continued trainings equal", capsys.readouterr().out)
    assert match is not None
    assert match[1] == match[2]
    assert int(match[1]) >= 4
    assert list(tmp_path.iterdir()) == []
    compare_checkpoints(example, LEARNERS[name], tmp_path)


def test_a_policy_that_is_trained_further_equals_one_that_was_trained_through(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    compare_checkpoints(runpy.run_path(str(EXAMPLES / "cartpole_continue.py")), torch_state, tmp_path)


@pytest.mark.skipif(not os.environ.get("BOHB_LONG_TESTS"), reason="trains many models, or in several processes")
@pytest.mark.parametrize(("name", "continued"), [("ddp", 1), ("cartpole", 4)])
def test_the_longer_examples_for_pytorch_run(name: str, continued: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = str(EXAMPLES / f"{name}_continue.py")
    command = [sys.executable, "-W", "error", script]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{continued} of {continued} continued trainings equal" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_example_for_scikit_learn_tunes_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    accuracy = runpy.run_path(str(EXAMPLES / "sklearn_search.py"))["main"]()
    assert set(accuracy) == {"n_samples", "model__max_iter"}
    assert min(accuracy.values()) > 0.9
    assert "model__max_iter: 1 to 27" in capsys.readouterr().out


def compare_checkpoints(example: dict[str, Any], state: Callable[[Path], Any], directory: Path) -> None:
    """Not only the losses agree, but all that further training depends on."""
    train = example["train"]
    trial = bohb.BOHB(example["SPACE"], min_budget=1, max_budget=9, seed=5).ask()
    continued, through = directory / "continued", directory / "through"
    continued.mkdir()
    through.mkdir()
    for budget, previous in ((2.0, None), (3.0, 2.0), (5.0, 3.0)):
        result = train(replace(trial, budget=budget, previous_budget=previous, checkpoint_dir=continued))
    again = train(replace(trial, budget=5.0, checkpoint_dir=through))
    assert {**again, "info": None} == {**result, "info": None}
    assert same(state(continued), state(through))
    train(replace(trial, budget=6.0, previous_budget=5.0, checkpoint_dir=through))
    assert not same(state(continued), state(through))  # it could have failed


def same(one: Any, other: Any) -> bool:
    """Whether two nested structures hold the same numbers, bit by bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
