"""A study of a user whose process limit is reached for a while; `test_outages.py` runs this file."""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path

from bohb import minimize
from tests.objectives import SPACE, quadratic

TRIALS = 40
ROOM = 12  # processes that the user may start; the study needs six


def processes_of_this_user() -> int:
    """Return the number of processes and threads that count towards the limit."""
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(entry / "task"))
        except OSError:
            continue
    return count


class MakesRoom(logging.Handler):
    """Ends one other process when the study waits to begin, and all when it says that it has paused."""

    def __init__(self) -> None:
        super().__init__()
        self.sleepers: list[subprocess.Popen[bytes]] = []
        self.said = ""
        self.waited = False

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "the study starts when this is resolved" in message:  # not even its thread could be started
            self.waited = True
            self.end_one()
        if "lose their workers" in message:
            self.said = message
            self.end()

    def end(self) -> None:
        while self.sleepers:
            self.end_one()

    def end_one(self) -> None:
        self.sleepers[0].kill()
        self.sleepers.pop(0).wait()


def main(directory: str) -> None:
    """Fill the process limit, start the study, and make room when it has paused."""
    limit = processes_of_this_user() + ROOM
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    handler = MakesRoom()
    try:
        while len(handler.sleepers) < 2 * ROOM:  # more than there is room for
            handler.sleepers.append(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL))
    except BlockingIOError:
        pass
    logging.getLogger("bohb").addHandler(handler)
    filled = len(handler.sleepers)
    try:
        study = minimize(
            quadratic,
            SPACE,
            min_budget=1,
            max_budget=9,
            seed=0,
            workers=4,
            max_trials=TRIALS,
            journal=Path(directory) / "study.db",
            progress=False,
        )
    finally:
        left = len(handler.sleepers)
        handler.end()
    statuses = [outcome.status.value for outcome in study.history.outcomes.values()]
    losses = sum(study.history.losses.values())
    told = {"statuses": statuses, "filled": filled, "left": left, "losses": losses, "said": handler.said}
    told["waited"] = handler.waited
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
