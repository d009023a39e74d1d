"""The kinds of fault. Each is a function that causes it, waits where it lasts, and ends it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tests.faults.soak.stage import Runner, Stage
from tests.postgres import connected

MORTAL = "BC"  # the runners that may be killed or interrupted
OTHERS = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"


def kill_worker(stage: Stage) -> str:
    return _signal_worker(stage, signal.SIGKILL)


def terminate_worker(stage: Stage) -> str:
    return _signal_worker(stage, signal.SIGTERM)


def suspend_worker(stage: Stage) -> str:
    runner, pid = _worker(stage)
    seconds = stage.rng.uniform(2, 10)
    _signal(pid, signal.SIGSTOP)
    stage.wait(seconds)
    _signal(pid, signal.SIGCONT)
    return f"worker {pid} of {runner.name} for {seconds:.0f} s"


def kill_guard(stage: Stage) -> str:
    runner = stage.rng.choice(stage.living())
    guards = runner.guards
    for guard in guards:
        _signal(guard, signal.SIGKILL)
    return f"guard {guards} of {runner.name}"


def kill_runner(stage: Stage) -> str:
    runner = stage.rng.choice(stage.living(MORTAL))
    stage.end(runner, signal.SIGKILL, again_after=(after := stage.rng.uniform(0, 12)))
    return f"{runner.name}, again after {after:.0f} s"


def kill_runner_and_guard(stage: Stage) -> str:
    runner = stage.rng.choice(stage.living(MORTAL))
    guards = runner.guards
    stage.end(runner, signal.SIGKILL, again_after=(after := stage.rng.uniform(0, 12)))
    for guard in guards:
        _signal(guard, signal.SIGKILL)
    return f"{runner.name} and {guards}, again after {after:.0f} s"


def lose_machine(stage: Stage) -> str:
    """Kill a runner with everything below it, longer than its lease."""
    runner = stage.rng.choice(stage.living(MORTAL))
    family = [*runner.guards, *runner.worker_pids]
    stage.end(runner, signal.SIGKILL, again_after=15)
    for pid in family:
        _signal(pid, signal.SIGKILL)
    return f"{runner.name} and {len(family)} processes for 15 s"


def kill_two_runners(stage: Stage) -> str:
    victims = stage.living(MORTAL)
    for runner in victims:
        stage.end(runner, signal.SIGKILL, again_after=stage.rng.uniform(0, 12))
    return " and ".join(runner.name for runner in victims)


def suspend_runner(stage: Stage) -> str:
    """Stop a runner, sometimes for longer than its lease, so that others take over its trials."""
    runner = stage.rng.choice(stage.living())
    seconds = stage.rng.uniform(2, 19)
    _signal(runner.pid, signal.SIGSTOP)
    stage.wait(seconds)
    _signal(runner.pid, signal.SIGCONT)
    return f"{runner.name} for {seconds:.0f} s"


def interrupt_once(stage: Stage) -> str:
    runner = stage.rng.choice(stage.living(MORTAL))
    stage.end(runner, signal.SIGINT)
    return runner.name


def interrupt_twice(stage: Stage) -> str:
    runner = stage.rng.choice(stage.living(MORTAL))
    stage.end(runner, signal.SIGINT, again_after=60)
    time.sleep(0.1)  # two presses, not one
    began = time.monotonic()
    stage.end(runner, signal.SIGINT, again_after=60)
    stage.killed.add(runner.pid)
    while runner.alive and time.monotonic() - began < 60:
        time.sleep(0.01)
    took = time.monotonic() - began
    if runner.alive:
        stage.accuse(f"runner {runner.name} still runs a minute after the second Ctrl-C")
    stage.counts["longest second Ctrl-C"] = max(stage.counts["longest second Ctrl-C"], round(took, 2))
    runner.again_at = stage.now + stage.rng.uniform(0, 5)
    return f"{runner.name}, ended after {took:.1f} s"


def stop_server(stage: Stage) -> str:
    stage.server.stop()
    stage.wait(seconds := stage.rng.uniform(1, 12))
    stage.server.start()
    return f"for {seconds:.0f} s"


def kill_server(stage: Stage) -> str:
    stage.server.kill()
    stage.wait(seconds := stage.rng.uniform(0, 12))
    stage.server.start()
    return f"for {seconds:.0f} s"


def restart_server(stage: Stage) -> str:
    stage.server.stop()
    stage.server.start()
    return ""


def cut_connections(stage: Stage) -> str:
    return _at_proxies(stage, "cut", lambda runner: runner.proxy.cut())


def delay_connections(stage: Stage) -> str:
    return _at_proxies(stage, "delayed", lambda runner: runner.proxy.delay(stage.rng.uniform(0.05, 1.0)))


def stall_connections(stage: Stage) -> str:
    return _at_proxies(stage, "stalled", lambda runner: runner.proxy.stall())


def stall_replies(stage: Stage) -> str:
    return _at_proxies(stage, "without replies", lambda runner: runner.proxy.stall(requests=False))


def lose_reply_to_commit(stage: Stage) -> str:
    runner = stage.rng.choice(stage.living())
    before = runner.proxy.lost_replies
    runner.proxy.lose_reply()
    deadline = time.monotonic() + 10
    while runner.proxy.lost_replies == before and time.monotonic() < deadline:
        stage.wait(0.1)
    runner.proxy.heal()
    return f"{runner.name}, {runner.proxy.lost_replies - before} lost"


def terminate_backends(stage: Stage) -> str:
    stage.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
    return ""


def cancel_backends(stage: Stage) -> str:
    for _ in range(50):  # a query that is cancelled must be running at that moment
        stage.execute(f"SELECT pg_cancel_backend(pid) {OTHERS}")
        stage.wait(0.05)
    return "50 times"


def make_server_read_only(stage: Stage) -> str:
    """As after a failover to a standby."""
    stage.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    stage.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
    stage.wait(seconds := stage.rng.uniform(2, 10))
    stage.execute("SET TRANSACTION READ WRITE; ALTER DATABASE postgres RESET ALL")
    stage.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
    return f"for {seconds:.0f} s"


def change_defaults_of_server(stage: Stage) -> str:
    """Defaults that an administrator may choose."""
    stage.execute("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'")
    stage.execute("ALTER DATABASE postgres SET lock_timeout = '20ms'")
    stage.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
    stage.wait(seconds := stage.rng.uniform(5, 15))
    stage.execute("ALTER DATABASE postgres RESET ALL")
    stage.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
    return f"serializable, with a lock timeout of 20 ms, for {seconds:.0f} s"


def lock_the_study(stage: Stage) -> str:
    """Hold a lock that every turn needs, as a forgotten session of an administrator does."""
    seconds = stage.rng.uniform(2, 12)
    with connected(stage.server.url_at()) as connection:
        connection.execute("SELECT * FROM study FOR UPDATE")
        stage.wait(seconds)
    return f"for {seconds:.0f} s"


def fill_the_disk(stage: Stage) -> str:
    """Fill the disk of the checkpoints and logs."""
    ballast = stage.place / "files" / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**12))
    stage.wait(seconds := stage.rng.uniform(3, 15))
    ballast.unlink()
    return f"for {seconds:.0f} s"


def hang(stage: Stage) -> str:
    return _order(stage, "hang")


def segfault(stage: Stage) -> str:
    return _order(stage, "segfault")


def hog_memory(stage: Stage) -> str:
    return _order(stage, "hog")


KINDS: list[Callable[[Stage], str]] = [
    kill_worker,
    terminate_worker,
    suspend_worker,
    kill_guard,
    kill_runner,
    kill_runner_and_guard,
    lose_machine,
    kill_two_runners,
    suspend_runner,
    interrupt_once,
    interrupt_twice,
    stop_server,
    kill_server,
    restart_server,
    cut_connections,
    delay_connections,
    stall_connections,
    stall_replies,
    lose_reply_to_commit,
    terminate_backends,
    cancel_backends,
    make_server_read_only,
    change_defaults_of_server,
    lock_the_study,
    fill_the_disk,
    hang,
    segfault,
    hog_memory,
]


def _worker(stage: Stage) -> tuple[Runner, int]:
    while True:
        runner = stage.rng.choice(stage.living())
        if workers := runner.worker_pids:
            return runner, stage.rng.choice(workers)
        stage.wait(0.1)


def _signal_worker(stage: Stage, number: signal.Signals) -> str:
    runner, pid = _worker(stage)
    _signal(pid, number)
    return f"worker {pid} of {runner.name}"


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _at_proxies(stage: Stage, how: str, misbehave: Callable[[Runner], None]) -> str:
    """Disturb one runner, or all of them, for a while."""
    chosen = stage.runners if stage.rng.random() < 0.3 else [stage.rng.choice(stage.runners)]
    seconds = stage.rng.uniform(2, 18)
    for runner in chosen:
        misbehave(runner)
    stage.wait(seconds)
    for runner in chosen:
        runner.proxy.heal()
    return f"{' '.join(runner.name for runner in chosen)} {how} for {seconds:.0f} s"


def _order(stage: Stage, name: str) -> str:
    (stage.place / "orders" / name).touch()
    return "of the next trial"
