"""The executor contract on a real Dask scheduler with worker processes, and the failures specific to Dask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import psutil  # type: ignore[import-untyped]
import pytest
from distributed import Client

import bohb
from bohb.core.trial import Lost
from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Objective
from bohb.executors.engines.engine import EngineBroken
from bohb.executors.options import Resources
from bohb.testing import ElasticContract
from bohb.testing.executors import acting, alive, collect, host_of, make_trial, noted, until
from tests.executors.places import on
from tests.executors.rewriting import check_that_no_trial_starts_in_a_dirty_directory
from tests.executors.studies import assert_whole, kill_in_the_middle, run_study


class Cluster:
    """A scheduler and workers with nannies, each in its own process, on loopback."""

    replaces = True

    def __init__(self, directory: Path, *arguments: str, workers: int = 2, threads: int = 1) -> None:
        self._directory, self._arguments, self._threads = directory, arguments, threads
        self._file = directory / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        until(self._file.exists, "the scheduler starts")
        self.workers: list[subprocess.Popen[bytes]] = []
        for _ in range(workers):
            self.add()
        self.client = Client(scheduler_file=str(self._file), set_as_default=False)
        if workers:
            self.client.wait_for_workers(workers, timeout=120)

    @property
    def address(self) -> str:
        return f"dask://{self._file}"

    def _start(self, what: str, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        module = "distributed.cli.dask_" + ("scheduler" if what == "scheduler" else "worker")
        command = [*before, sys.executable, "-m", module]
        log = (self._directory / f"{what}.log").open("ab")
        with log:
            return subprocess.Popen(
                [*command, "--scheduler-file", str(self._file), *arguments], stdout=log, stderr=log, cwd=self._directory
            )

    def add(self, before: Sequence[str] = ()) -> None:
        """Start a worker.

        before: the beginning of its command line.
        """
        common = ("--nthreads", str(self._threads), "--host", "127.0.0.1", "--no-dashboard", "--memory-limit", "0")
        self.workers.append(self._start("worker", *common, *self._arguments, before=before))

    def settle(self) -> None:
        """Wait for the workers of all living nannies, some of which may just have lost theirs."""
        nannies = sum(nanny.poll() is None for nanny in self.workers)
        until(lambda: len(self.client.scheduler_info(n_workers=-1)["workers"]) == nannies, "all workers are there")

    def remove(self) -> None:
        worker = self.workers.pop()
        worker.send_signal(signal.SIGINT)
        worker.wait(120)

    def executor(self, objective: Objective, **options: Any) -> Executor:
        return on(self.client, objective, **options)

    def host_of(self, pid: int) -> int:
        return host_of(pid)

    def works(self) -> bool:
        return bool(self.client.submit(abs, -3, pure=False).result(timeout=120) == 3)

    def close(self) -> None:
        self.client.close(timeout=5)
        for process in (*self.workers, self.scheduler):
            process.kill()  # an orderly end takes seconds; workers end with their nannies
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    yield cluster
    cluster.close()


class TestDask(ElasticContract):
    @pytest.fixture
    def place(self, cluster: Cluster) -> Cluster:
        cluster.client.wait_for_workers(2, timeout=120)
        return cluster


def test_a_study_survives_the_death_of_a_dask_nanny(cluster: Cluster, tmp_path: Path) -> None:
    """The contract kills a worker, which its nanny replaces; a killed nanny takes its worker with it for good."""
    killer = kill_in_the_middle(tmp_path, lambda pid: int(psutil.Process(host_of(pid)).ppid()))
    study = run_study(cluster.address, tmp_path)
    killer.join()
    assert_whole(study)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_dask_does_not_start_a_lost_trial_again_in_its_dirty_directory(
    cluster: Cluster, tmp_path: Path, checkpoints: bool
) -> None:
    """Dask runs a task again by itself if its worker has died, up to `distributed.scheduler.allowed-failures` times."""
    cluster.add()  # another test may have removed a nanny and its worker
    cluster.client.wait_for_workers(2, timeout=120)
    check_that_no_trial_starts_in_a_dirty_directory(cluster.client, tmp_path, host_of, checkpoints=checkpoints)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mount namespaces")
def test_a_worker_that_lacks_the_shared_directory_is_avoided_and_fails_no_trial(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    hide = f'mount -t tmpfs none "{shared}" && exec "$@"'  # an empty directory lies over the shared one
    cluster.add(["unshare", "--mount", *as_root, "sh", "-c", hide, "sh"])
    try:
        cluster.settle()
        study = bohb.minimize(
            lambda trial: trial.config["x"],
            {"x": (0.0, 1.0)},
            min_budget=1,
            max_budget=9,
            seed=3,
            executor=cluster.client,
            directory=shared,
            max_trials=40,
            progress=False,
        )
    finally:
        cluster.remove()
    assert [outcome.ok for outcome in study.history.outcomes.values()] == [True] * 40
    assert not study.history.losses, "no loss counts as an attempt"
    refused = caplog.text.count("does not see the checkpoint directory")
    assert 0 < refused < 20, "the worker is used again from time to time"


def test_a_scheduler_without_workers_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(tmp_path, workers=0)
    try:
        executor = cluster.executor(acting())
        executor.submit(make_trial(0, act="fine"))
        said = "Dask's scheduler has no workers; trials that wait for a worker: 1"
        until(lambda: executor.wait(0.1) or said in caplog.text, "it says so")
        executor.wait(0.5)
        assert caplog.text.count("no workers") == 1, "once a minute"
        cluster.add()
        assert getattr(collect(executor, 1)[0], "loss", None) == 0
        executor.shutdown(kill=True)
    finally:
        cluster.close()


def test_resources_must_be_declared_by_some_worker(cluster: Cluster) -> None:
    with pytest.raises(InvalidArgument, match=r"GPU=1, but none of its \d+ workers declares GPU"):
        cluster.executor(acting(), resources=Resources(gpu=1))


def test_an_address_without_a_scheduler_is_refused() -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.3s"}),
        pytest.raises(InvalidArgument, match=r"dask://127\.0\.0\.1:1' cannot be reached"),
    ):
        on("dask://127.0.0.1:1", acting())


def test_trials_need_what_the_resources_say_and_a_lost_scheduler_is_an_error(tmp_path: Path) -> None:
    """One test, because starting a cluster takes seconds."""
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        cluster = Cluster(tmp_path, "--resources", "GPU=2 LICENCE=1", workers=1, threads=4)
        try:
            one = cluster.executor(acting(), resources=Resources(gpu=1))
            assert one.slots == 2
            one.shutdown(kill=True)
            executor = cluster.executor(acting(), resources=Resources(gpu=1, others={"LICENCE": 1}))
            assert executor.slots == 1
            executor.submit(make_trial(0, act="fine"))
            executor.submit(make_trial(1, act="hang", note=str(tmp_path / "note")))
            assert getattr(collect(executor, 1)[0], "loss", None) == 0
            running = noted(tmp_path / "note")
            cluster.scheduler.kill()
            assert isinstance(collect(executor, 1)[1], Lost)
            until(lambda: cluster.client.status == "closed", "the client gives up")
            executor.submit(make_trial(2, act="fine"))
            with pytest.raises(EngineBroken, match="lost its scheduler"):
                executor.wait(None)
            executor.shutdown(kill=True)
        finally:
            cluster.close()
        until(lambda: not alive(running), "the trial ends with its worker")
