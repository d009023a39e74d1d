"""What a search of scikit-learn needs: its budgets and rows, an identifier, and outcomes that a journal can store."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, TypeAlias

import joblib  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from bohb.core.goals import PLAIN, Goals
from bohb.core.trial import Outcome, Status, Trial, jsonable, outcome_of
from bohb.errors import InvalidArgument

Rows: TypeAlias = NDArray[np.integer[Any]]
Fit: TypeAlias = dict[str, Any]  # scikit-learn's record of one fit: scores (a number, or one per metric) and times
_TIMES = ("fit_time", "score_time")
_STORED = ("test_scores", "train_scores", "fit_time", "score_time")
_PROMOTIONS = 3  # possible with min_resources="auto"


def labels_of(estimator: Any, y: Any) -> Rows | None:
    """Return the class of every row as a number from 0; None if the task is not a single-label classification."""
    if y is None or not is_classifier(estimator) or type_of_target(y) not in ("binary", "multiclass"):
        return None
    return np.asarray(np.unique(np.ravel(np.asarray(y)), return_inverse=True)[1])


def largest(estimator: Any, resource: str, asked: int | str, n_rows: int) -> int:
    """Return the largest budget: the given one, all rows, or the estimator's own value."""
    if resource == "n_samples":
        return int(n_rows if asked == "auto" else min(int(asked), n_rows))
    values = estimator.get_params()
    if resource not in values:
        raise InvalidArgument(
            f"resource={resource!r} must be 'n_samples' or a parameter of {type(estimator).__name__}; "
            "see estimator.get_params()"
        )
    if asked != "auto":
        return int(asked)
    value = values[resource]
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InvalidArgument(
            f"max_resources='auto' takes the estimator's {resource}, which is {value!r} and not a positive whole "
            "number; set max_resources"
        )
    return int(value)


def smallest(asked: float | str, full: int, eta: float, needed: float) -> float:
    """Return the smallest budget: the given one, or one that allows three promotions.

    full: the largest budget.
    needed: by default, the smallest budget is not smaller than this, unless the largest is.
    """
    if asked == "auto":
        return min(max(needed, full / eta**_PROMOTIONS), full)
    if float(asked) > full:
        raise InvalidArgument(f"min_resources={asked!r} must not exceed max_resources, which is {full}")
    return float(asked)


def text(scoring: Any) -> str:
    """Return scorers as text that is the same in every process: the name of a function, not its address."""
    if isinstance(scoring, Mapping):
        return str({name: text(scorer) for name, scorer in scoring.items()})
    return str(scoring.__qualname__) if inspect.isfunction(scoring) else repr(scoring)


def digest(*parts: Any) -> str:
    """Return a short hash of estimator, data and other parts of a search."""
    try:
        return str(joblib.hash(parts))[:12]
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"with a journal, estimator and data must be picklable, so that the search can be recognised: {error}"
        ) from error


class Folds:
    """A splitter for scikit-learn with fixed rows.

    All trials use the same rows, even if the original splitter shuffles in every call.

    folds: pairs of train and test rows.
    """

    def __init__(self, folds: Sequence[tuple[Rows, Rows]]) -> None:
        self.folds = list(folds)

    def split(self, *_: object, **__: object) -> list[tuple[Rows, Rows]]:
        return self.folds

    def subset(self, seed: int, fraction: float, labels: Rows | None = None) -> Folds:
        """Return folds with a fraction of the train rows and all test rows, so that losses of all budgets compare.

        seed: chooses the rows; a larger fraction contains all rows of a smaller one.
        labels: the class of every row, to keep the proportions of the classes.
        """
        if fraction >= 1:
            return self
        return Folds(
            [
                (_part(np.random.default_rng([seed, number]), train, fraction, labels), test)
                for number, (train, test) in enumerate(self.folds)
            ]
        )


def _part(rng: np.random.Generator, train: Rows, fraction: float, labels: Rows | None) -> NDArray[Any]:
    """Return a random part of the rows in their original order, which may be the order of time."""
    order = rng.permutation(np.asarray(train))
    if labels is not None:
        # Row i of the n rows of a class gets the place (i + 1/2) / n, so every prefix has the classes in proportion.
        place = np.empty(len(order))
        for label in np.unique(labels[order]):
            of_class = np.flatnonzero(labels[order] == label)
            place[of_class] = (np.arange(len(of_class)) + 0.5) / len(of_class)
        order = order[np.argsort(place, kind="stable")]
    return np.sort(order[: max(1, round(fraction * len(order)))])


def search_goals(objectives: Sequence[str] | None, constraints: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the goals of a search, as `BOHB` takes them: scores are maximised, times are minimised."""
    for name in objectives or ():
        if not isinstance(name, str) or name.startswith("-"):
            raise InvalidArgument(
                f"objectives: {name!r} must be the name of a scorer, 'score', 'fit_time' or 'score_time'; "
                "scores are maximised and times are minimised anyway"
            )
    named = [name if name in _TIMES else f"-{name}" for name in objectives or ["score"]]
    return {"objectives": named, "constraints": constraints}


def outcome_of_fits(fits: Sequence[Fit], metric: str | None, goals: Goals = PLAIN) -> Outcome:
    """Return the outcome of one trial: mean test scores and times, or a failure if every fit failed.

    fits: one per split.
    metric: the score that the search maximises, if there are several.
    goals: the values that the search decides by; a plain study has the negated mean score as its loss.
    """
    scores = [fit["test_scores"] if metric is None else fit["test_scores"][metric] for fit in fits]
    score = float(np.mean(scores))
    info = jsonable({"splits": [{name: fit[name] for name in _STORED if name in fit} for fit in fits]})
    errors = [fit["fit_error"] for fit in fits if fit.get("fit_error")]
    if errors and (len(errors) == len(fits) or not np.isfinite(score)):
        return replace(outcome_of_failure(errors[0]), info=info)
    if not np.isfinite(score):
        return Outcome(Status.DIVERGED, error=f"the mean test score is {score}, not a finite number", info=info)
    names = list(fits[0]["test_scores"]) if metric is not None else []
    values = {"loss": -score, "score": score}
    values |= {name: float(np.mean([fit["test_scores"][name] for fit in fits])) for name in names}
    values |= {name: float(np.mean([fit[name] for fit in fits])) for name in _TIMES}
    named = {name: value for name, value in values.items() if name in goals.names}
    if len(named) < len(goals.names):  # not the user's objective, but an argument of the search
        unknown = next(name for name in goals.names if name not in values)
        known = ", ".join(name for name in values if name != "loss")
        raise InvalidArgument(f"objectives or constraints: there is no {unknown!r}; the search knows {known}")
    return replace(outcome_of({"losses": named} if not goals.plain else -score, goals), info=info)


def outcome_of_failure(traceback: str) -> Outcome:
    """Return the outcome of a trial whose fits raised, with the last line of the traceback as error."""
    return Outcome(Status.CRASHED, error=traceback.strip().splitlines()[-1], traceback=traceback)


def measured(outcome: Outcome) -> bool:
    """Whether the trial has scores; it has none if all fits of its batch failed."""
    return "splits" in outcome.info


def fits_of(rows: Sequence[tuple[Trial, Outcome]], n_splits: int, error_score: float) -> list[Fit]:
    """Return the fits of all trials, split by split, as scikit-learn recorded them.

    error_score: the score of a trial without scores.
    """
    known = [outcome.info["splits"][0] for _, outcome in rows if measured(outcome)]
    failed: Fit = {"fit_time": np.nan, "score_time": np.nan}
    for name, value in known[0].items():
        if name.endswith("scores"):
            failed[name] = dict.fromkeys(value, error_score) if isinstance(value, Mapping) else error_score
    return [
        _numbers(split)
        for _, outcome in rows
        for split in (outcome.info["splits"] if measured(outcome) else [failed] * n_splits)
    ]


def _numbers(split: Mapping[str, Any]) -> Fit:
    """Convert the scores of a split back to floats: the journal stores NaN as text, because JSON has none."""
    return {
        name: {metric: float(score) for metric, score in value.items()} if isinstance(value, Mapping) else float(value)
        for name, value in split.items()
    }
