"""Ask and tell, warm starts, first configurations, replay and determinism."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bohb import BOHB, Origin, Outcome, Retry, Status, replay
from bohb.core.encoding import from_json, to_json
from bohb.core.events import Event, StudyCreated, TrialFinished
from bohb.core.trial import RETRIES
from bohb.errors import (
    AlreadyTold,
    InvalidArgument,
    InvalidConfiguration,
    InvalidResult,
    JournalUnavailable,
    NoTrialReady,
    StudyDone,
    UnknownTrial,
)
from bohb.journal import MemoryJournal
from tests.core import spaces
from tests.core.playing import SPACE, fingerprint, new, run


def test_the_same_seed_and_the_same_results_give_the_same_trials() -> None:
    assert fingerprint(run(new(7), 150)) == fingerprint(run(new(7), 150))
    assert fingerprint(run(new(7), 60, workers=5)) == fingerprint(run(new(7), 60, workers=5))
    assert fingerprint(run(new(7), 20)) != fingerprint(run(new(8), 20))


def test_another_process_makes_the_same_trials_bit_for_bit() -> None:
    code = "from tests.optimizer.test_ask_tell import *\nprint(json.dumps(fingerprint(run(new(3), 80, workers=3))))"
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert json.loads(out.stdout) == json.loads(json.dumps(fingerprint(run(new(3), 80, workers=3))))


def test_the_decisions_of_a_stored_study_are_still_made() -> None:
    """A change of these numbers is a change of the algorithm for everybody who resumes a study."""
    study = run(new(2018, preset="paper"), 60)
    trial = study.history.trials[55]
    assert (trial.budget, trial.bracket, trial.origin.value) == (3.0, 6, "promoted")
    model_based = [t for t in study.history.trials.values() if t.origin is Origin.MODEL]
    assert len(model_based) == 21
    assert model_based[-1].config == {"c": "b", "x": 0.96582280737, "y": 0.78137981098}


@pytest.mark.parametrize("name", sorted(spaces.ALL))
def test_a_study_is_rebuilt_from_its_events_alone(name: str) -> None:
    study = BOHB(spaces.ALL[name](), min_budget=1, max_budget=9, seed=1)
    for i in range(40):
        study.tell(study.ask(), i % 7)
    events: list[Event] = [from_json(e.kind, json.loads(json.dumps(to_json(e)))) for e in study.events]
    again = BOHB.from_events(events)
    assert fingerprint(again) == fingerprint(study)
    assert again.ask() == study.ask()


def test_first_configurations_come_first() -> None:
    given = [{"x": 0.1, "y": 0.2, "c": "a"}, {"x": 0.9, "y": 0.8, "c": "c"}]
    study = new(initial_configs=given)
    trials = [study.ask() for _ in range(3)]
    assert [t.config for t in trials[:2]] == given
    assert [t.origin for t in trials] == [Origin.GIVEN, Origin.GIVEN, Origin.RANDOM]
    with pytest.raises(InvalidConfiguration, match="x=7"):
        new(initial_configs=[{"x": 7, "y": 0, "c": "a"}])


def test_a_warm_start_teaches_the_model_but_fills_no_bracket() -> None:
    earlier = run(new(1), 60)
    for source in (earlier, earlier.history, [earlier.history]):
        study = new(2, warm_start=source, random_fraction=0)
        assert study.model() is not None
        assert study.incumbent is None
        trial = study.ask()
        assert (trial.number, trial.bracket, trial.origin) == (0, 0, Origin.MODEL)
    crashed = [o for o in earlier.history.outcomes.values() if not o.ok]
    assert crashed, "the earlier study has crashed trials, which must not disturb"
    with pytest.raises(InvalidArgument, match="no hyperparameter in common"):
        BOHB({"z": (0.0, 1.0)}, budgets=[1], warm_start=earlier)


def test_a_warm_start_hands_on_everything_once_and_counts_as_no_failure_of_this_study() -> None:
    first = run(BOHB({"a": (1, 25)}, min_budget=1, max_budget=9, seed=0), 0)
    for _ in range(60):
        trial = first.ask()
        first.tell(trial, RuntimeError() if trial.number < 12 else trial.config["a"])
    assert any(t.reuses is not None for t in first.history.trials.values())
    n = sum(len(d_b) for d_b in first.history.evidence.observations.values())
    second = BOHB({"a": (1, 25)}, min_budget=1, max_budget=9, seed=1, warm_start=first)
    third = BOHB({"a": (1, 25)}, min_budget=1, max_budget=9, seed=2, warm_start=second)
    for study in (second, third):
        assert sum(len(d_b) for d_b in study.history.evidence.observations.values()) == n
        assert study.history.n_failed == 0
        assert study.history.evidence.n_failures == 12


def test_results_on_budgets_beyond_this_study_do_not_freeze_its_model() -> None:
    larger = run(BOHB(SPACE, budgets=[27], seed=0), 30)
    study = run(new(1, warm_start=larger), 60)
    model = study.model()
    assert model is not None
    assert model.budget <= 9


def test_what_an_objective_does_to_its_configuration_is_its_own_business() -> None:
    study = new()
    trial = study.ask()
    before = dict(trial.config)
    trial.config.clear()
    study.tell(trial, 0.5)
    assert study.history.trials[0].config == before


def test_tell_takes_losses_dicts_outcomes_and_exceptions() -> None:
    study = new()
    for result, status in [
        (0.5, Status.OK),
        ({"loss": np.float32(1), "info": {"a": 1}}, Status.OK),
        (Outcome(Status.TIMEOUT, error="too slow"), Status.TIMEOUT),
        (RuntimeError("boom"), Status.CRASHED),
        (math.inf, Status.DIVERGED),
    ]:
        trial = study.ask()
        study.tell(trial, result)
        assert study.history.outcomes[trial.number].status is status


@pytest.mark.parametrize("bad", [None, "0.5", 1j, np.zeros(3), {"info": 1}, True])
def test_a_bad_result_is_refused_and_the_trial_stays_open(bad: Any) -> None:
    study = new()
    trial = study.ask()
    with pytest.raises(InvalidResult):
        study.tell(trial, bad)
    assert trial.number in study.history.pending
    study.tell(trial, 0.5)
    assert trial.number not in study.history.pending


def test_telling_an_unknown_trial_is_refused() -> None:
    study, other = new(), new(99)
    with pytest.raises(UnknownTrial, match="trial 0 was never asked for"):
        study.tell(0, 1.0)
    study.ask()
    for bad in (5, -1, "0", None, True):
        with pytest.raises(UnknownTrial):
            study.tell(bad, 1.0)  # type: ignore[arg-type]
    with pytest.raises(UnknownTrial, match="another seed"):
        study.tell(other.ask(), 1.0)


def test_telling_twice_has_one_effect_and_another_outcome_is_refused() -> None:
    study = new()
    trial = study.ask()
    study.tell(trial, 0.5)
    n = len(study.events)
    study.tell(trial, 0.5)
    study.tell(trial, {"loss": 0.5})
    assert len(study.events) == n
    with pytest.raises(AlreadyTold, match=r"trial 0 has already ended with loss 0.5; loss 0.6"):
        study.tell(trial, 0.6)
    assert study.history.outcomes[0].loss == 0.5


def test_a_limited_study_says_when_to_wait_and_when_it_is_done() -> None:
    study = new(max_brackets=1)
    trials = [study.ask() for _ in range(9)]
    with pytest.raises(NoTrialReady, match="9 running ones"):
        study.ask()
    for trial in trials:
        study.tell(trial, RuntimeError())
    assert study.done
    with pytest.raises(StudyDone, match="after 9 trials"):
        study.ask()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"min_budget": 9, "max_budget": 1}, "min_budget=9 must not exceed"),
        ({"min_budget": 0, "max_budget": 1}, "min_budget=0"),
        ({"min_budget": 1, "max_budget": 9, "eta": 1}, "eta=1 must be larger"),
        ({"budgets": [1, 3], "eta": 0.9}, "eta=0.9"),
        ({"budgets": [3, 1]}, "must increase strictly"),
        ({"budgets": []}, "empty"),
        ({"budgets": [1], "max_budget": 2}, "not both"),
        ({"max_budget": 2}, "must both be given"),
        ({}, "must both be given"),
        ({"budgets": [1], "seed": -1}, "seed=-1"),
        ({"budgets": [1], "seed": 1.5}, "seed=1.5"),
        ({"budgets": [1], "max_brackets": 0}, "max_brackets=0"),
        ({"budgets": [1], "rho": 1}, "did you mean 'random_fraction'"),
        ({"budgets": [1], "random_fraction": 2}, "random_fraction=2"),
        ({"budgets": [1], "preset": "papers"}, "preset='papers'"),
    ],
)
def test_bad_arguments_are_refused_with_value_and_rule(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        BOHB(SPACE, **keywords)


def test_events_must_begin_with_the_creation() -> None:
    for events in ([], list(run(new(), 3).events)[1:]):
        with pytest.raises(InvalidArgument, match="StudyCreated"):
            BOHB.from_events(events)


def test_a_study_without_a_seed_draws_one_and_keeps_it() -> None:
    one, other = BOHB(SPACE, budgets=[1]), BOHB(SPACE, budgets=[1])
    assert isinstance(one.events[0], StudyCreated)
    assert one.ask().config != other.ask().config
    assert BOHB.from_events(one.events).ask() is not None


def test_the_plan_is_known_before_anything_runs() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=81, seed=0)
    assert study.plan().configurations == 81 + 34 + 15 + 8 + 5
    assert len(study.events) == 1


def test_a_runner_that_was_slower_takes_note_and_decides_anew() -> None:
    journal = MemoryJournal()
    one = BOHB(SPACE, budgets=[1], seed=0, journal=journal)
    other = BOHB(SPACE, budgets=[1], seed=0, journal=journal)
    first = one.ask()
    second = other.ask()
    assert (first.number, second.number) == (0, 1)
    one.tell(first, 0.5)
    other.tell(second, 0.25)
    one.tell(second, 0.25)  # known by now, and the same
    assert one.history.outcomes == other.history.outcomes
    assert replay(journal.read(0)).ok


class Forgetful(MemoryJournal):
    """Stores an append, but its answer is lost: the connection broke after the commit."""

    broken = True

    def append(self, events: Sequence[Event], after: int) -> None:
        super().append(events, after)
        if self.broken and any(isinstance(event, TrialFinished) for event in events):
            self.broken = False
            raise JournalUnavailable("the connection was lost")


def test_a_result_whose_acknowledgement_was_lost_is_stored_once() -> None:
    journal = Forgetful()
    study = BOHB(SPACE, budgets=[1], seed=0, journal=journal)
    trial = study.ask()
    with pytest.raises(JournalUnavailable):
        study.tell(trial, 0.5)
    study.tell(trial, 0.5)
    assert sum(isinstance(event, TrialFinished) for event in journal.read(0)) == 1
    assert study.history.outcomes[0].loss == 0.5


def test_a_trial_that_asks_for_another_try_starts_again_later_and_counts_as_nothing() -> None:
    now = [1000.0]
    study = new(clock=lambda: now[0])
    first, second = study.ask(), study.ask()
    study.tell(first, Retry("no GPU here"))
    study.tell(first, Retry("no GPU here"))  # says nothing new
    study.tell(second, Retry("no GPU here"))
    with pytest.raises(NoTrialReady, match="2 that asked for another try"):
        study.ask()  # a third one would only join them
    now[0] += 1
    again = study.ask()
    assert (again.number, again.attempt, again.config, again.seed) == (0, 2, first.config, first.seed)
    study.tell(first, 0.3)  # of the first attempt
    study.tell(again, 0.5)
    assert (study.history.outcomes[0].loss, len(study.history.late)) == (0.5, 1)
    assert (study.history.losses, study.history.n_failed) == ({}, 0)
    assert [again.reason for times in study.history.retries.values() for again in times] == ["no GPU here"] * 2
    assert replay(study.events).ok


def test_others_start_while_a_trial_waits_for_another_try_and_replays_know_that() -> None:
    now = [1000.0]
    study = new(clock=lambda: now[0])
    numbers = []
    for step in range(30):
        now[0] += 0.3
        trial = study.ask()
        numbers.append(trial.number)
        study.tell(trial, Retry("busy") if trial.number == 2 and trial.attempt < 4 else step % 7)
    assert numbers.count(2) == 4
    assert numbers.index(3) < len(numbers) - 1 - numbers[::-1].index(2), "trial 3 did not wait for trial 2"
    assert replay(study.events).ok


def test_a_trial_that_asks_for_another_try_too_often_fails_with_its_reason() -> None:
    now = [1000.0]
    study = new(clock=lambda: now[0])
    for attempt in range(1, RETRIES + 1):
        trial = study.ask()
        assert (trial.number, trial.attempt) == (0, attempt)
        study.tell(trial, Retry())
        now[0] += 1000
    outcome = study.history.outcomes[0]
    assert (outcome.status, outcome.error) == (
        Status.CRASHED,
        "asked 20 times to be started again, at last: no reason was given",
    )


def test_a_client_that_asks_again_gets_its_own_trial_and_others_do_not() -> None:
    journal = MemoryJournal()
    study = new(journal=journal)
    first, other, nameless = study.ask("a"), study.ask("b"), study.ask()
    assert [trial.number for trial in (first, other, nameless)] == [0, 1, 2]
    again = BOHB.from_journal(journal)  # after a crash of the client, say
    n = again.history.n_events
    assert again.ask("a") == first
    assert again.ask("b") == other
    assert again.history.n_events == n
    again.tell(first, 0.5)
    assert again.ask("a").number == 3
    again.lose(other, "its machine is gone")
    assert (again.ask().number, again.ask("b").number) == (1, 4)
    assert replay(journal.read(0)).ok


@pytest.mark.parametrize("client", ["", "x" * 201, 7])
def test_a_client_needs_a_name(client: Any) -> None:
    with pytest.raises(InvalidArgument, match="client="):
        new().ask(client)


def test_trials_of_one_rung_are_handed_out_together() -> None:
    study = new(preset="paper")
    rungs = [study.ask_many(100, one_rung=True) for _ in range(2)]
    assert [(len(trials), {(t.bracket, t.rung) for t in trials}) for trials in rungs] == [(9, {(0, 0)}), (5, {(1, 0)})]
