"""Between scikit-learn's fits and our outcomes: what one trial measured, as a journal can hold it and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from bohb.core.trial import Outcome, Status, Trial, jsonable

Fit: TypeAlias = dict[str, Any]  # what scikit-learn notes of one fit: scores (a number, or one per metric) and times
_NOTED = ("test_scores", "train_scores", "fit_time", "score_time")


def outcome_of_fits(fits: Sequence[Fit], metric: str | None) -> Outcome:
    """The outcome of one trial: its loss is the mean test score of all splits, negated; failed if every fit failed.

    fits: one per split.
    metric: which score leads the search, if there are several.
    """
    scores = [fit["test_scores"] if metric is None else fit["test_scores"][metric] for fit in fits]
    loss = -float(np.mean(scores))
    info = jsonable({"splits": [{name: fit[name] for name in _NOTED if name in fit} for fit in fits]})
    errors = [fit["fit_error"] for fit in fits if fit.get("fit_error")]
    if np.isfinite(loss) and len(errors) < len(fits):
        return Outcome(Status.OK, loss=loss, info=info)
    if errors:
        return replace(outcome_of_failure(errors[0]), info=info)
    return Outcome(Status.DIVERGED, error=f"the mean test score is {-loss}, not a finite number", info=info)


def outcome_of_failure(traceback: str) -> Outcome:
    """The outcome of a trial whose fits raised; the last line of a traceback says what."""
    return Outcome(Status.CRASHED, error=traceback.strip().splitlines()[-1], traceback=traceback)


def leading_metric(refit: object, scores: object) -> str | None:
    """The score that the search maximises: the one of `refit`, else the first; None if there is only one."""
    if not isinstance(scores, Mapping):
        return None
    return refit if isinstance(refit, str) else str(next(iter(scores)))


def measured(outcome: Outcome) -> bool:
    """Whether the trial was scored at all; not if every fit beside it failed, too."""
    return "splits" in outcome.info


def fits_of(rows: Sequence[tuple[Trial, Outcome]], n_splits: int, error_score: float) -> list[Fit]:
    """The fits of all trials, split by split, as scikit-learn noted them.

    error_score: the score of a trial of which nothing is noted.
    """
    known = [outcome.info["splits"][0] for _, outcome in rows if measured(outcome)]
    unknown = {name: _filled(value, error_score) for name, value in known[0].items() if name.endswith("scores")}
    failed = {**unknown, "fit_time": np.nan, "score_time": np.nan}
    return [
        _numbers(split)
        for _, outcome in rows
        for split in (outcome.info["splits"] if measured(outcome) else [failed] * n_splits)
    ]


def batched(fits: Sequence[Fit], n: int) -> list[Sequence[Fit]]:
    """The fits of one trial after the other, n each."""
    return [fits[i : i + n] for i in range(0, len(fits), n)]


def _filled(value: object, score: float) -> object:
    return dict.fromkeys(value, score) if isinstance(value, Mapping) else score


def _numbers(split: Mapping[str, Any]) -> Fit:
    """The floats of a split again: JSON has no NaN, so the journal holds it as text."""
    return {
        name: {metric: float(score) for metric, score in value.items()} if isinstance(value, Mapping) else float(value)
        for name, value in split.items()
    }
