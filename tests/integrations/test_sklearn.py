"""BOHBSearchCV searches as BOHB does and behaves as scikit-learn's searches do."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra sklearn")
import joblib  # type: ignore[import-untyped]
from scipy.stats import loguniform, randint
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import bohb
from bohb.core.settings import PRESETS
from bohb.errors import InvalidArgument, MissingExtra
from bohb.integrations.sklearn import BOHBSearchCV

pytestmark = pytest.mark.filterwarnings("ignore:best_params_ is from")  # most searches are short
X, y = load_iris(return_X_y=True)
TREE = {"max_depth": (1, 6), "min_samples_leaf": (1, 40, "log"), "criterion": ["gini", "entropy"]}


class Known(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose score is known: best at good = 0.3 and with many rounds; above `fails_above` it fails."""

    def __init__(self, good: float = 0.5, rounds: int = 9, fails_above: float = 2.0) -> None:
        self.good = good
        self.rounds = rounds
        self.fails_above = fails_above

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Known:
        if self.good > self.fails_above:
            raise ArithmeticError(f"{self.good} is too good")
        self.classes_ = np.unique(y)
        self.n_rows_ = len(X)
        self.weights_ = sample_weight
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return 1 - abs(self.good - 0.3) - 1 / self.rounds


def rows_seen(estimator: Known, X: Any, y: Any) -> float:
    """A scorer: how many rows the estimator was trained on."""
    return float(estimator.n_rows_)


def search(**options: Any) -> BOHBSearchCV:
    settings = {"resource": "rounds", "cv": 2, "random_state": 0, **options}
    return BOHBSearchCV(settings.pop("estimator", Known()), {"good": (0.0, 1.0)}, **settings)


def incumbent(found: BOHBSearchCV) -> bohb.Result:
    assert found.study_.incumbent is not None
    return found.study_.incumbent


def test_the_best_row_has_the_largest_budget_and_of_those_the_best_score() -> None:
    found = BOHBSearchCV(DecisionTreeClassifier(random_state=0), TREE, cv=3, random_state=0).fit(X, y)
    results = found.cv_results_
    full = results["n_resources"] == 150
    assert results["mean_test_score"][full].max() == found.best_score_ == results["mean_test_score"][found.best_index_]
    assert full[found.best_index_]
    assert found.best_params_ == results["params"][found.best_index_]
    assert {name: found.best_estimator_.get_params()[name] for name in TREE} == found.best_params_
    assert found.score(X, y) == found.best_estimator_.score(X, y) > 0.9
    assert incumbent(found).config == found.best_params_


def test_without_a_limit_one_round_of_hyperband_is_run() -> None:
    results = search(preset="paper").fit(X, y).cv_results_
    counts = Counter(zip(results["bracket"], results["rung"], results["n_resources"], strict=True))
    planned = bohb.BOHB({"good": (0.0, 1.0)}, min_budget=1, max_budget=9).plan()
    assert counts == {(0, 0, 1): 9, (0, 1, 3): 3, (0, 2, 9): 1, (1, 0, 3): 5, (1, 1, 9): 1, (2, 0, 9): 3}
    assert len(results["params"]) == sum(rung.size for bracket in planned.brackets for rung in bracket.rungs)


def test_a_parameter_as_resource_gets_the_budget() -> None:
    found = search(min_resources=2, max_resources=18).fit(X, y)
    results = found.cv_results_
    assert (found.min_resources_, found.max_resources_) == (2, 18)
    assert list(results["param_rounds"]) == list(results["n_resources"])
    assert set(results["n_resources"]) == {2, 6, 18}
    assert found.best_params_["rounds"] == found.best_estimator_.rounds == 18
    assert abs(found.best_params_["good"] - 0.3) < 0.1


def test_n_samples_as_resource_trains_on_so_many_of_the_rows() -> None:
    found = search(resource="n_samples", min_resources=10, scoring=rows_seen, max_brackets=1).fit(X, y)
    trained_on = dict(zip(found.cv_results_["n_resources"], found.cv_results_["mean_test_score"], strict=True))
    assert trained_on == {17: 8, 50: 25, 150: 75}  # half of them, with two splits


def test_too_few_samples_for_several_budgets_leave_one() -> None:
    found = search(resource="n_samples", cv=3).fit(X[::10], y[::10])
    assert set(found.cv_results_["n_resources"]) == {15}


def test_the_seed_decides_all_but_n_jobs_nothing() -> None:
    first = search(max_trials=12).fit(X, y).cv_results_["params"]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert search(max_trials=12).fit(X, y).cv_results_["params"] == first
    assert search(max_trials=12, random_state=1).fit(X, y).cv_results_["params"] != first
    assert search(max_trials=12, random_state=np.random.RandomState(0)).fit(X, y).cv_results_["params"] == first


@pytest.mark.parametrize(
    ("limit", "trials"), [({"max_trials": 6}, 6), ({"max_brackets": 1}, 13), ({"max_cost": 1}, 9), ({}, 22)]
)
def test_limits_end_the_search(limit: dict[str, Any], trials: int) -> None:
    assert len(search(batch_size=1, **limit).fit(X, y).cv_results_["params"]) == trials


@pytest.mark.filterwarnings("error")
def test_a_search_warns_if_its_answer_is_not_from_the_largest_budget() -> None:
    with pytest.warns(
        UserWarning, match="from rounds=1, not from the largest, 9: no trial there has finished"
    ) as warned:
        search(max_trials=6).fit(X, y)
    assert [Path(warning.filename).name for warning in warned] == [Path(__file__).name]
    assert incumbent(search(max_brackets=1).fit(X, y)).budget == 9


def test_the_preset_is_kept_as_given_and_used_when_fitting_and_is_best_by_default() -> None:
    by_name = search(preset="paper", max_trials=3)
    assert clone(by_name).preset == "paper"
    assert by_name.fit(X, y).study_.history.settings == PRESETS["paper"]
    assert search(max_trials=3).fit(X, y).study_.history.settings == PRESETS["best"]
    for wrong in ("worst", {"eta": 3}, None, PRESETS["best"]):
        with pytest.raises(ValueError, match="'preset' parameter of BOHBSearchCV"):
            search(preset=wrong).fit(X, y)


def test_configurations_that_fail_are_never_the_best_and_the_search_goes_on() -> None:
    with pytest.warns() as warned:
        found = search(estimator=Known(fails_above=0.6), batch_size=1).fit(X, y)
    assert any(issubclass(warning.category, FitFailedWarning) for warning in warned)
    failed = np.isnan(found.cv_results_["mean_test_score"])
    assert list(failed) == [params["good"] > 0.6 for params in found.cv_results_["params"]]
    assert 0 < failed.sum() == len(found.study_.failures) < len(failed) == 22
    assert all("ArithmeticError" in str(outcome.error) for _, outcome in found.study_.failures)
    assert found.best_params_["good"] < 0.6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_the_error_score_is_the_score_of_a_failed_fit() -> None:
    for batch_size in (1, 4):  # alone, and beside others that succeed
        found = search(estimator=Known(fails_above=0.6), error_score=-7.0, batch_size=batch_size).fit(X, y)
        failed = [trial.number for trial, _ in found.study_.failures]
        assert list(np.flatnonzero(found.cv_results_["mean_test_score"] == -7.0)) == failed != []


def test_error_score_raise_passes_the_error_on() -> None:
    with pytest.raises(ArithmeticError, match="too good"):
        search(estimator=Known(fails_above=0), error_score="raise").fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_if_every_fit_fails_the_search_raises() -> None:
    with pytest.raises(ValueError, match="fits failed") as raised:
        search(estimator=Known(fails_above=-1)).fit(X, y)
    assert "too good" in str(raised.value)


def test_the_metric_of_refit_leads_a_search_with_several() -> None:
    options: dict[str, Any] = {"scoring": ["accuracy", "neg_log_loss"], "return_train_score": True}
    trees = DecisionTreeClassifier(random_state=0)
    found = BOHBSearchCV(trees, TREE, cv=3, random_state=0, refit="neg_log_loss", max_trials=12, **options).fit(X, y)
    assert found.multimetric_
    assert incumbent(found).loss == pytest.approx(-found.best_score_)
    assert found.best_score_ == found.cv_results_["mean_test_neg_log_loss"][found.best_index_]
    assert {"mean_test_accuracy", "mean_train_accuracy", "split2_train_neg_log_loss"} <= set(found.cv_results_)
    table = BOHBSearchCV(trees, TREE, cv=3, random_state=0, refit=False, max_trials=4, **options).fit(X, y)
    assert not hasattr(table, "best_params_")
    losses = [outcome.loss for _, outcome in table.study_.trials if outcome is not None]
    assert losses == list(-table.cv_results_["mean_test_accuracy"])
    with pytest.raises(ValueError, match="multi-metric"):
        BOHBSearchCV(trees, TREE, **options).fit(X, y)


def test_several_scorers_can_be_objectives_and_times_can_be_bounded() -> None:
    options: dict[str, Any] = {"scoring": ["accuracy", "neg_log_loss"], "refit": "accuracy", "max_trials": 12}
    trees = DecisionTreeClassifier(random_state=0)
    goals: dict[str, Any] = {"objectives": ["accuracy", "neg_log_loss"], "constraints": {"fit_time": "<= 1h"}}
    found = BOHBSearchCV(trees, TREE, cv=3, random_state=0, **options, **goals).fit(X, y)
    assert [str(objective) for objective in found.study_.history.goals.objectives] == ["-accuracy", "-neg_log_loss"]
    assert found.study_.front
    for result in found.study_.front:
        row = list(found.cv_results_["trial"]).index(result.trial.number)
        assert result.values["neg_log_loss"] == found.cv_results_["mean_test_neg_log_loss"][row]
    assert found.study_.best_loss == found.best_score_
    none = search(max_trials=6, objectives=["score", "score_time"], constraints={"fit_time": "<= -1"}).fit(X, y)
    assert not incumbent(none).feasible
    assert not np.any(none.cv_results_["feasible"])
    with pytest.raises(InvalidArgument, match="there is no 'beauty'; the search knows score, fit_time, score_time"):
        search(max_trials=6, objectives=["beauty"]).fit(X, y)
    with pytest.raises(InvalidArgument, match="scores are maximised and times are minimised anyway"):
        search(max_trials=6, objectives=["-score"]).fit(X, y)


def test_the_study_of_a_search_shows_its_score() -> None:
    found = search(max_trials=4).fit(X, y)
    assert found.study_.best_loss == found.best_score_


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (1, True)])
def test_the_progress_of_the_study_is_shown_if_verbose(
    verbose: int, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    search(max_trials=4, verbose=verbose).fit(X, y)
    assert ("trials: 4 of 4 finished" in capsys.readouterr().err) == shown


def test_a_callable_refit_chooses_the_row() -> None:
    found = search(refit=lambda results: int(np.argmin(results["mean_test_score"])), max_trials=9).fit(X, y)
    assert found.best_params_ == found.cv_results_["params"][np.argmin(found.cv_results_["mean_test_score"])]


def test_inactive_hyperparameters_are_masked_and_left_to_the_estimator() -> None:
    space = CS.ConfigurationSpace({"weights": ["uniform", "distance"], "p": (1.0, 3.0), "n_neighbors": (1, 30)})
    space.add(CS.EqualsCondition(space["p"], space["weights"], "distance"))
    found = BOHBSearchCV(KNeighborsClassifier(), space, max_trials=10, random_state=0).fit(X, y)
    inactive = found.cv_results_["param_p"].mask
    assert list(inactive) == [params["weights"] == "uniform" for params in found.cv_results_["params"]]
    assert 0 < inactive.sum() < 10
    assert clone(found).space == space


def test_the_distributions_of_a_randomized_search_are_a_space() -> None:
    space = {"max_depth": randint(1, 7), "ccp_alpha": loguniform(1e-4, 0.1), "criterion": ["gini", "entropy"]}
    found = BOHBSearchCV(DecisionTreeClassifier(random_state=0), space, max_trials=20, random_state=0).fit(X, y)
    depths, alphas = (list(map(float, found.cv_results_[f"param_{name}"])) for name in ("max_depth", "ccp_alpha"))
    assert {*depths} <= {1, 2, 3, 4, 5, 6}
    assert 1e-4 <= min(alphas) < 0.01 < max(alphas) <= 0.1


def test_pipelines_are_tuned_by_their_steps_names() -> None:
    forest = Pipeline([("scale", StandardScaler()), ("forest", RandomForestClassifier(9, random_state=0))])
    space = {"forest__max_depth": [None, 1, 2], "scale__with_std": [True, False]}
    found = BOHBSearchCV(forest, space, resource="forest__n_estimators", max_trials=8, cv=2, random_state=0).fit(X, y)
    assert found.max_resources_ == 9
    assert found.best_params_.keys() == {*space, "forest__n_estimators"}
    assert found.best_estimator_["forest"].n_estimators == found.best_params_["forest__n_estimators"]


def test_a_fitted_search_is_its_best_estimator() -> None:
    # Four independent columns and many rows: PCA's likelihood of few, nearly dependent rows can be -inf.
    frame = pytest.importorskip("pandas").DataFrame(
        np.random.default_rng(0).normal(size=(200, 4)), columns=list("abcd")
    )
    found = BOHBSearchCV(PCA(), {"n_components": (1, 2)}, min_resources=50, max_trials=2, cv=2, random_state=0)
    with pytest.raises(NotFittedError):
        found.transform(frame)
    found.fit(frame)
    assert list(found.feature_names_in_) == list("abcd")
    assert found.n_features_in_ == 4
    assert found.inverse_transform(found.transform(frame)).shape == frame.shape
    assert not hasattr(found, "predict")
    assert list(search(max_trials=3).fit(X, y).classes_) == [0, 1, 2]
    assert found.n_splits_ == 2
    assert found.refit_time_ >= 0


def test_a_fitted_search_can_be_pickled_and_a_clone_is_unfitted() -> None:
    found = search(max_trials=3).fit(X, y)
    again = pickle.loads(pickle.dumps(found))
    assert again.best_params_ == found.best_params_
    assert len(again.study_.trials) == 3
    copy = clone(found).set_params(max_trials=2, estimator__fails_above=1.5)
    assert not hasattr(copy, "best_params_")
    assert len(copy.fit(X, y).cv_results_["params"]) == 2
    assert copy.best_estimator_.fails_above == 1.5


def test_all_trials_see_the_same_rows_even_if_the_splitter_shuffles_anew() -> None:
    class Counting(KFold):  # type: ignore[misc]
        calls = 0

        def split(self, *args: Any, **keywords: Any) -> Any:
            Counting.calls += 1
            return super().split(*args, **keywords)

    search(cv=Counting(2, shuffle=True), max_trials=12).fit(X, y)
    assert Counting.calls == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource": "epochs"}, "resource='epochs' must be 'n_samples' or a parameter of Known"),
        ({"resource": "good", "max_resources": 9}, "must not be one of the hyperparameters"),
        ({"estimator": Known(rounds=0)}, "which is 0 and not a positive whole number; set max_resources"),
        ({"min_resources": 10}, "min_resources=10 must not exceed max_resources, which is 9"),
        ({"eta": 1}, "'eta' parameter of BOHBSearchCV"),
        ({"batch_size": 0}, "'batch_size' parameter of BOHBSearchCV"),
        ({"max_seconds": 1e-9}, "is over before the first trial"),
        ({"scoring": "beauty"}, "'scoring' parameter of BOHBSearchCV"),
    ],
)
def test_arguments_are_checked_when_fitting(options: dict[str, Any], message: str) -> None:
    unfitted = search(**options)
    with pytest.raises(ValueError, match=message):
        unfitted.fit(X, y)
    assert not any(name.startswith("_") for name in vars(unfitted) if name != "_checked_cv_orig")


def test_a_journal_takes_an_interrupted_search_up_again(tmp_path: Path) -> None:
    journal = tmp_path / "search.db"
    whole = search(max_trials=12).fit(X, y)
    part = search(max_trials=4, journal=journal).fit(X, y)
    rest = search(max_trials=12, journal=journal).fit(X, y)
    assert len(part.cv_results_["params"]) == 4
    assert all(o is not None and o.started and o.finished for _, o in part.study_.trials)
    for name in ("params", "mean_test_score", "rank_test_score", "split1_test_score", "rung"):
        assert list(rest.cv_results_[name]) == list(whole.cv_results_[name])
    assert rest.study_.history.outcomes[0] == part.study_.history.outcomes[0]
    over = search(max_trials=12, journal=journal).fit(X, y)  # nothing is left to run
    assert over.best_params_ == whole.best_params_
    assert len(over.study_.trials) == 12


def test_a_journal_keeps_searches_on_other_data_apart(tmp_path: Path) -> None:
    journal = tmp_path / "search.db"
    for rows in (slice(0, 150), slice(0, 150, 2)):
        assert len(search(max_trials=3, journal=journal).fit(X[rows], y[rows]).study_.trials) == 3
    search(max_trials=3, journal=journal, scoring="accuracy").fit(X, y)
    assert len(bohb.journal.study_names(journal)) == 3
    with pytest.raises(InvalidArgument, match="must be picklable"):
        search(estimator=Known(fails_above=lambda: 1), journal=journal).fit(X, y)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_failed_trials_come_back_from_a_journal(tmp_path: Path) -> None:
    options: dict[str, Any] = {"estimator": Known(fails_above=0.4), "journal": tmp_path / "search.db"}
    once = search(max_trials=12, batch_size=1, **options).fit(X, y)
    twice = search(max_trials=12, batch_size=1, **options).fit(X, y)
    assert np.isnan(once.cv_results_["mean_test_score"]).any()
    np.testing.assert_array_equal(once.cv_results_["mean_test_score"], twice.cv_results_["mean_test_score"])


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    monkeypatch.delitem(sys.modules, "bohb.integrations.sklearn")
    with pytest.raises(MissingExtra, match=r"\[sklearn\]"):
        importlib.import_module("bohb.integrations.sklearn")
