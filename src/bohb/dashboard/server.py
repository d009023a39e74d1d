"""Serve the dashboard: the address to listen on, and when a token is required."""

from __future__ import annotations

import ctypes
import ipaddress
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import click
import uvicorn
from starlette.applications import Starlette

import bohb.core.space.configspace  # noqa: F401 - it takes a second to import, so do it before the first request
from bohb.dashboard.site import LOOPBACK, create_app
from bohb.dashboard.studies import files_of
from bohb.errors import BohbError, InvalidArgument, JournalError
from bohb.journal.sql import study_names

PORT = 8321
MOST_CONNECTIONS = 200  # with more, requests are answered with 503
KEEP_ALIVE = 5  # seconds for the next request on a connection
MOST_BYTES = 64 * 1024  # of the head of a request
_SHORTEST_TOKEN = 8
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # the options of glibc's mallopt
log = logging.getLogger("bohb")


def serve(
    journal: str | Path | Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    open_browser: bool = False,
    allowed_hosts: Iterable[str] = (),
    directory: str | Path | None = None,
) -> None:
    """Serve live pages about the studies of one or several journals, until Ctrl-C.

    journal: the journal's file or address, or a sequence of them.
    host: the address to listen on; every address other than 127.0.0.1 requires a token.
    port: 0 chooses a free one.
    token: what readers must present; with one, they can add notes. Nothing else can be changed.
    open_browser: open the first page in a browser.
    allowed_hosts: further host names of this server, such as that of a proxy.
    directory: where the studies' files are, if they were run with `directory=`.
    """
    check_token(host, token)
    _return_freed_memory()
    listening = _listen(host, port)
    app = create_app(journal, token, [*known_names(host), *allowed_hosts], directory=directory)
    address = address_of(host, listening.getsockname()[1], token)
    click.echo(f"The dashboard is at {address}\nPress Ctrl-C to stop it.")
    for each in (
        file for given in ([journal] if isinstance(journal, str | Path) else journal) for file in files_of(given)
    ):
        try:
            study_names(each)
        except JournalError as error:
            click.echo(f"Note: {error}", err=True)  # the pages show it, too, until the journal exists
    threading.Thread(target=app.state.warm_up, daemon=True).start()
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        uvicorn.Server(config(app)).run(sockets=[listening])
    finally:
        listening.close()


def config(app: Starlette) -> uvicorn.Config:
    """Configure uvicorn, without an access log, because addresses can contain the token."""
    return uvicorn.Config(
        app,
        http="h11",  # the only one that limits what a connection may send before its request is complete
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        h11_max_incomplete_event_size=MOST_BYTES,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
    )


def check_token(host: str, token: str | None) -> None:
    """Refuse to serve the network without a token, and a token that is easy to guess."""
    if token is None and not is_loopback(host):
        raise InvalidArgument(
            f"host={host!r} can be reached from other machines, so a token is needed; for example "
            f"token={secrets.token_urlsafe(18)!r}, or BOHB_TOKEN in the environment of the command. Or keep "
            "host='127.0.0.1' and use an SSH tunnel"
        )
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InvalidArgument(f"the token must have at least {_SHORTEST_TOKEN} printable ASCII characters")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name, which may resolve to any address
        return False


def known_names(host: str) -> list[str]:
    """Return the host names of a server on this address."""
    if is_loopback(host):
        return [*LOOPBACK, host]
    names = [*LOOPBACK, host, socket.gethostname(), socket.getfqdn()]
    try:
        names += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        log.debug("the addresses of %s are unknown", socket.gethostname())
    return names


def address_of(host: str, port: int, token: str | None = None) -> str:
    """Return the address to open in a browser."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def _return_freed_memory() -> None:
    """Let glibc return what threads have freed: one heap for all, and none for large blocks. Others do so anyway.

    It saves 40 MiB of 330 with a study of 100 000 trials.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, 128 * 1024)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise before anything is printed."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise InvalidArgument(f"port={port!r} must be a whole number from 0 to 65535")
    plain = host.strip("[]")
    try:
        family = socket.getaddrinfo(plain, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise BohbError(f"host={host!r} is not an address of this machine ({error.strerror})") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((plain, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise BohbError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another port, or 0 for any free one"
        ) from error
    return listening
