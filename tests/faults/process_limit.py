"""A study of a user whose process limit is reached for a while; `test_outages.py` runs this file.

The limit does not hold for root, so root becomes a user without processes first.
"""

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


def main(directory: str, limit: int) -> None:
    """Fill the process limit, start the study, and make room when it has paused."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # threads count as processes
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(54321, 54321, 54321)
        os.setresuid(54321, 54321, 54321)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    sleepers: list[subprocess.Popen[bytes]] = []
    try:
        while True:
            sleepers.append(subprocess.Popen(["sleep", "600"]))
    except BlockingIOError:
        pass

    class MakesRoom(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "lose their workers" in record.getMessage():
                while sleepers:
                    sleepers[0].kill()
                    sleepers.pop(0).wait()

    handler = MakesRoom()
    logging.getLogger("bohb").addHandler(handler)
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
    statuses = [outcome.status.value for outcome in study.history.outcomes.values()]
    lost = sum(event.kind == "lost" for event in study.history_events) if hasattr(study, "history_events") else None
    sys.stdout.write(json.dumps({"statuses": statuses, "left": len(sleepers), "lost": lost}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
