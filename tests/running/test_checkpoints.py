"""Checkpoints: what a trial finds is complete, and belongs to its previous budget."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Trial, minimize
from bohb.core.schedule.brackets import plan
from bohb.core.schedule.rules import MOST_PROMOTED, best_on_largest, kept_for_growth
from bohb.errors import FilesUnavailable, InvalidArgument
from bohb.running.checkpoints import Checkpoints, cheapest_to_lose
from bohb.running.directories import MARKER, remove
from tests import objectives


def run(tmp_path: Path, objective: Any, **keywords: Any) -> bohb.Study:
    defaults: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False, "directory": tmp_path}
    return minimize(objective, {"x": (0.01, 0.5)}, **{**defaults, **keywords})


def test_continuing_gives_the_result_of_training_through_and_saves_a_sixth(tmp_path: Path) -> None:
    study = run(tmp_path, objectives.training, max_budget=27, max_brackets=4, workers=2, preset="paper")
    steps = 0
    for trial, outcome in study.trials:
        assert outcome is not None
        assert outcome.ok, outcome.error
        steps += len(outcome.curve)
        through = tmp_path / f"through-{trial.number}"
        through.mkdir()
        alone = replace(trial, previous_budget=None, checkpoint_dir=through, reporter=None)
        assert objectives.training(alone) == outcome.loss
    table = plan(study.history.schedule.round)
    assert steps == table.continued_cost * 27
    assert 1 - table.continued_cost / table.cost > 0.15


def counting(trial: Trial) -> float:
    """Fails on some configurations after having written to the directory."""
    assert trial.checkpoint_dir is not None
    file = trial.checkpoint_dir / "budgets.json"
    seen = json.loads(file.read_text()) if file.exists() else []
    assert (seen[-1] if seen else None) == trial.previous_budget
    file.write_text(json.dumps([*seen, trial.budget]))
    if trial.config_id % 5 == 3:
        raise RuntimeError("after writing")
    return float(trial.config["x"])


def test_directories_belong_to_configurations_and_go_when_they_cannot_be_promoted(tmp_path: Path) -> None:
    study = run(tmp_path, counting, max_brackets=6, workers=2)
    assert study.incumbent is not None
    left = {path.name for path in (tmp_path / "study" / "checkpoints").iterdir() if path.is_dir()}
    best = str(study.incumbent.trial.config_id)
    assert best in left
    assert left == {str(config_id) for config_id in kept_for_growth(study.history)}, "the largest budget may grow"
    home = tmp_path / "study" / "checkpoints" / best
    assert json.loads(next(home.glob("trial-*/budgets.json")).read_text())[-1] == 9
    assert {o.error for _, o in study.failures} == {"RuntimeError: after writing"}


def test_what_is_promoted_if_the_largest_budget_grows_was_kept_all_the_time() -> None:
    optimizer = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=0)
    kept: list[tuple[int, set[int]]] = []  # the configuration that had just finished, and those that were kept then
    for _ in range(30):
        trial = optimizer.ask()
        optimizer.tell(trial, float(trial.number))
        kept.append((trial.config_id, kept_for_growth(optimizer.history)))
    promoted = {optimizer.history.trials[number].config_id for number in best_on_largest(optimizer.history)}
    assert len(promoted) == MOST_PROMOTED
    for config_id in promoted:
        since = next(i for i, (finished, _) in enumerate(kept) if finished == config_id)
        assert all(config_id in then for _, then in kept[since:])


def trial_of(number: int, budget: float, config_id: int = 0, **keywords: Any) -> Trial:
    return Trial(number, {"x": 0.1}, budget, config_id, 0, 0, 1, bohb.Origin.RANDOM, **keywords)


def test_what_a_killed_trial_wrote_is_not_handed_on(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "study")
    first = store.prepare(trial_of(0, 1))
    assert first.checkpoint_dir is not None
    (first.checkpoint_dir / "model").write_text("one")
    store.keep(first)
    store.ended(first, ok=True)
    second = trial_of(4, 3, previous_budget=1, from_trial=0)
    running = store.prepare(second)
    assert running.checkpoint_dir is not None
    assert (running.checkpoint_dir / "model").read_text() == "one"
    (running.checkpoint_dir / "model").write_text("half-writ")
    (running.checkpoint_dir / "junk").write_text("")
    again = Checkpoints(tmp_path, "study").prepare(second)  # after a kill
    assert again.checkpoint_dir is not None
    assert (again.previous_budget, [p.name for p in again.checkpoint_dir.iterdir()]) == (1, ["model"])
    assert (again.checkpoint_dir / "model").read_text() == "one"


@pytest.mark.parametrize("durable", [False, True])
def test_a_kill_around_the_commit_of_a_result_leaves_the_right_checkpoint(tmp_path: Path, durable: bool) -> None:
    """The directory is put by before the result is durable; which one counts depends on whether it became so."""
    store = Checkpoints(tmp_path, "study")
    for number, budget in ((0, 1), (4, 3)):
        trial = store.prepare(trial_of(number, budget, from_trial=0 if number else None))
        assert trial.checkpoint_dir is not None
        (trial.checkpoint_dir / "model").write_text(str(budget))
        store.keep(trial)
        store.keep(trial)  # a retry after the journal was full
        if number == 0:
            store.ended(trial, ok=True)
    store = Checkpoints(tmp_path, "study")  # killed before `ended`
    if durable:
        following = store.prepare(trial_of(9, 9, previous_budget=3, from_trial=4))
        expected = "3"
    else:
        following = store.prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
        expected = "1"
    assert following.checkpoint_dir is not None
    assert (following.checkpoint_dir / "model").read_text() == expected
    assert following.previous_budget == float(expected)


def big(trial: Trial) -> float:
    assert trial.checkpoint_dir is not None
    (trial.checkpoint_dir / "weights").write_bytes(b"x" * 10_000)
    return float(trial.config["x"])


def test_the_quota_is_respected_and_the_incumbent_kept(tmp_path: Path) -> None:
    largest = 0
    checkpoints = Checkpoints(tmp_path, "study", quota=45_000)
    sweep = checkpoints.sweep

    def measured(history: bohb.History) -> None:
        nonlocal largest
        sweep(history)
        sizes = [p.stat().st_size for p in tmp_path.glob("checkpoints/*/trial-*/weights")]
        largest = max(largest, sum(sizes))
        if history.incumbent is not None:
            assert list(tmp_path.glob(f"checkpoints/{history.incumbent.trial.config_id}/trial-*/weights"))

    checkpoints.sweep = measured  # type: ignore[method-assign]
    optimizer = BOHB({"x": (0.01, 0.5)}, min_budget=1, max_budget=27, seed=0)
    study = bohb.run(optimizer, bohb.executors.evaluate.InlineExecutor(big), bohb.Limits(max_trials=90), checkpoints)
    assert 10_000 <= largest <= 45_000
    assert len(study.history.outcomes) == 90
    dropped = [t for t in study.history.trials.values() if t.origin == "promoted"]
    assert dropped


def test_the_cheapest_checkpoints_to_lose_are_the_worst_of_the_smallest_budgets() -> None:
    optimizer = BOHB({"x": (0.01, 0.5)}, min_budget=1, max_budget=9, seed=0)
    trials = [optimizer.ask() for _ in range(9)]
    for trial in trials:
        optimizer.tell(trial, trial.number)
    promoted = [optimizer.ask() for _ in range(3)]
    optimizer.tell(promoted[0], 5.0)
    order = cheapest_to_lose(optimizer.history, range(9))
    assert order == [8, 7, 6, 5, 4, 3]  # 1 and 2 run, 0 is the incumbent


def test_a_configuration_whose_checkpoint_is_gone_starts_afresh(tmp_path: Path) -> None:
    trial = Checkpoints(tmp_path, "study").prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
    assert trial.previous_budget is None
    assert trial.checkpoint_dir is not None
    assert list(trial.checkpoint_dir.iterdir()) == []


def test_an_objective_that_writes_nothing_costs_no_directories_and_still_continues(tmp_path: Path) -> None:
    seen: list[tuple[float, float | None, str]] = []

    def idle(trial: Trial) -> float:
        assert trial.checkpoint_dir is not None
        assert trial.checkpoint_dir.is_dir()
        seen.append((trial.budget, trial.previous_budget, str(trial.checkpoint_dir)))
        return float(trial.config["x"])

    run(tmp_path, idle, max_brackets=1)
    assert len({place for *_, place in seen}) == 1  # one trial at a time, one directory
    assert {(budget, previous) for budget, previous, _ in seen} == {(1, None), (3, 1), (9, 3)}
    assert [path.name for path in (tmp_path / "study" / "checkpoints").iterdir()] == ["empty"]


def test_that_nothing_was_left_is_remembered_by_the_next_runner(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "study")
    first = store.prepare(trial_of(0, 1))
    store.keep(first)
    store.ended(first, ok=True)
    second = Checkpoints(tmp_path, "study").prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
    assert second.previous_budget == 1
    assert second.checkpoint_dir is not None
    assert list(second.checkpoint_dir.iterdir()) == []


def test_the_directory_of_a_lost_trial_is_never_used_again(tmp_path: Path) -> None:
    """Whoever lost it may still write to it."""
    store = Checkpoints(tmp_path, "study")
    first = store.prepare(trial_of(0, 1))
    second = store.prepare(trial_of(0, 1, attempt=2))
    third = store.prepare(trial_of(1, 1, config_id=1))
    assert len({first.checkpoint_dir, second.checkpoint_dir, third.checkpoint_dir}) == 3
    assert first.checkpoint_dir is not None
    assert not first.checkpoint_dir.exists()


def killed_runner(root: Path) -> Path:
    """Return the working directory of a runner that was killed."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom bohb.running.directories import Workplace\n"
        "print(Workplace(Path(sys.argv[1])).make(), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    out = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False)
    assert out.returncode == -signal.SIGKILL, out.stderr
    return Path(out.stdout.strip())


def test_directories_of_dead_runners_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    living = Checkpoints(tmp_path, "study").prepare(trial_of(0, 1)).checkpoint_dir
    assert living is not None
    dead = killed_runner(tmp_path / "checkpoints" / "working")
    unlocked = dead.parents[1] / dead.parent.name.replace("-", "_")
    unlocked.mkdir()
    assert dead.exists()
    Checkpoints(tmp_path, "study")
    assert (living.exists(), dead.exists(), unlocked.exists()) == (True, False, True)


@pytest.mark.parametrize(("renamed", "goes"), [(False, True), (True, False)])
def test_a_lock_from_before_the_last_boot_is_judged_only_under_our_name(
    tmp_path: Path, renamed: bool, goes: bool
) -> None:
    """A machine of another name may hold the lock although it can be taken here."""
    dead = killed_runner(tmp_path / "checkpoints" / "working").parent
    (dead / "lock").write_text("another boot")
    if renamed:
        dead = dead.rename(dead.with_name(f"another-{dead.name}"))
    Checkpoints(tmp_path, "study")
    assert dead.exists() is not goes


@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.parametrize("name", ["checkpoints/1000/weights.pt", "logs/0.log", "curves/0-1.jsonl", "confirm"])
def test_files_that_no_study_has_made_are_refused_and_stay(tmp_path: Path, name: str, checkpoints: bool) -> None:
    """A model of the user's may keep checkpoints and logs where a study of the same name would put its own."""
    theirs = tmp_path / "study" / name
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_text("precious")
    (tmp_path / "study" / "model.py").write_text("nothing of ours has this name")
    with pytest.raises(InvalidArgument, match="is not empty, and no study has made it"):
        run(tmp_path, lambda trial: float(trial.config["x"]), max_trials=20, workers=2, checkpoints=checkpoints)
    assert theirs.read_text() == "precious"
    remove(tmp_path / "study" / Path(name).parts[0])
    assert run(tmp_path, lambda trial: float(trial.config["x"]), max_trials=2, checkpoints=checkpoints).incumbent


@pytest.mark.parametrize("gone", ["", MARKER, "checkpoints"])
def test_what_is_removed_while_a_study_runs_does_not_lock_out_the_next_session(tmp_path: Path, gone: str) -> None:
    def objective(trial: Trial) -> float:
        assert trial.checkpoint_dir is not None
        if trial.number == 3:
            remove(tmp_path / "study" / gone)
        if trial.checkpoint_dir.exists():
            (trial.checkpoint_dir / "state").write_text("trained")
        return float(trial.config["x"])

    for n in (8, 12):
        run(tmp_path, objective, max_trials=n, journal=tmp_path / "study.db")
    assert (tmp_path / "study" / MARKER).exists()
    assert list(tmp_path.glob("study/checkpoints/*/trial-*/state"))


def test_numbered_directories_with_other_contents_stay_where_a_study_keeps_its_checkpoints(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"directory": tmp_path / "files", "journal": tmp_path / "study.db"}
    run(tmp_path, objectives.training, max_trials=5, **arguments)
    theirs = tmp_path / "files" / "study" / "checkpoints" / "1000"
    theirs.mkdir()
    (theirs / "weights.pt").write_text("precious")
    run(tmp_path, objectives.training, max_trials=40, **arguments)
    assert (theirs / "weights.pt").read_text() == "precious"


def test_checkpoints_of_another_study_are_refused_unless_there_are_none(tmp_path: Path) -> None:
    run(tmp_path, lambda trial: trial.config["x"], max_trials=5)
    run(tmp_path, objectives.training, max_trials=5, seed=1)
    with pytest.raises(InvalidArgument, match="holds the checkpoints of another study"):
        run(tmp_path, objectives.training, max_trials=5, seed=2)


@pytest.mark.parametrize("workers", [None, 2])
def test_an_objective_that_removes_the_working_directories_does_not_end_the_study(
    tmp_path: Path, workers: int | None
) -> None:
    def objective(trial: Trial) -> float:
        import shutil

        if trial.number == 3:
            assert trial.checkpoint_dir is not None
            shutil.rmtree(trial.checkpoint_dir.parent, ignore_errors=True)  # the runner may make another one there
            raise ValueError("it is gone")
        return float(trial.config["x"])

    study = run(tmp_path, objective, max_trials=12, workers=workers)
    assert len(study.history.outcomes) == 12
    assert study.history.outcomes[3].error == "ValueError: it is gone"


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_file_in_the_place_of_a_directory_above_ends_the_session_by_name(
    tmp_path: Path, workers: int | None, level: int
) -> None:
    def objective(trial: Trial) -> float:
        import shutil

        if trial.number == 3:
            assert trial.checkpoint_dir is not None
            shutil.rmtree(trial.checkpoint_dir.parents[level])
            trial.checkpoint_dir.parents[level].write_text("mine")
        return float(trial.config["x"])

    with pytest.raises(FilesUnavailable, match=r"\[Errno 20\] .*: a file has replaced a directory above it"):
        run(tmp_path, objective, max_trials=12, workers=workers, journal=tmp_path / "study.db")
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.read_bytes() == b"mine":  # not if it was in the place of our own directory
            path.unlink()
    study = run(tmp_path, objective, max_trials=12, workers=workers, journal=tmp_path / "study.db")
    assert sum(outcome.ok for outcome in study.history.outcomes.values()) >= 11


def test_without_checkpoints_there_is_no_directory(tmp_path: Path) -> None:
    study = run(tmp_path, lambda trial: float(trial.checkpoint_dir is not None), max_trials=3, checkpoints=False)
    assert [outcome.loss for _, outcome in study.trials if outcome is not None] == [0.0] * 3
    assert not (tmp_path / "study" / "checkpoints").exists()
