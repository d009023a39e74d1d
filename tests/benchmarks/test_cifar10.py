"""CIFAR-10 (§5.5): the paper's network, its training, and studies that take turns; small versions on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.paper import cifar10, cifar10_report  # noqa: E402
from benchmarks.report import RESULTS  # noqa: E402

from bohb import History, Trial  # noqa: E402
from bohb.journal import SqlJournal  # noqa: E402
from bohb.journal.copy import import_jsonl  # noqa: E402


def test_the_example_tunes_made_up_images_on_a_cpu(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(cifar10.EXAMPLE), "--tiny", "--journal", "tiny.db"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "on budget 3" in ran.stdout


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield cifar10.example()
    torch.set_num_threads(threads)


def test_the_network_has_the_papers_8_5_million_parameters(module: ModuleType) -> None:
    n = sum(parameter.numel() for parameter in module.Network().parameters())
    assert 8.5e6 < n < 8.6e6


def test_training_learns_made_up_images(module: ModuleType) -> None:
    data = module.made_up(torch.device("cpu"), 320)
    trainer = module.Trainer(data.train, 32, width=4, blocks=1)
    trainer.start(0)
    first = trainer.train(1, 0, 0.1, 0.9, 1e-4)
    assert trainer.train(4, 1, 0.1, 0.9, 1e-4) < first - 0.1


def test_a_restored_state_is_the_state_that_was_saved(module: ModuleType) -> None:
    data = module.made_up(torch.device("cpu"), 80)
    trainer = module.Trainer(data.train, 32, width=4, blocks=1)
    trainer.start(0)
    trainer.train(1, 0, 0.05, 0.9, 1e-4)
    state = {name: module._copied(value) for name, value in trainer.state().items()}
    once = trainer.train(1, 1, 0.05, 0.9, 1e-4)
    trainer.restore(state)
    assert trainer.train(1, 1, 0.05, 0.9, 1e-4) == once


def test_a_crop_shows_a_part_of_its_own_image(module: ModuleType) -> None:
    x = torch.arange(4, dtype=torch.float32)[:, None, None, None].expand(4, 32, 32, 3) + 1
    rows = torch.tensor([2, 0, 3])
    crops = module.augmented(module.padded(module.Images(x, rows)), rows)
    assert crops.shape == (3, 3, 32, 32)
    for crop, row in zip(crops, rows.tolist(), strict=True):
        assert set(np.unique(crop)) <= {0.0, row + 1.0}
        assert (crop == row + 1.0).any()


def test_all_studies_get_the_same_turns_and_go_on_in_the_next_call(module: ModuleType, tmp_path: Path) -> None:
    calls = []

    def objective(trial: object) -> dict[str, float]:
        calls.append(trial)
        return {"loss": 1 / len(calls), "cost": 1.0, "test_error": 0.5}

    for turn in (3.0, 2.0):
        turns = cifar10.tune(objective, module.SPACE, tmp_path, [0], [1, 3], turn)
        for _ in range(1 + len(cifar10.METHODS)):  # the last one starts a turn that is not finished
            next(turns)
    for method in cifar10.METHODS:
        with SqlJournal(tmp_path / f"{method}-0.db", read_only=True) as journal:
            history = History().extend(journal.read(0))
        assert history.cost_reported == 5
    assert cifar10.best_config(tmp_path).keys() == module.SPACE.keys()


def test_turns_end_when_every_study_has_spent_its_gpu_seconds(module: ModuleType, tmp_path: Path) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        return {"loss": trial.config["momentum"], "cost": 1.0}

    turns = list(cifar10.tune(objective, module.SPACE, tmp_path, [0, 1], [1, 3], 2.0, until=3.0))
    assert len(turns) == 2 * 2 * len(cifar10.METHODS)  # a turn up to 2 s and one up to 3 s
    assert {cifar10._spent(path) for path in tmp_path.glob("*.db")} == {3.0}
    assert list(cifar10.tune(objective, module.SPACE, tmp_path, [0, 1], [1, 3], 2.0, until=3.0)) == []


def test_the_page_and_its_numbers_are_those_of_the_stored_journals(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    cifar10_report.report(cifar10_report.JOURNALS, tmp_path)
    for name in ("cifar10.md", "cifar10.json"):
        assert (tmp_path / name).read_text() == (RESULTS / name).read_text()


def test_methods_are_compared_by_results_that_were_known_after_equal_gpu_time() -> None:
    history = History().extend(import_jsonl(cifar10_report.JOURNALS / "random-2.jsonl").events)
    results = cifar10_report._results(history)
    assert len(results) == 10
    (spent, error), (end, _) = results[2], results[-1]
    assert cifar10_report._best_at(history, end) == history.require_incumbent().loss == error
    assert cifar10_report._best_at(history, spent) == error
    assert cifar10_report._best_at(history, spent - 1) == min(error for _, error in results[:2]) > error
    with pytest.raises(ValueError, match="the study has only 196 of 200 GPU seconds"):
        cifar10_report._best_at(history, 200)
