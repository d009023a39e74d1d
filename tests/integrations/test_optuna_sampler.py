"""BOHB as a sampler and a pruner inside the real Optuna."""

from __future__ import annotations

import math
import os
import pickle
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.integrations.foreign import Ladder
from bohb.integrations.optuna import BOHBPruner, BOHBSampler, Follower, InferredSpace, Steps, hull, one_more
from tests.integrations.optuna_process import storage
from tests.sizes import long

optuna.logging.set_verbosity(optuna.logging.WARNING)
STEPS = Steps(Ladder.of(1, 9, 3), one_more)
SPACE: dict[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-5, 1e-1, log=True),
    "units": IntDistribution(16, 512, log=True),
}


def loss_of(lr: float, units: int) -> float:
    return abs(math.log10(lr) + 3) + abs(math.log(units / 100))


def objective(trial: optuna.Trial, sign: float = 1.0) -> float:
    loss = loss_of(trial.suggest_float("lr", 1e-5, 1e-1, log=True), trial.suggest_int("units", 16, 512, log=True))
    for epoch in range(9):
        trial.report(sign * (loss + 1 / (epoch + 1)), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return sign * loss


def study_with(
    storage: Any = None, direction: Literal["minimize", "maximize"] = "minimize", seed: int = 1
) -> optuna.Study:
    sampler = BOHBSampler(1, 9, seed=seed)
    return optuna.create_study(
        storage=storage,
        study_name="study",
        direction=direction,
        load_if_exists=True,
        sampler=sampler,
        pruner=BOHBPruner(sampler),
    )


def follower(study: optuna.Study) -> Follower:
    assert isinstance(study.sampler, BOHBSampler)
    return study.sampler._follower


def history(study: optuna.Study) -> History:
    known = follower(study).proposals
    assert known is not None
    return known.history


def rows(study: optuna.Study) -> list[tuple[Any, ...]]:
    return [(t.number, t.state, t.params, len(t.intermediate_values)) for t in study.trials]


@pytest.fixture(scope="module")
def reference() -> optuna.Study:
    study = study_with()
    study.optimize(objective, n_trials=40)
    return study


def test_brackets_take_trials_by_their_number() -> None:
    # One round of Hyperband: 9 configurations from budget 1, 5 from budget 3, 3 on budget 9.
    starts = [STEPS.ladder.first_rung(number) for number in range(20)]
    assert starts == [0] * 9 + [1] * 5 + [2] * 3 + [0] * 3


def test_a_value_counts_on_the_rung_that_it_is_the_first_to_reach() -> None:
    assert STEPS.reported({0: 5.0, 1: 4.0, 2: 3.0, 7: 2.0, 8: 1.0}, 1.0) == {0: 5.0, 1: 3.0, 2: 1.0}
    assert STEPS.reported({4: 3.0, 9: 2.0}, -1.0) == {1: -3.0, 2: -2.0}  # nothing is known of budget 1
    assert STEPS.reported({0: math.nan, 2: -math.inf}, 1.0) == {0: math.inf, 1: math.inf}


@pytest.mark.parametrize(
    ("state", "value", "expected"),
    [
        (TrialState.COMPLETE, 0.5, {0: 3.0, 2: 0.5}),  # the final value replaces the one reported last
        (TrialState.PRUNED, 0.7, {0: 3.0, 2: 0.6}),
        (TrialState.FAIL, None, {0: 3.0, 1: math.inf}),
        (TrialState.RUNNING, None, {0: 3.0}),
    ],
)
def test_the_results_of_a_trial_depend_on_how_it_ended(
    state: TrialState, value: float | None, expected: dict[int, float]
) -> None:
    x: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    study = study_with()
    study.add_trial(create_trial(params={"x": 0.5}, distributions=x, value=0.0))
    ended = {"value": value, "intermediate_values": {0: 3.0, 8: 0.6}}
    study.add_trial(create_trial(state=state, params={"x": 0.2}, distributions=x, **ended))  # type: ignore[arg-type]
    study.ask().suggest_float("x", 0, 1)
    assert {rung: loss for number, rung, loss in follower(study).results.losses if number == 1} == expected


def test_most_trials_end_on_low_rungs_and_the_model_finds_the_minimum(reference: optuna.Study) -> None:
    states = [trial.state for trial in reference.trials]
    assert states.count(TrialState.PRUNED) > 15
    assert {len(trial.intermediate_values) for trial in reference.trials} == {1, 3, 9}
    assert reference.best_value < 0.2  # the median of random parameters is above 2


@pytest.mark.parametrize("kind", ["sql", "journal"])
def test_storages_and_interruptions_change_nothing(kind: str, tmp_path: Path, reference: optuna.Study) -> None:
    file = JournalFileBackend(str(tmp_path / "journal"))
    storage = RDBStorage("sqlite:///:memory:") if kind == "sql" else JournalStorage(file)
    study_with(storage).optimize(objective, n_trials=9)
    continued = study_with(storage)  # a new sampler, as in a new process
    continued.optimize(objective, n_trials=4)
    assert rows(continued) == rows(reference)[:13]


def test_a_maximised_study_is_the_mirror_of_a_minimised_one(reference: optuna.Study) -> None:
    study = study_with(direction="maximize")
    study.optimize(lambda trial: objective(trial, -1.0), n_trials=20)
    assert rows(study) == rows(reference)[:20]


def test_threads_share_one_sampler_and_never_run_the_same_parameters() -> None:
    study = study_with()
    study.optimize(objective, n_trials=30, n_jobs=3)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 30
    assert all(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in study.trials)


def test_two_processes_on_one_storage_know_each_others_trials(tmp_path: Path) -> None:
    backend = [JournalFileBackend(str(tmp_path / "journal")) for _ in range(2)]  # as each process has its own
    first, second = study_with(JournalStorage(backend[0])), study_with(JournalStorage(backend[1]))
    for _ in range(8):
        pair = [(study, study.ask(SPACE)) for study in (first, second)]
        for study, trial in pair:
            study.tell(trial, loss_of(**trial.params))
    waiting = first.ask(SPACE)
    assert [trial.number for trial in second.trials] == list(range(17))
    assert len({tuple(trial.params.values()) for trial in second.trials}) == 17
    assert len(history(first).outcomes) == 16
    second.ask(SPACE)
    assert len(history(second).outcomes) == 16
    assert follower(second)._running == {waiting.number, waiting.number + 1}


@long
@pytest.mark.parametrize("kind", ["journal", "sql"])
def test_three_processes_share_a_study_although_one_of_them_is_killed(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "study"
    optuna.create_study(study_name="study", storage=storage(kind, file))
    command = [sys.executable, "-m", "tests.integrations.optuna_process", kind, str(file)]
    processes = [
        subprocess.Popen(command, env={**os.environ, **({"BOHB_TEST_DIES": "1"} if dies else {})})
        for dies in (True, False, False)
    ]
    try:
        codes = [process.wait(timeout=400) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [-signal.SIGKILL, 0, 0]
    study = study_with(storage(kind, file))
    ended = [trial for trial in study.trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    (cut_off,) = [trial for trial in study.trials if trial not in ended]
    assert cut_off.user_attrs["process"] == processes[0].pid
    assert cut_off.state == TrialState.RUNNING  # as Optuna leaves it
    assert [trial.number for trial in study.trials] == list(range(len(ended) + 1))
    assert len({tuple(trial.params.values()) for trial in study.trials}) == len(ended) + 1
    assert {process.pid for process in processes[1:]} <= {trial.user_attrs["process"] for trial in ended}
    for trial in ended:
        if trial.state == TrialState.PRUNED:  # by its own bracket, whoever ran it
            rung = STEPS.ladder.rung_at(len(trial.intermediate_values))
            assert STEPS.ladder.first_rung(trial.number) <= rung < STEPS.ladder.top
    study.ask().suggest_float("rate", 1e-5, 1e-1, log=True)
    found = sum(len(STEPS.results(trial, 1.0)) for trial in study.trials[:-1])
    assert len(history(study).outcomes) == found  # a process that comes later knows all of it
    assert study.best_value < 0.5


def test_running_trials_keep_the_model_from_proposing_the_same_again(reference: optuna.Study) -> None:
    study = study_with()
    study.add_trials(reference.trials)
    asked = [study.ask(reference.trials[0].distributions) for _ in range(8)]
    assert len({tuple(trial.params.values()) for trial in asked}) == 8
    assert len(follower(study)._running) == 8


def test_conditions_are_inferred_from_the_trials() -> None:
    def conditional(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", ["net", "tree", None])
        loss = 1.0
        if kind == "net":
            layers = trial.suggest_int("layers", 1, 3)
            widths = [trial.suggest_int(f"width_{i}", 8, 64, step=8) for i in range(layers)]
            loss = abs(sum(widths) - 96) / 96
            if trial.suggest_categorical("clip", [True, False]):
                trial.suggest_float("norm", 0.1, 1.0)
        elif kind == "tree":
            loss = 0.5 + trial.suggest_float("rate", 0.0, 1.0, step=0.25)
        return loss

    sampler = BOHBSampler(1, 9, seed=1)
    study = optuna.create_study(sampler=sampler)
    study.optimize(conditional, n_trials=60)
    space = sampler._follower.inferred.space
    assert space is not None
    conditions = {str(condition) for condition in space.configspace.conditions}
    assert conditions >= {
        "layers | kind in {0}",
        "clip | kind in {0}",
        "norm | clip in {0}",
        "rate | kind in {1}",
        "width_1 | layers in {2, 3}",
        "width_2 | layers in {3}",
    }
    assert study.best_value < 0.1


def test_a_parameter_whose_condition_is_unknown_is_left_to_chance() -> None:
    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        if trial.number % 3 == 0:  # depends on nothing that the trials show
            trial.suggest_float("odd", 0, 1)
        return x

    study = optuna.create_study(sampler=BOHBSampler(1, 9, seed=0))
    study.optimize(objective, n_trials=20)
    assert set(follower(study).inferred.distributions) == {"x"}
    assert study.best_value < 0.05


def test_a_range_that_grows_and_a_new_parameter_start_the_model_over_with_all_results() -> None:
    study = optuna.create_study(sampler=BOHBSampler(1, 9, seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=10)
    study.optimize(lambda trial: trial.suggest_float("x", -1, 2), n_trials=10)
    study.optimize(lambda trial: trial.suggest_float("x", -1, 2), n_trials=1)
    assert len(history(study).outcomes) == 20
    assert follower(study).inferred.distributions == {"x": FloatDistribution(-1, 2)}


def test_the_hull_of_two_grids_that_do_not_meet_has_no_grid() -> None:
    assert hull(IntDistribution(0, 8, step=4), IntDistribution(4, 16, step=4)) == IntDistribution(0, 16, step=4)
    assert hull(IntDistribution(0, 8, step=4), IntDistribution(1, 9, step=4)) == IntDistribution(0, 9)
    assert hull(FloatDistribution(0, 1, step=0.25), FloatDistribution(0, 2)) == FloatDistribution(0, 2)


def test_every_value_of_optuna_survives_the_way_through_the_space() -> None:
    seen = []

    def objective(trial: optuna.Trial) -> float:
        seen.append(
            {
                "choice": trial.suggest_categorical("choice", [None, True, 1.5, "a", 7]),
                "odd name: x y": trial.suggest_float("odd name: x y", 0.0, 0.9, step=0.3),
                "even": trial.suggest_int("even", 2, 10, step=2),
                "one": trial.suggest_int("one", 3, 3),
            }
        )
        return 0.0

    study = optuna.create_study(sampler=BOHBSampler(1, 9, seed=0))
    study.optimize(objective, n_trials=12)
    inferred = InferredSpace(study.trials)
    for trial in study.trials:
        config = inferred.config(trial.params)
        assert config is not None
        assert {**inferred.params(config), "one": 3} == pytest.approx(trial.params)


def test_failures_are_evidence_and_a_trial_that_fails_early_is_skipped() -> None:
    def objective(trial: optuna.Trial) -> float:
        if trial.number == 5:
            raise ArithmeticError  # before it has any parameter
        x = trial.suggest_float("x", 0, 1)
        trial.suggest_float("y", 0, 1)
        if x > 0.5:
            raise ArithmeticError
        return abs(x - 0.2)

    study = optuna.create_study(sampler=BOHBSampler(1, 9, seed=0))
    study.optimize(objective, n_trials=40, catch=ArithmeticError)
    failed = [trial.number for trial in study.trials if trial.state == TrialState.FAIL]
    assert history(study).evidence.n_failures >= len(failed) - 2
    assert sum(number >= 20 for number in failed) < sum(number < 20 for number in failed)


@pytest.mark.parametrize(
    ("losses", "pruned"),
    [
        ([1.0], [False]),  # nobody to compare with
        ([1.0, 2.0, 0.5, 0.7], [False, True, False, True]),
        ([1.0, 2.0, 3.0, 0.9, 0.8, 0.85, math.nan], [False, True, True, False, False, False, True]),
    ],
)
def test_the_best_third_of_those_that_reached_a_rung_goes_on(losses: list[float], pruned: list[bool]) -> None:
    study, answers = study_with(), []
    for loss in losses:
        trial = study.ask()
        trial.report(loss, 0)
        answers.append(trial.should_prune())
        study.tell(trial, state=TrialState.PRUNED)
    assert answers == pruned


def test_a_trial_is_first_judged_on_the_rung_where_its_bracket_starts() -> None:
    study = study_with()
    study.optimize(objective, n_trials=9)
    worst = study.ask()  # number 9, in the bracket that starts on budget 3
    assert [_reported(worst, step) for step in range(4)] == [False, False, True, True]
    study.tell(worst, state=TrialState.PRUNED)
    study.optimize(objective, n_trials=4)
    on_top = study.ask()  # number 14, in the bracket that starts on the largest budget
    assert not any(_reported(on_top, step) for step in range(9))


def _reported(trial: optuna.Trial, step: int) -> bool:
    trial.report(1e6, step)
    return trial.should_prune()


def test_the_pruner_works_with_another_sampler() -> None:
    pruner = BOHBPruner(min_budget=1, max_budget=9)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=pruner)
    study.optimize(objective, n_trials=20)
    assert sum(trial.state == TrialState.PRUNED for trial in study.trials) > 5


def test_an_enqueued_trial_is_used_as_it_is() -> None:
    study = study_with()
    study.enqueue_trial({"lr": 1e-3, "units": 100})
    study.optimize(objective, n_trials=3)
    assert study.trials[0].params == {"lr": 1e-3, "units": 100}


def test_a_pickled_sampler_goes_on_as_the_original(reference: optuna.Study) -> None:
    study = study_with()
    study.optimize(objective, n_trials=15)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.pruner = pickle.loads(pickle.dumps(study.pruner))
    study.optimize(objective, n_trials=5)
    assert rows(study) == rows(reference)[:20]


def test_one_sampler_for_two_studies_keeps_them_apart() -> None:
    sampler = BOHBSampler(1, 9, seed=0)
    for name in ("x", "y"):
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial, name=name: trial.suggest_float(name, 0, 1), n_trials=6)  # type: ignore[misc]
        assert all(set(trial.params) == {name} for trial in study.trials)
    assert set(sampler._follower.inferred.distributions) == {"y"}


def test_sampler_and_pruner_must_have_the_same_budgets() -> None:
    sampler = BOHBSampler(1, 9)
    study = optuna.create_study(sampler=sampler, pruner=BOHBPruner(min_budget=1, max_budget=27))
    with pytest.raises(InvalidArgument, match=r"use pruner=BOHBPruner\(sampler\)"):
        study.ask()
    study = optuna.create_study(sampler=sampler, pruner=BOHBPruner(min_budget=1, max_budget=9, budget_of_step=float))
    with pytest.raises(InvalidArgument, match="count steps differently"):
        study.ask()
    optuna.create_study(sampler=sampler, pruner=BOHBPruner(min_budget=1, max_budget=9)).ask()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "needs a BOHBSampler"), ({"sampler": BOHBSampler(1, 9), "max_budget": 9}, "one or the other")],
)
def test_the_pruner_has_one_place_for_its_budgets(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        BOHBPruner(**arguments)


def test_studies_that_the_sampler_cannot_serve_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="2 objectives"):
        optuna.create_study(directions=["minimize", "minimize"], sampler=BOHBSampler(1, 9)).ask()
    with pytest.raises(InvalidArgument, match="HyperbandPruner hides trials"):
        optuna.create_study(sampler=BOHBSampler(1, 9), pruner=optuna.pruners.HyperbandPruner()).ask()


def test_the_package_for_optunahub_has_what_the_registry_asks_for() -> None:
    folder = Path(__file__).parents[2] / "package" / "samplers" / "bohb"
    assert {"LICENSE", "README.md", "__init__.py", "example.py"} <= {path.name for path in folder.iterdir()}
    _, front, page = (folder / "README.md").read_text().split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert set(fields) == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert "sampler" in fields["tags"]
    assert optuna.__version__ in fields["optuna_versions"]
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    assert titles == ["## Abstract", "## Class or Function Names", "## Installation", "## Example", "## Others"]
    assert runpy.run_path(str(folder / "__init__.py"))["BOHBSampler"] is BOHBSampler
