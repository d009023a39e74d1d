"""From a decision to the event that carries it out: which configuration, which seed, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bohb.core.adaptive.adaptation import choose_bracket
from bohb.core.custom_sampler import Sampler, Situation, propose_with
from bohb.core.decide import PlanBracket, Restart, StartPromotion, StartSample, decide, twin
from bohb.core.density.sampler import (
    Allowed,
    Model,
    Proposal,
    fit_model,
    min_points,
    model_budget,
    propose,
    propose_by_density,
    propose_random,
)
from bohb.core.events import BracketPlanned, Event, RungCut, TrialFinished, TrialStarted
from bohb.core.failures import Failures, fit_failures
from bohb.core.history import History
from bohb.core.schedule.halving import Done, Wait
from bohb.core.settings import TPE
from bohb.core.trial import Origin, Trial
from bohb.errors import InvalidArgument

if TYPE_CHECKING:
    from bohb.core.gp.sampler import GaussianSampler


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
        self._gaussian: GaussianSampler | None = None

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
            case PlanBracket(index):
                return [self._plan(index)]
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
        if not history.settings.avoid_failures or not history.n_failures_known:
            return None
        n, n_failed = sum(len(d_b) for d_b in history.observations.values()), history.n_failures_known
        if self._failures is None or self._failures.n_ok + self._failures.n_failed != n:
            n_min = min_points(history.space, history.settings)
            self._failures = fit_failures(
                history.space.kernels,
                history.evidence.recent_ok,
                history.evidence.recent_failed,
                n - n_failed,
                n_failed,
                n_min,
            )
        return self._failures

    def _plan(self, index: int) -> Event:
        """The rungs of a bracket that is chosen. Its generator depends on the seed and the bracket's number alone."""
        history = self._history
        assert history.created is not None
        rng = np.random.default_rng([history.created.seed, index, 8])
        sizes = history.settings.bracket_sizes
        choice = choose_bracket(rng, history.budgets, history.created.eta, history.evidence.seen, sizes)
        return BracketPlanned(index, tuple((rung.budget, rung.size) for rung in choice.bracket.rungs), choice.reason)

    def _sample(self, start: StartSample, now: Now) -> list[Event]:
        """A new configuration. Its generator depends on the seed and the trial's number alone."""
        number = len(self._history.trials)
        assert self._history.created is not None
        seed = self._history.created.seed
        proposal = self._propose(np.random.default_rng([seed, number]), start)
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

    def _propose(self, rng: np.random.Generator, start: StartSample) -> Proposal | None:
        """The user's next configuration, or Algorithm 2's; in a finite space one that is new on this budget."""
        history = self._history
        space, settings = history.space, history.settings
        if history.given:
            return Proposal(space.restore(history.given[0]), Origin.GIVEN)
        may_repeat, budget = not space.finite or settings.duplicates, start.budget

        def new(config: Mapping[str, Any]) -> bool:
            return may_repeat or (history.key(config), budget) not in history.evaluated

        if settings.sampler == TPE and settings.model == "density":
            return propose(rng, space, settings, self.model, new, self.failures)
        if settings.sampler == TPE:
            return self._propose_beyond(rng, random_share(history, start.bracket), new)
        if self._sampler is None:
            raise InvalidArgument(
                f"the sampler of this study is {settings.sampler!r}; to go on, open it with that function, sampler=…"
            )
        return propose_with(rng, self._sampler, Situation(history, budget, new, self.failures()))

    def _propose_beyond(self, rng: np.random.Generator, share: float, new: Allowed) -> Proposal | None:
        """The share ρ at random; of the rest the process has its part, and the density the others.

        The process's part grows with the rungs that were seen: what the lowest alone says may mislead. Where it has
        nothing to say the density answers, and where that has not, the prior.
        """
        history = self._history
        space, settings = history.space, history.settings
        if rng.random() < share:
            return propose_random(rng, space, new, self.failures(), "random fraction")
        if self._gaussian is None:
            from bohb.core.gp.sampler import GaussianSampler  # slow to import, and most studies do without

            self._gaussian = GaussianSampler(space, settings)
        gp_share = 1.0 if settings.model == "gp" else settings.gp_share
        its_own = rng.spawn(1)[0]  # so that the density and the prior draw as they would without a process
        if its_own.random() < gp_share * self._gaussian.reach(history):
            proposal = self._gaussian.propose(its_own, history, new, self.failures())
            if proposal is not None:
                return proposal
        return propose_by_density(rng, space, settings, self.model, new, self.failures)

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
        reason: dict[str, Any] = {"loss": history.outcomes[start.number].loss}
        if start.number in history.promotions.at_random:
            reason["picked"] = "at random"  # to see whether rungs agree
        known = twin(history, start.number, start.budget)
        trial = replace(
            before,
            number=len(history.trials),
            budget=start.budget,
            bracket=start.bracket,
            rung=start.rung,
            origin=Origin.PROMOTED,
            previous_budget=before.budget,
            attempt=1,
            from_trial=start.number,
            reuses=known,
            reason=reason,
        )
        started = TrialStarted(trial, *now)
        return [started] if known is None else [started, TrialFinished(trial.number, history.outcomes[known])]


def random_share(history: History, bracket: int) -> float:
    """ρ in a bracket: from `random_fraction_at_top`, if it starts on the largest budget, up to `random_fraction`."""
    settings, steps = history.settings, len(history.budgets) - 1
    at_top = settings.random_fraction_at_top
    if at_top is None:
        return settings.random_fraction
    opened = bracket < len(history.brackets)  # perhaps before the budgets were raised
    plan = history.brackets[bracket].bracket if opened else history.bracket_plan(bracket)
    below = min(len(plan.rungs) - 1, steps)
    return at_top + (settings.random_fraction - at_top) * below / max(1, steps)


def restart_lost(history: History, now: Now) -> list[Event]:
    """Start the cheapest of the trials again that lost their worker; nothing if none did."""
    lost = [history.pending[number] for number in history.lost]
    return start_again(min(lost, key=lambda trial: (trial.budget, trial.number)), now) if lost else []


def start_again(trial: Trial, now: Now) -> list[Event]:
    """The same trial, once more."""
    return [TrialStarted(replace(trial, attempt=trial.attempt + 1), *now)]
