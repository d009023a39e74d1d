"""GPUs that trials have alone or share, by a faked driver: `faked_gpus`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb.core.goals import goals_of
from bohb.core.trial import Lost, Outcome, Status
from bohb.errors import InvalidArgument, MissingExtra
from bohb.executors.base import Executor
from bohb.executors.evaluate import evaluate
from bohb.executors.local.devices import DEVICES, Devices, room
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import Resources, TrialOptions
from bohb.testing.executors import collect, make_trial
from tests.executors.faked_gpus import GB, Gpus, OutOfMemoryError, training
from tests.executors.places import on


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    return use(Gpus(tmp_path / "gpus", 1), monkeypatch)


def use(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    monkeypatch.setitem(sys.modules, "pynvml", gpus.module())
    monkeypatch.setenv(DEVICES, ",".join(map(str, range(gpus.count))))
    return gpus


def run(executor: Executor, sizes: list[float], **config: Any) -> tuple[list[Outcome], int]:
    """Run trials of these sizes as a runner does, and return their outcomes and how many of them started again."""
    waiting = [make_trial(number, gb=gb, **config) for number, gb in enumerate(sizes)]
    running, outcomes, again = 0, dict[int, Outcome](), 0
    while waiting or running:
        while waiting and running < executor.slots:
            executor.submit(waiting.pop(0))
            running += 1
        for number, result in collect_some(executor).items():
            running -= 1
            if isinstance(result, Lost):
                assert not result.charged
                assert not result.outage
                waiting.append(make_trial(number, attempt=2, gb=sizes[number], **config))
                again += 1
            else:
                outcomes[number] = result
    executor.shutdown(kill=True)
    return [outcomes[number] for number in range(len(sizes))], again


def collect_some(executor: Executor) -> dict[int, Outcome | Lost]:
    return {done.trial.number: done.result for done in executor.wait(1.0)}


# --- whole devices and fractions


def test_four_trials_with_a_quarter_of_a_device_each_share_it(gpus: Gpus) -> None:
    outcomes, _ = run(on(None, training(gpus), 4, resources=Resources(gpu=0.25)), [1.0] * 4, beside=3)
    assert {outcome.info["device"] for outcome in outcomes} == {"0"}
    assert len({outcome.info["pid"] for outcome in outcomes}) == gpus.together() == 4
    with pytest.raises(InvalidArgument, match=r"workers=5 with resources\['gpu'\]=0.25 need 2 GPUs, but 1 are visible"):
        on(None, training(gpus), 5, resources=Resources(gpu=0.25))


@pytest.mark.parametrize(
    ("gpu", "visible", "workers", "expected"),
    [
        (1, 4, 4, ["0", "1", "2", "3"]),
        (2, 5, 2, ["0,1", "2,3"]),
        (0.5, 2, 4, ["0", "1", "0", "1"]),
        (1 / 3, 1, 3, ["0", "0", "0"]),
        (0.1, 1, 10, ["0"] * 10),
        ("shared", 2, 3, ["0", "1", "0"]),
    ],
)
def test_slots_take_the_devices_in_turn(
    gpu: Any, visible: int, workers: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Gpus(tmp_path, visible), monkeypatch)
    devices = Devices(workers, Resources(gpu=gpu))
    assert [devices.environment(slot)[DEVICES] for slot in range(workers)] == expected
    modest = {"XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH"} & devices.environment(0).keys()
    assert bool(modest) == (gpu == "shared" or gpu < 1)


# --- as many as fit


@pytest.mark.parametrize("tells", [True, False], ids=["by process", "by device"])
def test_as_many_trials_share_a_device_as_fit_by_what_finished_ones_have_needed(
    tells: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some containers the driver does not say which process uses how much."""
    gpus = use(Gpus(tmp_path / "gpus", 1, tells=tells), monkeypatch)
    executor = on(None, training(gpus), 8, resources=Resources(gpu="shared"))
    assert executor.slots == 1, "the first trial shows what a trial needs"
    executor.submit(make_trial(0, gb=3.0))
    assert isinstance(collect(executor, 1)[0], Outcome)
    outcomes, again = run(executor, [3.0] * 6, beside=2)
    assert all(outcome.ok for outcome in outcomes)
    assert (gpus.together(), again) == (3, 0)


def test_never_more_than_workers_share_a_device(gpus: Gpus) -> None:
    outcomes, _ = run(on(None, training(gpus), 2, resources=Resources(gpu="shared")), [0.3] * 6)
    assert all(outcome.ok for outcome in outcomes)
    assert gpus.together() <= 2


def test_all_devices_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = use(Gpus(tmp_path / "gpus", 2), monkeypatch)
    executor = on(None, training(gpus), 4, resources=Resources(gpu="shared"))
    assert executor.slots == 2
    outcomes, _ = run(executor, [4.0] * 6)
    assert {outcome.info["device"] for outcome in outcomes} == {"0", "1"}


@pytest.mark.parametrize(
    ("free", "running", "idle", "expected", "fit"),
    [
        (10, [], [0, 0, 0, 0], 3, 3),
        (10, [], [0, 0], 3, 2),
        (7, [3], [0, 0, 0], 3, 2),
        (9, [1], [0, 0, 0], 3, 2),  # the running one will still take 2
        (4, [3], [2, 0], 3, 2),  # an idle worker keeps what it has
        (2, [5], [0], 3, 0),  # one has grown beyond what was expected
        (1, [0, 0], [0], 3, 0),
        (10, [], [0, 0], 0, 2),
    ],
)
def test_trials_fit_if_all_can_grow_to_what_is_expected(
    free: int, running: list[int], idle: list[int], expected: int, fit: int
) -> None:
    assert room(free, running, idle, expected) == fit


# --- out of memory


def test_a_trial_that_ran_out_beside_others_runs_again_alone_and_succeeds(gpus: Gpus) -> None:
    sizes = [1.0, 1.0, 1.0, 1.0, 9.9, 1.0, 1.0, 1.0, 9.9, 1.0, 1.0]  # only without the contexts of idle workers
    outcomes, again = run(on(None, training(gpus), 4, resources=Resources(gpu="shared")), sizes)
    assert [outcome.status for outcome in outcomes] == [Status.OK] * len(sizes)
    assert again >= 1
    assert gpus.together() >= 2
    assert [beside for n_bytes, beside, _ in gpus.notes() if n_bytes > 9 * GB] == [0, 0]


def test_a_trial_that_a_device_cannot_hold_fails_as_that_once_it_was_alone(gpus: Gpus) -> None:
    outcomes, again = run(on(None, training(gpus), 2, resources=Resources(gpu=0.5)), [12.0, 1.0, 12.0, 1.0])
    assert [outcome.status for outcome in outcomes] == [Status.DEVICE_MEMORY, Status.OK] * 2
    assert again == 2
    assert str(outcomes[0].error).startswith("OutOfMemoryError: CUDA out of memory")


def test_a_study_of_small_and_large_networks_finishes_without_a_failure(gpus: Gpus) -> None:
    study = bohb.minimize(
        training(gpus),
        {"gb": (0.3, 9.9)},
        budgets=[1],
        seed=1,
        workers=6,
        resources={"gpu": "shared"},
        max_trials=16,
        progress=False,
    )
    assert [outcome.status for outcome in study.history.outcomes.values()] == [Status.OK] * 16
    assert not study.history.losses


class Wrapped(Exception):
    """As a trainer's, raised from the error of its framework."""


def raises(error: BaseException, cause: BaseException | None = None) -> Any:
    def objective(trial: Any) -> float:
        raise error from cause

    return objective


# Messages as these libraries write them.
MESSAGES = {
    "torch": "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which …",
    "torch, asynchronous": "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some …",
    "torch on AMD": "HIP out of memory. Tried to allocate 2.00 GiB",
    "torch on Apple": "MPS backend out of memory (MPS allocated: 18.00 GB, other allocations: 1.00 GB)",
    "cuBLAS": "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "jax": "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes.",
    "tensorflow": "OOM when allocating tensor with shape[65536,65536] and type float on /job:localhost/replica:0/"
    "task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Mul]",
    "xgboost": "[12:00:00] /src/common/device_vector.cu:23: Memory allocation error on worker 0: std::bad_alloc: "
    "cudaErrorMemoryAllocation: out of memory\n- Free memory: 1.2GB\n- Requested memory: 3GB",
    "lightgbm": "[CUDA] out of memory /src/cuda/cuda_utils.cu 12",
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_what_libraries_say_of_a_full_device_is_recognised(message: str) -> None:
    assert evaluate(raises(RuntimeError(message)), make_trial(0)).status is Status.DEVICE_MEMORY


@pytest.mark.parametrize(
    ("error", "cause", "status"),
    [
        (bohb.DeviceMemory("my own allocator"), None, Status.DEVICE_MEMORY),
        (OutOfMemoryError("Out of memory allocating 8,000,000,000 bytes"), None, Status.DEVICE_MEMORY),  # CuPy
        (Wrapped("training failed"), OutOfMemoryError("CUDA out of memory"), Status.DEVICE_MEMORY),
        (MemoryError("std::bad_alloc"), None, Status.MEMORY),
        (RuntimeError("OOM when allocating tensor on /device:CPU:0 by allocator cpu"), None, Status.CRASHED),
        (ValueError("the cable is out of memory lane"), None, Status.CRASHED),
    ],
)
def test_only_a_full_device_is_a_full_device(error: BaseException, cause: BaseException | None, status: Status) -> None:
    assert evaluate(raises(error, cause), make_trial(0)).status is status


# --- the peak of memory


def test_the_driver_says_what_a_trial_has_used_unless_the_objective_does(gpus: Gpus) -> None:
    outcomes, _ = run(on(None, training(gpus), 2, resources=Resources(gpu=0.5)), [3.0, 1.5])
    assert [outcome.info["device_memory"] for outcome in outcomes] == [3 * GB, 1.5 * GB]
    outcomes, _ = run(on(None, lambda trial: {"loss": 0, "device_memory": 7}, 1, resources=Resources(gpu=1)), [1.0])
    assert outcomes[0].info["device_memory"] == 7


def test_the_peak_of_memory_can_be_bounded(gpus: Gpus) -> None:
    objective = training(gpus)
    study = bohb.minimize(
        lambda trial: {"loss": -objective(trial)["loss"]},  # the larger, the better
        {"gb": (0.3, 9.0)},
        budgets=[1],
        seed=1,
        workers=2,
        resources={"gpu": "shared"},
        constraints={"device_memory": "<= 4GB"},
        initial_configs=[{"gb": 8.0}, {"gb": 3.5}],
        max_trials=6,
        progress=False,
    )
    for trial, outcome in study.trials:
        assert outcome is not None
        assert outcome.values["device_memory"] == pytest.approx(trial.config["gb"] * GB, abs=1)
    assert 3.5 <= study.best_config["gb"] <= 4.0


def test_a_bound_on_what_nobody_knows_is_a_bad_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(Gpus(tmp_path / "gpus", 1), monkeypatch)
    trial = replace(make_trial(0), goals=goals_of(constraints={"device_memory": "<= 4GB"}))
    executor = LocalExecutor(lambda trial: 0.0, 1, TrialOptions(resources=Resources(gpu=1)))
    monkeypatch.setattr(executor._devices, "look", lambda workers: None)
    executor.submit(trial)
    [done] = collect(executor, 1).values()
    executor.shutdown(kill=True)
    assert getattr(done, "status", None) is Status.BAD_RESULT
    assert "return it with the loss, in bytes" in str(getattr(done, "error", ""))


@pytest.mark.parametrize("value", [10**400, -1, True, "4GB", float("nan")])
def test_what_is_no_number_of_bytes_is_a_bad_result(value: Any, gpus: Gpus) -> None:
    trial = replace(make_trial(0), goals=goals_of(constraints={"device_memory": "<= 4GB"}))
    executor = on(None, lambda trial: {"loss": 0.0, "device_memory": value}, 1, resources=Resources(gpu=1))
    executor.submit(trial)
    [done] = collect(executor, 1).values()
    executor.shutdown(kill=True)
    assert getattr(done, "status", None) is Status.BAD_RESULT


# --- what cannot be shared


def test_sharing_needs_the_binding_of_the_driver_and_the_driver(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise sys.modules["pynvml"].NVMLError("Driver Not Loaded")

    monkeypatch.setattr(sys.modules["pynvml"], "nvmlInit", no_driver)
    with pytest.raises(InvalidArgument, match="NVIDIA's driver says Driver Not Loaded"):
        Devices(2, Resources(gpu="shared"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MissingExtra, match=r"nvidia-ml-py.*\[gpu\]"):
        Devices(2, Resources(gpu="shared"))
    assert Devices(1, Resources(gpu=1)).environment(0)[DEVICES] == "0", "whole devices need neither"


def test_a_device_that_the_driver_does_not_know_is_refused(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVICES, "0,7")
    with pytest.raises(InvalidArgument, match="does not know all devices of CUDA_VISIBLE_DEVICES=0,7"):
        Devices(2, Resources(gpu="shared"))


@pytest.mark.parametrize(
    ("platform", "kfd", "said"), [("darwin", False, "share Apple's GPU"), ("linux", True, "AMD's GPUs are not divided")]
)
def test_gpus_of_other_makes_are_named_with_a_way_out(
    platform: str, kfd: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEVICES, "")
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("os.path.exists", lambda path: path == "/dev/kfd" and kfd)
    with pytest.raises(InvalidArgument, match=said):
        Devices(2, Resources(gpu=1))


def test_engines_refuse_what_they_do_not_offer() -> None:
    with pytest.raises(InvalidArgument, match="works with local workers only"):
        Resources(gpu="shared").number_of_gpus  # noqa: B018
    with pytest.raises(InvalidArgument, match=r"=0.5 must be a whole number here; local workers and Ray"):
        Resources(gpu=0.5).whole_gpus  # noqa: B018
    with pytest.raises(InvalidArgument, match=r"'gpu'\]='some' must be a positive number or 'shared'"):
        Resources.of({"gpu": "some"})
