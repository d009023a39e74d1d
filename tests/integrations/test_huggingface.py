"""A Trainer of Hugging Face trains a trial on its budget, and continuing equals training through."""

from __future__ import annotations

import importlib.util
import os
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb.integrations import learners

PACKAGES = ("torch", "transformers", "accelerate")  # slow to import, and collecting the tests should be quick
pytestmark = pytest.mark.skipif(not all(map(importlib.util.find_spec, PACKAGES)), reason=f"needs {PACKAGES}")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the import

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = pytest.mark.skipif(
    not os.environ.get("BOHB_LONG_TESTS"), reason="BOHB_LONG_TESTS=1 runs it: it trains more models"
)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Import it once: that takes four seconds."""
    return runpy.run_path(str(EXAMPLES / "huggingface_continue.py"))


@pytest.fixture
def trial(example: dict[str, Any]) -> bohb.Trial:
    optimizer = bohb.BOHB(example["SPACE"], min_budget=1, max_budget=9, seed=3)
    optimizer.enqueue({"lr": 0.01, "dropout": 0.2, "batch": 16})  # four steps are an epoch
    return optimizer.ask()


def in_parts(
    train: Callable[[bohb.Trial], dict[str, Any]], trial: bohb.Trial, directory: Path, budgets: list[float]
) -> list[dict[str, Any]]:
    """Train on one budget after the other in the same checkpoint directory."""
    directory.mkdir()
    pairs = zip(budgets, [None, *budgets], strict=False)
    return [train(replace(trial, budget=b, previous_budget=before, checkpoint_dir=directory)) for b, before in pairs]


def weights(directory: Path) -> bytes:
    (file,) = directory.glob("checkpoint-*/model.safetensors")  # only the last checkpoint is kept
    return file.read_bytes()


def test_epochs_that_are_continued_equal_training_through(
    example: dict[str, Any], trial: bohb.Trial, tmp_path: Path
) -> None:
    points: list[tuple[float, float]] = []
    watched = replace(trial, reporter=lambda step, loss: points.append((step, loss)))
    first, last = in_parts(example["train"], watched, tmp_path / "continued", [1, 2])
    (through,) = in_parts(example["train"], trial, tmp_path / "through", [2])
    assert last["loss"] == through["loss"] != first["loss"]
    assert weights(tmp_path / "continued") == weights(tmp_path / "through")
    assert last["info"]["steps"] == through["info"]["steps"] == 8
    assert [step for step, _ in points] == [1, 2]
    assert points[-1][1] == last["loss"]


def test_the_progress_bars_of_a_trainer_do_not_cost_its_worker(example: dict[str, Any], tmp_path: Path) -> None:
    """A new worker would have to import PyTorch and Transformers again."""
    train, arguments = example["train"], example["TrainingArguments"]

    def objective(trial: bohb.Trial) -> dict[str, Any]:
        import threading

        train.__globals__["TrainingArguments"] = lambda **given: arguments(**{**given, "disable_tqdm": False})
        threads = {thread.name for thread in threading.enumerate()}
        result: dict[str, Any] = train(trial)
        left = {thread.name for thread in threading.enumerate()} - threads
        return {"loss": result["loss"], "info": {"pid": os.getpid(), "left": sorted(left)}}

    study = bohb.minimize(
        objective, example["SPACE"], budgets=[1], seed=3, workers=1, directory=tmp_path, max_trials=3, progress=False
    )
    infos = [outcome.info for outcome in study.history.outcomes.values()]
    assert infos[0]["left"] == ["tqdm_monitor"]
    assert len({info["pid"] for info in infos}) == 1


@LONG
def test_a_budget_of_steps_may_end_within_an_epoch(
    example: dict[str, Any], trial: bohb.Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, arguments, learners = example["train"], example["TrainingArguments"], example["learners"]
    settings, options = {"eval_strategy": "no", "max_steps": 9}, {"unit": "steps"}
    monkeypatch.setitem(train.__globals__, "TrainingArguments", lambda **given: arguments(**{**given, **settings}))
    original = learners.train_huggingface
    monkeypatch.setattr(learners, "train_huggingface", lambda trial, trainer: original(trial, trainer, **options))
    first, last = in_parts(train, trial, tmp_path / "continued", [2, 6])
    (through,) = in_parts(train, trial, tmp_path / "through", [6])
    assert (first["info"]["steps"], last["info"]["steps"]) == (2, 6)
    assert last["loss"] == through["loss"]
    assert weights(tmp_path / "continued") == weights(tmp_path / "through")
    options["metric"] = "eval_f1"
    with pytest.raises(bohb.errors.InvalidResult, match="measures no 'eval_f1'; it has epoch, eval_loss"):
        in_parts(train, trial, tmp_path / "metric", [1])


def test_a_schedule_that_ends_before_the_budget_is_refused(
    example: dict[str, Any], trial: bohb.Trial, tmp_path: Path
) -> None:
    with pytest.raises(bohb.errors.InvalidArgument, match="ends after 9 epochs, before the budget of 27"):
        example["train"](replace(trial, budget=27, checkpoint_dir=tmp_path))
    with pytest.raises(bohb.errors.InvalidArgument, match="unit='minutes' must be 'epochs' or 'steps'"):
        learners.huggingface_callback(trial, "minutes")  # type: ignore[arg-type]
