"""Convert scikit-learn's fits to outcomes that a journal can store, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from bohb.core.goals import PLAIN, Goals
from bohb.core.trial import Outcome, Status, Trial, jsonable, outcome_of
from bohb.errors import InvalidArgument

Fit: TypeAlias = dict[str, Any]  # scikit-learn's record of one fit: scores (a number, or one per metric) and times
_TIMES = ("fit_time", "score_time")
_STORED = ("test_scores", "train_scores", "fit_time", "score_time")


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
    values = {"loss": -score, "score": score, **_means(fits)}
    named = {name: value for name, value in values.items() if name in goals.names}
    if len(named) < len(goals.names):  # not the user's objective, but an argument of the search
        unknown = next(name for name in goals.names if name not in values)
        known = ", ".join(name for name in values if name != "loss")
        raise InvalidArgument(f"objectives or constraints: there is no {unknown!r}; the search knows {known}")
    return replace(outcome_of({"losses": named} if not goals.plain else -score, goals), info=info)


def _means(fits: Sequence[Fit]) -> dict[str, float]:
    """Return the mean of every named score and of the times over the splits."""
    scores = fits[0]["test_scores"]
    names = list(scores) if isinstance(scores, Mapping) else []
    found = {name: float(np.mean([fit["test_scores"][name] for fit in fits])) for name in names}
    return {**found, **{name: float(np.mean([fit[name] for fit in fits])) for name in _TIMES}}


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
