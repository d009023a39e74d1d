"""A LocalExecutor when nothing goes wrong, and its error messages for wrong arguments."""

from __future__ import annotations

import atexit
import functools
import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from bohb.core.trial import Outcome, Status
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.evaluate import POINTS
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import StartMethod, TrialOptions
from tests.executors import objectives
from tests.executors.running import alive, collect, make_trial, run_all, run_one, until

METHODS = get_args(StartMethod)


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> StartMethod:
    chosen: StartMethod = request.param
    return chosen


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalExecutor]:
    """Two workers for tests that do not change them."""
    with LocalExecutor(objectives.anything, 2) as executor:
        yield executor


@pytest.fixture(scope="module", params=METHODS)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    """Two workers of each start method, with logs, a variable for each slot and an inheritable file that is open."""
    directory = tmp_path_factory.mktemp(request.param)
    options = TrialOptions(start_method=request.param, log_dir=directory / "logs")
    with open(directory / "secret", "w") as secret:
        os.set_inheritable(secret.fileno(), True)
        with LocalExecutor(objectives.anything, 2, options, slot_env=lambda slot: {"GPU": f"gpu-{slot}"}) as executor:
            yield executor


def ok(result: object) -> Outcome:
    assert isinstance(result, Outcome)
    assert result.ok, result
    return result


# --- running trials


def test_every_trial_comes_back_once_with_its_own_loss(method: StartMethod) -> None:
    with LocalExecutor(objectives.loss, 3, TrialOptions(start_method=method)) as executor:
        results = run_all(executor, [make_trial(n) for n in range(100)])
    assert {number: ok(result).loss for number, result in results.items()} == {n: float(n) for n in range(100)}


def test_lambdas_and_closures_are_shipped_by_value(method: StartMethod) -> None:
    offset = 41.0
    with LocalExecutor(lambda trial: trial.number + offset, 1, TrialOptions(start_method=method)) as executor:
        assert run_one(executor, number=1).loss == 42.0


def test_callable_objects_and_partials_work() -> None:
    def scaled(factor: float, trial: Any) -> float:
        return factor * float(trial.number)

    with LocalExecutor(functools.partial(scaled, 3.0), 1) as executor:
        assert run_one(executor, number=2).loss == 6.0


def test_the_worker_stays_warm_and_the_objective_is_loaded_once() -> None:
    with LocalExecutor(objectives.warm, 1) as executor:
        infos = [run_one(executor, number=n).info for n in range(5)]
    assert len({info["loaded"] for info in infos}) == len({info["pid"] for info in infos}) == 1


def test_workers_start_only_when_needed() -> None:
    with LocalExecutor(objectives.warm, 8) as executor:
        assert len({run_one(executor, number=n).info["pid"] for n in range(5)}) == 1


def test_an_outcome_says_when_and_where_it_ran(shared: LocalExecutor) -> None:
    before = time.time()
    outcome = run_one(shared, act="fine")
    assert outcome.started is not None
    assert outcome.finished is not None
    assert before <= outcome.started <= outcome.finished <= time.time()
    assert outcome.worker is not None
    assert outcome.worker.endswith(("/0", "/1"))


def test_the_trial_arrives_whole(tmp_path: Path) -> None:
    def objective(trial: Any) -> dict[str, Any]:
        (trial.checkpoint_dir / "weights").write_text("1")
        return {"loss": 0.0, "info": {"config": trial.config, "seed": trial.seed, "attempt": trial.attempt}}

    with LocalExecutor(objective, 1) as executor:
        sent = make_trial(5, attempt=2, checkpoint_dir=tmp_path, lr=0.1, units=3, name="é\n")
        executor.submit(sent)
        [done] = collect(executor, 1)
    assert done.trial is sent
    assert ok(done.result).info == {"config": {"lr": 0.1, "units": 3, "name": "é\n"}, "seed": 7, "attempt": 2}
    assert (tmp_path / "weights").exists()


def test_a_configuration_larger_than_a_socket_buffer_arrives(shared: LocalExecutor) -> None:
    assert run_one(shared, act="fine", x=2.0, text="x" * 3_000_000).loss == 2.0


def test_a_large_result_arrives(shared: LocalExecutor) -> None:
    assert len(run_one(shared, act="large_info", size=3_000_000).info["text"]) == 3_000_000


def test_a_gigantic_result_is_refused_with_its_size(shared: LocalExecutor) -> None:
    outcome = run_one(shared, act="large_info", size=20_000_000)
    assert outcome.status is Status.BAD_RESULT
    assert "bytes" in str(outcome.error)


def test_wait_gives_up_after_its_timeout_and_nothing_is_lost(shared: LocalExecutor, tmp_path: Path) -> None:
    shared.submit(make_trial(0, act="waits", note=str(tmp_path / "pid"), go=str(tmp_path / "go")))
    assert shared.wait(0.01) == []
    assert shared.wait(0) == []
    (tmp_path / "go").touch()
    assert len(collect(shared, 1)) == 1


def test_wait_returns_at_once_when_nothing_can_come(shared: LocalExecutor) -> None:
    assert shared.wait(None) == []


def test_results_are_right_while_the_coordinator_has_threads() -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with LocalExecutor(objectives.loss, 2) as executor:
            assert ok(run_one(executor, number=3)).loss == 3.0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# --- learning curves


def test_reported_points_come_with_the_outcome(shared: LocalExecutor) -> None:
    outcome = run_one(shared, act="reports", points=3)
    assert outcome.curve == ((0.0, 1.0), (1.0, 0.5), (2.0, 1 / 3))


def test_a_curve_is_thinned_evenly_and_keeps_its_ends(shared: LocalExecutor) -> None:
    outcome = run_one(shared, act="reports", points=55_000)
    steps = [step for step, _ in outcome.curve]
    assert POINTS / 2 <= len(steps) <= POINTS
    assert (steps[0], steps[-1]) == (0.0, 54_999.0)
    assert len({b - a for a, b in itertools.pairwise(steps[:-1])}) == 1


# --- the worker's surroundings


def test_each_worker_leads_its_own_session(shared: LocalExecutor) -> None:
    info = run_one(shared, act="pid").info
    assert info["session"] == info["pid"] != os.getpid()


def test_workers_see_path_directory_and_arguments_of_the_coordinator(started: LocalExecutor) -> None:
    info = run_one(started, act="environment").info
    assert (info["path"], info["cwd"], info["argv"]) == (sys.path, os.getcwd(), sys.argv)


def test_each_slot_has_its_environment(started: LocalExecutor) -> None:
    outcomes = run_all(started, [make_trial(n, act="environment") for n in range(20)])
    for outcome in map(ok, outcomes.values()):
        assert outcome.info["gpu"] == f"gpu-{str(outcome.worker)[-1]}"


def test_no_descriptor_of_the_coordinator_reaches_a_worker(started: LocalExecutor) -> None:
    for outcome in map(ok, run_all(started, [make_trial(n, act="descriptors") for n in range(4)]).values()):
        targets = outcome.info["descriptors"].values()
        assert not [target for target in targets if "secret" in target]
        assert len([target for target in targets if target.startswith("socket:")]) == 1


def test_workers_do_not_draw_the_same_numbers(started: LocalExecutor, tmp_path: Path) -> None:
    trials = [make_trial(n, act="draws", where=str(tmp_path)) for n in range(6)]
    infos = [ok(result).info for result in run_all(started, trials).values()]
    assert len({info["pid"] for info in infos}) == 2
    assert len({tuple(info["drawn"]) for info in infos}) == 6
    assert len({info["drawn"][1] for info in infos}) == 6


def test_a_worker_is_replaced_after_recycle_after_trials() -> None:
    with LocalExecutor(objectives.warm, 1, TrialOptions(recycle_after=2)) as executor:
        pids = [run_one(executor, number=n).info["pid"] for n in range(6)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4] == pids[5]


# --- what is printed


def test_the_output_of_a_trial_is_in_its_log(started: LocalExecutor) -> None:
    outcome = run_one(started, number=7, act="prints")
    assert outcome.output is None
    log = Path(started._setup.log_dir) / "7.log"
    assert log.read_text().splitlines() == ["by Python", "by descriptor", "by grandchild"]


def test_a_failed_trial_keeps_the_end_of_its_output(shared: LocalExecutor) -> None:
    assert run_one(shared, act="prints", fail=True).output == "by Python\nby descriptor\nby grandchild\n"


def test_output_does_not_leak_into_the_next_trial(shared: LocalExecutor) -> None:
    for number in range(4):
        run_one(shared, act="prints", number=number)
        assert run_one(shared, act="raises").output is None


def test_a_silent_trial_leaves_no_log(tmp_path: Path) -> None:
    with LocalExecutor(objectives.loss, 1, TrialOptions(log_dir=tmp_path)) as executor:
        run_one(executor)
    assert list(tmp_path.iterdir()) == []


# --- the end


def test_shutdown_waits_for_running_trials_and_their_results_can_be_fetched(tmp_path: Path) -> None:
    executor = LocalExecutor(objectives.anything, 2)
    executor.submit(make_trial(0, act="sleeps", seconds=0.3, note=str(tmp_path / "pid")))
    executor.shutdown(kill=False)
    assert [done.trial.number for done in executor.wait(None)] == [0]
    assert not alive(int((tmp_path / "pid").read_text()))


def test_functions_that_libraries_register_for_the_end_of_a_worker_run_during_a_shutdown(
    tmp_path: Path, method: StartMethod
) -> None:
    def objective(trial: Any) -> float:
        def last() -> None:  # such as the upload of an experiment tracker
            time.sleep(0.2)
            (tmp_path / "flushed").touch()

        atexit.register(last)
        return 0.0

    with LocalExecutor(objective, 1, TrialOptions(start_method=method)) as executor:
        run_one(executor)
    assert (tmp_path / "flushed").exists()


def test_shutdown_with_kill_ends_even_what_ignores_signals(tmp_path: Path, method: StartMethod) -> None:
    executor = LocalExecutor(objectives.anything, 2, TrialOptions(start_method=method))
    executor.submit(make_trial(0, act="hangs", note=str(tmp_path / "pids")))
    until((tmp_path / "pids").exists, "the trial starts")
    executor.shutdown(kill=True)
    until(lambda: not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split()), "all processes end")
    assert executor.wait(None) == []


def test_shutting_down_twice_or_unused_is_harmless() -> None:
    executor = LocalExecutor(objectives.loss, 2)
    executor.shutdown(kill=False)
    executor.shutdown(kill=True)
    executor.shutdown(kill=False)
    with pytest.raises(BohbError, match="shut down"):
        executor.submit(make_trial(0))


def test_a_forgotten_executor_takes_its_workers_with_it() -> None:
    executor = LocalExecutor(objectives.warm, 1)
    pid = run_one(executor).info["pid"]
    del executor
    gc.collect()
    until(lambda: not alive(pid), "the worker ends")


def test_no_temporary_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for kill in (True, False):
        executor = LocalExecutor(objectives.loss, 1)
        run_one(executor)
        executor.shutdown(kill)
    assert list(tmp_path.iterdir()) == []


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    (tmp_path / "helper_of_script.py").write_text("OFFSET = 5.0\n")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from bohb.core.trial import Origin, Trial
        from bohb.executors.local.executor import LocalExecutor
        from bohb.executors.options import TrialOptions

        class Shift:
            amount = 2.0

        def objective(trial):
            import helper_of_script
            return trial.budget + helper_of_script.OFFSET + Shift.amount

        for method in ("spawn", "forkserver", "fork"):
            executor = LocalExecutor(objective, 2, TrialOptions(start_method=method))
            executor.submit(Trial(0, {}, 1.0, 0, 0, 0, 0, Origin.RANDOM))
            print(method, [done.result.loss for done in executor.wait(None)])
        """)
    )
    command = [sys.executable, "-W", "error", str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (ran.stdout, ran.stderr) == ("spawn [8.0]\nforkserver [8.0]\nfork [8.0]\n", "")


# --- arguments


def test_an_objective_that_cannot_be_pickled_is_refused_by_name() -> None:
    lock = threading.Lock()

    def holds_a_lock(trial: Any) -> float:
        with lock:
            return 0.0

    with pytest.raises(InvalidArgument, match=r"holds_a_lock.*cannot be pickled.*inside the objective"):
        LocalExecutor(holds_a_lock, 1)


def test_forking_needs_no_pickle() -> None:
    lock = threading.Lock()

    def holds_a_lock(trial: Any) -> float:
        with lock:
            return 1.0

    with LocalExecutor(holds_a_lock, 1, TrialOptions(start_method="fork")) as executor:
        assert run_one(executor).loss == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trial_seconds": 0}, "trial_seconds=0"),
        ({"trial_seconds": float("nan")}, "trial_seconds=nan"),
        ({"trial_seconds": True}, "trial_seconds=True"),
        ({"trial_memory": -1}, "trial_memory=-1"),
        ({"trial_memory": "1GB"}, "trial_memory='1GB'"),
        ({"log_bytes": 10}, "log_bytes=10"),
        ({"recycle_after": 0}, "recycle_after=0"),
        ({"start_method": "thread"}, "start_method='thread'"),
    ],
)
def test_options_that_break_a_rule_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        TrialOptions(**arguments)


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_the_number_of_workers_must_be_positive(workers: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"workers={workers}"):
        LocalExecutor(objectives.loss, workers)


def test_the_objective_must_be_callable() -> None:
    with pytest.raises(InvalidArgument, match=r"objective=3\.5"):
        LocalExecutor(3.5, 1)  # type: ignore[arg-type]
