"""Follows the trials of an Optuna study: which rungs they have reached with which losses, and what to run next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bohb.core.settings import Settings
from bohb.errors import InvalidArgument
from bohb.integrations.foreign import Config, Ladder, Proposals, Results, finite_or_inf
from bohb.integrations.optuna_space import InferredSpace

_WITH_ALL_PARAMETERS = (TrialState.COMPLETE, TrialState.PRUNED)


def one_more(step: int) -> float:
    """Return the budget of a step counted from 0: after epoch 0, one epoch has been spent."""
    return step + 1


def sign(study: Study) -> float:
    """Return what turns a value of the study into a loss: −1 if it is maximised."""
    if len(study.directions) != 1:
        raise InvalidArgument(f"the study has {len(study.directions)} objectives; BOHB needs exactly one")
    return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0


@dataclass(frozen=True, slots=True)
class Steps:
    """The rungs that sampler and pruner share, and how trials reach them.

    budget_of_step: the budget that has been spent when `trial.report(value, step)` is called.
    """

    ladder: Ladder
    budget_of_step: Callable[[int], float]

    def reported(self, values: Mapping[int, float], sign: float) -> dict[int, float]:
        """Return the losses of intermediate values by rung, ascending; +inf for NaN and infinities.

        The first value at or after a budget counts on its rung. A value that is the first after several budgets counts
        on the highest of them only.
        """
        found: dict[int, float] = {}
        reached = -1
        for step in sorted(values):
            rung = self.ladder.rung_at(self.budget_of_step(step))
            if rung > reached:
                reached, found[rung] = rung, finite_or_inf(values[step], sign)
        return found

    def results(self, trial: FrozenTrial, sign: float) -> dict[int, float]:
        """Return the losses of a trial by rung, ascending; the value of a complete trial counts on the highest."""
        found, top = self.reported(trial.intermediate_values, sign), self.ladder.top
        if trial.state != TrialState.PRUNED:
            found.pop(top, None)  # the final value is yet to come, or replaces it
        if trial.state == TrialState.COMPLETE:
            found[top] = finite_or_inf(trial.value, sign)
        return found


class Follower:
    """Follows one study. Each result on a rung is added once; a changed space starts it over.

    inferred: the space as far as it is known.
    results: the results of the trials whose parameters are known.
    proposals: None while the space is not known.
    """

    def __init__(self, steps: Steps, settings: Settings, seed: int) -> None:
        self._steps, self._settings, self._seed = steps, settings, seed
        self._begin([])

    def _begin(self, known: Sequence[FrozenTrial]) -> None:
        """Infer the space from trials with all their parameters, and forget the rest."""
        self.inferred = InferredSpace(known)
        self.results: Results[int] = Results(self._steps.ladder)
        self._configs: dict[int, Config] = {}  # as proposed, until a trial has asked for all its parameters
        self._running: set[int] = set()
        self._finished: set[int] = set()
        space = self.inferred.space
        self.proposals = None if space is None else Proposals(space, self.results, self._settings, self._seed)

    def catch_up(self, trials: Sequence[FrozenTrial], sign: float) -> None:
        """Add what is new in the trials, which are all trials of the study by number."""
        begun = [trial for trial in trials if trial.state != TrialState.WAITING]
        new = [trial for trial in begun if trial.number not in self._finished]
        if any(trial.state in _WITH_ALL_PARAMETERS and not self.inferred.covers(trial) for trial in new):
            self._begin([trial for trial in trials if trial.state in _WITH_ALL_PARAMETERS])
            new = begun
        if self.proposals is not None:
            self._running.clear()
            for trial in new:
                self._add(trial, sign)

    def propose(self, number: int) -> dict[str, Any]:
        """Return the parameters of trial `number`; empty if the space is not known yet, or has nothing new left."""
        if self.proposals is None:
            return {}
        config = self.proposals.propose(number, self._configs, self._running - {number})
        if config is None:
            return {}
        self._configs[number] = config
        self._running.add(number)
        return self.inferred.params(config)

    def _add(self, trial: FrozenTrial, sign: float) -> None:
        number, finished = trial.number, trial.state.is_finished()
        config = self.inferred.config(trial.params) or self._configs.get(number)
        if config:
            self._configs[number] = config
            for rung, loss in self._steps.results(trial, sign).items():
                self.results.add(number, rung, loss)
            if trial.state == TrialState.FAIL:
                self.results.fail(number)
            elif not finished:
                self._running.add(number)
        if finished:
            self._finished.add(number)
