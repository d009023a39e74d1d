"""The stage of the soak: a PostgreSQL server, runners that each reach it through a proxy, and somebody who watches."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]

from bohb.core.events import Event
from bohb.errors import JournalError
from bohb.executors.local.processes import children
from bohb.journal import SqlJournal
from tests.faults.proxy import Proxy
from tests.faults.soak.study import PLACE, proportional_kib
from tests.postgres import StoppableServer, execute, postgres_on_port

ROOT = Path(__file__).parents[3]
FOR_EVER = 10**7  # trials
DISK_BYTES = 48 * 2**20


@dataclass
class Runner:
    """One runner process, which is started again whenever it has ended.

    lives: how many processes it has had.
    ends: whether its present process has been told to end, or killed.
    worked: whether its present process has started a guard, that is, a trial.
    again_at: when the next process may start.
    """

    name: str
    workers: int
    proxy: Proxy
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0
    ends: bool = False
    worked: bool = False
    again_at: float = 0.0

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def guards(self) -> list[int]:
        return [pid for pid in children(self.pid) if b"executors.local.guard" in _command(pid)]

    @property
    def worker_pids(self) -> list[int]:
        return [worker for guard in self.guards for worker in children(guard)]


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


class Sample(NamedTuple):
    """The memory and CPU time of a runner at some second, and the number of events at that time."""

    second: float
    runner: str
    life: int
    kib: int
    cpu_seconds: float
    events: int


@dataclass
class Stage:
    """Everything that the soak runs, and what was seen of it.

    place: the directory of logs, orders and files.
    seen: the events as they were read while the study ran.
    samples: what was measured of the runners, every half minute.
    violations: what must not happen, in words.
    killed: the processes of runners that were not given the time to store their results.
    """

    place: Path
    server: StoppableServer
    runners: list[Runner]
    rng: random.Random
    began: float = field(default_factory=time.monotonic)
    seen: list[Event] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)
    counts: dict[str, Any] = field(default_factory=lambda: {"refused starts": 0, "longest second Ctrl-C": 0.0})
    open: bool = True  # whether runners that ended are started again
    _due: dict[str, float] = field(default_factory=dict)
    _orphans: dict[int, float] = field(default_factory=dict)  # since when

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        sys.stdout.write(f"{self.now:7.1f} s  {text}\n")
        sys.stdout.flush()

    def accuse(self, text: str) -> None:
        self.violations.append(f"at {self.now:.0f} s: {text}")
        self.say(f"VIOLATION: {text}")

    def wait(self, seconds: float) -> None:
        """Let time pass, and watch meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.watch()
            time.sleep(min(0.25, left))

    def watch(self) -> None:
        for runner in self.runners:
            if not runner.alive:
                self._raise(runner)
            elif not runner.worked:
                runner.worked = bool(runner.guards)
        if self._is_due("memory", 30):
            self._sample()
        if self._is_due("events", 10):
            self._read()
        if self._is_due("orphans", 15):
            self._look_for_orphans()

    def _is_due(self, what: str, every: float) -> bool:
        if self.now < self._due.get(what, 0):
            return False
        self._due[what] = self.now + every
        return True

    def _raise(self, runner: Runner) -> None:
        """Start a runner again. It may only end by itself if the server was out of reach when it began."""
        if runner.process is not None:
            code, runner.process = runner.process.returncode, None
            if not runner.ends:
                last = " ".join((self.place / f"{runner.name}.err").read_text().strip().splitlines()[-1:])
                if runner.worked or "JournalError: cannot connect to" not in last:
                    self.accuse(f"runner {runner.name} ended by itself with code {code}: {last}")
                self.counts["refused starts"] += not runner.worked
                runner.again_at = self.now + 5
        if self.open and self.now >= runner.again_at:
            self.start(runner)

    def start(self, runner: Runner, max_trials: int = FOR_EVER) -> None:
        runner.lives, runner.ends, runner.worked = runner.lives + 1, False, False
        url = self.server.url_at(runner.proxy.port)
        out, err = ((self.place / f"{runner.name}.{kind}").open("ab") for kind in ("out", "err"))
        with out, err:
            runner.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.soak.study", url, str(runner.workers), str(max_trials)],
                cwd=ROOT,
                env={
                    **os.environ,
                    PLACE: str(self.place),
                    "TMPDIR": str(self.place / "tmp"),
                    "BOHB_SERVER_TIMEOUT": "4",  # less than half of the lease
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def end(self, runner: Runner, number: signal.Signals, again_after: float = 0.0) -> None:
        """Send a signal that ends a runner; it starts again when it has ended and `again_after` seconds have passed."""
        runner.ends, runner.again_at = True, self.now + again_after
        if number is signal.SIGKILL:
            self.killed.add(runner.pid)
        with suppress(ProcessLookupError):
            os.killpg(runner.pid, number)

    def living(self, names: str = "") -> list[Runner]:
        """Return the runners that live and were not told to end; at least one, after a while."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = [r for r in self.runners if r.alive and not r.ends and (r.name in names or not names) and r.guards]
            if found:
                return found
            self.wait(0.5)
        raise RuntimeError("no runner came back within two minutes")

    def execute(self, statement: str) -> None:
        execute(self.server.url_at(), statement)

    def _sample(self) -> None:
        for runner in self.runners:
            if runner.alive:
                with suppress(OSError, StopIteration, psutil.Error):  # it has just ended
                    kib, cpu = proportional_kib(runner.pid), psutil.Process(runner.pid).cpu_times()
                    used = round(cpu.user + cpu.system, 2)
                    self.samples.append(Sample(self.now, runner.name, runner.lives, kib, used, len(self.seen)))

    def _read(self) -> None:
        """Read the events that are new; those that were read before are compared in the end."""
        try:
            with SqlJournal(self.server.url_at(), read_only=True) as journal:
                self.seen += journal.read(len(self.seen))
        except JournalError:
            return  # the server is down, or nothing was stored yet

    def _look_for_orphans(self) -> None:
        """Find processes of the soak that have belonged to no living runner for a minute.

        What survives a runner and its guard that die together is ended by the next runner that starts.
        """
        family = {runner.pid for runner in self.runners if runner.alive}
        orphans = set(_marked(self.place)) - {pid for root in family for pid in (root, *_descendants(root))}
        self._orphans = {pid: self._orphans.get(pid, self.now) for pid in orphans}
        for pid, since in self._orphans.items():
            if self.now - since >= 60:
                command = _command(pid).replace(b"\0", b" ").decode(errors="replace")
                self.accuse(f"process {pid} ({command:.100}) outlived its runner")
                self._orphans[pid] = math.inf  # once


def _marked(place: Path) -> Iterator[int]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(PLACE) == str(place) and process.status() != psutil.STATUS_ZOMBIE:
                yield process.pid


def _descendants(pid: int) -> list[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


@contextmanager
def staged(place: Path, seed: int) -> Iterator[Stage]:
    """A stage with three runners and four workers; the first runner is never killed, so that its memory shows."""
    for name in ("orders", "tmp", "files"):
        (place / name).mkdir(parents=True)
    mounted = _mount(place / "files")
    try:
        with postgres_on_port() as server, Proxy(server.port) as p, Proxy(server.port) as q, Proxy(server.port) as r:
            runners = [Runner("A", 2, p), Runner("B", 1, q), Runner("C", 1, r)]
            stage = Stage(place, server, runners, random.Random(seed))
            stage.counts["small disk"] = mounted
            try:
                yield stage
            finally:
                stage.open = False
                for runner in runners:
                    if runner.alive:
                        stage.end(runner, signal.SIGCONT)
                        stage.end(runner, signal.SIGKILL)
                        runner.process and runner.process.wait()
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place / "files")], check=True)


def _mount(files: Path) -> bool:
    """Give the checkpoints a small disk, if mounting is permitted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(files)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
