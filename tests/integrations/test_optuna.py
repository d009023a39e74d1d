"""An Optuna study as a warm start, with the real Optuna."""

from __future__ import annotations

import math
from typing import Any, Literal

import optuna
import pytest

from bohb import BOHB, Space
from bohb.errors import InvalidArgument, InvalidConfiguration
from bohb.integrations.optuna import observations

SPACE = {"lr": (1e-5, 1e-1, "log"), "units": (16, 512), "act": ["relu", "tanh"]}
BUDGETS = [1, 3, 9]
optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial: optuna.Trial) -> float:
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    trial.suggest_int("units", 16, 512)
    trial.suggest_categorical("act", ["relu", "tanh"])
    if trial.number == 7:
        raise ArithmeticError
    quality = abs(math.log10(lr) + 3)
    for epoch in range(9):
        trial.report(quality + 1 / (epoch + 1), epoch)
        if trial.number % 3 == 1 and epoch == 4:
            raise optuna.TrialPruned
    return quality


def studied(
    direction: Literal["minimize", "maximize"] = "minimize", n: int = 12, function: Any = objective
) -> optuna.Study:
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(function, n_trials=n, catch=ArithmeticError)
    return study


def test_complete_pruned_and_failed_trials_are_known_on_the_budgets_they_reached() -> None:
    source = studied()
    history = observations(source, SPACE, BUDGETS)
    counts = {budget: len(d_b) for budget, d_b in history.evidence.observations.items()}
    assert counts == {1.0: 11, 3.0: 11, 9.0: 9}  # 8 complete, 3 pruned after 5 epochs, 1 failed
    assert history.evidence.n_failures == 1
    first = source.trials[0]
    known = {event.budget: event for event in history.observed if event.source == "Optuna trial 0"}
    assert known[3.0].config == first.params
    assert known[3.0].loss == first.intermediate_values[2]
    assert known[9.0].loss == first.value


def test_a_study_starts_with_the_knowledge_of_optuna() -> None:
    study = BOHB(
        SPACE, min_budget=1, max_budget=9, seed=0, warm_start=observations(studied(), SPACE, BUDGETS), random_fraction=0
    )
    trial = study.ask()
    assert (trial.number, trial.origin) == (0, "model")
    assert study.history.observed[0].source == "Optuna trial 0"


def test_maximised_values_are_negated() -> None:
    source = studied("maximize")
    history = observations(source, Space(SPACE), [9])
    assert set(history.evidence.observations) == {9.0}
    assert history.evidence.observations[9.0].losses[0] == -source.best_value


def test_steps_are_counted_as_the_user_says() -> None:
    history = observations(studied(), SPACE, BUDGETS, budget_of_step=lambda step: 3 * step)
    assert {budget: len(d_b) for budget, d_b in history.evidence.observations.items()} == {3.0: 11, 9.0: 12}


def test_a_value_that_is_not_finite_is_a_failure() -> None:
    source = studied(n=1)
    source.add_trial(optuna.create_trial(value=math.inf, **_frozen(source)))
    assert observations(source, SPACE, [9]).evidence.n_failures == 1


def _frozen(source: optuna.Study) -> dict[str, Any]:
    return {"params": source.trials[0].params, "distributions": source.trials[0].distributions}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"lr": (1e-5, 1e-1, "log"), "units": (16, 512)}, r"Optuna trial 0: 'act' is not a hyperparameter"),
        ({**SPACE, "depth": (1, 5)}, r"Optuna trial 0: 'depth' is missing"),
        ({**SPACE, "units": (16, 17)}, r"Optuna trial \d+: units="),
    ],
)
def test_parameters_that_do_not_fit_the_space_are_refused_with_the_trial(space: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message + ".*give the space that its parameters came from"):
        observations(studied(), space, BUDGETS)


def test_a_failed_trial_without_all_its_parameters_is_left_out() -> None:
    def breaks(trial: optuna.Trial) -> float:
        if trial.number == 0:
            raise ArithmeticError
        return objective(trial)

    assert observations(studied(n=3, function=breaks), SPACE, [9]).evidence.n_failures == 0


def test_several_objectives_odd_budgets_and_empty_studies_are_refused() -> None:
    two = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(InvalidArgument, match="2 objectives"):
        observations(two, SPACE, [9])
    with pytest.raises(InvalidArgument, match="must be increasing"):
        observations(studied(n=1), SPACE, [9, 3])
    with pytest.raises(InvalidArgument, match="no result to start from"):
        observations(studied(n=0), SPACE, [9])
