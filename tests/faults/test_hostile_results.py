"""Results that a journal cannot store: the trial fails by name, and the study goes on and can be resumed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bohb import BOHB, Outcome, Status, Trial, minimize
from bohb.core.encoding import LARGEST_RESULT, check_storable
from bohb.core.trial import jsonable, outcome_of
from bohb.errors import InvalidResult
from bohb.journal import SqlJournal
from tests.objectives import SPACE

_ITSELF = np.empty((), dtype=object)
_ITSELF[()] = _ITSELF


class _NoText:
    def __str__(self) -> str:
        raise RuntimeError("no text")


STORED: list[Any] = [
    {"x": np.longdouble(0.5)},
    {"x": np.array([0.5], dtype=np.longdouble)},
    {"x": np.clongdouble(1j), "y": [np.longdouble("nan")]},
    {"x": _ITSELF},
    {_NoText(): 1},
    {"x": 10**4299, "y": -(10**4299)},
    {"x": "\ud800"},
    {"x": np.array((1, 2.5), dtype=[("a", int), ("b", np.longdouble)])},
]
REFUSED: list[tuple[Any, str]] = [
    ({"x": "é" * 3_000_000}, r"18,000,\d\d\d bytes as JSON, more than the 16,776,192"),
    ({"x": "x" * LARGEST_RESULT}, r"16,776,\d\d\d bytes as JSON"),
    ({"x": 10**5000}, r"an integer of 16,610 bits.*4,300 digits.*as text"),
    ({"x": [{"y": -(10**4301)}]}, r"an integer of 14,28\d bits"),
    ({10**5000: 1}, r"an integer of 16,610 bits"),
]


def hostile(trial: Trial) -> Any:
    """Return one hostile `info` after the other, then good ones."""
    every = [*STORED, *(info for info, _ in REFUSED)]
    return {"loss": 0.5, "info": every[trial.number] if trial.number < len(every) else {}}


@pytest.mark.parametrize("workers", [None, 1])
def test_a_result_that_cannot_be_stored_is_a_bad_result_and_the_study_goes_on(
    tmp_path: Path, workers: int | None
) -> None:
    for n in (15, 18):  # and it can be resumed
        study = minimize(
            hostile,
            SPACE,
            budgets=[1],
            seed=0,
            workers=workers,
            max_trials=n,
            journal=tmp_path / "s.db",
            progress=False,
        )
    outcomes = study.history.outcomes
    bad = {number: str(outcome.error) for number, outcome in outcomes.items() if not outcome.ok}
    assert list(bad) == list(range(len(STORED), len(STORED) + len(REFUSED)))
    assert {outcomes[number].status for number in bad} == {Status.BAD_RESULT}
    for error, (_, message) in zip(bad.values(), REFUSED, strict=True):
        assert re.search(message, error), error
    with SqlJournal(tmp_path / "s.db", read_only=True) as journal:
        assert BOHB.from_events(journal.read()).history.outcomes.keys() == outcomes.keys()


@pytest.mark.parametrize(("info", "message"), REFUSED, ids=[message[:20] for _, message in REFUSED])
def test_tell_refuses_it_and_stores_nothing(info: Any, message: str) -> None:
    study = BOHB(SPACE, budgets=[1], seed=0)
    trial = study.ask()
    with pytest.raises(InvalidResult, match=message):
        study.tell(trial, {"loss": 0.5, "info": info})
    assert list(study.history.running) == [trial.number]
    study.tell(trial, 0.5)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Status.OK, loss=0.5, output="x" * 2**24),
        Outcome(Status.OK, loss=0.5, info={"x": 10**5000}),
        Outcome(Status.CRASHED, error="x" * 2**24),
    ],
    ids=["output", "info", "error"],
)
def test_an_outcome_of_an_executor_that_cannot_be_stored_is_a_bad_result(outcome: Outcome) -> None:
    study = BOHB(SPACE, budgets=[1], seed=0)
    trial = study.ask()
    study.tell(trial, outcome)
    assert study.history.outcomes[trial.number].status is Status.BAD_RESULT


def test_what_fits_is_stored_with_the_size_that_was_checked(tmp_path: Path) -> None:
    largest = "é" * ((LARGEST_RESULT - 100) // 6)
    with SqlJournal(tmp_path / "s.db") as journal:
        study = BOHB(SPACE, budgets=[1], seed=0, journal=journal)
        study.tell(study.ask(), {"loss": 0.5, "info": {"x": largest}})
        assert BOHB.from_journal(journal).history.outcomes[0].info == {"x": largest}


def test_a_result_without_a_loss_is_refused_whatever_its_keys() -> None:
    with pytest.raises(InvalidResult, match=r"has no 'loss' \(it has <int whose repr raises ValueError>\)"):
        outcome_of({10**5000: 1})


def test_a_longdouble_is_stored_as_a_number() -> None:
    assert jsonable({"x": np.longdouble(0.5), "y": np.array([1, 2], np.longdouble)}) == {"x": 0.5, "y": [1.0, 2.0]}
    assert check_storable(outcome_of({"loss": np.longdouble(0.5)})).loss == 0.5
