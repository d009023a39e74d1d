"""A study with a journal continues where it stopped, or says why it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ConfigSpace import ConfigurationSpace, EqualsCondition

import bohb
from bohb import BOHB, Trial, minimize, replay
from bohb.analysis.why import why
from bohb.core.events import Event, TrialFinished, TrialStarted
from bohb.errors import InvalidArgument, StudyMismatch
from bohb.journal import MemoryJournal, study_names
from tests import objectives
from tests.objectives import SPACE
from tests.sizes import size


def run(journal: Any, objective: Any = objectives.quadratic, space: Any = SPACE, **keywords: Any) -> bohb.Study:
    defaults = {"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False}
    return minimize(objective, space, journal=journal, **{**defaults, **keywords})


def decisions(study: bohb.Study) -> list[Any]:
    return [(t.number, t.config, t.budget, t.seed, t.origin, t.reason) for t in study.history.trials.values()]


def test_stopping_and_resuming_makes_the_decisions_of_an_uninterrupted_run(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole.db", max_trials=90)
    for n in (1, 7, 30, 31, 90):
        parts = run(tmp_path / "parts.db", max_trials=n)
        assert len(parts.history.trials) == n
    assert decisions(parts) == decisions(whole)
    assert [o.loss for o in parts.history.outcomes.values()] == [o.loss for o in whole.history.outcomes.values()]
    assert len(parts.history.sessions) == 5


def test_a_finished_study_has_nothing_left_to_run(tmp_path: Path) -> None:
    first = run(tmp_path / "a.db", max_trials=20)
    again = run(tmp_path / "a.db", objective=objectives.failing, max_trials=20)
    assert decisions(again) == decisions(first)
    assert again.stopped == "max_trials=20 reached"


def test_the_seed_need_not_be_repeated(tmp_path: Path) -> None:
    run(tmp_path / "a.db", max_trials=5, seed=None)
    assert len(run(tmp_path / "a.db", max_trials=9, seed=None).history.trials) == 9


def test_several_studies_share_a_journal_by_name(tmp_path: Path) -> None:
    one = run(tmp_path / "a.db", study="one", max_trials=5)
    two = run(tmp_path / "a.db", study="<b>../two", max_trials=7, seed=1)
    assert (len(one.history.trials), len(two.history.trials)) == (5, 7)
    assert study_names(tmp_path / "a.db") == ["<b>../two", "one"]
    assert {path.name for path in (tmp_path / "a.db.files").iterdir()} == {"one", "%3Cb%3E%2E%2E%2Ftwo"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed: stored 0, given 1"),
        ({"max_budget": 3}, r"budgets: stored \[1.0, 3.0, 9.0\], given \[1.0, 3.0\]"),
        ({"min_budget": 3}, "budgets: stored"),
        ({"eta": 9}, "eta: stored 3, given 9"),
        ({"random_fraction": 0.5}, "random_fraction: stored 0.33333.*, given 0.5"),
        ({"space": {"x": (0.0, 2.0), "y": (0.0, 1.0)}}, "x.upper: stored 1.0, given 2.0"),
        ({"space": {"x": (0.0, 1.0)}}, "y: stored in the space, given not"),
        ({"space": {**SPACE, "z": (1, 2)}}, "z: stored not in the space, given in"),
    ],
)
def test_other_arguments_are_refused_with_the_differences(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    run(tmp_path / "a.db", max_trials=3)
    with pytest.raises(StudyMismatch, match=message):
        run(tmp_path / "a.db", max_trials=5, **change)
    assert len(run(tmp_path / "a.db", max_trials=5).history.trials) == 5


def test_all_differences_are_listed_at_once(tmp_path: Path) -> None:
    run(tmp_path / "a.db", max_trials=3)
    with pytest.raises(StudyMismatch) as caught:
        run(tmp_path / "a.db", seed=5, max_budget=4, space={"x": (1, 2)})
    assert all(word in str(caught.value) for word in ("seed", "budgets", "x.type", "y: ", "warm_start"))


def test_a_difference_of_presets_is_named_as_such_with_the_way_out() -> None:
    journal = MemoryJournal()
    run(journal, max_trials=2, preset="paper", num_samples=8)
    with pytest.raises(StudyMismatch, match="preset: stored 'paper', given 'best'\ngive preset='paper' to continue it"):
        run(journal, max_trials=4, num_samples=8)
    with pytest.raises(StudyMismatch) as caught:
        run(journal, max_trials=4, num_samples=16, random_fraction=0.5)
    expected = [("preset", "'paper'", "'best'"), ("num_samples", "8", "16")]
    assert list(caught.value.differences) == [*expected, ("random_fraction", str(1 / 3), "0.5")]
    assert "give the stored values to continue it" in str(caught.value)
    assert len(run(journal, max_trials=4, preset="paper", num_samples=8).history.trials) == 4


def test_conditions_are_part_of_the_space() -> None:
    def space(value: str) -> ConfigurationSpace:
        cs = ConfigurationSpace({"a": ["p", "q"], "b": (0.0, 1.0)})
        cs.add(EqualsCondition(cs["b"], cs["a"], value))
        return cs

    journal = MemoryJournal()
    BOHB(space("p"), budgets=[1], seed=0, journal=journal)
    BOHB(space("p"), budgets=[1], seed=0, journal=journal)
    with pytest.raises(StudyMismatch, match="conditions"):
        BOHB(space("q"), budgets=[1], seed=0, journal=journal)


def test_if_max_budget_grows_the_best_on_the_old_one_are_promoted_first() -> None:
    journal = MemoryJournal()
    before = run(journal, max_trials=40, checkpoints=False)
    decided, opened = decisions(before), {t.bracket for t in before.history.trials.values()}
    top = sorted((r for r in before.history.results if r.budget == 9), key=lambda result: result.loss)
    study = run(journal, max_trials=200, max_budget=81, checkpoints=False)
    assert decisions(study)[:40] == decided
    assert study.history.budgets == (1, 3, 9, 27, 81)
    new = [t for t in study.history.trials.values() if t.bracket not in opened]
    promoted = [(t.budget, t.previous_budget, t.from_trial) for t in new if t.bracket == new[0].bracket]
    n = len(top) // 3
    assert promoted[:n] == [(27, 9, result.trial.number) for result in top[:n]]
    assert {budget for budget, _, _ in promoted[n:]} == {81}
    assert next(t.budget for t in new if t.bracket != new[0].bracket) == 1
    assert max(t.budget for t in new) == 81
    assert all(t.budget <= 9 for t in study.history.trials.values() if t.bracket in opened)
    again = run(journal, max_trials=210, max_budget=81, checkpoints=False)
    assert decisions(again)[:200] == decisions(study)[:200]
    assert replay(journal.read(0)).ok
    assert "the largest budget has grown" in str(why(again.history, new[0].number))


def test_first_configurations_and_warm_starts_are_stored(tmp_path: Path) -> None:
    earlier = run(None, max_trials=30)
    given = [{"x": 0.5, "y": 0.5}]
    run(tmp_path / "a.db", max_trials=4, initial_configs=given, warm_start=earlier.history)
    study = run(tmp_path / "a.db", max_trials=8)
    assert study.history.trials[0].config == given[0]
    assert len(study.history.observed) == 30


@pytest.mark.parametrize("seed", range(size(quick=6, full=20)))  # each space and number of workers twice
def test_every_decision_of_a_parallel_study_follows_from_its_events(seed: int, tmp_path: Path) -> None:
    space: Any = [SPACE, {"a": (1, 5), "b": ["x", "y", "z"]}, {**SPACE, "c": ["p", "q"]}][seed % 3]
    objective = objectives.half_nan if seed % 3 == 0 else _by_hash
    run(tmp_path / "a.db", objective, space, seed=seed, workers=2 + seed % 3, max_trials=60)
    report = replay(tmp_path / "a.db")
    assert report.differences == ()
    assert report.decisions >= 40


ELSEWHERE = """
import sys
import bohb
from tests.objectives import SPACE, quadratic
path, preset = sys.argv[1:]
assert bohb.replay(path).ok
bohb.minimize(
    quadratic, SPACE, min_budget=1, max_budget=9, preset=preset, journal=path, max_trials=80, progress=False
)
print(*sys.version_info[:2])
"""


@pytest.mark.skipif("BOHB_OTHER_PYTHON" not in os.environ, reason="needs another Python: make test-faults")
@pytest.mark.parametrize("preset", ["paper", "best"])
def test_another_version_of_python_makes_the_same_decisions(preset: str, tmp_path: Path) -> None:
    path, root = tmp_path / "a.db", Path(__file__).parents[2]
    run(path, preset=preset, max_trials=40)
    there = subprocess.run(
        [os.environ["BOHB_OTHER_PYTHON"], "-c", ELSEWHERE, path, preset],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout.split() != [str(part) for part in sys.version_info[:2]]
    report = replay(path)
    assert report.differences == ()
    assert report.decisions >= 80


def _by_hash(trial: bohb.Trial) -> float:
    return hash(json.dumps(trial.config, sort_keys=True) + str(trial.budget)) % 1000 / 1000


def replayable(trials: int, **settings: Any) -> list[Event]:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, **settings)
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, trial.config["x"] / trial.budget)
    return list(study.events)


def test_replay_names_each_difference_and_goes_on_from_the_stored_events() -> None:
    events = replayable(30, random_fraction=1)
    index = max(i for i, e in enumerate(events) if isinstance(e, TrialFinished) and e.number == 6)
    forged = [*events[:index], TrialFinished(6, bohb.Outcome(bohb.Status.OK, loss=-9.0)), *events[index + 1 :]]
    report = replay(forged)
    first = next(i for i, e in enumerate(events) if isinstance(e, TrialStarted) and e.trial.origin == "promoted")
    assert not report.ok
    assert report.differences[0].startswith(f"event {first}: trial ")
    assert report.decisions == 30
    assert report.exact >= 20, "the first trials and those of later brackets do not depend on the forged loss"


def test_replay_refuses_an_empty_study() -> None:
    with pytest.raises(InvalidArgument, match="nothing to replay"):
        replay([])


@pytest.mark.parametrize(("shift", "within", "different"), [(0.0, 0, 0), (1e-12, 1, 0), (1e-3, 0, 1)])
def test_replay_tells_the_last_digits_of_another_machine_from_another_choice(
    shift: float, within: int, different: int
) -> None:
    events, sampled = list[Event](), 0
    for event in replayable(40, random_fraction=1):
        if isinstance(event, TrialStarted):
            config = {name: v + shift if isinstance(v, float) else v for name, v in event.trial.config.items()}
            event = replace(event, trial=replace(event.trial, config=config))
            sampled += event.trial.origin == "random"
        events.append(event)
    report = replay(events)
    assert (report.within_tolerance, report.different) == (within * sampled, different * sampled)
    assert report.decisions == 40
    assert report.ok == (different == 0)


def test_replay_compares_the_numbers_of_a_reason_within_the_tolerance() -> None:
    events = replayable(40, preset="paper")
    place, event = next(
        (i, e) for i, e in enumerate(events) if isinstance(e, TrialStarted) and e.trial.origin == "model"
    )
    name, score = next((k, v) for k, v in event.trial.reason.items() if isinstance(v, float) and abs(v) > 0.1)
    for factor, counts in {1 + 1e-12: (39, 1, 0), 1.01: (39, 0, 1)}.items():
        reason = {**event.trial.reason, name: score * factor}
        events[place] = replace(event, trial=replace(event.trial, reason=reason))
        report = replay(events)
        assert (report.exact, report.within_tolerance, report.different) == counts


@pytest.mark.parametrize(("largest", "budgets"), [(10, (1, 3, 9, 10)), (100, (1, 3, 9, 30, 100))])
def test_max_budget_can_grow_by_any_factor(largest: float, budgets: tuple[float, ...]) -> None:
    journal = MemoryJournal()
    run(journal, max_trials=40, checkpoints=False)
    study = run(journal, max_trials=41, max_budget=largest, checkpoints=False)
    assert study.history.budgets == pytest.approx(budgets)
    again = run(journal, max_trials=300, max_budget=largest, checkpoints=False)
    assert again.history.budgets == study.history.budgets
    assert largest in again.history.best
    assert replay(journal.read(0)).ok
    with pytest.raises(StudyMismatch, match="budgets"):
        run(journal, max_trials=301, max_budget=5)


def test_the_best_on_the_largest_budget_continue_from_their_checkpoints(tmp_path: Path) -> None:
    journal = MemoryJournal()
    run(journal, objective=objectives.training, max_trials=40, directory=tmp_path)
    found: list[tuple[float, bool]] = []

    def objective(trial: Trial) -> float:
        assert trial.checkpoint_dir is not None
        found.append((trial.previous_budget or 0.0, any(trial.checkpoint_dir.iterdir())))
        return objectives.training(trial)

    run(journal, objective=objective, max_trials=43, max_budget=20, directory=tmp_path)
    assert (9, True) in found
