"""The executor contract on local workers and on pools of concurrent.futures."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import loky
import pytest

from bohb.testing import ExecutorContract
from tests.executors.places import LocalPlace, PoolPlace


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
