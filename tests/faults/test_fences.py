"""Four runners of one study under kills, pauses and partitions; and the check that judges what they wrote."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bohb import BOHB, replay
from bohb.core.events import ResultLate, SessionStarted, TrialFinished, TrialLost
from bohb.core.trial import Outcome, Status
from bohb.journal import MemoryJournal, SqlJournal
from tests.faults.fences import Row, rows_of, taken_over, violations
from tests.faults.proxy import Proxy
from tests.objectives import SPACE, quadratic
from tests.postgres import StoppableServer, postgres_on_port
from tests.running.roles import start
from tests.running.test_several import stored, until
from tests.sizes import size

Change = Callable[[list[Row]], list[Row]]


def changed(event: Any) -> Any:
    return partial(replace, event)


def sound() -> list[Row]:
    """Two sessions: the trial of the first one is taken over by the second one, and its result is late."""
    journal = MemoryJournal()
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal, clock=lambda: 1.0)
    study.session.begin("one")
    first, second, third = study.ask_many(3)
    study.tell(second, quadratic(second))
    created, begun, *started = [Row(n, None if n == 0 else 0, 1, e) for n, e in enumerate(journal.read())]
    one, three = (changed(row.event) for row in (started[0], started[2]))
    later: list[Any] = [
        (1, SessionStarted(1, "two", 2.0)),
        (1, TrialLost(first.number, 1, "its runner stopped", counts=False)),
        (1, TrialLost(third.number, 1, "its runner stopped", counts=False)),
        (1, one(trial=replace(first, attempt=2), session=1, time=3.0)),
        (0, ResultLate(first.number, 1, Outcome(Status.OK, 1.0))),
        (0, three(trial=replace(third, attempt=2), session=0, time=4.0)),
        (1, TrialFinished(first.number, Outcome(Status.OK, 2.0))),
    ]
    n = len(started) + 2
    return [created, begun, *started, *(Row(n + i, s, s + 1, e) for i, (s, e) in enumerate(later))]


def test_a_study_in_which_a_trial_goes_to_another_session_is_sound() -> None:
    assert violations(sound()) == []
    assert taken_over(sound()) == 2


def by(rows: list[Row], place: int, session: int) -> list[Row]:
    """The same events, one of them written by another session."""
    return [*rows[:place], rows[place]._replace(session=session, epoch=session + 1), *rows[place + 1 :]]


def numbered(rows: list[Row]) -> list[Row]:
    return [row._replace(position=place) for place, row in enumerate(rows)]


def started_at(rows: list[Row], place: int, **changes: Any) -> list[Row]:
    return [*rows[:place], rows[place]._replace(event=changed(rows[place].event)(**changes)), *rows[place + 1 :]]


FORGED: dict[str, tuple[Change, str]] = {
    "a result after the trial had gone to another": (
        lambda rows: numbered([*rows[:-3], Row(0, 0, 1, TrialFinished(0, Outcome(Status.OK, 1.0))), *rows[-2:]]),
        "trial 0 ends, which belongs to epoch 2",
    ),
    "a result before the next attempt starts": (
        lambda rows: numbered([*rows[:-4], Row(0, 0, 1, TrialFinished(0, Outcome(Status.OK, 1.0)))]),
        "trial 0 ends, which had gone to another",
    ),
    "a result twice": (lambda rows: numbered([*rows, rows[-1]]), "trial 0 ends, which does not run"),
    "a result by another session": (lambda rows: by(rows, len(rows) - 1, 0), "belongs to epoch 2"),
    "a late result by another session": (lambda rows: by(rows, len(rows) - 3, 1), "was not taken from this writer"),
    "a late result of a trial that runs": (
        lambda rows: numbered([*rows[:-7], rows[-3]]),
        "attempt 1 of trial 0 was not taken",
    ),
    "a trial that is given up twice": (lambda rows: numbered([*rows[:-4], rows[-5]]), "given up, which does not run"),
    "a trial that starts although it runs": (lambda rows: numbered([*rows[:-6], rows[-4]]), "trial 0 starts although"),
    "a trial that starts after its end": (lambda rows: numbered([*rows, rows[-4]]), "although it has finished"),
    "a trial in the name of another session": (lambda rows: by(rows, len(rows) - 2, 1), "in the name of session 0"),
    "an attempt that was left out": (
        lambda rows: started_at(rows, len(rows) - 2, trial=replace(rows[-2].event.trial, attempt=3)),  # type: ignore[union-attr]
        "attempt 3 of trial 2 follows attempt 1",
    ),
    "turns that overlap": (lambda rows: started_at(rows, len(rows) - 2, time=2.5), "0.500 s before one that is stored"),
    "a session with two epochs": (
        lambda rows: numbered([*rows, Row(0, 1, 7, SessionStarted(1, "two", 5.0))]),
        "session 1 had begun with epoch 2",
    ),
    "a session out of order": (
        lambda rows: numbered([*rows, Row(0, 5, 7, SessionStarted(5, "six", 5.0))]),
        "session 5 begins as the 3th",
    ),
    "a missing event": (lambda rows: [*rows[:5], *rows[6:]], "position 6 stands at 5"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "complaint"), FORGED.values(), ids=FORGED)
def test_a_forged_log_is_rejected(change: Change, complaint: str) -> None:
    assert complaint in "\n".join(violations(change(sound())))


@pytest.fixture(scope="module")
def server() -> Iterator[StoppableServer]:
    with postgres_on_port() as server:
        yield server


def test_no_session_writes_about_a_trial_after_its_lease_has_gone_to_another(
    server: StoppableServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOHB_SERVER_TIMEOUT", "2")
    url = server.url_at()
    SqlJournal(url).close()
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server.port)) for _ in range(4)]

        def begin(proxy: Proxy) -> subprocess.Popen[str]:
            keywords = {"max_trials": 100_000, "workers": 2, "preset": "paper", "random_fraction": 1}
            runner = start("slow", server.url_at(proxy.port), tmp_path, **keywords)
            stack.callback(runner.kill)
            return runner

        runners = [begin(proxy) for proxy in proxies]
        until(lambda: _leases(url) == 4 <= len(_epochs(url)), "four runners, each of which has written")
        rounds = 0
        while rounds < size(1, 6) or (taken_over(rows_of(url)) < size(1, 6) and rounds < 10):
            rounds += 1
            runners[0].kill()
            runners[0].communicate()
            until(lambda: _leases(url) == 3, "the lease of a killed runner to expire")
            runners[0] = begin(proxies[0])
            runners[1].send_signal(signal.SIGSTOP)
            until(lambda: _leases(url) == 3, "the lease of a suspended runner to expire")
            runners[1].send_signal(signal.SIGCONT)
            until(lambda: _leases(url) == 4, "all runners")
            proxies[2].cut()
            proxies[3].stall()
            until(lambda: _leases(url) == 2, "the leases of runners that are cut off to expire")
            proxies[2].heal()
            proxies[3].heal()
            until(lambda: _leases(url) == 4, "all runners")
        until(lambda: len(_epochs(url)) >= 5, "five sessions to have written")
        for runner in runners:
            runner.send_signal(signal.SIGINT)
        for runner in runners:
            out, err = runner.communicate(timeout=120)
            assert runner.returncode == 0, err
            assert "interrupted" in out
    rows = rows_of(url)
    assert violations(rows) == []
    assert taken_over(rows) >= size(1, 6)
    assert replay(stored(url)).ok


def _epochs(url: str) -> set[int | None]:
    return {row.epoch for row in rows_of(url) if row.session is not None}


def _leases(url: str) -> int:
    with SqlJournal(url, read_only=True) as journal:
        return len(journal.live_leases())
