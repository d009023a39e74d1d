"""From a decision to the event that carries it out: which configuration, which seed, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bohb.core.decide import Restart, StartPromotion, StartSample, decide, twin
from bohb.core.events import Event, RungCut, TrialFinished, TrialStarted
from bohb.core.failures import Failures, fit_failures
from bohb.core.halving import Done, Wait
from bohb.core.history import History
from bohb.core.sampler import Model, Proposal, fit_model, min_points, model_budget, propose
from bohb.core.settings import TPE
from bohb.core.situation import Sampler, Situation, propose_with
from bohb.core.trial import Origin, Trial
from bohb.errors import InvalidArgument


class Now(NamedTuple):
    """The time of day, how long the study has been at work (both in seconds), and the session that acts."""

    time: float | None = None
    elapsed: float | None = None
    session: int | None = None


class Starter:
    """What starts next, given a history. It changes nothing; it only remembers the densities it has fitted.

    sampler: the function in the place of Algorithm 2's model, for a study that was created with one.
    """

    def __init__(self, history: History, sampler: Sampler | None = None) -> None:
        self._history = history
        self._sampler = sampler
        self._model: Model | None = None
        self._failures: Failures | None = None

    @property
    def history(self) -> History:
        """The history that it decides from."""
        return self._history

    def next_events(self, now: Now, max_brackets: int | None = None) -> list[Event]:
        """The events that start the next trial, or that make room for it; none if nothing can start."""
        match decide(self._history, max_brackets):
            case Restart(trial):
                return start_again(trial, now)
            case StartSample() as start:
                return self._sample(start, now)
            case StartPromotion() as start:
                return self._promote(start, now)
            case Wait() | Done():
                return []

    def model(self) -> Model | None:
        """The densities that the next proposal would use; None while there are too few results, or if it uses none."""
        history = self._history
        if history.settings.sampler != TPE:
            return None
        # Results of an earlier study on larger budgets than this one's would stand in the way for ever.
        observations = {b: d_b for b, d_b in history.observations.items() if b <= history.budgets[-1]}
        budget = model_budget(observations, min_points(history.space, history.settings), history.settings)
        if budget is None:
            return None
        d_b = history.observations[budget]
        if self._model is None or (self._model.budget, self._model.n) != (budget, len(d_b)):
            self._model = fit_model(history.space, budget, d_b, history.settings)
        return self._model

    def failures(self) -> Failures | None:
        """Where evaluations fail, as far as is known; None while none did."""
        history = self._history
        if not history.settings.avoid_failures or not history.recent_failed:
            return None
        n, n_failed = sum(len(d_b) for d_b in history.observations.values()), history.n_failures_known
        if self._failures is None or self._failures.n_ok + self._failures.n_failed != n:
            n_min = min_points(history.space, history.settings)
            self._failures = fit_failures(
                history.space.kernels, history.recent_ok, history.recent_failed, n - n_failed, n_failed, n_min
            )
        return self._failures

    def _sample(self, start: StartSample, now: Now) -> list[Event]:
        """A new configuration. Its generator depends on the seed and the trial's number alone."""
        number = len(self._history.trials)
        assert self._history.created is not None
        seed = self._history.created.seed
        proposal = self._propose(np.random.default_rng([seed, number]), start.budget)
        if proposal is None:
            return self._cut(start)
        trial = Trial(
            number=number,
            config=proposal.config,
            budget=start.budget,
            config_id=number,
            bracket=start.bracket,
            rung=start.rung,
            seed=int(np.random.default_rng([seed, number, 1]).integers(2**31)),
            origin=proposal.origin,
            reason=proposal.reason,
        )
        return [TrialStarted(trial, *now)]

    def _propose(self, rng: np.random.Generator, budget: float) -> Proposal | None:
        """The user's next configuration, or Algorithm 2's; in a finite space one that is new on this budget."""
        history = self._history
        space, settings = history.space, history.settings
        if history.given:
            return Proposal(history.given[0], Origin.GIVEN)
        may_repeat = not space.finite or settings.duplicates

        def new(config: Mapping[str, Any]) -> bool:
            return may_repeat or (history.key(config), budget) not in history.evaluated

        if settings.sampler == TPE:
            return propose(rng, space, settings, self.model, new, self.failures)
        if self._sampler is None:
            raise InvalidArgument(
                f"the sampler of this study is {settings.sampler!r}; to go on, open it with that function, sampler=…"
            )
        return propose_with(rng, self._sampler, Situation(history, budget, new, self.failures()))

    def _cut(self, start: StartSample) -> list[Event]:
        """Nothing new is left on this budget: end the rung, unless a whole round of brackets has come to nothing."""
        empty = 0
        for bracket in reversed(self._history.brackets):
            if not bracket.empty:
                break
            empty += 1
        return [] if empty >= len(self._history.round) else [RungCut(start.bracket, start.rung)]

    def _promote(self, start: StartPromotion, now: Now) -> list[Event]:
        """A survivor on the next rung; if its result there is known from another bracket, it is not run again."""
        history = self._history
        before = history.trials[start.number]
        reason: dict[str, Any] = {"from_trial": start.number, "loss": history.outcomes[start.number].loss}
        known = twin(history, start.number, start.budget)
        if known is not None:
            reason["reuses"] = known
        trial = replace(
            before,
            number=len(history.trials),
            budget=start.budget,
            bracket=start.bracket,
            rung=start.rung,
            origin=Origin.PROMOTED,
            previous_budget=before.budget,
            attempt=1,
            reason=reason,
        )
        started = TrialStarted(trial, *now)
        return [started] if known is None else [started, TrialFinished(trial.number, history.outcomes[known])]


def restart_lost(history: History, now: Now) -> list[Event]:
    """Start the cheapest of the trials again that lost their worker; nothing if none did."""
    lost = [history.pending[number] for number in history.lost]
    return start_again(min(lost, key=lambda trial: (trial.budget, trial.number)), now) if lost else []


def start_again(trial: Trial, now: Now) -> list[Event]:
    """The same trial, once more."""
    return [TrialStarted(replace(trial, attempt=trial.attempt + 1), *now)]
