"""Programs outside of this process get every trial once, and none of their results is lost."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bohb import BOHB, Limits, Retry, Status, Trial, replay
from bohb.core.history import History
from bohb.errors import AlreadyTold, InvalidArgument, InvalidResult, JournalBusy, NoTrialReady, StudyDone, UnknownTrial
from bohb.journal import Journal, SqlJournal
from bohb.journal.lock import WriterLock
from bohb.running.external import ExternalStudy


def create(journal: Journal) -> BOHB:
    return BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, seed=3, journal=journal)


@pytest.fixture
def study(tmp_path: Path) -> ExternalStudy:
    return ExternalStudy(str(tmp_path / "study.db"), "bowl", create, wait_seconds=30)


def stored(study: ExternalStudy) -> History:
    with SqlJournal(study.journal, study.study, read_only=True) as journal:
        return History().extend(journal.read())


def finish(study: ExternalStudy, n: int) -> list[Trial]:
    trials = []
    for _ in range(n):
        trials.append(trial := study.ask())
        study.tell(trial.number, trial.config["x"])
    return trials


def test_programs_at_the_same_time_get_different_trials_and_lose_no_result(study: ExternalStudy) -> None:
    numbers: list[int] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            numbers.extend(trial.number for trial in finish(study, 2))
        except BaseException as error:  # noqa: BLE001 - a thread must not swallow it
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    assert sorted(numbers) == list(range(6))
    assert set(stored(study).outcomes) == set(range(6))


def test_a_study_that_is_asked_by_many_calls_makes_the_decisions_of_one_optimizer(study: ExternalStudy) -> None:
    trials = finish(study, 6)
    optimizer = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, seed=3)
    for trial in trials:
        expected = optimizer.ask()
        assert (trial.config, trial.budget, trial.seed) == (expected.config, expected.budget, expected.seed)
        optimizer.tell(expected, expected.config["x"])


def test_a_call_waits_for_a_process_that_has_the_journal_and_gives_up_in_time(
    study: ExternalStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.journal.lock.OPEN_SECONDS", 0.0)
    study.ask()
    lock = WriterLock(Path(study.journal), exclusive=True)
    timer = threading.Timer(0.3, lock.release)
    try:
        with pytest.raises(JournalBusy):
            replace(study, wait_seconds=0).tell(0, 0.5)
        timer.start()
        assert study.tell(0, 0.5) == "stored"
    finally:
        lock.release()
        timer.cancel()


def test_a_checkpoint_reaches_the_next_budget_and_a_failed_one_does_not(study: ExternalStudy) -> None:
    seen: dict[int, tuple[float | None, str]] = {}
    for _ in range(4):
        trial = study.ask()
        assert trial.checkpoint_dir is not None
        state = trial.checkpoint_dir / "state"
        seen[trial.number] = trial.previous_budget, state.read_text() if state.exists() else ""
        state.write_text(f"{trial.config_id} {trial.budget:g}")
        study.tell(trial.number, OSError("disk") if trial.number == 0 else trial.config["x"])
        assert not trial.checkpoint_dir.exists()
    trials = stored(study).trials
    promoted = [number for number, (previous, _) in seen.items() if previous is not None]
    assert len(promoted) == 1
    assert all(seen[n][1] == f"{trials[n].config_id} {seen[n][0]:g}" for n in promoted)
    assert all(seen[n] == (None, "") for n in seen if n not in promoted)


def test_a_checkpoint_that_was_told_elsewhere_is_not_taken_for_an_empty_one(study: ExternalStudy) -> None:
    elsewhere = replace(study, directory=Path(study.journal).parent / "elsewhere")
    for _ in range(3):
        trial = elsewhere.ask()
        assert trial.checkpoint_dir is not None
        (trial.checkpoint_dir / "state").write_text("trained")
        study.tell(trial.number, trial.config["x"])
    promoted = study.ask()
    assert promoted.from_trial is not None
    assert promoted.previous_budget is None  # it starts afresh


def later(study: ExternalStudy, seconds: float) -> None:
    """Let the last sign of life of every program be older."""
    with SqlJournal(study.journal, study.study) as journal, journal.database.transaction() as database:
        database.execute("UPDATE lease SET expires = expires - :seconds", seconds=seconds)


def test_a_trial_that_is_never_told_is_handed_out_again_after_its_lease(study: ExternalStudy) -> None:
    first, again = study.ask(), study.ask(lease_seconds=3600)
    assert (first.number, again.number) == (0, 1)
    later(study, 61)
    second = study.ask(lease_seconds=60)
    assert (second.number, second.attempt, second.config) == (0, 2, first.config)
    assert study.tell(0, 0.7, attempt=1) == "late"
    assert study.tell(0, 0.8, attempt=2) == "stored"
    history = stored(study)
    assert history.outcomes[0].loss == 0.8
    assert [late.outcome.loss for late in history.late] == [0.7]


@pytest.mark.parametrize("seconds", [0, -1, 1e-9, 0.5, float("nan"), float("inf"), 1e9, True, "1h"])
def test_a_lease_of_no_sensible_length_is_refused_and_hands_out_nothing(study: ExternalStudy, seconds: Any) -> None:
    study.ask()
    with pytest.raises(InvalidArgument, match=r"lease_seconds=.* must be at least 1 second"):
        study.ask(lease_seconds=seconds)
    assert list(stored(study).running) == [0]


def test_a_report_is_a_sign_of_life(study: ExternalStudy) -> None:
    silent, living = study.ask(), study.ask()
    for number in (silent.number, living.number):
        study.report(number, 1, 0.9)
    later(study, 61)
    study.report(living.number, 2, 0.8)
    assert study.ask(lease_seconds=60).number == silent.number
    assert stored(study).trials[living.number].attempt == 1


def test_a_client_that_crashed_gets_its_own_trial_back_in_a_clean_directory(study: ExternalStudy) -> None:
    mine, other = study.ask(client="a"), study.ask(client="b")
    assert mine.checkpoint_dir is not None
    (mine.checkpoint_dir / "state").write_text("half-writ")
    study.report(mine.number, 1, 0.9)
    again = study.ask(client="a")
    assert again == mine
    assert again.checkpoint_dir == mine.checkpoint_dir
    assert list(mine.checkpoint_dir.iterdir()) == []
    study.tell(mine.number, 0.5)
    assert stored(study).outcomes[mine.number].curve == ()
    assert study.ask(client="a").number == 2
    assert study.ask(client="b") == other
    assert replay(study.journal, study.study).ok


def test_the_clock_of_a_machine_that_asks_takes_no_trial_from_a_program(
    study: ExternalStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = study.ask()
    monkeypatch.setattr("time.time", lambda now=time.time: now() + 3600)
    assert study.ask(lease_seconds=60).number != mine.number


@pytest.mark.parametrize("clock", ["killed before its first sign", "the machine has started again"])
def test_without_a_known_sign_of_life_a_lease_begins_when_somebody_asks(study: ExternalStudy, clock: str) -> None:
    mine = study.ask()
    if clock == "the machine has started again":
        later(study, -1e6)
    else:
        with SqlJournal(study.journal, study.study) as journal:
            journal.end_lease(f"trial {mine.number}, attempt 1")
    assert study.ask(lease_seconds=60).number != mine.number
    later(study, 61)
    assert study.ask(lease_seconds=60).number == mine.number


def test_a_client_that_asks_again_gives_a_sign_of_life(study: ExternalStudy) -> None:
    mine = study.ask(client="a")
    later(study, 3600)
    assert study.ask(client="a") == mine
    assert study.ask(lease_seconds=60, client="b").number != mine.number
    assert study.tell(mine.number, 0.5) == "stored"


def test_a_program_may_ask_for_another_try(study: ExternalStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bohb.core.decide.retry_delay", lambda n: 0.0)
    trial = study.ask()
    assert trial.checkpoint_dir is not None
    (trial.checkpoint_dir / "state").write_text("half-writ")
    assert study.tell(0, Retry("no GPU here")) == "stored"
    history = stored(study)
    assert ([again.reason for again in history.retries[0]], history.losses) == (["no GPU here"], {})
    again = study.ask()
    assert (again.number, again.attempt) == (0, 2)
    assert again.checkpoint_dir is not None
    assert list(again.checkpoint_dir.iterdir()) == []


def test_a_trial_whose_directory_cannot_be_made_is_handed_out_again(study: ExternalStudy) -> None:
    finish(study, 1)
    in_the_way = Path(f"{study.journal}.files/bowl/checkpoints/asked")
    in_the_way.rmdir()
    in_the_way.write_text("")
    with pytest.raises(OSError, match=in_the_way.name):
        study.ask()
    in_the_way.unlink()
    again = study.ask()
    assert (again.number, again.attempt) == (1, 2)
    assert again.checkpoint_dir is not None
    assert stored(study).losses == {}  # not the fault of the trial


@pytest.mark.parametrize("theirs", ["checkpoints/1000/weights.pt", "curves/0-1.jsonl"])
def test_in_a_directory_of_somebody_else_no_trial_starts_and_nothing_changes(study: ExternalStudy, theirs: str) -> None:
    precious = Path(f"{study.journal}.files/bowl", theirs)
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    for _ in range(3):
        with pytest.raises(InvalidArgument, match="is not empty, and no study has made it"):
            study.ask(client="a")
    assert stored(study).trials == {}
    assert precious.read_text() == "precious"


def test_a_client_that_asks_twice_at_once_gets_one_trial_in_one_clean_directory(study: ExternalStudy) -> None:
    for _ in range(3):
        trial = study.ask()
        assert trial.checkpoint_dir is not None
        for name in range(20):
            (trial.checkpoint_dir / str(name)).write_text("trained")
        study.tell(trial.number, trial.config["x"])
    found: list[Trial | BaseException] = []

    def ask() -> None:
        try:
            found.append(study.ask(client="a"))
        except BaseException as error:  # noqa: BLE001 - a thread must not swallow it
            found.append(error)

    for _ in range(5):
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert found == [found[0]] * 20
    assert isinstance(found[0], Trial)
    assert (found[0].from_trial, found[0].attempt) != (None, 2)
    assert found[0].checkpoint_dir is not None
    assert sorted(int(path.name) for path in found[0].checkpoint_dir.iterdir()) == list(range(20))
    assert not (found[0].checkpoint_dir.parents[1] / "working").exists()


def test_a_trial_that_loses_every_program_fails_in_the_end(study: ExternalStudy) -> None:
    for attempt in (1, 2, 3):
        assert study.ask().attempt == attempt
        study.lose(0, "preempted", attempt)
    outcome = stored(study).outcomes[0]
    assert outcome.status is Status.LOST
    assert outcome.error == "handed out 3 times without a result, at last: preempted"
    assert study.ask().number == 1


def test_a_result_that_comes_while_its_trial_is_given_up_is_kept(study: ExternalStudy) -> None:
    for attempt in (1, 2):
        study.ask()
        study.lose(0, "preempted", attempt)
    assert study.ask().attempt == 3

    def tell_meanwhile(journal: Journal) -> BOHB:
        optimizer = create(journal)
        if not stored(study).outcomes:
            study.tell(0, 0.5, attempt=3)
        return optimizer

    later(study, 61)
    assert replace(study, open=tell_meanwhile).ask(lease_seconds=60).number == 1
    assert stored(study).outcomes[0].loss == 0.5


def test_a_trial_that_is_told_while_another_is_given_up_keeps_its_result(study: ExternalStudy) -> None:
    study.ask(), study.ask()

    def tell_meanwhile(journal: Journal) -> BOHB:
        optimizer = create(journal)
        if not stored(study).outcomes:
            study.tell(1, 0.5)
        return optimizer

    later(study, 61)
    again = replace(study, open=tell_meanwhile).ask(lease_seconds=60)
    assert (again.number, again.attempt) == (0, 2)
    assert stored(study).outcomes[1].loss == 0.5


def test_a_result_is_late_if_its_trial_is_given_up_while_it_is_told(study: ExternalStudy) -> None:
    study.ask()

    def lose_meanwhile(journal: Journal) -> BOHB:
        optimizer = create(journal)
        optimizer.lose(0, "no result")
        return optimizer

    assert replace(study, open=lose_meanwhile).tell(0, 0.5) == "late"
    assert stored(study).outcomes == {}
    assert study.ask().attempt == 2


def test_a_result_without_an_attempt_is_refused_once_the_attempt_is_in_doubt(study: ExternalStudy) -> None:
    study.ask()
    study.lose(0, "preempted")
    for act in (lambda: study.tell(0, 1.0), lambda: study.lose(0, "again"), lambda: study.report(0, 1, 1.0)):
        with pytest.raises(InvalidArgument, match="give the attempt"):
            act()
    assert study.ask().attempt == 2
    with pytest.raises(InvalidArgument, match="give the attempt"):
        study.tell(0, 1.0)


def test_points_of_a_curve_are_stored_with_the_outcome_even_after_a_torn_line(study: ExternalStudy) -> None:
    trial = study.ask()
    study.report(0, 1, 0.9)
    study.report(0, 2, float("nan"))
    (file,) = Path(study.journal).parent.glob("**/curves/*")
    with file.open("a") as torn:
        torn.write("\n[3, 0.")
    study.report(0, 4, 0.25)
    study.tell(0, {"loss": 0.5, "info": {"accuracy": 0.9}})
    outcome = stored(study).outcomes[0]
    assert json.dumps(outcome.curve) == "[[1.0, 0.9], [2.0, NaN], [4.0, 0.25]]"
    assert outcome.info == {"accuracy": 0.9}
    assert not file.exists()
    assert trial.checkpoint_dir is not None
    with pytest.raises(AlreadyTold, match="has already ended"):
        study.report(0, 3, 0.4)


def test_telling_twice_is_harmless_and_telling_otherwise_is_refused(study: ExternalStudy) -> None:
    study.ask()
    assert study.tell(0, 0.5) == "stored"
    assert study.tell(0, 0.5) == "known"
    with pytest.raises(AlreadyTold, match=r"loss 0\.6 is not recorded"):
        study.tell(0, 0.6)
    with pytest.raises(AlreadyTold, match="cannot be lost"):
        study.lose(0, "late")


@pytest.mark.parametrize(
    ("result", "error"),
    [(None, InvalidResult), ({"los": 1}, InvalidResult), ({"loss": 1, "info": {"x": "y" * 2**24}}, InvalidResult)],
)
def test_a_wrong_result_changes_nothing(study: ExternalStudy, result: Any, error: type[Exception]) -> None:
    study.ask()
    with pytest.raises(error):
        study.tell(0, result)
    assert stored(study).outcomes == {}
    with pytest.raises(UnknownTrial):
        study.tell(1, 0.5)
    with pytest.raises(UnknownTrial):
        study.tell(0, 0.5, attempt=2)


def test_a_limit_ends_the_study_and_running_trials_make_it_wait(study: ExternalStudy) -> None:
    limited = replace(study, limits=Limits(max_trials=2))
    finish(limited, 2)
    with pytest.raises(StudyDone, match="max_trials=2 reached"):
        limited.ask()
    narrow = replace(study, study="narrow", limits=Limits(max_brackets=1), wait_seconds=0)
    for _ in range(3):
        narrow.ask()
    with pytest.raises(NoTrialReady, match="3 running"):
        narrow.ask()


def test_without_a_limit_one_round_of_hyperband_is_run(study: ExternalStudy) -> None:
    trials = finish(study, 3 + 1 + 2)
    assert {trial.bracket for trial in trials} == {0, 1}
    with pytest.raises(StudyDone, match="no trial is left"):
        study.ask()
