"""A process with several clients, which ask and tell in threads: `python -m tests.faults.clients URL FOLDER NAME N`.

Client i of N works on study i. What it was given and what was acknowledged is appended to FOLDER/NAME.log, a line each.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from bohb import BOHB, Limits
from bohb.errors import JournalError, NoTrialReady, StudyDone
from bohb.journal import Journal
from bohb.running.external import ExternalStudy
from tests.sizes import size

T = TypeVar("T")
LEASE = float(size(quick=4, full=20))
TRIALS = size(quick=15, full=200)


def create(journal: Journal) -> BOHB:
    return BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, seed=1, preset="paper", journal=journal)


def study_of(url: str, number: int) -> ExternalStudy:
    return ExternalStudy(url, f"study-{number}", create, limits=Limits(max_trials=TRIALS), wait_seconds=1)


def patiently(act: Callable[[], T]) -> T:
    """Repeat a call while the server has as many connections as it takes: half as many as there are clients."""
    while True:
        try:
            return act()
        except JournalError as error:
            if "too many clients" not in str(error):
                raise


def client(study: ExternalStudy, name: str, log: Path) -> None:
    """Evaluate trials until the study is complete."""
    while True:
        try:
            trial = patiently(lambda: study.ask(LEASE, name))
        except NoTrialReady:
            continue
        except StudyDone:
            return
        with log.open("a") as file:
            file.write(json.dumps(["given", study.study, trial.number, trial.attempt, name, trial.seed]) + "\n")
        told = patiently(partial(study.tell, trial.number, trial.config["x"], trial.attempt))
        with log.open("a") as file:
            file.write(json.dumps([told, study.study, trial.number, trial.attempt, name, trial.config["x"]]) + "\n")


def main() -> None:
    url, folder, name, n = sys.argv[1:]
    threads = [
        threading.Thread(target=client, args=(study_of(url, i), f"{name}/{i}", Path(folder) / f"{name}.log"))
        for i in range(int(n))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
