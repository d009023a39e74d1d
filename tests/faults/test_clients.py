"""Many programs ask and tell on one server, while their processes are killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from bohb import History, replay
from bohb.errors import NoTrialReady, StudyDone
from bohb.journal import stored_events
from tests.faults.clients import LEASE, TRIALS, study_of
from tests.postgres import emptied, postgres_server
from tests.sizes import size

STUDIES = size(quick=3, full=40)
PROCESSES = size(quick=3, full=5)
BETWEEN = size(quick=2, full=4)  # trials of each study that are asked for and told between two kills


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


def start(url: str, folder: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.clients", url, str(folder), name, str(STUDIES)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)


def lines(folder: Path) -> list[list[object]]:
    found = []
    for file in folder.glob("*.log"):
        for line in file.read_text().splitlines():
            with suppress(ValueError):  # cut short by a kill
                found.append(json.loads(line))
    return found


def progress(folder: Path) -> int:
    """How many lines the clients have written."""
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("*.log"))


@pytest.mark.timeout(3600)
def test_clients_of_many_studies_that_are_killed_lose_and_double_nothing(server: str, tmp_path: Path) -> None:
    """Every second killed process comes back with the names of its clients, the others never do."""
    url = emptied(server)
    running = {f"p{n}": start(url, tmp_path, f"p{n}") for n in range(PROCESSES)}
    for kill in count():
        known, deadline = progress(tmp_path), time.monotonic() + 240
        while progress(tmp_path) < known + 2 * BETWEEN * STUDIES and any(p.poll() is None for p in running.values()):
            assert time.monotonic() < deadline, "the clients do nothing"
            time.sleep(0.1)
        if progress(tmp_path) + 2 * BETWEEN * STUDIES > 2 * TRIALS * STUDIES:  # the last ones end by themselves
            break
        name = sorted(running)[kill % len(running)]
        killed = running.pop(name)
        killed.kill()
        killed.communicate()
        again = name if kill % 2 else f"{name}x"
        running[again] = start(url, tmp_path, again)
    for process in running.values():
        _, complaints = process.communicate(timeout=240)
        others = [line for line in complaints.decode().splitlines() if not line.endswith("is late and not used")]
        assert (process.returncode, others) == (0, [])  # a living client may be slower than its lease
    assert kill >= size(quick=3, full=40)
    logged = lines(tmp_path)
    for number in range(STUDIES):
        study = study_of(url, number)
        deadline = time.monotonic() + 2 * LEASE + 60
        while left := History().extend(stored_events(url, study.study)).pending:
            assert time.monotonic() < deadline, f"{left} are left"
            with suppress(StudyDone, NoTrialReady):
                trial = study.ask(LEASE)
                study.tell(trial.number, trial.config["x"], trial.attempt)
        history = History().extend(stored_events(url, study.study))
        assert len(history.outcomes) == len(history.trials) == TRIALS
        told = {(n, loss) for what, of, n, _, _, loss in logged if (what, of) == ("stored", study.study)}
        assert told <= {(n, outcome.loss) for n, outcome in history.outcomes.items()}, "acknowledged and lost"
        given = {(n, attempt, name) for what, of, n, attempt, name, _ in logged if (what, of) == ("given", study.study)}
        assert len({(n, attempt) for n, attempt, _ in given}) == len(given), "given to two clients"
        assert replay(url, study.study).ok
