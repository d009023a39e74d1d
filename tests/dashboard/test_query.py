"""The trials table: filters, search, order and pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from bohb.analysis.trials import COLUMNS, columns, seconds, state
from bohb.core.trial import Origin, Status
from bohb.dashboard.query import Query, parse, select
from bohb.dashboard.studies import Snapshot, Studies


@pytest.fixture(scope="module")
def view(journal: Path) -> Snapshot:
    studies = Studies([journal])
    found = studies.snapshot("digits")
    studies.close()
    return found


def test_the_newest_trials_come_first(view: Snapshot) -> None:
    assert select(view, Query()).numbers == sorted(view.history.trials, reverse=True)[:50]


def test_pages_partition_the_trials(view: Snapshot) -> None:
    first, second = (select(view, Query(page=page)) for page in (1, 2))
    assert sorted(first.numbers + second.numbers) == sorted(view.history.trials)
    assert select(view, Query(page=99)).numbers == second.numbers, "beyond the end is the end"


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_trials_without_a_loss_come_last_in_either_direction(view: Snapshot, order: str) -> None:
    numbers = select(view, Query(sort="loss", order=order, size=200)).numbers
    losses = [view.history.outcomes[n].loss if n in view.history.outcomes else None for n in numbers]
    known = [loss for loss in losses if loss is not None]
    assert losses == known + [None] * (len(losses) - len(known))
    assert known == sorted(known, reverse=order == "desc")


def test_every_column_can_be_sorted_by(view: Snapshot) -> None:
    for column in columns(view.history):
        up, down = (select(view, Query(sort=column, order=order, size=200)).numbers for order in ("asc", "desc"))
        assert sorted(up) == sorted(down) == sorted(view.history.trials), column
        values = {COLUMNS[column](view.history, n) for n in up} if column in COLUMNS else up
        assert up != down or values == {None}, column


def test_hyperparameters_are_sorted_by_value(view: Snapshot) -> None:
    numbers = select(view, Query(sort="config.learning_rate", order="asc", size=200)).numbers
    rates = [view.history.trials[n].config["learning_rate"] for n in numbers]
    assert rates == sorted(rates)


def test_filters_keep_what_they_say(view: Snapshot) -> None:
    for n in select(view, Query(status="failed", size=200)).numbers:
        assert view.history.outcomes[n].status is not Status.OK
    running = select(view, Query(status="running", size=200))
    assert sorted(running.numbers) == sorted(view.history.running)
    assert all(state(view.history, n) == "running" and seconds(view.history, n) is None for n in running.numbers)
    for n in select(view, Query(origin="promoted", budget="9", size=200)).numbers:
        assert (view.history.trials[n].origin, view.history.trials[n].budget) == (Origin.PROMOTED, 9)
    assert {view.history.trials[n].bracket for n in select(view, Query(bracket="1")).numbers} == {1}


def test_all_words_of_a_search_must_occur(view: Snapshot) -> None:
    found = select(view, Query(q="GELU optimizer=adam", size=200)).numbers
    assert found
    for n, trial in view.history.trials.items():
        assert (n in found) == (trial.config["activation"] == "gelu" and trial.config["optimizer"] == "adam")
    assert select(view, Query(q="no such thing")).total == 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"page": "-1", "size": "7", "order": "sideways", "status": "x", "origin": "y"},
        {"page": "0"},
        {"page": "9" * 50},
        {"page": "²", "size": "٥٠"},
    ],
)
def test_nonsense_is_ignored(parameters: dict[str, str]) -> None:
    assert parse(parameters) == Query()


def test_a_query_survives_its_own_address() -> None:
    query = Query("a&b", "failed", "model", "9", "3", "4", "config.x y", "asc", 3, 100)
    assert parse({name: str(value) for name, value in query.parameters().items()}) == query
    assert Query().parameters() == {}


def test_an_unknown_column_sorts_by_number(view: Snapshot) -> None:
    assert select(view, Query(sort="__class__", order="asc")).numbers == sorted(view.history.trials)[:50]
    assert select(view, Query(sort="config.__class__")).total == len(view.history.trials)
