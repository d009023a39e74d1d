"""Proposals for a library that has trials and a schedule of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from bohb.core import streams
from bohb.core.decider import Decider
from bohb.core.events import BracketPlanned, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.settings import Settings
from bohb.core.space import Space
from bohb.core.trial import Origin, Outcome, Status, Trial
from bohb.integrations.rungs import Ladder
from bohb.optimizer.blas import one_thread

Config = dict[str, Any]


class Evaluations:
    """A history of evaluations that were scheduled elsewhere, and proposals from it.

    seed: decides the proposals, together with the number of the trial and the evaluations that are known.
    """

    def __init__(self, space: Space, ladder: Ladder, settings: Settings, seed: int) -> None:
        self._ladder, self._settings, self._seed = ladder, settings, seed
        created = StudyCreated(space.to_json(), ladder.budgets, ladder.eta, seed, settings.to_json())
        self._decider = Decider(History(space).extend([created]))

    @property
    def history(self) -> History:
        """The evaluations as a history."""
        return self._decider.history

    def add(self, config: Config, rung: int, loss: float) -> None:
        """Add an evaluation; +inf if it failed. It has a bracket of its own, since others decide who goes on."""
        history, budget = self.history, self._ladder.budgets[rung]
        bracket = len(history.brackets)
        trial = _trial(len(history.trials), config, budget, bracket)
        outcome = Outcome(Status.OK, loss) if math.isfinite(loss) else Outcome(Status.CRASHED)
        planned = BracketPlanned(bracket, ((budget, 1),), "given")
        history.extend([planned, TrialStarted(trial), TrialFinished(trial.number, outcome)])

    def propose(self, number: int, running: Iterable[tuple[Config, int]]) -> Config | None:
        """Return the configuration of trial `number`; None if a finite space has nothing new left.

        running: the configurations of running trials, and the rungs that they reach next.
        """
        ladder, first = self._ladder, self._ladder.first_rung(number)
        pending = (_trial(-1 - i, config, ladder.budgets[rung], 0) for i, (config, rung) in enumerate(running))
        with self.history.supposing(pending), one_thread(self._settings):
            rng = streams.proposal_stream(self._seed, number)
            # With one budget every trial is a bracket; with several, all brackets count as Hyperband's.
            proposal = self._decider.propose(rng, ladder.budgets[first], number)
        return None if proposal is None else proposal.config


def _trial(number: int, config: Config, budget: float, bracket: int) -> Trial:
    return Trial(number, config, budget, number, bracket, rung=0, seed=0, origin=Origin.MODEL)
