"""Events that were not written by bohb, although their checksums are right: an error that names them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bohb import BOHB
from bohb.cli.app import app
from bohb.core.encoding import from_json, to_json
from bohb.core.events import Event
from bohb.errors import BohbError, JournalError
from bohb.journal import SqlJournal
from bohb.journal.database import END
from bohb.journal.records import Content, chained, contents
from bohb.testing import numbered_events
from tests.objectives import SPACE, quadratic
from tests.sizes import size

HOSTILE: list[Any] = [None, "x", -1, 2**63, 10**400, 1e308, 1e-320, [], {}, [1], {"a": 1}, True, "nan", [[[]]], 3.5]


def study_events(**options: Any) -> list[Event]:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=1, **options)
    study.session.begin("runner")
    for number in range(25):
        trial = study.ask()
        study.tell(trial, quadratic(trial) if number % 7 else ValueError("failed"))
    study.lose(study.ask(), "gone")
    return list(study.events)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def damaged(bodies: list[tuple[str, Any]], rng: random.Random) -> list[tuple[str, Any]]:
    """Change, remove, exchange or repeat one event."""
    changed = copy.deepcopy(bodies)
    i, j = rng.randrange(len(bodies)), rng.randrange(len(bodies))
    how = rng.choice(["value"] * 6 + ["created"] * 2 + ["remove", "exchange", "repeat"])
    if how == "remove":
        del changed[i]
    elif how == "exchange":
        changed[i], changed[j] = changed[j], changed[i]
    elif how == "repeat":
        changed.insert(i, changed[j])
    else:
        body = changed[0 if how == "created" else i][1]
        *path, last = rng.choice([*places(body)] or [("x",)])
        for key in path:
            body = body[key]
        if isinstance(body, dict) and rng.random() < 0.2:
            body.pop(last, None)
        else:
            body[last] = rng.choice(HOSTILE)
    return changed


@pytest.mark.filterwarnings("ignore")  # of ConfigSpace, about hostile spaces
def test_a_study_of_invalid_events_is_read_or_refused_with_an_error_of_ours() -> None:
    rng, refused = random.Random(26), 0
    studies = [study_events(), study_events(preset="best")]
    stored = [[(event.kind, json.loads(json.dumps(to_json(event)))) for event in events] for events in studies]
    for _ in range(size(300, 10_000)):
        bodies = damaged(rng.choice(stored), rng)
        try:
            study = BOHB.from_events([from_json(kind, body) for kind, body in bodies])
            assert study.incumbent is None or study.history.results
        except BohbError as error:
            refused += 1
            assert str(error)  # noqa: PT017 - any error of ours will do
    assert refused > 100


def forged(path: Path, found: list[Content]) -> Path:
    """Store what somebody may send: events that bohb has not written, with the right checksums."""
    with SqlJournal(path) as journal:
        journal.append([], after=0)
        records = chained("study", 0, 0, 1, found)
        with journal.database.transaction() as database:
            database.insert("study", records)
            database.execute(END, of="study", length=len(found), crc=records[-1].crc)
    return path


def test_an_event_that_cannot_be_read_is_named_by_its_position(tmp_path: Path) -> None:
    found = contents(numbered_events(5))
    found[3] = (*found[3][:2], "{}")
    with (
        SqlJournal(forged(tmp_path / "s.db", found), read_only=True) as journal,
        pytest.raises(JournalError, match=r"event 3 of study 'study': a stored 'given' event cannot be read"),
    ):
        journal.read()


@pytest.mark.parametrize(
    ("kind", "path", "value", "refused"),
    [
        ("created", ("seed",), "x", True),
        ("created", ("version",), {}, True),
        ("created", ("time",), 1e300, False),
        ("created", ("space", "hyperparameters", 0, "type"), 1e300, True),
        ("created", ("space", "hyperparameters", 0, "lower"), "x", True),
        ("session", ("limits",), None, True),
        pytest.param("started", ("time",), 10**400, True, id="started-time-huge"),
        ("started", ("time",), 1e300, False),
        ("started", ("trial", "rung"), -1, True),
        ("started", ("trial", "config_id"), [], True),
        ("started", ("trial", "reason"), {}, False),
        ("finished", ("outcome", "info"), 5, True),
        ("finished", ("outcome", "started"), "x", True),
        ("finished", ("outcome", "curve"), [[1e300, -1e300]], False),
    ],
)
def test_no_command_fails_at_an_event_of_somebody_else(
    kind: str, path: tuple[Any, ...], value: Any, refused: bool, tmp_path: Path
) -> None:
    bodies = [(event.kind, event.key, json.loads(json.dumps(to_json(event)))) for event in study_events(preset="best")]
    body: Any = [body for of, _, body in bodies if of == kind][-1]
    for key in path[:-1]:
        body = body[key]
    body[path[-1]] = value
    found = [(of, key, json.dumps(body, separators=(",", ":"))) for of, key, body in bodies]
    forged(tmp_path / "s.db", found)
    n_trials = sum(of == "started" for of, *_ in bodies)
    commands = [["status"], ["trials"], ["best"], *(["why", str(n)] for n in range(0, n_trials, 6))]
    if kind != "started":  # a report takes seconds
        commands.append(["report", "--out", str(tmp_path / "report.html")])
    for command in commands:
        shown = CliRunner().invoke(app, [*command, str(tmp_path / "s.db")])
        assert shown.exception is None or isinstance(shown.exception, SystemExit), (command, shown.exception)
        assert not refused or (shown.exit_code == 1 and f"a stored {kind!r} event cannot be read" in shown.output)


def test_an_event_that_does_not_fit_the_study_is_named_by_its_position_and_key() -> None:
    bodies = [(event.kind, to_json(event)) for event in study_events()]
    place = next(i for i, (kind, _) in enumerate(bodies) if kind == "started")
    bodies[place][1]["trial"]["bracket"] = 99
    with pytest.raises(JournalError, match=rf"event {place} \('started/0/1'\) does not fit .*Error"):
        BOHB.from_events([from_json(kind, body) for kind, body in bodies])


def test_stored_budgets_that_cannot_be_compared_are_refused() -> None:
    bodies = [(event.kind, to_json(event)) for event in study_events()]
    bodies[0][1]["budgets"] = [[1], 3.0]
    with pytest.raises(JournalError, match=r"event 0 \('created'\) does not fit .*each budget"):
        BOHB.from_events([from_json(kind, body) for kind, body in bodies])
