"""The executor contract on local workers and on pools of concurrent.futures."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import loky
import pytest

from bohb.core.trial import Lost, Outcome
from bohb.testing import ExecutorContract
from bohb.testing.executors import acting, guard_of, make_trial, run_all
from tests.executors.places import LocalPlace, PoolPlace, on
from tests.executors.rewriting import check_that_no_trial_starts_in_a_dirty_directory


class TestLocal(ExecutorContract):
    @pytest.fixture
    def place(self) -> LocalPlace:
        return LocalPlace()


class TestThreadPool(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Iterator[PoolPlace]:
        place = PoolPlace(lambda: ThreadPoolExecutor(2), replaces=True)
        yield place
        place.close()


class TestProcessPool(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Iterator[PoolPlace]:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["bohb.executors.engines.task"])
        place = PoolPlace(lambda: ProcessPoolExecutor(2, context))
        yield place
        place.close()


class TestLoky(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Iterator[PoolPlace]:
        place = PoolPlace(lambda: loky.ProcessPoolExecutor(2))
        yield place
        place.close()


def test_no_trial_of_a_pool_starts_in_the_dirty_directory_of_a_lost_attempt(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        check_that_no_trial_starts_in_a_dirty_directory(pool, tmp_path, guard_of)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_a_task_that_an_engine_runs_again_is_refused_and_the_next_attempt_is_not(
    tmp_path: Path, checkpoints: bool
) -> None:
    """As Slurm and Dask do after a node has died, possibly while the first run still goes on elsewhere."""
    (tmp_path / "0").mkdir()
    directory = tmp_path / "0" if checkpoints else None
    trial = make_trial(0, directory, act="fine")
    with ThreadPoolExecutor(1) as pool:
        executor = on(pool, acting())
        again: list[Any] = []
        submit = pool.submit

        def twice(run: Any, *arguments: Any) -> Any:
            first = submit(run, *arguments)
            again.extend([submit(run, *arguments), partial(run, *arguments)])
            return first

        pool.submit = twice  # type: ignore[method-assign, assignment]
        assert isinstance(run_all(executor, [trial])[0], Outcome)
        while_it_runs, after_its_end = again[0].result(timeout=120), again[1]()
        for answer in (while_it_runs, after_its_end):
            assert answer["charged"]
            assert "was told to start it again" in answer["lost"]
        assert isinstance(run_all(executor, [replace(trial, attempt=2)])[0], Outcome)
        executor.shutdown(kill=True)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_a_trial_whose_directory_takes_no_file_is_lost_and_not_charged(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        executor = on(pool, acting())
        result = run_all(executor, [make_trial(0, tmp_path / "gone" / "0", act="fine")])[0]
        assert isinstance(result, Lost)
        assert not result.charged
        executor.shutdown(kill=True)
