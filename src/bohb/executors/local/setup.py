"""What a guard and its workers have to know, and the command line of a fresh interpreter that knows it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

StartMethod = Literal["spawn", "forkserver", "fork"]

_BOOT = str(Path(__file__).with_name("boot.py"))


@dataclass(frozen=True, slots=True)
class Setup:
    """The arguments of a LocalExecutor, as they travel to guard and workers.

    token: the mark of this executor in the environment of its processes.
    parent: the coordinator's process.
    payload: the descriptor of the pickled objective; None if it was inherited by forking.
    keep_logs: whether `log_dir` was asked for; otherwise it is a temporary one.
    """

    slots: int
    start_method: StartMethod
    token: str
    parent: int
    path: list[str]
    argv: list[str]
    log_dir: str
    keep_logs: bool
    log_bytes: int
    payload: int | None = None
    trial_seconds: float | None = None
    trial_memory: int | None = None
    start_seconds: float | None = None
    recycle_after: int | None = None


def command(module: str, setup: Setup, **arguments: int) -> list[str]:
    """The command line that runs `main` of a module of ours in a fresh interpreter with our flags and path.

    Not multiprocessing's spawn: that imports the user's script again, which must then guard its `__main__`.
    """
    # the function multiprocessing itself uses; it hands on -W, -X, -O and their like
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    body = {"module": module, "path": setup.path, "setup": asdict(setup), **arguments}
    return [sys.executable, *flags, _BOOT, json.dumps(body)]


def setup_of(arguments: dict[str, Any]) -> Setup:
    """The Setup that `command` wrote."""
    return Setup(**arguments["setup"])
