"""A PostgreSQL server that is stopped, killed, out of reach, silent, read-only or impatient: studies wait and go on."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import bohb
from bohb import BOHB, Trial, minimize, replay
from bohb.cli.app import app
from bohb.core.events import ResultLate, TrialLost
from bohb.dashboard import create_app
from bohb.errors import InvalidArgument, JournalError, JournalUnavailable
from bohb.journal import SqlJournal
from bohb.journal.postgres import PostgresDatabase
from bohb.testing import numbered_events
from tests.faults.proxy import Proxy
from tests.postgres import StoppableServer, emptied, execute, postgres_on_port
from tests.running.roles import SPACE, quadratic, start, suspended_once
from tests.running.test_several import finish, finished, stored, until
from tests.sizes import long

Objective = Callable[[Trial], float]


@pytest.fixture(scope="module")
def running() -> Iterator[StoppableServer]:
    with postgres_on_port() as server:
        yield server


@pytest.fixture
def server(running: StoppableServer) -> Iterator[StoppableServer]:
    emptied(running.url_at())
    yield running
    running.start()  # whatever a test that failed has left


@pytest.fixture
def proxy(server: StoppableServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOHB_SERVER_TIMEOUT", "2")  # here and in child processes


@pytest.fixture
def patient(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOHB_SERVER_TIMEOUT", "60")


def in_thread(objective: Objective, url: str, **keywords: Any) -> Future[bohb.Study]:
    """Run a study in a thread, so that the test can watch it and repair the server."""
    study: Future[bohb.Study] = Future()
    defaults: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "max_trials": 12, "progress": False}

    def run() -> None:
        try:
            study.set_result(minimize(objective, SPACE, journal=url, **{**defaults, **keywords}))
        except BaseException as error:  # noqa: BLE001 - the test raises it again
            study.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return study


def at_trial(number: int, act: Callable[[], object], calls: list[int]) -> Objective:
    """An objective that does something while a trial runs."""

    def objective(trial: Trial) -> float:
        calls.append(trial.number)
        if trial.number == number:
            act()
        return quadratic(trial)

    return objective


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "no trial is started" in record.getMessage()]


def check_outage(
    caplog: pytest.LogCaptureFixture,
    url: str,
    damage: Callable[[], object],
    expected: str,
    repair: Callable[[], object],
    direct: str | None = None,
) -> None:
    """A study whose server fails while a trial runs waits, goes on once it is back, and stores each result once."""
    calls: list[int] = []
    study = in_thread(at_trial(4, damage, calls), url)
    until(lambda: study.done() or any(expected in text for text in complaints(caplog)), f"the complaint {expected!r}")
    assert not study.done(), study.exception()
    assert calls == list(range(5)), "no trial starts meanwhile"
    repair()
    assert "reached" in study.result(timeout=120).stopped
    assert calls == list(range(12))
    events = stored(direct or url)
    assert finished(events) == calls
    assert not [event for event in events if isinstance(event, TrialLost | ResultLate)]
    assert replay(events).ok


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_result_waits_for_a_server_that_is_started_again(
    server: StoppableServer, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_outage(caplog, server.url_at(), getattr(server, how), "cannot be reached", server.start)


def test_runners_survive_a_server_that_is_stopped_and_killed(server: StoppableServer, tmp_path: Path) -> None:
    url = server.url_at()
    runners = [start("counted", url, tmp_path, max_trials=60, workers=2, lease_seconds=60) for _ in range(2)]
    for n, end in ((15, server.stop), (30, server.kill)):
        until(lambda n=n: _calls(tmp_path) > n, f"{n} trials")  # type: ignore[misc]
        end()
        server.start()
    finish(*runners)
    events = stored(url)
    assert sorted(finished(events)) == list(range(60))
    assert Counter(int(path.name.split("-")[0]) for path in tmp_path.iterdir()) == Counter(range(60))
    assert replay(events).ok


def _calls(directory: Path) -> int:
    return len(list(directory.iterdir()))


def test_a_connection_that_is_cut_is_made_again(
    server: StoppableServer, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    check_outage(caplog, server.url_at(proxy.port), proxy.cut, "cannot be reached", proxy.heal)


@pytest.mark.parametrize("ways", [{}, {"requests": False}, {"replies": False}], ids=["both", "replies", "requests"])
def test_a_server_that_accepts_and_never_answers_does_not_hang_its_runner(
    server: StoppableServer, proxy: Proxy, ways: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    expected = "the server has sent nothing for 2 s"
    check_outage(caplog, server.url_at(proxy.port), lambda: proxy.stall(**ways), expected, proxy.heal, server.url_at())


@pytest.mark.usefixtures("patient")
def test_a_slow_connection_is_no_outage(
    server: StoppableServer, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []
    study = in_thread(at_trial(2, lambda: proxy.delay(0.05), calls), server.url_at(proxy.port), max_trials=4)
    study.result(timeout=120)
    assert calls == list(range(4))
    assert complaints(caplog) == []


def test_a_lost_acknowledgement_stores_nothing_twice(server: StoppableServer, proxy: Proxy) -> None:
    calls: list[int] = []

    def objective(trial: Trial) -> float:
        calls.append(trial.number)
        proxy.lose_reply(skip=trial.number % 6)  # of reading, of storing this result, of starting the next trial
        return quadratic(trial)

    in_thread(objective, server.url_at(proxy.port), max_trials=12, lease_seconds=3600).result(timeout=120)
    assert proxy.lost_replies > 6
    assert calls == list(range(12))
    events = stored(server.url_at())
    assert finished(events) == calls
    assert replay(events).ok


@pytest.mark.parametrize("how", ["cut", pytest.param("stall", marks=long)])
def test_a_result_of_a_runner_that_was_cut_off_for_longer_than_its_lease_is_late(
    server: StoppableServer, proxy: Proxy, how: str, tmp_path: Path
) -> None:
    away = start("first_waits", server.url_at(proxy.port), tmp_path, max_trials=12, workers=1)
    until((tmp_path / "running").exists, "the first trial")
    getattr(proxy, how)()
    finish(start("first_waits", server.url_at(), tmp_path, max_trials=12))
    (tmp_path / "go").touch()
    proxy.heal()
    finish(away)
    events = stored(server.url_at())
    assert sorted(finished(events)) == list(range(12))
    late = [event for event in events if isinstance(event, ResultLate)]
    assert [(event.number, event.attempt, event.outcome.info) for event in late] == [(0, 1, {"attempt": 1})]
    assert replay(events).ok


@long  # until a lease of 12 s has expired
def test_runners_that_were_all_cut_off_keep_their_trials(server: StoppableServer, proxy: Proxy, tmp_path: Path) -> None:
    runners = [start("first_waits", server.url_at(proxy.port), tmp_path, max_trials=12, lease_seconds=12)]
    until((tmp_path / "running").exists, "the first trial")
    runners.append(start("first_waits", server.url_at(proxy.port), tmp_path, max_trials=12, lease_seconds=12))
    until(lambda: len(finished(stored(server.url_at()))) == 11, "all other trials")
    proxy.cut()
    with SqlJournal(server.url_at(), read_only=True) as journal:
        until(lambda: not journal.live_leases(), "leases that have expired")
        proxy.heal()
        until(lambda: len(journal.live_leases()) == 2, "leases that were renewed")
    (tmp_path / "go").touch()
    finish(*runners)
    events = stored(server.url_at())
    assert sorted(finished(events)) == list(range(12))
    assert not [event for event in events if isinstance(event, TrialLost | ResultLate)]


@pytest.mark.parametrize("how", ["cut", pytest.param("stall", marks=long)])
def test_ctrl_c_twice_ends_a_runner_whose_server_is_out_of_reach(
    server: StoppableServer, proxy: Proxy, how: str, tmp_path: Path
) -> None:
    runner = start("first_waits", server.url_at(proxy.port), tmp_path, max_trials=6, workers=1)
    until((tmp_path / "running").exists, "the first trial")
    getattr(proxy, how)()
    runner.send_signal(signal.SIGINT)
    assert runner.stderr is not None
    said = ""
    while "press Ctrl-C again" not in said:
        said += runner.stderr.readline()
    runner.send_signal(signal.SIGINT)
    out, err = runner.communicate(timeout=120)
    assert out.startswith("interrupted twice"), err
    assert "Traceback" not in said + err
    finish(start("first_waits", server.url_at(), tmp_path, max_trials=6))
    assert sorted(finished(stored(server.url_at()))) == list(range(6))


def test_what_is_wrong_from_the_start_is_an_error_at_once(server: StoppableServer) -> None:
    url = server.url_at()
    for wrong in (url.replace("/postgres", "/nowhere"), url.replace("postgres@", "nobody@")):
        with pytest.raises(JournalError, match="does not exist") as refused:
            SqlJournal(wrong)
        assert not isinstance(refused.value, JournalUnavailable)


def test_a_study_waits_while_its_server_is_read_only(server: StoppableServer, caplog: pytest.LogCaptureFixture) -> None:
    url = server.url_at()

    def freeze() -> None:  # as an administrator does before a failover, or a provider if the disk is nearly full
        execute(url, "ALTER DATABASE postgres SET default_transaction_read_only = on")
        cut_all(url)

    def thaw() -> None:
        execute(f"{url}?options=-c%20default_transaction_read_only%3Doff", "ALTER DATABASE postgres RESET ALL")

    try:
        check_outage(caplog, url, freeze, "read-only", thaw)
    finally:
        thaw()


def either(primary: StoppableServer, copy: StoppableServer) -> str:
    """The URL of the database on whichever of two servers accepts connections."""
    return f"postgresql+psycopg://postgres@127.0.0.1:{primary.port},127.0.0.1:{copy.port}/postgres"


@long
def test_a_study_goes_on_with_the_copy_that_replaces_its_server(caplog: pytest.LogCaptureFixture) -> None:
    with postgres_on_port() as primary, postgres_on_port(primary) as copy:
        execute(primary.url_at(), "ALTER SYSTEM SET synchronous_standby_names = '*'")  # confirmed only with the copy
        execute(primary.url_at(), "SELECT pg_reload_conf()")
        check_outage(caplog, either(primary, copy), primary.kill, "read-only", copy.promote)


@long
def test_a_server_that_has_lost_confirmed_events_is_refused() -> None:
    with (
        postgres_on_port() as primary,
        postgres_on_port(primary) as copy,
        SqlJournal(either(primary, copy)) as journal,
    ):
        journal.append(numbered_events(3), after=0)
        until(lambda: _length(copy.url_at()) == 3, "the copy")
        copy.kill()
        journal.append(numbered_events(2, first=3), after=3)  # the copy never gets these
        primary.kill()
        copy.start()
        copy.promote()
        with pytest.raises(JournalUnavailable):
            journal.read(5)
        with pytest.raises(JournalError, match="no longer has the events"):
            journal.read(5)
        with SqlJournal(copy.url_at()) as other:
            other.append(numbered_events(4, first=3), after=3)  # in place of the lost ones
        with pytest.raises(JournalError, match="no longer has the events"):
            journal.read(5)
        assert list(journal.read()) == numbered_events(7)


def _length(url: str) -> int:
    try:
        return len(stored(url))
    except JournalError:  # the copy does not even have the tables yet
        return 0


def cut_all(url: str) -> None:
    execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@pytest.mark.parametrize(
    ("setting", "busy", "idle"),
    [
        ("statement_timeout = '2s'", 2.5, 0),
        ("lock_timeout = '1ms'", 0, 0),
        ("idle_in_transaction_session_timeout = '2s'", 0, 2.5),
        ("default_transaction_isolation = 'repeatable read'", 0, 0),
        ("default_transaction_isolation = 'serializable'", 0, 0),
    ],
)
@pytest.mark.usefixtures("patient")
def test_defaults_of_the_server_do_not_matter(server: StoppableServer, setting: str, busy: float, idle: float) -> None:
    url = server.url_at()
    SqlJournal(url).close()
    execute(url, f"ALTER DATABASE postgres SET {setting}")
    with SqlJournal(url) as first, SqlJournal(url) as second:
        first.append(numbered_events(1), after=0)
        waiting = threading.Thread(target=lambda: second.append(numbered_events(1, first=2), after=2))
        with first.turn():
            waiting.start()
            until(lambda: _blocked(url), "the second runner, which waits for its turn")
            first.append(numbered_events(1, first=1), after=1)
            with first.database.transaction() as connection:
                connection.execute(f"SELECT pg_sleep({busy})")
            time.sleep(idle)
        waiting.join(timeout=120)
        assert list(first.read()) == numbered_events(3)


def _blocked(url: str) -> bool:
    with SqlJournal(url, read_only=True) as journal, journal.database.transaction() as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"
        return bool(connection.execute(waiting)[0][0])


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("act", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_statement_or_session_that_is_ended_from_outside_is_repeated(server: StoppableServer, act: str) -> None:
    url, caught = server.url_at(), list[JournalUnavailable]()
    with SqlJournal(url) as first, SqlJournal(url) as second:
        first.append(numbered_events(1), after=0)
        second.append([], after=1)

        def append() -> None:
            try:
                second.append(numbered_events(1, first=1), after=1)
            except JournalUnavailable as error:
                caught.append(error)

        waiting = threading.Thread(target=append)
        with first.turn():
            waiting.start()
            until(lambda: _blocked(url), "a statement that waits")
            execute(url, f"SELECT {act}(pid) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0")
            waiting.join(timeout=120)
        assert len(caught) == 1
        second.append(numbered_events(1, first=1), after=1)
        assert list(first.read()) == numbered_events(2)


@pytest.mark.usefixtures("patient")
def test_a_runner_that_is_cut_off_while_it_starts_waits_as_well(
    server: StoppableServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.url_at()
    with SqlJournal(url) as other:
        with other.turn():
            study = in_thread(quadratic, url, max_trials=3)
            until(lambda: _blocked(url), "a runner that waits for its first turn")
            execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            until(lambda: study.done() or "the study starts when this is resolved" in caplog.text, "the complaint")
            assert not study.done(), study.exception()
        study.result(timeout=120)
    assert finished(stored(url)) == [0, 1, 2]


def test_a_runner_that_is_cut_off_while_it_opens_its_journal_waits_as_well(
    server: StoppableServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_journal, connect = PostgresDatabase._is_journal, PostgresDatabase.connect
    cuts, refusals = [1], [1]

    def cut(database: PostgresDatabase) -> bool:
        if cuts:
            cuts.pop()
            database.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return is_journal(database)

    def refused(database: PostgresDatabase) -> Any:
        if not cuts and refusals:  # once it has been connected
            refusals.pop()
            database._parameters = {**database._parameters, "port": 1}
        return connect(database)

    monkeypatch.setattr(PostgresDatabase, "_is_journal", cut)
    monkeypatch.setattr(PostgresDatabase, "connect", refused)
    study = minimize(
        quadratic, SPACE, journal=server.url_at(), max_trials=3, min_budget=1, max_budget=9, progress=False
    )
    assert (len(study.history.outcomes), cuts, refusals) == (3, [], [])
    assert "the study starts when this is resolved" in caplog.text


def test_a_lock_that_is_held_too_long_is_named(server: StoppableServer) -> None:
    url = server.url_at()
    with SqlJournal(url) as first, SqlJournal(url) as second:
        first.append(numbered_events(1), after=0)
        second.append([], after=1)
        with first.turn(), pytest.raises(JournalUnavailable, match="another runner holds a lock"):
            second.append(numbered_events(1, first=1), after=1)
        second.append(numbered_events(1, first=1), after=1)


def test_missing_permissions_are_an_error_and_nothing_to_wait_for(server: StoppableServer) -> None:
    url = server.url_at()
    SqlJournal(url).close()
    execute(url, "DROP ROLE IF EXISTS reader")
    execute(url, "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA public TO reader")
    execute(url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = SqlJournal(url.replace("postgres@", "reader@"))
    with reader, pytest.raises(JournalError, match="permission denied") as refused:
        reader.append(numbered_events(1), after=0)
    assert not isinstance(refused.value, JournalUnavailable)
    execute(url, "DROP OWNED BY reader; DROP ROLE reader")


def test_a_runner_that_is_suspended_in_its_turn_loses_it_with_its_lease(
    server: StoppableServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOHB_TEST_DIRECTORY", str(tmp_path))
    url = server.url_at()
    suspended = start("quadratic", url, tmp_path, max_trials=12, sampler="suspended_once", lease_seconds=1)
    process = psutil.Process(suspended.pid)
    until(lambda: process.status() == psutil.STATUS_STOPPED, "a runner that is suspended in its turn")
    finish(start("quadratic", url, tmp_path, max_trials=12, sampler="suspended_once", lease_seconds=1))
    suspended.send_signal(signal.SIGCONT)
    finish(suspended)
    events = stored(url)
    assert sorted(finished(events)) == list(range(12))
    assert replay(events, sampler=suspended_once).ok


@pytest.mark.parametrize(("lease", "turn"), [(1, "10s"), (20, "20s"), (3600, "1min")])
def test_the_server_ends_an_idle_turn_after_the_time_of_the_lease(
    server: StoppableServer, lease: float, turn: str
) -> None:
    seen: list[str] = []
    with SqlJournal(server.url_at()) as journal:

        def look(*_: object) -> None:
            with journal.database.transaction() as connection:  # that of the turn
                seen.append(connection.execute("SHOW idle_in_transaction_session_timeout")[0][0])

        optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal, sampler=look)
        with optimizer.session.lease("me", lease):
            optimizer.ask()
    assert set(seen) == {turn}


def test_commands_name_an_outage_without_a_traceback(server: StoppableServer, proxy: Proxy) -> None:
    url = server.url_at(proxy.port)
    in_thread(quadratic, url, max_trials=3).result(timeout=120)
    dashboard = create_app(url)
    client = TestClient(dashboard, base_url="http://127.0.0.1:8321")
    assert client.get("/study?study=study").status_code == 200
    for damage in (proxy.cut, proxy.stall):
        damage()
        for command in ("status", "best", "trials"):
            shown = CliRunner().invoke(app, [command, url])
            assert shown.exit_code == 1
            assert "cannot connect" in shown.output
            assert len(shown.output.splitlines()) == 1
        shown_page = client.get("/study?study=study")
        assert shown_page.status_code == 503
        assert "Traceback" not in shown_page.text
        proxy.heal()
        until(lambda: client.get("/study?study=study").status_code == 200, "the page")
    dashboard.state.close()


@pytest.mark.parametrize("value", ["0", "soon", "nan", "1e9"])
def test_a_bound_of_no_sensible_length_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOHB_SERVER_TIMEOUT", value)
    with pytest.raises(InvalidArgument, match="BOHB_SERVER_TIMEOUT"):
        SqlJournal("postgresql+psycopg://me@127.0.0.1:1/none")
