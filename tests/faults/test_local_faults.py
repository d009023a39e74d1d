"""Faults of trials and of their environment, caused for real on a LocalExecutor (rows 4, 5, 14, 15, 25)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from bohb import units
from bohb.core.trial import Lost, Outcome, Status, Trial
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import StartMethod, TrialOptions
from tests.executors import objectives
from tests.executors.running import alive, collect, make_trial, noted, run_one, still_works, until
from tests.sizes import FULL, bound, size

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


# --- row 4: a worker is killed from outside


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_is_a_loss_that_names_signal_and_process(
    shared: LocalExecutor, tmp_path: Path, number: signal.Signals
) -> None:
    shared.submit(make_trial(0, act="sleeps", note=str(tmp_path / "pid")))
    [pid] = noted(tmp_path / "pid")
    os.kill(pid, number)
    [done] = collect(shared, 1)
    assert isinstance(done.result, Lost)
    assert f"(pid {pid}) was killed by {number.name}" in done.result.reason
    assert still_works(shared)


def test_the_neighbour_of_a_killed_worker_notices_nothing(tmp_path: Path) -> None:
    with LocalExecutor(objectives.anything, 2) as executor:
        executor.submit(make_trial(0, act="sleeps", note=str(tmp_path / "a")))
        executor.submit(make_trial(1, act="waits", note=str(tmp_path / "b"), go=str(tmp_path / "go")))
        [victim], [neighbour] = noted(tmp_path / "a"), noted(tmp_path / "b")
        os.kill(victim, signal.SIGKILL)
        executor.submit(make_trial(2, act="pid"))
        results = {done.trial.number: done.result for done in collect(executor, 2)}
        (tmp_path / "go").touch()
        results |= {done.trial.number: done.result for done in collect(executor, 1)}
    assert isinstance(results[0], Lost)
    assert isinstance(results[1], Outcome)
    assert results[1].ok
    assert isinstance(results[2], Outcome)
    assert results[2].info["pid"] not in (victim, neighbour)


def test_a_worker_killed_while_idle_is_replaced(shared: LocalExecutor) -> None:
    pid = run_one(shared, act="pid").info["pid"]
    os.kill(pid, signal.SIGKILL)
    workers = shared._workers

    def noticed() -> bool:
        shared.wait(0.05)
        return pid not in {worker.pid for worker in workers.values()}

    until(noticed, "the death is noticed")
    assert still_works(shared)


def test_a_killed_guard_loses_the_running_trials_and_is_replaced(tmp_path: Path) -> None:
    with LocalExecutor(objectives.anything, 2) as executor:
        executor.submit(make_trial(0, act="hangs", note=str(tmp_path / "pids")))
        worker, *others = noted(tmp_path / "pids")
        os.kill(parent_of(worker), signal.SIGKILL)
        [done] = collect(executor, 1)
        assert isinstance(done.result, Lost)
        assert "guard" in done.result.reason
        until(lambda: not any(map(alive, [worker, *others])), "the tree dies")
        assert still_works(executor)


@pytest.mark.parametrize("fails", [False, True])
def test_a_forked_process_that_returns_through_the_objective_sends_no_result(
    shared: LocalExecutor, fails: bool
) -> None:
    for number in range(3):
        outcome = run_one(shared, number=number, act="forks", **({"raise": True} if fails else {}))
        assert (outcome.loss, outcome.curve) == (number, ())
    assert still_works(shared)


def test_timers_and_handlers_that_a_trial_leaves_do_not_reach_the_next() -> None:
    with LocalExecutor(objectives.anything, 1) as executor:
        left = run_one(executor, act="leaves_timer")
        later = run_one(executor, number=1, act="works_on")
    assert later.info == {"pid": left.info["pid"], "clean": True}, "the same process runs both"


# --- row 5: chaos


def test_in_chaos_every_trial_ends_exactly_once() -> None:
    trials, slots = (3000, 64) if FULL else (600, 8)
    trials_per_kill = 15  # about 20 kills a second
    pending = [make_trial(n) for n in reversed(range(trials))]
    ended: Counter[int] = Counter()
    running: Counter[int] = Counter()
    rng = random.Random(1)
    kills = lost = 0
    with LocalExecutor(objectives.short_work, slots) as executor:
        executor.submit(pending.pop())
        collect_first = collect(executor, 1)
        guard = guard_of(os.getpid())
        ended[collect_first[0].trial.number] += 1
        while sum(ended.values()) < trials:
            while pending and running.total() < executor.slots:
                trial = pending.pop()
                executor.submit(trial)
                running[trial.number] += 1
            if sum(ended.values()) > kills * trials_per_kill and (victims := children_of(guard)):
                os.kill(rng.choice(victims), signal.SIGKILL)
                kills += 1
            for done in executor.wait(0.05):
                running[done.trial.number] -= 1
                if isinstance(done.result, Lost):  # what the runner does with a loss
                    lost += 1
                    pending.append(make_trial(done.trial.number, attempt=done.trial.attempt + 1))
                else:
                    assert done.result.loss == done.trial.number
                    ended[done.trial.number] += 1
    assert set(ended) == set(range(trials))
    assert max(ended.values()) == 1
    assert kills >= trials / trials_per_kill - 1
    assert lost <= kills


# --- row 14: a hang


LIMITS = (1, 20)  # seconds; on a busy machine a trial may need more than the first before it hangs


def test_a_hang_is_killed_at_its_limit_with_its_whole_tree(tmp_path: Path, method: StartMethod) -> None:
    for limit in LIMITS:
        with LocalExecutor(objectives.anything, 2, TrialOptions(trial_seconds=limit, start_method=method)) as executor:
            executor.submit(make_trial(0, act="hangs", note=str(tmp_path / "pids")))
            executor.submit(make_trial(1, act="fine"))
            results = {done.trial.number: done.result for done in collect(executor, 2)}
            hung, fine = results[0], results[1]
            assert isinstance(hung, Outcome)
            if hung.output is None and limit < LIMITS[-1]:
                continue
            pids = noted(tmp_path / "pids")
            until(lambda pids=pids: not any(map(alive, pids)), "the tree dies")  # type: ignore[misc]
            assert still_works(executor)
            break
    assert isinstance(hung, Outcome)
    said = f"ran longer than trial_seconds={limit}"
    assert (hung.status, hung.error, hung.output) == (Status.TIMEOUT, said, "hanging\n")
    assert hung.started is not None
    assert hung.finished is not None
    assert limit <= hung.finished - hung.started <= limit + bound(1.0)
    assert isinstance(fine, Outcome)
    assert fine.ok


def test_a_limit_holds_while_the_coordinator_does_something_else(tmp_path: Path) -> None:
    with LocalExecutor(objectives.anything, 1, TrialOptions(trial_seconds=3)) as executor:
        executor.submit(make_trial(0, act="waits", note=str(tmp_path / "pids"), go=str(tmp_path / "never")))
        pids = noted(tmp_path / "pids")
        until(lambda: not any(map(alive, pids)), "the trial is killed, though nobody waits")
        [done] = collect(executor, 1)
    assert isinstance(done.result, Outcome)
    assert done.result.status is Status.TIMEOUT


def test_a_result_that_waits_for_a_busy_coordinator_does_not_time_out(tmp_path: Path) -> None:
    with LocalExecutor(objectives.anything, 1, TrialOptions(trial_seconds=3.0)) as executor:
        executor.submit(make_trial(0, act="large_info", size=3_000_000))  # more than the socket holds
        time.sleep(4.0)
        [done] = collect(executor, 1)
    assert isinstance(done.result, Outcome)
    assert done.result.ok


def test_an_import_that_hangs_ends_at_its_own_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, time\nif os.environ.get('SLOW'): time.sleep(600)\ndef f(trial): return 0.0\n"
    (tmp_path / "slow_to_import.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    import slow_to_import  # type: ignore[import-not-found]

    with LocalExecutor(
        slow_to_import.f, 1, TrialOptions(start_seconds=0.5), slot_env=lambda slot: {"SLOW": "1"}
    ) as executor:
        outcome = run_one(executor)
    assert outcome.status is Status.CRASHED
    assert "did not load the objective within start_seconds=0.5" in str(outcome.error)


# --- row 15: memory


@pytest.mark.parametrize("act", ["hog", "hog_in_child"])
def test_a_memory_hog_is_killed_and_its_neighbour_is_fine(tmp_path: Path, act: str) -> None:
    limit = size(300, 2048)
    with LocalExecutor(objectives.anything, 2, TrialOptions(trial_memory=limit * MIB)) as executor:
        executor.submit(make_trial(0, act=act))
        executor.submit(make_trial(1, act="sleeps", seconds=0.5, note=str(tmp_path / "pid")))
        results = {done.trial.number: done.result for done in collect(executor, 2)}
        assert still_works(executor)
    hog, neighbour = results[0], results[1]
    assert isinstance(hog, Outcome)
    assert hog.status is Status.MEMORY
    assert f"more than trial_memory of {units.size(limit * MIB)}" in str(hog.error)
    assert isinstance(neighbour, Outcome)
    assert neighbour.ok


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not count shared memory")
def test_memory_that_forked_processes_share_counts_once() -> None:
    with LocalExecutor(objectives.anything, 1, TrialOptions(trial_memory=450 * MIB)) as executor:
        outcome = run_one(executor, act="loads_data")  # the sum of what is resident exceeds 800 MiB
    assert outcome.loss == 0, outcome


def test_a_memory_error_is_the_same_status(shared: LocalExecutor) -> None:
    assert run_one(shared, act="memory_error").status is Status.MEMORY


def test_the_leak_of_one_trial_is_not_charged_to_the_next() -> None:
    kept: list[bytes] = []

    def leaks(trial: Trial) -> float:
        kept.append(os.urandom(16) * (10 * MIB))  # 160 MiB that stay
        return 0.0

    with LocalExecutor(leaks, 1, TrialOptions(trial_memory=300 * MIB)) as executor:
        assert all(run_one(executor, number=n).ok for n in range(4))


# --- row 25: nobody outlives the coordinator


def test_all_processes_end_after_the_coordinators_death(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import os, sys, time
        sys.path.insert(0, {os.getcwd()!r})
        from tests.executors import objectives
        from tests.executors.running import make_trial
        from bohb.executors.local.executor import LocalExecutor
        from bohb.executors.options import TrialOptions
        for method in {METHODS!r}:
            executor = LocalExecutor(objectives.anything, 2, TrialOptions(start_method=method))
            executor.submit(make_trial(0, act="hangs", note={str(tmp_path)!r} + "/" + method))
            vars()[method] = executor
        if os.fork() == 0:  # keeps the sockets open after the coordinator's death
            open({str(tmp_path / "part")!r}, "w").write(str(os.getpid()))
            os.rename({str(tmp_path / "part")!r}, {str(tmp_path / "forked")!r})
        time.sleep(600)
    """)
    coordinator = subprocess.Popen([sys.executable, "-c", script])
    try:
        pids = [pid for method in METHODS for pid in noted(tmp_path / method)]
        pids += [parent_of(noted(tmp_path / method)[0]) for method in METHODS]  # the guards
        [forked] = noted(tmp_path / "forked")
        assert all(map(alive, pids))
    finally:
        coordinator.kill()
        coordinator.wait()
    until(lambda: not any(map(alive, pids)), "all processes end", bound(1.0))
    assert alive(forked)
    os.kill(forked, signal.SIGKILL)


def test_what_survives_the_death_of_coordinator_and_guard_ends_when_the_next_executor_starts(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {os.getcwd()!r})
        from tests.executors import objectives
        from tests.executors.running import make_trial
        from bohb.executors.local.executor import LocalExecutor
        executor = LocalExecutor(objectives.anything, 1)
        executor.submit(make_trial(0, act="hangs", note={str(tmp_path / "pids")!r}))
        time.sleep(600)
    """)
    coordinator = subprocess.Popen([sys.executable, "-c", script])
    worker, *others = noted(tmp_path / "pids")
    guard = parent_of(worker)
    os.kill(guard, signal.SIGSTOP)  # so that both die at the same time
    coordinator.kill()
    coordinator.wait()
    os.kill(guard, signal.SIGKILL)
    until(lambda: not alive(worker), "the worker ends with its guard")
    assert any(map(alive, others)), "processes that the trial has started survive"
    with LocalExecutor(objectives.anything, 1) as executor:
        assert still_works(executor)
        until(lambda: not any(map(alive, others)), "the next executor ends them")
        with LocalExecutor(objectives.anything, 1) as second:
            assert still_works(second)
        assert still_works(executor), "processes of a living executor are left alone"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def guard_of(pid: int) -> int:
    """The newest guard among our children."""
    guards = [
        child for child in children_of(pid) if b"executors.local.guard" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return guards[-1]
