"""What every journal must do, as pytest classes to subclass.

class TestMyJournal(DurableJournalContract):
    @pytest.fixture
    def journal_factory(self, tmp_path):
        return lambda study="study": MyJournal(tmp_path, study)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from bohb.core import events as kinds
from bohb.core.events import ConfigGiven, Event
from bohb.core.trial import Origin, Outcome, Status, Trial
from bohb.errors import Conflict, InvalidArgument
from bohb.journal.base import Journal, SharedJournal, shared_journal

JournalFactory = Callable[..., Journal]

_AWKWARD = "é ∀ 🦉 \0 \ud800 \u2028 \" ' \\ </script> %s :name ? \n"


def example_events() -> list[Event]:
    """Return at least one event of each kind, in a possible order, with values that are awkward to store."""
    config = {"lr": 5e-324, "units": 2**70, "flag": True, "none": None, _AWKWARD: _AWKWARD, "half": 0.1}
    trial = Trial(0, config, 1.0, 0, 0, 0, 2**63, Origin.RANDOM)
    again = Trial(0, config, 1.0, 0, 0, 0, 2**63, Origin.RANDOM, attempt=2)
    promoted = Trial(1, config, 3.0, 0, 0, 1, 2**63, Origin.PROMOTED, 1.0, reason={"rank": 1, "losses": [0.5, 1.5]})
    reusing = Trial(2, config, 3.0, 0, 1, 1, 2**63, Origin.PROMOTED, 1.0, from_trial=0, reuses=1, reason={"loss": 0.5})
    info = {"nested": {"list": [1, 2.5, None, "x"], "empty": {}}, "loss": "nan"}
    ok = Outcome(
        Status.OK, -0.0, info=info, cost=1e308, started=1.7e9, finished=1.7e9 + 1e-6, curve=((1.0, 2.0),), worker="a/1"
    )
    crashed = Outcome(Status.CRASHED, error="ValueError: " + _AWKWARD, traceback="T\n" * 100, output=_AWKWARD)
    return [
        kinds.StudyCreated(
            {"name": _AWKWARD}, (1.0, 3.0, 9.0), 3.0, 7, {"random_fraction": 1 / 3}, "0.1.0", time=1.7e9
        ),
        ConfigGiven(0, config),
        kinds.ObservationAdded(0, {"lr": 0.1}, 9.0, None, "older study"),
        kinds.ObservationAdded(1, {}, 9.0, -1e-300),
        kinds.SessionStarted(0, "host:1", 1.7e9),
        kinds.TrialStarted(trial, time=1.7e9, elapsed=0.25),
        kinds.TrialLost(0, 1, "the worker disappeared", time=1.7e9),
        kinds.TrialStarted(again),
        kinds.TrialLost(0, 2, "the runner stopped", counts=False),
        kinds.TrialFinished(0, ok, elapsed=1.5),
        kinds.ResultLate(0, 2, ok, elapsed=1.75),
        kinds.RungCut(0, 0),
        kinds.BudgetsRaised((1.0, 3.0, 9.0, 27.0), 5),
        kinds.BracketPlanned(7, ((1, 9), (3.0, 3)), "skip", (0, 1), 0.1, {"gains": [0.5, 1e-300], _AWKWARD: None}),
        kinds.BracketShortened(0, 0, ((1, 9), (3.0, 1)), 1e-300),
        kinds.TrialStarted(promoted),
        kinds.TrialFinished(1, crashed),
        kinds.TrialStarted(reusing),
        kinds.TrialFinished(2, ok),
        kinds.FailuresForgotten(1, since=1),
        kinds.NoteAdded(0, _AWKWARD, ("a", _AWKWARD), 1, 1.7e9),
        kinds.NoteAdded(1, ""),
    ]


def numbered_events(count: int, first: int = 0) -> list[Event]:
    """Return events that differ, for tests that depend on their number and not on their contents."""
    return [ConfigGiven(index, {"x": index / 7}) for index in range(first, first + count)]


class JournalContract:
    """What every `Journal` must do. Subclasses define a fixture `journal_factory`.

    Calling the factory opens the study of the given name ("study" by default); every test has new storage.
    """

    def test_a_new_journal_is_empty_and_events_of_every_kind_come_back(self, journal_factory: JournalFactory) -> None:
        journal, events = journal_factory(), example_events()
        assert list(journal.read()) == []
        journal.append(events[:1], after=0)
        journal.append(events[1:], after=1)
        assert list(journal.read()) == events

    def test_reading_after_a_position_gives_the_rest(self, journal_factory: JournalFactory) -> None:
        journal, events = journal_factory(), numbered_events(5)
        journal.append(events, after=0)
        assert [list(journal.read(after)) for after in range(7)] == [events[after:] for after in range(7)]

    @pytest.mark.parametrize("after", [0, 2, 4, 100])
    def test_appending_before_or_after_the_end_conflicts(self, journal_factory: JournalFactory, after: int) -> None:
        journal, events = journal_factory(), numbered_events(3)
        journal.append(events, after=0)
        with pytest.raises(Conflict):
            journal.append(numbered_events(2, first=10), after=after)
        assert list(journal.read()) == events

    def test_appending_nothing_changes_nothing(self, journal_factory: JournalFactory) -> None:
        journal = journal_factory()
        journal.append([], after=0)
        journal.append(numbered_events(2), after=0)
        journal.append([], after=2)
        with pytest.raises(Conflict):
            journal.append([], after=1)
        assert list(journal.read()) == numbered_events(2)

    def test_closing_twice_has_no_effect(self, journal_factory: JournalFactory) -> None:
        journal = journal_factory()
        journal.append(numbered_events(1), after=0)
        journal.close()
        journal.close()


class DurableJournalContract(JournalContract):
    """What a journal that outlives its process must do as well."""

    def test_what_was_appended_is_there_after_reopening(self, journal_factory: JournalFactory) -> None:
        with closing(journal_factory()) as journal:
            journal.append(example_events(), after=0)
        with closing(journal_factory()) as journal:
            assert list(journal.read()) == example_events()
            journal.append(numbered_events(1, first=50), after=len(example_events()))
            assert list(journal.read(len(example_events()))) == numbered_events(1, first=50)

    def test_studies_in_one_store_do_not_mix_whatever_their_names(self, journal_factory: JournalFactory) -> None:
        odd = ["<script>alert(1)</script>", "../../etc/passwd", "';DROP TABLE event;--", '"', "%s :of ?", "🦉" * 200]
        lengths = {name: count for count, name in enumerate(["a", "b", "A", *odd], 1)}
        for study, count in lengths.items():
            with closing(journal_factory(study)) as journal:
                journal.append(numbered_events(count), after=0)
        for study, count in {**lengths, "c": 0}.items():
            with closing(journal_factory(study)) as journal:
                assert list(journal.read()) == numbered_events(count)

    def test_repeating_an_append_has_no_second_effect(self, journal_factory: JournalFactory) -> None:
        journal, events = journal_factory(), example_events()
        journal.append(events[:3], after=0)
        journal.append(events[3:], after=3)
        journal.append(events[3:], after=3)  # the first answer may have been lost
        journal.append(events[:3], after=0)
        assert list(journal.read()) == events

    def test_repeating_an_append_with_other_contents_conflicts(self, journal_factory: JournalFactory) -> None:
        journal = journal_factory()
        journal.append([ConfigGiven(0, {"x": 1}), ConfigGiven(1, {"x": 1})], after=0)
        for other in (
            [ConfigGiven(0, {"x": 1}), ConfigGiven(1, {"x": 2})],
            [ConfigGiven(1, {"x": 1}), ConfigGiven(0, {"x": 1})],
            [ConfigGiven(0, {"x": 1}), ConfigGiven(1, {"x": 1}), ConfigGiven(2, {})],
        ):
            with pytest.raises(Conflict):
                journal.append(other, after=0)
        assert len(journal.read()) == 2

    def test_a_key_is_stored_once_and_the_whole_group_is_refused(self, journal_factory: JournalFactory) -> None:
        journal = journal_factory()
        journal.append(numbered_events(3), after=0)
        with pytest.raises(Conflict):
            journal.append([*numbered_events(2, first=3), ConfigGiven(1, {"x": "again"})], after=3)
        assert list(journal.read()) == numbered_events(3)
        journal.append(numbered_events(2, first=3), after=3)
        assert list(journal.read()) == numbered_events(5)

    @pytest.mark.parametrize(
        "study", ["", "a\0b", "x" * 201, "x" * 2**20, "two\nlines", "\x1b[31m", "\ud800", "\u2028"]
    )
    def test_a_hostile_study_name_is_refused(self, journal_factory: JournalFactory, study: str) -> None:
        with pytest.raises(InvalidArgument, match="study="):
            journal_factory(study)


class SharedJournalContract(DurableJournalContract):
    """What a journal that several runners can use at once must do as well (`SharedJournal`)."""

    @staticmethod
    def _two(journal_factory: JournalFactory) -> tuple[SharedJournal, SharedJournal]:
        first = shared_journal(journal_factory())
        assert first is not None
        return first, first.again()

    def test_the_slower_writer_of_the_same_event_gets_a_conflict(self, journal_factory: JournalFactory) -> None:
        first, second = self._two(journal_factory)
        with closing(first), closing(second):
            first.append(numbered_events(1), after=0)
            with pytest.raises(Conflict):
                second.append(numbered_events(1), after=0)
            second.append(numbered_events(1, first=1), after=1)
            first.append(numbered_events(1), after=0)  # its own answer may have been lost
            assert list(first.read()) == list(second.read()) == numbered_events(2)
            second.append(numbered_events(1, first=2), after=2)
            assert list(first.read(after=2)) == numbered_events(1, first=2)

    def test_a_turn_lets_its_runner_append_and_then_the_others(self, journal_factory: JournalFactory) -> None:
        first, second = self._two(journal_factory)
        with closing(first), closing(second):
            with first.turn():
                first.append(numbered_events(1), after=0)
                first.append(numbered_events(1, first=1), after=len(first.read()))
            with second.turn():
                assert list(second.read()) == numbered_events(2)
                second.append(numbered_events(1, first=2), after=2)
            assert list(first.read()) == numbered_events(3)

    def test_writers_that_decide_alike_append_each_event_once(self, journal_factory: JournalFactory) -> None:
        writers = [*self._two(journal_factory), *self._two(journal_factory)]
        won: list[int] = []

        def write(journal: SharedJournal) -> None:
            with closing(journal):
                while (length := len(journal.read())) < 40:
                    with suppress(Conflict):
                        journal.append(numbered_events(1, first=length), after=length)
                        won.append(length)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == list(range(40))
        with closing(journal_factory()) as journal:
            assert list(journal.read()) == numbered_events(40)

    def test_a_lease_lives_until_it_is_ended_or_expires(self, journal_factory: JournalFactory) -> None:
        first, second = self._two(journal_factory)
        with closing(first), closing(second):
            assert first.lease_is_over("nobody")
            for holder, seconds in {"one": 3600, "two": 3600, "gone": -1}.items():
                first.renew_lease(holder, seconds)
            assert first.live_leases() == second.live_leases() == {"one", "two"}
            second.end_lease("two")
            assert [second.lease_is_over(holder) for holder in ("one", "two", "gone")] == [False, True, True]
            second.renew_lease("gone", 3600)
            first.renew_lease("one", -1)
            assert second.live_leases() == {"gone"}
            [(holder, silent)] = second.expired_leases().items()
            assert (holder, 1 <= silent < 60) == ("one", True)

    def test_leases_belong_to_one_study(self, journal_factory: JournalFactory) -> None:
        first, second = self._two(lambda: journal_factory("a"))[0], self._two(lambda: journal_factory("b"))[0]
        with closing(first), closing(second):
            first.renew_lease("one", 3600)
            assert second.live_leases() == set()
            assert (first.lease_is_over("one"), second.lease_is_over("one")) == (False, True)
