"""Follows the trials of an Optuna study: their results as evaluations, their parameters as a space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from bohb.core.settings import Settings
from bohb.integrations.evaluations import Evaluations
from bohb.integrations.optuna_rungs import Steps
from bohb.integrations.optuna_space import InferredSpace

_WITH_ALL_PARAMETERS = (TrialState.COMPLETE, TrialState.PRUNED)
Config = dict[str, Any]


class Follower:
    """Follows one study. Each result on a rung is added once; a changed space starts it over.

    inferred: the space as far as it is known.
    evaluations: all results; None while the space is not known.
    """

    def __init__(self, steps: Steps, settings: Settings, seed: int) -> None:
        self._steps, self._settings, self._seed = steps, settings, seed
        self.inferred = InferredSpace([])
        self._begin()

    def _begin(self) -> None:
        self._added: dict[int, set[int]] = {}  # the rungs of unfinished trials that were added
        self._finished: set[int] = set()
        self._n_finished = 0  # all trials before this one have finished
        self._proposed: dict[int, Config] = {}  # of running trials, which may not have asked for all parameters yet
        self._running: dict[int, tuple[Config, int]] = {}  # configuration and next rung
        space = self.inferred.space
        self.evaluations = None if space is None else Evaluations(space, self._steps.ladder, self._settings, self._seed)

    def catch_up(self, trials: Sequence[FrozenTrial], sign: float) -> None:
        """Add what is new in the trials, which are all trials of the study by number."""
        begun = [trial for trial in trials[self._n_finished :] if trial.state != TrialState.WAITING]
        new = [trial for trial in begun if trial.number not in self._finished]
        if any(trial.state in _WITH_ALL_PARAMETERS and not self.inferred.covers(trial) for trial in new):
            self.inferred = InferredSpace([trial for trial in trials if trial.state in _WITH_ALL_PARAMETERS])
            self._begin()
            new = [trial for trial in trials if trial.state != TrialState.WAITING]
        if self.evaluations is not None:
            self._running = {}
            for trial in new:
                self._add(self.evaluations, trial, self._steps.results(trial, sign))

    def propose(self, number: int) -> dict[str, Any]:
        """Return the parameters of trial `number`; empty if the space is not known yet, or has nothing new left."""
        if self.evaluations is None:
            return {}
        running = [known for other, known in self._running.items() if other != number]
        config = self.evaluations.propose(number, running)
        if config is None:
            return {}
        self._proposed[number] = config
        self._running[number] = config, self._steps.ladder.first_rung(number)
        return self.inferred.params(config)

    def _add(self, evaluations: Evaluations, trial: FrozenTrial, results: dict[int, float]) -> None:
        config = self.inferred.config(trial.params) or self._proposed.get(trial.number)
        if config:
            added = self._added.setdefault(trial.number, set())
            for rung in sorted(results.keys() - added):
                evaluations.add(config, rung, results[rung])
                added.add(rung)
        if trial.state.is_finished():
            self._finish(trial.number)
        elif config:
            rung = self._steps.ladder.next_rung(trial.number, max(results, default=-1))
            self._running[trial.number] = config, rung

    def _finish(self, number: int) -> None:
        self._added.pop(number, None)
        self._proposed.pop(number, None)
        self._finished.add(number)
        while self._n_finished in self._finished:
            self._finished.remove(self._n_finished)
            self._n_finished += 1
