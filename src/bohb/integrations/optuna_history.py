"""The trials of an Optuna study as a history that the samplers of this package work on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from bohb.core import streams
from bohb.core.events import BracketPlanned, Event, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.policy import Starter, random_share_of
from bohb.core.settings import Settings
from bohb.core.trial import Origin, Outcome, Status, Trial
from bohb.integrations.optuna_rungs import Ladder
from bohb.integrations.optuna_space import InferredSpace
from bohb.optimizer.blas import one_thread

_WITH_ALL_PARAMETERS = (TrialState.COMPLETE, TrialState.PRUNED)


class Evaluations:
    """Follows the trials of one study. Each result on a rung is added once; a changed space starts it over.

    seed: decides the proposals, together with the number of the trial and the results that are known.
    """

    def __init__(self, ladder: Ladder, settings: Settings, seed: int) -> None:
        self._ladder, self._settings, self._seed = ladder, settings, seed
        self._inferred = InferredSpace([])
        self._begin()

    def _begin(self) -> None:
        self._starter: Starter | None = None
        self._proposed: dict[int, dict[str, Any]] = {}  # of running trials that have not yet asked for all parameters
        self._added: dict[int, set[int]] = {}  # the rungs of unfinished trials that were added
        self._finished: set[int] = set()
        self._n_finished = 0  # all trials before this one have finished
        if self._inferred.space is not None:
            created = StudyCreated(
                self._inferred.space.to_json(),
                self._ladder.budgets,
                self._ladder.eta,
                self._seed,
                self._settings.to_json(),
            )
            self._starter = Starter(History(self._inferred.space).extend([created]))

    @property
    def inferred(self) -> InferredSpace:
        """The space as far as it is known."""
        return self._inferred

    def catch_up(self, trials: Sequence[FrozenTrial], sign: float) -> None:
        """Add what is new in the trials, which are all trials of the study by number."""
        new = [
            t for t in trials[self._n_finished :] if t.number not in self._finished and t.state != TrialState.WAITING
        ]
        if any(trial.state in _WITH_ALL_PARAMETERS and not self._inferred.covers(trial) for trial in new):
            self._inferred = InferredSpace([trial for trial in trials if trial.state in _WITH_ALL_PARAMETERS])
            self._begin()
            new = [trial for trial in trials if trial.state != TrialState.WAITING]
        if self._starter is None:
            return
        history = self._starter.history
        history.pending = {}  # set below; Optuna's trials may end without a result, which no event describes
        running: list[Trial] = []
        for trial in new:
            results = self._ladder.results(trial, sign)
            config = self._inferred.config(trial.params) or self._proposed.get(trial.number)
            if config:
                self._add(history, trial.number, config, results)
            if trial.state.is_finished():
                self._finish(trial.number)
            elif config:
                rung = self._ladder.next_rung(trial.number, results)
                running.append(_trial(trial.number, config, self._ladder.budgets[rung], 0))
        history.pending = {trial.number: trial for trial in running}

    def propose(self, number: int) -> dict[str, Any]:
        """Return the parameters of trial `number`; empty if the space is not known yet, or has nothing new left."""
        if self._starter is None:
            return {}
        history, ladder = self._starter.history, self._ladder
        history.pending.pop(number, None)
        first = ladder.first_rung(number)
        share = random_share_of(self._settings, len(ladder.budgets) - first, len(ladder.budgets))
        with one_thread(self._settings):
            proposal = self._starter.propose(streams.proposal_stream(self._seed, number), ladder.budgets[first], share)
        if proposal is None:
            return {}
        self._proposed[number] = proposal.config
        return self._inferred.params(proposal.config)

    def _add(self, history: History, number: int, config: dict[str, Any], results: dict[int, float]) -> None:
        added = self._added.setdefault(number, set())
        for rung in sorted(results.keys() - added):
            history.extend(_evaluation(history, config, self._ladder.budgets[rung], results[rung]))
            added.add(rung)

    def _finish(self, number: int) -> None:
        self._added.pop(number, None)
        self._proposed.pop(number, None)
        self._finished.add(number)
        while self._n_finished in self._finished:
            self._finished.remove(self._n_finished)
            self._n_finished += 1


def _evaluation(history: History, config: dict[str, Any], budget: float, loss: float) -> list[Event]:
    """Return the events of one evaluation, in a bracket of its own: the pruner decides who goes on."""
    bracket = len(history.brackets)
    trial = _trial(len(history.trials), config, budget, bracket)
    ok = math.isfinite(loss)
    outcome = Outcome(Status.OK, loss) if ok else Outcome(Status.CRASHED)
    return [
        BracketPlanned(bracket, ((budget, 1),), {}),
        TrialStarted(trial),
        TrialFinished(trial.number, outcome),
    ]


def _trial(number: int, config: dict[str, Any], budget: float, bracket: int) -> Trial:
    return Trial(number, config, budget, number, bracket, rung=0, seed=0, origin=Origin.MODEL)
