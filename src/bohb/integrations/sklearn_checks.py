"""Prepare a search: classes of the data, budgets, and an identifier of estimator and data."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from bohb.errors import InvalidArgument

_PROMOTIONS = 3  # possible with min_resource="auto"


def labels_of(estimator: Any, y: Any) -> NDArray[np.integer[Any]] | None:
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
            f"max_resource='auto' takes the estimator's {resource}, which is {value!r} and not a positive whole "
            "number; set max_resource"
        )
    return int(value)


def smallest(asked: float | str, full: int, eta: float) -> float:
    """Return the smallest budget: the given one, or one that allows three promotions.

    full: the largest budget.
    """
    if asked == "auto":
        return max(1.0, full / eta**_PROMOTIONS)
    if float(asked) > full:
        raise InvalidArgument(f"min_resource={asked!r} must not exceed max_resource, which is {full}")
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
