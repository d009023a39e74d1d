from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator, get_param_importances

from bohb import BOHB, History, Trial
from bohb.analysis.importance import Importances, importance, most_important_pair
from tests.analysis.studies import KINDS, play, played

optuna.logging.set_verbosity(optuna.logging.ERROR)
N = 400
SPACE: dict[str, Any] = {"a": (0.0, 1.0), "b": (1e-4, 1.0, "log"), "c": ["u", "v", "w"], "d": (1, 10), "e": (0.0, 1.0)}
DISTRIBUTIONS = {
    "a": optuna.distributions.FloatDistribution(0, 1),
    "b": optuna.distributions.FloatDistribution(1e-4, 1, log=True),
    "c": optuna.distributions.CategoricalDistribution(["u", "v", "w"]),
    "d": optuna.distributions.IntDistribution(1, 10),
    "e": optuna.distributions.FloatDistribution(0, 1),
}


def known(config: dict[str, Any]) -> float:
    """Additive, so that importances are known: a > b > c, d matters little and e not at all."""
    b, c = np.log10(config["b"]) / 4 + 1, {"u": 0, "v": 1, "w": 2}[config["c"]]
    return float(effect(config["a"], b, c, config["d"]))


def effect(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The loss, b on its own scale from 0 to 1 and c as an index."""
    return 2 * a + b + 0.2 * c + 0.01 * d


def true_divergences() -> dict[str, float]:
    """v_j of PED-ANOVA by its definition, from a million random configurations and fine histograms."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    columns = {"a": rng.random(n), "b": rng.random(n), "c": rng.integers(3, size=n), "d": rng.integers(1, 11, size=n)}
    loss = effect(**columns)
    best = loss <= np.quantile(loss, 0.1)
    values = {"e": 0.0}
    for name, cells in {"a": 50, "b": 50, "c": 3, "d": 10}.items():
        column = columns[name]
        cell = column if name == "c" else column - 1 if name == "d" else (column * cells).astype(int)
        p = np.bincount(cell[best], minlength=cells) / best.sum()
        values[name] = 0.1**2 * float(((p * cells - 1) ** 2).mean())
    return values


def shares(table: Importances | None) -> dict[str, float]:
    assert table is not None
    return {row.name: row.share for row in table.rows}


@pytest.fixture(scope="module")
def random_study() -> History:
    optimizer = BOHB(SPACE, budgets=[1], seed=5, random_fraction=1.0)
    return play(optimizer, N, lambda trial: known(trial.config)).history


@pytest.fixture(scope="module")
def optunas(random_study: History) -> optuna.Study:
    study = optuna.create_study()
    study.add_trials(
        [
            optuna.trial.create_trial(params=result.config, distributions=DISTRIBUTIONS, value=result.loss)
            for result in random_study.results
        ]
    )
    return study


def test_importances_agree_with_optunas_ped_anova(random_study: History, optunas: optuna.Study) -> None:
    """But for categories, which Optuna smooths as if there were four results, however many there are."""
    theirs = PedAnovaImportanceEvaluator().evaluate(optunas)
    table = importance(random_study)
    assert table is not None
    ours = {row.name: row.value for row in table.rows}
    for name in "abde":
        assert ours[name] == pytest.approx(theirs[name], rel=0.02, abs=2e-4)
    truth = true_divergences()["c"]
    assert abs(ours["c"] - truth) < abs(theirs["c"] - truth)


def test_importances_approach_their_definition() -> None:
    optimizer = BOHB(SPACE, budgets=[1], seed=11, random_fraction=1.0)
    for _ in range(30):
        optimizer.tell_many([(trial, known(trial.config)) for trial in optimizer.ask_many(100)])
    table = importance(optimizer.history)
    assert table is not None
    truth = true_divergences()
    total = sum(truth.values())
    for row in table.rows:
        assert row.share == pytest.approx(truth[row.name] / total, abs=0.04)


def test_importances_rank_as_optunas_fanova_does(random_study: History, optunas: optuna.Study) -> None:
    evaluator = FanovaImportanceEvaluator(seed=0, n_trees=8)
    theirs = get_param_importances(optunas, evaluator=evaluator, normalize=True)
    assert list(theirs)[:3] == list(shares(importance(random_study)))[:3] == ["a", "b", "c"]


def test_what_does_not_matter_is_not_told_apart_from_chance(random_study: History) -> None:
    table = importance(random_study)
    assert table is not None
    by_name = {row.name: row for row in table.rows}
    assert by_name["a"].share > 0.4
    for name in ("a", "b", "c"):
        assert by_name[name].share > by_name[name].chance
    assert by_name["e"].share < by_name["e"].chance
    assert sum(row.share for row in table.rows) == pytest.approx(1)
    assert (table.n, len(table.best), table.budget) == (N, N // 10, None)
    ranks = sorted(random_study.outcomes[n].ranking_loss for n in random_study.outcomes)
    assert all(random_study.outcomes[n].ranking_loss <= ranks[N // 2] for n in table.best)


def test_what_the_model_has_settled_on_stays_important() -> None:
    """Among the model's picks a is always near 0.3; the random ones still show that it matters most."""
    optimizer = BOHB(SPACE, budgets=[1, 3], seed=5)
    history = play(optimizer, 300, lambda trial: known(trial.config) + 1 / trial.budget).history
    table = importance(history)
    assert table is not None
    assert table.budget is None
    assert table.rows[0].name == "a"


def test_a_conditional_hyperparameter_counts_where_it_is_active() -> None:
    """y exists in half of all configurations and decides there; the switch itself makes no difference."""
    from ConfigSpace import ConfigurationSpace, EqualsCondition

    space = ConfigurationSpace({"switch": ["on", "off"], "y": (0.0, 1.0), "z": (0.0, 1.0)})
    space.add(EqualsCondition(space["y"], space["switch"], "on"))

    def loss(trial: Trial) -> float:
        return float(trial.config.get("y", trial.config["z"]))

    history = play(BOHB(space, budgets=[1], seed=1, random_fraction=1.0), 300, loss).history
    by_name = {row.name: row for row in importance(history).rows}  # type: ignore[union-attr]
    assert by_name["y"].share > 2 * by_name["y"].chance
    assert by_name["z"].share > by_name["z"].chance
    assert by_name["switch"].share < 0.1

    study = optuna.create_study()
    for result in history.results:
        distributions: dict[str, Any] = {
            "switch": optuna.distributions.CategoricalDistribution(["on", "off"]),
            "y": optuna.distributions.FloatDistribution(0, 1),
            "z": optuna.distributions.FloatDistribution(0, 1),
        }
        used = {name: distributions[name] for name in result.config}
        study.add_trial(optuna.trial.create_trial(params=result.config, distributions=used, value=result.loss))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), normalize=True)
    for name, row in by_name.items():
        assert row.share == pytest.approx(theirs[name], abs=0.03)


def test_failed_trials_take_part_as_never_the_best() -> None:
    """Half of the space fails, and nothing else matters."""

    def loss(trial: Trial) -> float:
        return float("nan") if trial.config["a"] > 0.5 else 1.0 + 1e-3 * trial.number

    history = play(BOHB(SPACE, budgets=[1], seed=2, random_fraction=1.0, avoid_failures=False), 200, loss).history
    table = importance(history)
    assert table is not None
    assert table.rows[0].name == "a"


@pytest.mark.parametrize("kind", KINDS)
def test_no_study_breaks_it(kind: str) -> None:
    table = importance(played(kind))
    if table is not None:
        assert {row.name for row in table.rows} == {scale.name for scale in played(kind).space.dimensions}
        assert all(row.value >= 0 and np.isfinite(row.share) for row in table.rows)
    else:
        assert kind in (
            "empty",
            "one observation",
            "one failure",
            "all failed",
            "tiny",
            "running",
            "constant loss",
            "finite",
        )


def many_random(loss: Callable[[dict[str, Any]], float], n: int, seed: int) -> History:
    space = {f"p{j}": (0.0, 1.0) for j in range(8)}
    optimizer = BOHB(space, budgets=[1, 3], seed=seed, random_fraction=1.0, max_brackets=1000)
    return play(optimizer, n, lambda trial: loss(trial.config)).history


def test_the_pair_that_matters_most_has_no_hyperparameter_below_chance_if_two_are_above() -> None:
    history = many_random(lambda c: (c["p2"] - 0.3) ** 2 + 0.4 * (c["p5"] - 0.6) ** 2, 150, seed=1)
    assert set(most_important_pair(history) or ()) == {"p2", "p5"}


def test_two_hyperparameters_that_matter_only_together_are_found() -> None:
    """p3 and p6 have no effect alone, while p1 has one; paired with anything else it would hide them."""
    history = many_random(lambda c: 0.3 * abs(c["p1"] - 0.5) + 0.5 * ((c["p3"] > 0.5) != (c["p6"] > 0.5)), 300, seed=2)
    assert set(most_important_pair(history) or ()) == {"p3", "p6"}
    assert next(row.name for row in importance(history).rows) == "p1"  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_pair_whenever_there_are_importances(kind: str) -> None:
    table, pair = importance(played(kind)), most_important_pair(played(kind))
    assert (pair is None) == (table is None or len(table.rows) < 2)
    assert pair is None or pair[0] != pair[1]
