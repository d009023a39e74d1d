"""Many connections, and slow ones, do not keep others out."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from bohb.dashboard import connections, create_app
from bohb.dashboard.server import _config

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of open files are those of POSIX")


@contextmanager
def limited_server(journal: Path, files: int, log: Path) -> Iterator[int]:
    """A server that may open so many files; its port."""
    script = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))\n"
        f"from bohb.dashboard import serve; serve({str(journal)!r}, port=0)"
    )
    with (
        log.open("w") as stderr,
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            found = re.search(r"http://127.0.0.1:(\d+)", process.stdout.readline())
            assert found is not None, log.read_text()
            yield int(found[1])
        finally:
            process.terminate()


def test_half_open_connections_beyond_the_limit_of_files_block_nobody(journal: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with limited_server(journal, 256, log) as port, ExitStack() as stack:
        address = f"http://127.0.0.1:{port}/"
        assert urlopen(address, timeout=60).status == 200
        for _ in range(3):
            for _ in range(200):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                try:
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
                except (BrokenPipeError, ConnectionResetError):
                    pass  # closed already, because it was one of too many
            assert urlopen(address, timeout=60).status == 200
    assert len(log.read_text().splitlines()) <= 2, log.read_text()[:5000]


@contextmanager
def served_here(journal: Path) -> Iterator[int]:
    app = create_app(journal, None)
    server = connections.LimitedServer(_config(app))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join()
            app.state.close()


REQUEST = b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize("first", [b"", b"GET / HT", REQUEST + b"GET / HT"], ids=["silent", "slow", "slow-second"])
def test_a_request_that_does_not_arrive_in_time_closes_its_connection(
    journal: Path, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with served_here(journal) as port, socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(first)
        answer = b""
        try:
            while chunk := connection.recv(2**16):
                answer += chunk
        except ConnectionResetError:
            pass
        assert answer.startswith(b"HTTP/1.1 200") == (first[:8] == REQUEST[:8] and len(first) > 8)


def test_a_connection_that_is_used_again_and_again_stays(journal: Path) -> None:
    with served_here(journal) as port, socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for _ in range(20):
            connection.sendall(b"HEAD /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(2**16).startswith(b"HTTP/1.1 200")
