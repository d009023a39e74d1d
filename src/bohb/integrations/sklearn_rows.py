"""Convert scikit-learn's fits to outcomes that a journal can store, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from bohb.core.trial import Outcome, Status, Trial, jsonable

Fit: TypeAlias = dict[str, Any]  # scikit-learn's record of one fit: scores (a number, or one per metric) and times
_STORED = ("test_scores", "train_scores", "fit_time", "score_time")


def outcome_of_fits(fits: Sequence[Fit], metric: str | None) -> Outcome:
    """Return the outcome of one trial: the negated mean test score as loss, or a failure if every fit failed.

    fits: one per split.
    metric: the score that the search maximises, if there are several.
    """
    scores = [fit["test_scores"] if metric is None else fit["test_scores"][metric] for fit in fits]
    loss = -float(np.mean(scores))
    info = jsonable({"splits": [{name: fit[name] for name in _STORED if name in fit} for fit in fits]})
    errors = [fit["fit_error"] for fit in fits if fit.get("fit_error")]
    if np.isfinite(loss) and len(errors) < len(fits):
        return Outcome(Status.OK, loss=loss, info=info)
    if errors:
        return replace(outcome_of_failure(errors[0]), info=info)
    return Outcome(Status.DIVERGED, error=f"the mean test score is {-loss}, not a finite number", info=info)


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
