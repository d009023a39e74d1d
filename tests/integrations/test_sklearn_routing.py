"""Sample weights, groups and other metadata reach those who ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra sklearn")
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GroupKFold

from bohb.integrations.sklearn import BOHBSearchCV

pytestmark = pytest.mark.filterwarnings("ignore:best_params_ is from")  # the searches are short
X, y = load_iris(return_X_y=True)
WEIGHTS = np.arange(1.0, 151.0)
GROUPS = np.arange(150) % 6


class Weighing(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Notes what it was fitted with: the weight of a row is its number, and the first column of X is that, too."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Weighing:
        self.classes_ = np.unique(y)
        self.matches_ = sample_weight is not None and np.array_equal(X[:, 0], sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), 0 if self.matches_ else 99)


def search(**options: Any) -> BOHBSearchCV:
    settings = {"cv": 3, "max_trials": 3, "min_resources": 30, "random_state": 0, **options}
    return BOHBSearchCV(settings.pop("estimator", Weighing()), {"alpha": (0.1, 1.0)}, **settings)


NUMBERED = np.column_stack([WEIGHTS, X])


def test_weights_go_with_their_rows_also_if_only_some_rows_are_used() -> None:
    found = search().fit(NUMBERED, y, sample_weight=WEIGHTS)
    assert set(found.cv_results_["n_resources"]) == {50}
    assert found.best_score_ > 0  # 99 is never right
    assert search().fit(NUMBERED, y).best_score_ == 0


def test_groups_reach_the_splitter() -> None:
    found = search(cv=GroupKFold(3)).fit(NUMBERED, y, groups=GROUPS, sample_weight=WEIGHTS)
    assert found.n_splits_ == 3
    with pytest.raises(ValueError, match="groups"):
        search(cv=GroupKFold(3)).fit(NUMBERED, y)


def test_routed_metadata_reaches_estimator_scorer_and_splitter() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        asked = {
            "estimator": Weighing().set_fit_request(sample_weight=True),
            "scoring": make_scorer(accuracy_score).set_score_request(sample_weight=True),
            "cv": GroupKFold(3).set_split_request(groups=True),
        }
        found = search(**asked).fit(NUMBERED, y, sample_weight=WEIGHTS, groups=GROUPS)
        plain = search(**{**asked, "scoring": make_scorer(accuracy_score).set_score_request(sample_weight=False)})
        plain.fit(NUMBERED, y, sample_weight=WEIGHTS, groups=GROUPS)
        assert found.best_score_ > 0
        assert found.best_score_ != plain.best_score_  # the first class has the smallest weights
        assert found.score(NUMBERED, y, sample_weight=WEIGHTS) < found.score(NUMBERED, y)
        with pytest.raises(UnsetMetadataPassedError):
            search().fit(NUMBERED, y, sample_weight=WEIGHTS)
