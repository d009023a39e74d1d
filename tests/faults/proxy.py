"""A TCP proxy that misbehaves on command: it stands between runners and a PostgreSQL server."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Self

_CHUNK = 1 << 16


class Proxy:
    """Forwards all connections to a port of this machine, until it is told otherwise.

    target: the port to forward to; nothing needs to listen there yet.
    port: where the proxy listens on 127.0.0.1; it stays the same after `cut` and `heal`.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.lost_replies = 0  # how many replies `lose_reply` has swallowed so far
        self._state = threading.Condition()
        self._pairs: set[_Pair] = set()
        self._listener: socket.socket | None = None
        self._stalled: frozenset[str] = frozenset()
        self._delay = 0.0
        self._losing: bytes | None = None
        self._skip = 0
        self.heal()

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        with self._state:
            listener, self._listener = self._listener, None
            pairs = list(self._pairs)
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        for pair in pairs:
            pair.close()

    def delay(self, seconds: float) -> None:
        """Hold every piece of data back for `seconds`, in both directions."""
        with self._state:
            self._delay = seconds

    def stall(self, requests: bool = True, replies: bool = True) -> None:
        """Accept connections and data, but pass on no requests, no replies, or neither; `heal` delivers them."""
        with self._state:
            self._stalled = frozenset(way for way, on in (("requests", requests), ("replies", replies)) if on)

    def lose_reply(self, to: bytes = b"COMMIT", skip: int = 0) -> None:
        """Deliver a request that contains `to`, but swallow the server's reply and close that connection.

        skip: how many such requests pass unharmed before.
        """
        with self._state:
            self._losing, self._skip = to, skip

    def heal(self) -> None:
        """Accept connections and pass everything on, at once."""
        with self._state:
            self._stalled, self._delay, self._losing = frozenset(), 0.0, None
            self._state.notify_all()
            if self._listener is not None:
                return
            listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self._listener, self.port = listener, listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Cut everything for good."""
        self.cut()
        with self._state:
            self._stalled = frozenset()
            self._state.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # closed by `cut`
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            pair = _Pair(client, server)
            with self._state:
                alive = self._listener is listener
                if alive:
                    self._pairs.add(pair)
            if not alive:
                pair.close()
                continue
            for way in ("requests", "replies"):
                threading.Thread(target=self._pump, args=(pair, way), daemon=True).start()

    def _pump(self, pair: _Pair, way: str) -> None:
        source, sink = (pair.client, pair.server) if way == "requests" else (pair.server, pair.client)
        data = b"start"
        with suppress(OSError):  # one of the two ends was closed
            while data:
                data = source.recv(_CHUNK)
                time.sleep(self._delay)
                with self._state:  # the end of a connection does not get through either
                    self._state.wait_for(lambda: way not in self._stalled)
                    if way == "requests" and self._losing is not None and self._losing in data:
                        pair.losing, self._skip = self._skip == 0, self._skip - 1
                        self._losing = None if pair.losing else self._losing
                    elif way == "replies" and pair.losing:
                        self.lost_replies += 1
                        break
                sink.sendall(data)
        pair.close()
        with self._state:
            self._pairs.discard(pair)


class _Pair:
    """The two connections that belong together."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.losing = False  # whether the next reply gets lost

    def close(self) -> None:
        """Close both; the client sees that its connection was reset."""
        with suppress(OSError):
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads from it
            end.close()
