"""Row 9 of faults.md: the disk of a real journal fills up under a running study, and is given space again."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bohb import Trial, minimize, replay
from bohb.core.events import TrialFinished, TrialStarted
from bohb.journal import SqlJournal
from tests.objectives import SPACE

TRIALS = 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def verbose(trial: Trial) -> dict[str, object]:
    """Note the call, and return a result of about 4 kB."""
    with Path(os.environ["BOHB_CALLS"]).open("a") as calls:
        calls.write(f"{trial.number}\n")
    return {"loss": float(trial.number), "info": {"text": "x" * 4000}}


class Rescue(logging.Handler):
    """Frees space on the disk some time after the runner has said that the disk is full."""

    def __init__(self, ballast: Path, calls: Path, path: Path) -> None:
        super().__init__(logging.ERROR)
        self.ballast, self.calls, self.path = ballast, calls, path
        self.said: list[str] = []
        self.started_unstored: set[int] = set()
        self.thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        if self.thread is None:
            self.thread = threading.Thread(target=self._rescue)
            self.thread.start()

    def _rescue(self) -> None:
        try:
            for _ in range(3):
                calls = set(map(int, self.calls.read_text().split()))
                with SqlJournal(self.path, read_only=True) as journal:
                    stored = {event.trial.number for event in journal.read() if isinstance(event, TrialStarted)}
                self.started_unstored |= calls - stored
                time.sleep(0.5)  # so that a trial that must not start has the time to
        finally:
            self.ballast.unlink()


@pytest.mark.parametrize("workers", [None, 2])
def test_a_study_pauses_while_its_disk_is_full_and_goes_on_when_there_is_space(
    small_disk: Path, tmp_path: Path, workers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, ballast, path = tmp_path / "calls", small_disk / "ballast", small_disk / "study.db"
    monkeypatch.setenv("BOHB_CALLS", str(calls))
    ballast.write_bytes(bytes(8 * 2**20 - 500_000))  # the log of SQLite takes about 20 kB per trial
    rescue = Rescue(ballast, calls, path)
    logging.getLogger("bohb").addHandler(rescue)
    try:
        study = minimize(
            verbose, SPACE, budgets=[1], seed=0, workers=workers, max_trials=TRIALS, journal=path, progress=False,
            directory=tmp_path / "files",
        )  # fmt: skip
    finally:
        logging.getLogger("bohb").removeHandler(rescue)
    assert rescue.thread is not None, "the disk never filled up"
    rescue.thread.join()
    assert "study.db is full" in rescue.said[0]
    assert "no trial is started until this is resolved" in rescue.said[0]
    assert not rescue.started_unstored, "a trial started while the disk was full"
    assert sorted(map(int, calls.read_text().split())) == list(range(TRIALS)), "nothing ran twice"
    assert {n: outcome.loss for n, outcome in study.history.outcomes.items()} == {n: float(n) for n in range(TRIALS)}
    with SqlJournal(path, read_only=True) as journal:
        events = journal.read()
    assert sum(isinstance(event, TrialFinished) for event in events) == TRIALS
    assert sum(isinstance(event, TrialStarted) for event in events) == TRIALS
    assert replay(path).ok
