"""Uvicorn's own limits: how many connections are served, how long they stay open, and how long a request may be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import uvicorn

from bohb import BOHB
from bohb.dashboard import create_app, server
from bohb.journal import SqlJournal
from tests.dashboard.conftest import serving

REQUEST = b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def served_here(journal: Path) -> Iterator[int]:
    """A server as `serve` configures it; its port."""
    app = create_app(journal, None)
    running = uvicorn.Server(server.config(app))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            running.should_exit = running.force_exit = True
            thread.join()
            app.state.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answer(connection: socket.socket, request: bytes = REQUEST) -> bytes:
    connection.sendall(request)
    return connection.recv(2**16)


def test_beyond_the_limit_of_connections_requests_are_refused_until_some_are_closed(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 5)
    with served_here(journal) as port, ExitStack() as stack:
        held = [stack.enter_context(closing(connected(port))) for _ in range(4)]
        for connection in held:
            assert answer(connection, REQUEST.replace(b"GET", b"HEAD")).startswith(b"HTTP/1.1 200")
        assert answer(stack.enter_context(closing(connected(port)))).startswith(b"HTTP/1.1 503")
        for connection in held:
            connection.close()
        with closing(connected(port)) as later:
            assert answer(later).startswith(b"HTTP/1.1 200")


def test_a_folder_is_served_without_a_complaint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with SqlJournal(tmp_path / "one.db", "study") as journal:
        BOHB({"x": (0.0, 1.0)}, budgets=[1], journal=journal)
    with serving(tmp_path) as address, urlopen(address) as answered:
        assert b"one.db" in answered.read()
    assert capfd.readouterr().err == ""


def test_a_connection_without_a_further_request_is_closed(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE", 1)
    with served_here(journal) as port, closing(connected(port)) as connection:
        assert answer(connection, REQUEST.replace(b"GET", b"HEAD")).startswith(b"HTTP/1.1 200")
        assert connection.recv(2**16) == b"", "the server has closed it"


def test_a_request_with_an_endless_head_is_refused(journal: Path) -> None:
    with served_here(journal) as port, closing(connected(port)) as connection:
        endless = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * (2 * server.MOST_BYTES)
        try:
            assert answer(connection, endless).startswith(b"HTTP/1.1 400")
        except ConnectionError:
            pass  # it was closed before everything was sent, which is as good


def test_a_connection_that_is_used_again_and_again_stays(journal: Path) -> None:
    with served_here(journal) as port, closing(connected(port)) as connection:
        for _ in range(20):
            assert answer(connection, REQUEST.replace(b"GET", b"HEAD")).startswith(b"HTTP/1.1 200")
