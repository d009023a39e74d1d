"""scikit-learn: tune a pipeline on the digits with BOHBSearchCV, budgets in training samples, then in iterations.

python examples/sklearn_search.py [seed]
"""

from __future__ import annotations

import sys
import warnings

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bohb.integrations.sklearn import BOHBSearchCV

SPACE = {
    "scale__with_std": [True, False],
    "model__loss": ["hinge", "log_loss", "modified_huber"],
    "model__alpha": (1e-6, 1e-1, "log"),
    "model__eta0": (1e-4, 1.0, "log"),
    "model__learning_rate": ["constant", "invscaling", "adaptive"],
    "model__average": [True, False],
}


def main(seed: int = 0) -> dict[str, float]:
    warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations are what small budgets are
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.3, random_state=seed, stratify=y)
    pipeline = Pipeline([("scale", StandardScaler()), ("model", SGDClassifier(max_iter=27, random_state=seed))])
    accuracy = {}
    for resource in ("n_samples", "model__max_iter"):
        search = BOHBSearchCV(
            pipeline, SPACE, resource=resource, preset="best", max_brackets=1, cv=3, random_state=seed
        )
        search.fit(X_train, y_train)
        accuracy[resource] = search.score(X_test, y_test)
        print(
            f"{resource}: {search.min_resources_} to {search.max_resources_}, "
            f"{len(search.cv_results_['params'])} trials"
        )
        print(f"  best score {search.best_score_:.4f}, accuracy on test data {accuracy[resource]:.4f}")
        print(f"  {search.best_params_}")
    return accuracy


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
