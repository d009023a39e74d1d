"""The executor contract on a real Ray cluster; `test_ray.py` runs this file with loopback as the only network."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import bohb
from bohb.core.trial import Lost, Status
from bohb.errors import InvalidArgument, WorkersUnavailable
from bohb.executors.base import Executor, Objective
from bohb.executors.options import Resources
from bohb.testing import ElasticContract
from bohb.testing.executors import acting, collect, host_of, make_trial, run_all, until
from tests.executors.places import on
from tests.executors.rewriting import check_that_no_trial_starts_in_a_dirty_directory
from tests.executors.studies import assert_whole, kill_in_the_middle, run_study

pytestmark = pytest.mark.filterwarnings("default")  # warnings of Ray itself


class RayPlace:
    """A head node with two CPUs, and further nodes with one each.

    The head declares a GPU that does not exist, and a resource of its own: adding a node takes seconds.
    """

    replaces = True

    def __init__(self) -> None:
        head = {"num_cpus": 2, "num_gpus": 1, "resources": {"licence": 1}, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []
        os.environ["RAY_ADDRESS"] = self.cluster.address
        self.join()

    def join(self) -> None:
        if not ray.is_initialized():
            ray.init("auto", log_to_driver=False)

    def add(self) -> None:
        self.nodes.append(self.cluster.add_node(num_cpus=1))

    def remove(self) -> None:
        self.cluster.remove_node(self.nodes.pop())

    def executor(self, objective: Objective, **options: Any) -> Executor:
        self.join()
        return on("ray://auto", objective, **options)

    def host_of(self, pid: int) -> int:
        return host_of(pid)

    def works(self) -> bool:
        return bool(ray.get(ray.remote(lambda: 3).remote(), timeout=120) == 3)


@pytest.fixture(scope="module")
def place() -> Iterator[RayPlace]:
    place = RayPlace()
    yield place
    ray.shutdown()
    place.cluster.shutdown()


class TestRay(ElasticContract):
    @pytest.fixture
    def place(self, place: RayPlace) -> RayPlace:
        return place


def test_a_study_survives_the_death_of_a_ray_worker_and_leaves_the_cluster(place: RayPlace, tmp_path: Path) -> None:
    ray.shutdown()
    killer = kill_in_the_middle(tmp_path, host_of)
    study = run_study("ray://auto", tmp_path, trials=8)
    killer.join()
    assert_whole(study, trials=8)
    assert not ray.is_initialized()


def test_ray_does_not_start_a_lost_trial_again_in_its_dirty_directory(place: RayPlace, tmp_path: Path) -> None:
    place.join()
    check_that_no_trial_starts_in_a_dirty_directory("ray://auto", tmp_path, host_of)


def test_resources_are_handed_to_rays_scheduler(place: RayPlace) -> None:
    place.join()
    with pytest.raises(InvalidArgument, match=r"licence=2 for each trial, but the cluster has 1"):
        place.executor(acting(), resources=Resources(others={"licence": 2}))
    executor = place.executor(seen_devices, resources=Resources(gpu=1, cpu=1, others={"licence": 1}))
    assert executor.slots == 1
    found = run_all(executor, [make_trial(n) for n in range(3)])
    executor.shutdown(kill=True)
    assert [getattr(outcome, "info", outcome) for outcome in found.values()] == [{"devices": "0", "threads": "1"}] * 3


def test_a_trial_that_ran_out_of_memory_on_a_shared_device_gets_a_whole_one(place: RayPlace, tmp_path: Path) -> None:
    def objective(trial: Any) -> float:
        import time

        while trial.attempt == 2 and not (tmp_path / "go").exists():
            time.sleep(0.01)
        raise bohb.DeviceMemory

    place.join()
    executor = place.executor(objective, resources=Resources(gpu=0.5))
    assert run_all(executor, [make_trial(0)])[0] == Lost(
        "it ran out of device memory beside others, so it will run alone (DeviceMemory)", charged=False, outage=False
    )
    executor.submit(make_trial(0, attempt=2))
    until(lambda: ray.available_resources().get("GPU", 0) == 0, "the second attempt has all of it")
    (tmp_path / "go").touch()
    assert getattr(collect(executor, 1)[0], "status", None) is Status.DEVICE_MEMORY
    executor.shutdown(kill=True)


def seen_devices(trial: Any) -> dict[str, Any]:
    return {
        "loss": 0.0,
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def test_no_trial_fails_because_a_raylet_is_killed(
    place: RayPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test, because the head node does not come back."""
    monkeypatch.setattr("bohb.running.loop.GIVE_UP_SECONDS", 3.0)
    place.join()
    head: Any = place.cluster.head_node
    [raylet] = [process for name, process in head.live_processes() if name == "raylet"]
    note = tmp_path / "note"

    def objective(trial: Any) -> float:
        import time

        time.sleep(0.05)
        if trial.number == 8:
            note.touch()
        return float(trial.config["x"])

    def kill() -> None:
        until(note.exists, "trial 8 runs")
        raylet.kill()

    arguments: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 1, "max_trials": 60, "progress": False}
    arguments["journal"] = tmp_path / "study.db"
    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(WorkersUnavailable, match="every trial has lost its worker, at last: LocalRayletDiedError"):
        bohb.minimize(objective, {"x": (0.0, 1.0)}, executor="ray://auto", **arguments)
    killer.join()
    study = bohb.minimize(objective, {"x": (0.0, 1.0)}, **arguments)
    assert [outcome.ok for outcome in study.history.outcomes.values()] == [True] * 60
    assert sum(study.history.losses.values()) <= 2, "only trials that ran when the raylet died are charged"
    assert max(trial.attempt for trial in study.history.trials.values()) >= 3
