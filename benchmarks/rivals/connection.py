"""The process of a rival as a `Method`; it is controlled by JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.problem import Evaluation, Suggestion

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}


class RivalFailed(RuntimeError):
    """A rival's process raised, ended or did not answer."""


class Connection:
    """One rival that works on one task, in a new process and a temporary directory.

    command: the command that starts the process.
    first: the first line, which describes the task.
    root: the directory that contains `benchmarks`.
    answer_seconds: time limit of one answer.
    """

    def __init__(self, command: list[str], first: Mapping[str, Any], root: Path, answer_seconds: float) -> None:
        self._name = str(first["method"])
        self._seconds = answer_seconds
        self._directory = tempfile.TemporaryDirectory(prefix="rival-")
        self._log = Path(self._directory.name) / "stderr.txt"
        self._unread = b""
        # A fixed hash seed makes rivals repeatable that iterate over sets.
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._directory.name,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        self._send(first)

    def ask(self) -> Suggestion | None:
        answer = self._request({"ask": True})
        if "wait" in answer or "done" in answer:
            return None
        return Suggestion(answer["number"], answer["config"], answer["budget"], answer["previous"])

    def tell(self, number: int, evaluation: Evaluation) -> None:
        loss = evaluation.loss if evaluation.ok else None
        self._request({"tell": number, "loss": loss, "cost": evaluation.cost})

    def tell_several(self, number: int, losses: list[float], excesses: list[float], cost: float) -> None:
        """Tell the losses of several objectives, and by how much bounds are exceeded."""
        self._request({"tell": number, "losses": losses, "excesses": excesses, "cost": cost})

    def close(self) -> None:
        """End the process; kill it if it does not exit."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def _request(self, line: Mapping[str, Any]) -> dict[str, Any]:
        self._send(line)
        answer: dict[str, Any] = json.loads(self._receive())
        if "error" in answer:
            self._fail("raised:\n" + answer["error"])
        return answer

    def _send(self, line: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
        except BrokenPipeError:  # the process has ended; its last answers can still be read
            pass

    def _receive(self) -> bytes:
        """Return one line of its answers."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + self._seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._fail(f"did not answer within {self._seconds:g} s")
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    self._fail(f"ended with status {self._process.wait()}")
                self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _fail(self, what: str) -> None:
        said = self._log.read_text(errors="replace").strip()[-2000:]
        self._process.kill()
        self.close()
        raise RivalFailed(f"{self._name} {what}" + (f"\nIts standard error ended with:\n{said}" if said else ""))
