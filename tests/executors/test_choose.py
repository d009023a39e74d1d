"""The arguments `executor`, `workers` and `resources`: in Python, in the study file and on the command line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import bohb
from bohb.cli.run import run as run_command
from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument, MissingExtra
from bohb.executors.engines import task
from bohb.executors.engines.engine import INLINE_BYTES, EngineBroken
from bohb.executors.local.devices import DEVICES, free_devices, visible_devices
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import THREADS, Resources, TrialOptions
from bohb.testing.executors import acting, collect, host_of, make_trial, noted, run_all, until
from tests.executors.places import on
from tests.executors.studies import TRIALS, assert_whole, kill_in_the_middle, run_study


def shown(trial: Any) -> dict[str, Any]:
    names = (DEVICES, *THREADS)
    return {"loss": 0.0, "info": {name: os.environ[name] for name in names if name in os.environ}}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


# --- which executor


def test_minimize_takes_an_executor_that_was_put_together_elsewhere(tmp_path: Path) -> None:
    local = LocalExecutor(lambda trial: trial.number, 2)
    space = {"x": (0.0, 1.0)}
    study = bohb.minimize(shown, space, min_budget=1, max_budget=9, max_trials=5, executor=local, progress=False)
    assert {number: outcome.loss for number, outcome in study.history.outcomes.items()} == {n: n for n in range(5)}
    with pytest.raises(InvalidArgument, match="has its own workers and limits"):
        on(local, acting(), 3)
    with pytest.raises(InvalidArgument, match="has its own workers and limits"):
        on(local, acting(), trial_seconds=3.0)


@pytest.mark.parametrize(
    ("executor", "error"),
    [
        (3, "executor=3 must be a pool"),
        ("slurm", r"executor='slurm' must be .*dask://"),
        ("http://host", r"executor='http://host' must be .*dask://"),
    ],
)
def test_what_is_no_engine_is_refused(executor: Any, error: str) -> None:
    with pytest.raises(InvalidArgument, match=error):
        on(executor, acting())


def test_workers_must_be_a_number_and_the_size_of_a_pool_must_be_known() -> None:
    class Anonymous(Executor):
        """Runs tasks at once, and does not know its size."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    with pytest.raises(InvalidArgument, match="workers=0"):
        on(Anonymous(), acting(), 0)
    with pytest.raises(InvalidArgument, match="give workers="):
        on(Anonymous(), acting())
    executor = on(Anonymous(), acting(), 1)
    assert isinstance(run_all(executor, [make_trial(0, act="fine")])[0], Outcome)
    executor.shutdown(kill=False)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_an_engine_that_is_not_installed_is_named_with_its_extra(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, {"dask": "distributed", "ray": "ray"}[engine], None)
    monkeypatch.delitem(sys.modules, f"bohb.executors.engines.{engine}", raising=False)
    with pytest.raises(MissingExtra, match=rf"\[{engine}\]"):
        on(f"{engine}://host:1", acting())


def test_an_objective_that_cannot_be_pickled_is_refused_and_leaves_no_file(pool: ThreadPoolExecutor) -> None:
    lock = threading.Lock()
    with pytest.raises(InvalidArgument, match="cannot be sent"):
        on(pool, lambda trial: lock)


# --- how objectives and trials are sent


def test_a_large_objective_is_sent_to_a_process_once_and_a_small_one_with_every_trial() -> None:
    class Recording(ThreadPoolExecutor):
        """Records the payloads."""

        payloads: list[bytes | None]

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.payloads.append(args[0].payload)
            return super().submit(fn, *args, **kwargs)

    for size, sent in ((4 * INLINE_BYTES, 1), (10, 6)):
        with Recording(1) as pool:
            pool.payloads = []
            executor = on(pool, acting(os.urandom(size)))
            for number in range(6):
                run_all(executor, [make_trial(number, act="ballast")])
            executor.shutdown(kill=False)
            assert len([payload for payload in pool.payloads if payload is not None]) == sent


def test_children_stay_warm_between_trials_and_go_when_idle(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = on(pool, lambda trial: {"loss": 0.0, "info": {"pid": os.getpid()}}, 1)
    first, second = (run_all(executor, [make_trial(n)])[n] for n in range(2))
    assert isinstance(first, Outcome)
    assert isinstance(second, Outcome)
    assert first.info == second.info
    monkeypatch.setattr(task, "IDLE_SECONDS", 0.0)
    until(lambda: not task._children._children, "the idle child is ended")
    third = run_all(executor, [make_trial(2)])[2]
    assert isinstance(third, Outcome)
    assert third.info != first.info
    executor.shutdown(kill=False)


def test_a_directory_that_a_machine_does_not_see_is_named(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    executor = on(pool, acting(), log_dir=tmp_path / "logs")
    result = run_all(executor, [make_trial(0, tmp_path / "elsewhere", act="fine")])[0]
    executor.shutdown(kill=False)
    assert "does not see the checkpoint directory" in getattr(result, "reason", "")
    assert "checkpoints=False" in getattr(result, "reason", "")


def test_a_study_on_a_broken_pool_raises_keeps_its_results_and_continues_with_a_new_one(tmp_path: Path) -> None:
    killer = kill_in_the_middle(tmp_path, host_of)
    with ProcessPoolExecutor(2) as pool, pytest.raises(EngineBroken, match="ProcessPoolExecutor given as executor="):
        run_study(pool, tmp_path)
    killer.join()
    with ProcessPoolExecutor(2) as pool:
        study = run_study(pool, tmp_path)
    assert len(study.history.sessions) == 2
    assert_whole(study)
    assert len(study.history.outcomes) == TRIALS


def test_an_interrupt_from_the_terminal_leaves_trials_in_a_pool_alone(tmp_path: Path) -> None:
    def objective(trial: Any) -> float:
        import time

        (tmp_path / "note").write_text(str(os.getpid()))
        while not (tmp_path / "go").exists():
            time.sleep(0.01)
        return 5.0

    with ProcessPoolExecutor(1) as pool:
        executor = on(pool, objective)
        executor.submit(make_trial(0))
        until(lambda: (tmp_path / "note").exists() and (tmp_path / "note").read_text(), "the trial begins")
        os.kill(host_of(noted(tmp_path / "note")), signal.SIGINT)
        (tmp_path / "go").touch()
        assert getattr(collect(executor, 1)[0], "loss", None) == 5.0
        executor.shutdown(kill=False)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"trial_seconds": -1}, "trial_seconds=-1"),
        ({"recycle_after": 0}, "recycle_after=0"),
        ({"start_method": "magic"}, "start_method='magic'"),
    ],
)
def test_limits_that_make_no_sense_are_refused_before_anything_is_sent(
    pool: ThreadPoolExecutor, option: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidArgument, match=error):
        on(pool, acting(), **option)


# --- resources


def test_local_slots_get_devices_and_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVICES, "3,5,GPU-abc,MIG-1")
    executor = on(None, shown, 2, resources=Resources(gpu=2, cpu=3))
    found = run_all(executor, [make_trial(n) for n in range(2)])
    executor.shutdown(kill=False)
    infos = [getattr(outcome, "info", {}) for outcome in found.values()]
    assert {info[DEVICES] for info in infos} <= {"3,5", "GPU-abc,MIG-1"}
    assert {info[name] for info in infos for name in THREADS} == {"3"}
    with pytest.raises(InvalidArgument, match=r"workers=3 .* need 6 GPUs, but 4 are visible"):
        on(None, shown, 3, resources=Resources(gpu=2))
    with pytest.raises(InvalidArgument, match="whole number"):
        on(None, shown, 3, resources=Resources(gpu=1.5))


def test_devices_are_counted_by_the_driver_and_limited_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: GPU-1)'\necho '  MIG 1g'\necho 'GPU 1: A (UUID: GPU-2)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv(DEVICES, raising=False)
    assert visible_devices() == ["0", "1"]
    assert free_devices(1, {"0"}) == ("1",)
    assert free_devices(2, set()) == ()  # all visible ones: nothing to choose
    for value, expected in (("", []), ("-1", []), ("1", ["1"]), ("1,-1,0", ["1"]), ("NoDevFiles", [])):
        monkeypatch.setenv(DEVICES, value)
        assert visible_devices() == expected


def test_pools_take_cores_and_memory_and_refuse_what_they_do_not_schedule(pool: ThreadPoolExecutor) -> None:
    with pytest.raises(InvalidArgument, match=r"'gpu'\]=1 is not scheduled by a ThreadPoolExecutor"):
        on(pool, shown, resources=Resources(gpu=1))
    executor = on(pool, shown, resources=Resources(cpu=2, memory=10**9))
    info = getattr(run_all(executor, [make_trial(0)])[0], "info", {})
    executor.shutdown(kill=False)
    assert info["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        ({"gpu": -1}, r"resources\['gpu'\]=-1 must be a positive number"),
        ({"gpu": True}, r"resources\['gpu'\]=True"),
        ({"memory": "8 elephants"}, r"resources\['memory'\]='8 elephants' must be a number or a string"),
        ({"licence": 1}, r"resources\['licence'\]=1 is not scheduled by local workers"),
    ],
)
def test_a_resource_that_makes_no_sense_is_refused(resources: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidArgument, match=error):
        bohb.minimize(shown, {"x": (0.0, 1.0)}, min_budget=1, max_budget=9, workers=1, resources=resources)


def test_resources_need_workers_and_their_memory_is_a_limit() -> None:
    with pytest.raises(InvalidArgument, match="resources needs isolated workers"):
        on(None, shown, resources=Resources(cpu=1))
    assert TrialOptions(resources=Resources(memory=10**9)).memory_limit == 10**9
    assert TrialOptions(trial_memory=10**8, resources=Resources(memory=10**9)).memory_limit == 10**8


# --- study file and command line

STUDY = """
objective = "things:objective"
executor = "things:pool"
[space]
x = {float = [0.0, 1.0]}
[budget]
min = 1
max = 9
[limits]
max_trials = 4
[resources]
cpu = 2
memory = "1GB"
"""

THINGS = """
import os
from concurrent.futures import ThreadPoolExecutor

def objective(trial):
    return {"loss": trial.config["x"], "info": {"threads": os.environ["OMP_NUM_THREADS"]}}

def pool():
    return ThreadPoolExecutor(2)
"""


def test_a_study_file_names_executor_and_resources_and_options_replace_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "things.py").write_text(THINGS)
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = CliRunner()
    ran = runner.invoke(run_command, [str(tmp_path / "study.toml"), "--json", "--quiet", "--resource", "cpu=1"])
    assert ran.exit_code == 0, ran.output
    assert '"threads": "1"' in ran.output
    for options, error in (
        (["--resource", "gpu"], "must be of the form name=number"),
        (["--resource", "gpu=much"], "must be of the form name=number"),
    ):
        refused = runner.invoke(run_command, [str(tmp_path / "study.toml"), *options])
        assert refused.exit_code == 2
        assert error in refused.output
    with pytest.raises(InvalidArgument, match=r"'gpu'\]='shared' is not scheduled by a ThreadPoolExecutor"):
        runner.invoke(run_command, [str(tmp_path / "study.toml"), "--resource", "gpu=shared"], catch_exceptions=False)
    with pytest.raises(InvalidArgument, match=r"executor='http://nowhere' must be .*dask://"):
        runner.invoke(
            run_command, [str(tmp_path / "study.toml"), "--executor", "http://nowhere"], catch_exceptions=False
        )
