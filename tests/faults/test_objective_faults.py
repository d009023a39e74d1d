"""Faults that an objective causes in its worker, caused for real (rows 16–19 and 24)."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from bohb.core.trial import Outcome, Status, Trial
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.local.wire import CUT
from bohb.executors.options import StartMethod, TrialOptions
from tests.executors import objectives
from tests.executors.running import alive, collect, make_trial, noted, run_all, run_one, still_works, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

METHODS = get_args(StartMethod)
MIB = 2**20


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> StartMethod:
    chosen: StartMethod = request.param
    return chosen


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalExecutor]:
    """Two workers that must survive the tests below, or be replaced."""
    with LocalExecutor(objectives.anything, 2) as executor:
        yield executor


# --- rows 16 and 17: crashes


@pytest.mark.parametrize(
    "number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGALRM]
)
def test_a_signal_of_the_objective_is_a_crash_that_names_it(shared: LocalExecutor, number: signal.Signals) -> None:
    outcome = run_one(shared, act="signals_itself", signal=int(number))
    assert (outcome.status, outcome.error) == (Status.CRASHED, f"killed by {number.name}")


def test_a_real_segmentation_fault_leaves_its_traceback_in_the_output(tmp_path: Path, method: StartMethod) -> None:
    with LocalExecutor(objectives.anything, 2, TrialOptions(start_method=method)) as executor:
        executor.submit(make_trial(0, act="sleeps", seconds=0.5, note=str(tmp_path / "pid")))
        executor.submit(make_trial(1, act="null_pointer"))
        results = {done.trial.number: done.result for done in collect(executor, 2)}
        assert still_works(executor)
    crashed, neighbour = results[1], results[0]
    assert isinstance(crashed, Outcome)
    assert (crashed.status, crashed.error) == (Status.CRASHED, "killed by SIGSEGV")
    assert "null_pointer" in str(crashed.output)
    assert isinstance(neighbour, Outcome)
    assert neighbour.ok


def test_an_exit_without_cleanup_is_a_crash_with_its_code(shared: LocalExecutor) -> None:
    outcome = run_one(shared, act="os_exit")
    assert outcome.status is Status.CRASHED
    assert str(outcome.error).endswith("exited with code 3")
    assert outcome.output == "last words\n"


def test_sys_exit_is_a_crash_and_the_worker_stays(shared: LocalExecutor) -> None:
    pids = {run_one(shared, act="pid").info["pid"] for _ in range(4)}
    outcome = run_one(shared, act="sys_exit")
    assert (outcome.status, outcome.error) == (Status.CRASHED, "SystemExit: 3")
    assert {run_one(shared, act="pid").info["pid"] for _ in range(4)} <= pids


def test_the_curve_of_a_killed_trial_is_kept(shared: LocalExecutor) -> None:
    outcome = run_one(shared, act="reports_then_dies")
    assert outcome.status is Status.CRASHED
    assert len(outcome.curve) >= 4
    assert outcome.curve[0] == (0.0, 10.0)
    assert str(outcome.curve[1]) == "(1.0, nan)"


@pytest.mark.parametrize("act", ["closes_everything", "closes_everything_and_stays", "closes_everything_and_opens"])
def test_closing_all_descriptors_is_a_crash_and_no_hang(shared: LocalExecutor, act: str, tmp_path: Path) -> None:
    outcome = run_one(shared, act=act, where=str(tmp_path))
    assert outcome.status is Status.CRASHED
    assert "lost its connection" in str(outcome.error)
    assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())
    assert still_works(shared)


# --- rows 18 and 19: results and exceptions


@pytest.mark.parametrize("value", ["None", "str", "bool", "array", "complex", "list", "no loss"])
def test_what_is_not_a_loss_is_a_bad_result_that_names_the_value(shared: LocalExecutor, value: str) -> None:
    outcome = run_one(shared, act="bad", value=value)
    assert outcome.status is Status.BAD_RESULT
    assert repr(objectives.BAD[value]) in str(outcome.error)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "numpy nan"])
def test_a_loss_that_is_not_finite_is_a_failed_evaluation(shared: LocalExecutor, value: str) -> None:
    outcome = run_one(shared, act="bad", value=value)
    assert (outcome.status, outcome.loss) == (Status.DIVERGED, None)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        ("raises", "ValueError: this is bad"),
        ("two_arguments", "TwoArguments: code 3 at home"),
        ("unspeakable", "Unspeakable: <Unspeakable whose str raises RuntimeError>"),
        ("rootless", "Rootless: odd"),
        ("interrupts_itself", "KeyboardInterrupt"),
        ("surrogate", "OSError: cannot open a file named ?"),
        ("recursion", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_any_exception_is_stored_as_text_with_its_traceback(shared: LocalExecutor, act: str, error: str) -> None:
    outcome = run_one(shared, act=act)
    assert outcome.status is Status.CRASHED
    assert str(outcome.error).startswith(error)
    assert f"in {act}" in str(outcome.traceback)
    assert "evaluate.py" not in str(outcome.traceback), "it begins with the objective"


def test_an_exception_with_a_huge_message_is_cut(shared: LocalExecutor) -> None:
    outcome = run_one(shared, act="huge_message")
    assert len(str(outcome.error)) <= 2_000
    assert len(str(outcome.traceback)) < 25_000


@pytest.mark.parametrize("method", ["spawn", "forkserver"])  # 'fork' imports nothing
def test_an_objective_that_cannot_be_imported_fails_each_trial_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, method: StartMethod
) -> None:
    module = types.ModuleType("only_in_the_coordinator")
    exec("def objective(trial): return 0.0", vars(module))
    monkeypatch.setitem(sys.modules, "only_in_the_coordinator", module)
    with LocalExecutor(module.objective, 2, TrialOptions(start_method=method)) as executor:
        results = run_all(executor, [make_trial(n) for n in range(5)])
    for result in results.values():
        assert isinstance(result, Outcome)
        assert result.status is Status.CRASHED
        assert result.error == "ModuleNotFoundError: No module named 'only_in_the_coordinator'"
        assert "Traceback" in str(result.traceback)


class DiesOnArrival:
    """Kills the process that unpickles it."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, trial: Trial) -> float:
        return 0.0

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["how"] == "exit":
            os.write(2, b"cannot find libcuda\n")
            os._exit(4)
        os.kill(os.getpid(), signal.SIGABRT)


@pytest.mark.parametrize(
    ("how", "error"),
    [("exit", "exited with code 4 while loading the objective"), ("abort", "killed by SIGABRT while loading")],
)
def test_a_worker_that_dies_while_loading_costs_one_trial_each_and_never_loops(how: str, error: str) -> None:
    with LocalExecutor(DiesOnArrival(how), 2) as executor:
        results = run_all(executor, [make_trial(n) for n in range(4)])
    for result in results.values():
        assert isinstance(result, Outcome)
        assert error in str(result.error)
        assert how == "abort" or result.output == "cannot find libcuda\n"


# --- row 24: output


@pytest.mark.parametrize("fail", [False, True])
def test_a_flood_with_forged_results_is_cut_and_changes_nothing(tmp_path: Path, fail: bool) -> None:
    with LocalExecutor(objectives.anything, 1, TrialOptions(log_dir=tmp_path, log_bytes=100_000)) as executor:
        outcome = run_one(executor, number=9, act="floods", fail=fail, cut_to=100_000)
        assert still_works(executor)
    assert outcome.loss == (None if fail else 1.0)
    text = (tmp_path / "9.log").read_bytes()
    assert len(text) <= 100_000
    assert text.startswith(b"the beginning\n")
    assert text.endswith(b"the end\n")
    assert CUT in text
    assert (outcome.output or "").endswith("the end\n") == fail


def test_a_log_is_kept_at_its_limit_while_the_trial_runs(tmp_path: Path) -> None:
    def floods_until_cut_twice(trial: Trial) -> float:
        cuts = size = 0
        while cuts < 2:
            os.write(1, b"x" * 1000 + b"\n")
            cuts += os.fstat(1).st_size < size
            size = os.fstat(1).st_size
            time.sleep(0.0001)
        return float(cuts)

    with LocalExecutor(floods_until_cut_twice, 1, TrialOptions(log_dir=tmp_path, log_bytes=50_000)) as executor:
        assert run_one(executor).loss == 2
    assert (tmp_path / "0.log").stat().st_size <= 50_000


# --- leftovers of trials that ended well


def test_processes_a_trial_leaves_are_killed_even_daemons(shared: LocalExecutor, tmp_path: Path) -> None:
    assert run_one(shared, act="leaves_processes", note=str(tmp_path / "pids")).ok
    worker, *left = noted(tmp_path / "pids")
    assert not any(map(alive, left))
    assert alive(worker)


@pytest.mark.parametrize("daemon", [False, True])
def test_a_worker_with_a_leftover_thread_is_replaced(shared: LocalExecutor, daemon: bool) -> None:
    outcome = run_one(shared, act="leaves_thread", daemon=daemon)
    assert outcome.ok
    until(lambda: not alive(outcome.info["pid"]), "the worker ends")
    assert still_works(shared)


@pytest.mark.parametrize(("act", "thread"), [("draws_bar", "tqdm_monitor"), ("keeps_pool", "pool_0")])
def test_idle_threads_that_a_trial_has_left_do_not_cost_its_worker(act: str, thread: str) -> None:
    """The monitor of tqdm, which every progress bar of Hugging Face starts, and a pool that is kept in a global."""
    with LocalExecutor(objectives.anything, 1) as executor:
        infos = [run_one(executor, number=n, act=act).info for n in range(4)]
    assert all(thread in info["threads"] for info in infos)
    assert len({info["pid"] for info in infos}) == 1


def test_a_thread_that_still_works_costs_the_worker_and_a_warning_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalExecutor(objectives.anything, 1, TrialOptions(log_dir=tmp_path)) as executor:
        pids = [run_one(executor, number=n, act="keeps_pool", busy=True).info["pid"] for n in range(3)]
    assert len(set(pids)) == 3
    [said] = [record.getMessage() for record in caplog.records if "replaced" in record.getMessage()]
    assert re.fullmatch(
        r"trial 0 left the thread 'pool_0'; its worker is replaced, which takes [\d.]+ s per trial", said
    )
    note = "[bohb: the trial left the thread 'pool_0'; its worker is replaced]\n"
    assert [(tmp_path / f"{n}.log").read_text() for n in range(3)] == [note] * 3


def test_a_trial_cannot_spoil_directory_and_streams_of_the_next(tmp_path: Path) -> None:
    with LocalExecutor(objectives.anything, 1, TrialOptions(log_dir=tmp_path)) as executor:
        run_one(executor, act="spoils_process")
        assert run_one(executor, number=1, act="environment").info["cwd"] == os.getcwd()
        run_one(executor, number=2, act="prints")
    assert (tmp_path / "2.log").read_text() == "by Python\nby descriptor\nby grandchild\n"


def test_a_worker_ignores_interrupts(shared: LocalExecutor, tmp_path: Path) -> None:
    shared.submit(make_trial(0, act="waits", note=str(tmp_path / "pid"), go=str(tmp_path / "go")))
    [pid] = noted(tmp_path / "pid")
    os.kill(pid, signal.SIGINT)
    (tmp_path / "go").touch()
    [done] = collect(shared, 1)
    assert isinstance(done.result, Outcome)
    assert done.result.ok
