"""JSON lines over private sockets: the messages between coordinator, guard and workers."""

from __future__ import annotations

import json
from typing import Any

FRAME_BYTES = 64 * 2**20  # a longer line was not written by `encode`
RESULT_BYTES = 16 * 2**20  # limit on the result of one trial


def encode(body: dict[str, Any]) -> bytes:
    """Return one line. Lone surrogates (file names that are not UTF-8) become '?', which every database accepts."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


class Lines:
    """Splits a stream of bytes into the messages that were encoded."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages completed by `data`. Raises ValueError for a line that `encode` did not write."""
        self._buffer += data
        if b"\n" not in data:
            if len(self._buffer) > FRAME_BYTES:
                raise ValueError(f"a line of more than {FRAME_BYTES} bytes")
            return []
        *complete, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        bodies = [json.loads(line) for line in complete]
        if not all(isinstance(body, dict) for body in bodies):
            raise ValueError("a line that is not a JSON object")
        return bodies
