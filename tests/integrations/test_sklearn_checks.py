"""BOHBSearchCV passes the checks that scikit-learn has for its own searches, on the estimators it uses for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="needs the extra sklearn")
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from bohb.integrations.sklearn import BOHBSearchCV


def search(estimator: Any, name: str) -> BOHBSearchCV:
    return BOHBSearchCV(estimator, {name: (0.1, 1.0)}, cv=2, error_score="raise", random_state=0, max_brackets=1)


SEARCHES = [
    search(Ridge(), "alpha"),
    search(Pipeline([("pca", PCA()), ("logistic", LogisticRegression())]), "logistic__C"),
]
CHECKS = parametrize_with_checks(SEARCHES)  # before scikit-learn 1.8 with an iterator, which pytest refuses


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # y has an infinity
@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
