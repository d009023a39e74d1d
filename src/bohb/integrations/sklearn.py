"""BOHBSearchCV: BOHB as a search of scikit-learn, like GridSearchCV or HalvingRandomSearchCV."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bohb.core.limits import Limits, given_limits, reason_to_stop
from bohb.core.settings import PRESETS, Preset
from bohb.core.space import Space
from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.journal import Journal, open_journal
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.session import runner_name
from bohb.running.progress import Progress
from bohb.running.study import Study

try:
    from sklearn.base import is_classifier
    from sklearn.exceptions import FitFailedWarning
    from sklearn.model_selection import check_cv
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state, get_tags
    from sklearn.utils._param_validation import Interval, StrOptions
    from sklearn.utils.validation import _num_samples

    from bohb.integrations import sklearn_data as data
except ImportError as error:
    raise MissingExtra(f"BOHBSearchCV needs scikit-learn: {install_hint('sklearn')}") from error

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

__all__ = ["BOHBSearchCV"]


class BOHBSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """Hyperparameter search with cross-validation by BOHB.

    It has the methods and fitted attributes of scikit-learn's own searches. `cv_results_` has one row per trial, with
    the additional columns `trial`, `bracket`, `rung` and `n_resources`. `best_index_` is the row with the best score
    among those with the largest `n_resources`. `study_` is the study, as returned by `bohb.minimize`.

    estimator: an estimator or pipeline; it needs a `score` method, unless `scoring` is given.
    space: a ConfigSpace, or a dict such as {"alpha": (1e-6, 1.0, "log"), "activation": ["relu", "tanh"]}.
    resource: the unit of budgets: "n_samples", or an integer parameter such as "n_estimators" or "clf__max_iter".
    min_resources, max_resources: the smallest and the largest budget. The largest is by default ("auto") all samples,
        or the estimator's own value; the smallest is the largest divided by eta three times, and with "n_samples" at
        least two samples per split and class.
    eta: a rung keeps the best 1/eta of its configurations.
    preset: "best" (the strongest in our measurements), "paper" (BOHB as published) or "hpbandster".
    max_brackets, max_trials, max_cost, max_seconds: limits, checked before each batch. The unit of the cost is one
        evaluation with `max_resources`; every fit starts from scratch and counts in full. Default: one round of
        Hyperband's brackets.
    batch_size: number of trials that are chosen together and run in parallel if n_jobs allows. The result depends on
        it, but not on n_jobs.
    scoring, refit, cv, n_jobs, verbose, error_score, return_train_score: as for `RandomizedSearchCV`. With several
        metrics, the search maximises the one that `refit` names, or else the first, unless `objectives` has several.
        `verbose=1` also shows the progress of the study.
    objectives: the names of scorers, which are maximised, and of "fit_time" and "score_time", which are minimised; a
        single scorer is called "score". `study_.front` has the best compromises. Default: one score.
    constraints: bounds of the same values by name, such as {"score_time": "<= 10ms"}: mean seconds per split. A
        configuration that keeps them is better than one that does not.
    random_state: seed for configurations and samples; the estimator has its own.
    journal: a file such as "search.db" that stores every trial. A search with the same data, estimator, splits and
        scoring resumes from it; any other search gets a separate study in the same file.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: rule for name, rule in BaseSearchCV._parameter_constraints.items() if name != "pre_dispatch"},
        "space": "no_validation",  # checked by the study, with better messages
        "resource": [str],
        "min_resources": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "max_resources": [Interval(Integral, 0, None, closed="neither"), StrOptions({"auto"})],
        "eta": [Interval(Real, 1, None, closed="neither")],
        "preset": [StrOptions(set(PRESETS))],
        "max_brackets": [Interval(Integral, 1, None, closed="left"), None],
        "max_trials": [Interval(Integral, 1, None, closed="left"), None],
        "max_cost": [Interval(Real, 0, None, closed="neither"), None],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "objectives": [list, tuple, None],
        "constraints": [dict, None],
        "random_state": ["random_state"],
        "journal": "no_validation",
    }

    def __init__(
        self,
        estimator: Any,
        space: Space | ConfigurationSpace | Mapping[str, Any],
        *,
        resource: str = "n_samples",
        min_resources: float | str = "auto",
        max_resources: int | str = "auto",
        eta: float = 3,
        preset: Preset = "best",
        max_brackets: int | None = None,
        max_trials: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        batch_size: int = 4,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        objectives: Sequence[str] | None = None,
        constraints: Mapping[str, str] | None = None,
        random_state: Any = None,
        journal: str | Path | Journal | None = None,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space, self.objectives, self.constraints = space, objectives, constraints
        self.resource, self.min_resources, self.max_resources, self.eta = resource, min_resources, max_resources, eta
        self.max_brackets, self.max_trials, self.max_cost = max_brackets, max_trials, max_cost
        self.max_seconds, self.batch_size, self.preset = max_seconds, batch_size, preset
        self.random_state, self.journal = random_state, journal

    def fit(self, X: Any, y: Any = None, **params: Any) -> BOHBSearchCV:
        """Search, then fit the best configuration on all the data, unless `refit` is False.

        X, y: the data.
        params: passed on to the estimator, the scorers and the splitter, as scikit-learn routes them.
        """
        self._data = X, y, params
        try:
            super().fit(X, y, **params)
        finally:  # keep only scikit-learn's attributes and the study
            for name in ("_data", "_folds", "_labels", "_n_rows", "_fits", "_table", "_seed"):
                self.__dict__.pop(name, None)
        self._warn_of_a_small_budget()
        return self

    def _prepare(self) -> None:
        X, y, params = self._data
        splitter = getattr(self, "_checked_cv_orig", None)  # scikit-learn 1.6 does not keep it
        if splitter is None:
            splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        self._folds = data.Folds(list(splitter.split(X, y, **self._get_routed_params_for_fit(params).splitter.split)))
        self._n_rows = _num_samples(X)
        self._labels = data.labels_of(self.estimator, y)
        self.max_resources_ = data.largest(self.estimator, self.resource, self.max_resources, self._n_rows)

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        """Ask, evaluate, tell; called by scikit-learn's `fit`."""
        self._prepare()
        with ExitStack() as stack:
            optimizer = self._optimizer(stack)
            limits = Limits(
                max_brackets=self.max_brackets,
                max_trials=self.max_trials,
                max_seconds=self.max_seconds,
                max_reported_cost=self.max_cost,
            ).or_one_round(optimizer.history)
            optimizer.session.begin(runner_name(shared=False), limits=given_limits(limits))
            self.min_resources_ = int(optimizer.history.budgets[0])
            self._table: dict[str, Any] = {}
            self._fits: list[data.Fit] = []
            self._seed = optimizer.history.study.seed
            progress = stack.enter_context(Progress(limits)) if self.verbose > 0 else None
            while trials := optimizer.ask_many(self.batch_size, limits):
                if progress is not None:
                    progress.update(optimizer.history, optimizer.session.seconds)
                optimizer.tell_many(zip(trials, self._evaluate(trials, evaluate_candidates), strict=True))
            stopped = reason_to_stop(limits, optimizer.history, optimizer.session.seconds) or "no trial is left to run"
            self.study_ = Study(optimizer.history, stopped)
            if progress is not None:
                progress.update(optimizer.history, optimizer.session.seconds, final=True)
        rows = [(trial, outcome) for trial, outcome in self.study_.trials if outcome is not None]
        scored = [trial for trial, outcome in rows if data.measured(outcome)]
        if not rows:
            raise InvalidArgument(f"max_seconds={self.max_seconds!r} is over before the first trial; raise it")
        if not scored:
            raise ValueError(rows[-1][1].traceback)  # scikit-learn's own message: all fits failed
        if not self._fits:  # all trials are in the journal, but scikit-learn needs an evaluation
            best = self.study_.incumbent
            self._evaluate([scored[0] if best is None else best.trial], evaluate_candidates)
        self._fill_table(rows)

    def _warn_of_a_small_budget(self) -> None:
        """Say so if the best result is not on the largest budget; the warning names the user's call of `fit`."""
        history, full = self.study_.history, self.max_resources_
        best = history.incumbent
        if best is not None and best.budget < full:
            why = "keeps the constraints" if full in history.best else "has finished; raise the limits of the search"
            where = f"{self.resource}={best.budget:g}, not from the largest, {full}"
            warnings.warn(f"best_params_ is from {where}: no trial there {why}", UserWarning, stacklevel=3)

    def _optimizer(self, stack: ExitStack) -> BOHB:
        space = self.space if isinstance(self.space, Space) else Space(self.space)
        if self.resource in space.names:
            raise InvalidArgument(f"resource={self.resource!r} must not be one of the hyperparameters of the space")
        # As in HalvingRandomSearchCV: two samples of each class for each split.
        classes = 1 if self._labels is None else int(self._labels.max()) + 1
        needed = 2.0 * classes * len(self._folds.folds) if self.resource == "n_samples" else 1.0
        min_budget = data.smallest(self.min_resources, self.max_resources_, self.eta, needed)
        journal = seed = None
        if self.journal is not None:
            goals = [[self.objectives, self.constraints]] if self.objectives or self.constraints else []
            searched = (self.estimator, *self._data, self._folds.folds, self.resource, data.text(self.scoring), *goals)
            journal = open_journal(self.journal, f"{type(self.estimator).__name__}-{data.digest(*searched)}")
            if journal is not self.journal:
                stack.callback(journal.close)
        if journal is None or self.random_state is not None:  # a stored study keeps its seed
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return BOHB(
            space,
            **data.search_goals(self.objectives, self.constraints),
            min_budget=min_budget,
            max_budget=self.max_resources_,
            eta=self.eta,
            preset=self.preset,
            integer_budgets=True,
            seed=seed,
            journal=journal,
        )

    def _evaluate(self, trials: Sequence[Trial], evaluate_candidates: Callable[..., Any]) -> list[Outcome]:
        """Cross-validate trials; those with the same rows together."""
        outcomes: list[Outcome] = []
        for fraction, same in groupby(trials, key=self._fraction):
            group = list(same)
            folds = self._folds.subset(self._seed, fraction, self._labels)
            started = time.time()
            try:
                evaluate_candidates([self._params(trial) for trial in group], folds)
            except ValueError as error:
                if "fits failed" not in str(error):  # scikit-learn says this if none of a whole batch succeeds
                    raise
                warnings.warn(f"{error}\nTheir scores are set to {self.error_score}.", FitFailedWarning, stacklevel=2)
                ended = [data.outcome_of_failure(str(error))] * len(group)
            else:
                n = len(folds.folds)
                fits = self._fits[-len(group) * n :]
                parts = [fits[i : i + n] for i in range(0, len(fits), n)]
                goals = group[0].goals
                ended = [data.outcome_of_fits(part, self._leading(part), goals) for part in parts]
            stamped = [replace(outcome, started=started, finished=time.time()) for outcome in ended]
            costs = [trial.budget / float(self.max_resources_) for trial in group]
            outcomes += [replace(outcome, cost=cost) for outcome, cost in zip(stamped, costs, strict=True)]
        return outcomes

    def _fraction(self, trial: Trial) -> float:
        return trial.budget / self._n_rows if self.resource == "n_samples" else 1.0

    def _params(self, trial: Trial) -> dict[str, Any]:
        budget = {} if self.resource == "n_samples" else {self.resource: int(trial.budget)}
        return {**trial.config, **budget}

    def _leading(self, fits: Sequence[data.Fit]) -> str | None:
        """Return the score that the search maximises: that of `refit`, else the first; None if there is only one."""
        scores = fits[0]["test_scores"]
        if not isinstance(scores, Mapping):
            return None
        self._check_refit_for_multimetric(scores)
        return self.refit if isinstance(self.refit, str) else str(next(iter(scores)))

    def _format_results(
        self,
        candidate_params: Sequence[dict[str, Any]],  # noqa: ARG002 - scikit-learn's signature
        n_splits: int,  # noqa: ARG002
        out: list[data.Fit],
        more_results: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Store the fits so far; scikit-learn calls this after each batch, and the table is filled at the end."""
        self._fits = out
        return self._table

    def _fill_table(self, rows: Sequence[tuple[Trial, Outcome]]) -> None:
        """Fill cv_results_ from the study, so that it does not matter which trials ran in this call."""
        error_score = np.nan if isinstance(self.error_score, str) else self.error_score
        columns = {
            "trial": [trial.number for trial, _ in rows],
            "bracket": [trial.bracket for trial, _ in rows],
            "rung": [trial.rung for trial, _ in rows],
            "n_resources": [int(trial.budget) for trial, _ in rows],
        }
        if self.constraints:
            columns["feasible"] = [self.study_.history.violation(outcome) == 0 for _, outcome in rows]
        params, n_splits = [self._params(trial) for trial, _ in rows], len(self._folds.folds)
        fits = data.fits_of(rows, n_splits, error_score)
        self._table.update(super()._format_results(params, n_splits, fits, columns))

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: Mapping[str, Any]) -> int:
        """Return the incumbent's row: the largest budget counts first, then the highest score.

        With constraints, only rows that keep them count, if there are any.
        """
        if callable(refit):
            return int(BaseSearchCV._select_best_index(refit, refit_metric, results))
        scores, resources = results[f"mean_test_{refit_metric}"], results["n_resources"]
        known = np.flatnonzero(np.isfinite(scores))
        if len(known) == 0:
            return 0
        feasible = known[np.asarray(results.get("feasible", [False] * len(scores)), dtype=bool)[known]]
        known = feasible if len(feasible) else known
        full = known[resources[known] == resources[known].max()]
        return int(full[np.argmax(scores[full])])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = get_tags(self.estimator).target_tags.multi_output
        tags.array_api_support = False
        return tags
