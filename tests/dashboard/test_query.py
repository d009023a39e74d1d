"""The trials table: filters, search, order, columns and rows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import bohb
from bohb.analysis.trials import columns as all_columns
from bohb.core.trial import Status
from bohb.dashboard.query import MOST_ROWS, Query, columns, matching, table
from bohb.dashboard.studies import Snapshot, Studies
from bohb.errors import InvalidArgument
from tests.analysis.studies import played


@pytest.fixture(scope="module")
def view(journal: Path) -> Snapshot:
    studies = Studies([journal])
    found = studies.snapshot("digits")
    studies.close()
    return found


def numbers(view: Snapshot, q: str) -> set[int]:
    return set(matching(view, Query(q)))


def test_the_newest_trials_come_first(view: Snapshot) -> None:
    assert matching(view, Query()) == sorted(view.history.trials, reverse=True)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_trials_without_a_loss_come_last_in_either_direction(view: Snapshot, order: str) -> None:
    found = matching(view, Query(sort="loss", order=order))
    losses = [view.history.outcomes[n].loss if n in view.history.outcomes else None for n in found]
    known = [loss for loss in losses if loss is not None]
    assert losses == known + [None] * (len(losses) - len(known))
    assert known == sorted(known, reverse=order == "desc")


def test_every_column_can_be_sorted_by(view: Snapshot) -> None:
    for name, value in all_columns(view.history).items():
        up, down = (matching(view, Query(sort=name, order=order)) for order in ("asc", "desc"))
        assert sorted(up) == sorted(down) == sorted(view.history.trials), name
        assert up != down or {value(view.history, n) for n in up} == {None}, name


@pytest.mark.parametrize(
    ("q", "holds"),
    [
        ("learning_rate < 1e-3", lambda t, o: t.config["learning_rate"] < 1e-3),
        ("config.units>=100", lambda t, o: t.config["units"] >= 100),
        ('"dropout" <= .3', lambda t, o: t.config["dropout"] <= 0.3),
        ("loss > 0.2", lambda t, o: o is not None and o.loss is not None and o.loss > 0.2),
        ("accuracy > 0.5", lambda t, o: o is not None and o.info.get("accuracy", -1) > 0.5),
        ("budget = 9", lambda t, o: t.budget == 9),
        ("budget = 1,27", lambda t, o: t.budget in (1, 27)),
        ("activation = GELU", lambda t, o: t.config["activation"] == "gelu"),
        ("optimizer!=sgd", lambda t, o: t.config["optimizer"] != "sgd"),
        ("origin = promoted", lambda t, o: t.origin.value == "promoted"),
        ("trial = 3,5,7", lambda t, o: t.number in (3, 5, 7)),
        ("status = running", lambda t, o: o is None),
        ("status = failed", lambda t, o: o is not None and o.status is not Status.OK),
        ("status != ok, bracket = 1", lambda t, o: (o is None or not o.ok) and t.bracket == 1),
        ("bracket = 0 and rung = 1", lambda t, o: (t.bracket, t.rung) == (0, 1)),
        ("GELU adam", lambda t, o: t.config["activation"] == "gelu" and t.config["optimizer"] == "adam"),
        ("no such thing", lambda t, o: False),
    ],
)  # fmt: skip
def test_a_filter_keeps_what_it_says(view: Snapshot, q: str, holds: object) -> None:
    assert callable(holds)
    expected = {n for n, trial in view.history.trials.items() if holds(trial, view.history.outcomes.get(n))}
    assert numbers(view, q) == expected


@pytest.mark.parametrize(
    ("q", "message"),
    [
        ("learning_rte < 1", "there is no column 'learning_rte'; did you mean 'learning_rate'?"),
        ("__class__ = 1", "there is no column '__class__'"),
        (
            "bogus < 3",
            "there is no column 'bogus'; there are trial, loss, status, budget, bracket, rung, origin, secon",
        ),
        ("dropout < much", "dropout < much: 'much' is not a number"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_by_name(view: Snapshot, q: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message.replace("?", r"\?")):
        matching(view, Query(q))


def test_other_parameters_that_make_no_sense_are_ignored(view: Snapshot) -> None:
    assert Query.of({"order": "sideways", "page": "-1"}) == Query()
    assert matching(view, Query(sort="__class__", order="asc")) == sorted(view.history.trials)


def test_a_query_survives_its_own_address() -> None:
    query = Query("a & b", "config.x y", "asc")
    assert Query.of(query.parameters()) == query
    assert Query().parameters() == {}


def test_a_table_is_json_with_a_value_for_each_column_and_six_digits() -> None:
    for kind in ("mixed", "hostile", "two objectives", "running", "maximised", "far apart"):
        history = played(kind)
        found = json.loads(json.dumps(table(Snapshot("s", history), Query()), allow_nan=False))
        assert {len(row) for row in found["rows"]} == {len(found["columns"])}
        assert [row[0] for row in found["rows"]] == sorted(history.trials, reverse=True)
        assert (found["found"], found["total"]) == (len(history.trials),) * 2
        names = [name for name, *_ in found["columns"]]
        assert len(names) == len(set(names))
        assert {f"config.{scale.name}" for scale in history.space.dimensions} <= set(names)
        for row in found["rows"]:
            assert all(len(repr(value)) < 14 for value in row[1:] if type(value) is float and value < 1e9)


def test_results_have_the_names_that_the_study_gives_them() -> None:
    assert [column.title for column in columns(played("maximised"))][1] == "Score"
    assert [column.title for column in columns(played("two objectives"))][1:4] == [
        "<script>alert(1)</script>",
        "accuracy",
        "memory",
    ]
    assert [column.title for column in columns(played("mixed"))][1] == "Loss"


def test_values_that_json_does_not_have_are_text() -> None:
    optimizer = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1])
    optimizer.tell(optimizer.ask(), {"loss": 0.5, "info": {"worst": math.inf, "list": [1, 2]}})
    found = table(Snapshot("s", optimizer.history), Query())
    row = dict(zip([name for name, *_ in found["columns"]], found["rows"][0], strict=True))
    assert (row["info.worst"], row["info.list"]) == ("inf", "[1, 2]")


def test_a_page_gets_the_first_rows_of_a_huge_study_in_its_order(
    view: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_ROWS >= 10_000
    monkeypatch.setattr("bohb.dashboard.query.MOST_ROWS", 5)
    found = table(view, Query(sort="loss", order="asc"))
    losses = [row[1] for row in found["rows"]]
    best = sorted(o.loss for o in view.history.outcomes.values() if o.loss is not None)[:5]
    assert losses == pytest.approx(best, rel=1e-5)
    assert found["found"] == len(view.history.trials)
