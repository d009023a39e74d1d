"""From a decision to the event that carries it out: which configuration, which seed, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bohb.core import streams
from bohb.core.adaptive.adaptation import Choice, choose_bracket
from bohb.core.custom_sampler import CustomSampler, Sampler
from bohb.core.deadline import Course, TimeLeft, course, fitting_bracket, planned_for_deadline
from bohb.core.decide import (
    Decision,
    PlanBracket,
    Restart,
    StartPromotion,
    StartSample,
    bracket_of,
    decide,
    ready_runs,
    twin,
)
from bohb.core.density.sampler import DensitySampler, Model, min_points
from bohb.core.events import BracketPlanned, Event, RungCut, TrialFinished, TrialStarted
from bohb.core.failures import Failures, fit_failures
from bohb.core.history import History
from bohb.core.proposal import Proposal, Proposer, Situation, propose_random, significant
from bohb.core.schedule.brackets import Bracket, Rung
from bohb.core.schedule.halving import Done, Wait
from bohb.core.schedule.schedule import GIVEN, REPEATS, SKIPS
from bohb.core.settings import TPE
from bohb.core.standings import best_first, levels
from bohb.core.trial import Origin, Trial
from bohb.errors import InvalidArgument

if TYPE_CHECKING:
    from bohb.core.gp.several import SeveralSampler

LOOK_AGAIN = 0.97  # share of the time left after which open brackets are looked at again …
LOOK_CLOSELY = 0.995  # … and while some of them will have to become smaller


class Now(NamedTuple):
    """The time of day, how long the study has been running (both in seconds), and the session that acts."""

    time: float | None = None
    elapsed: float | None = None
    session: int | None = None


class Starter:
    """Decides what starts next, given a history. It changes nothing and only caches fitted models.

    sampler: the user's function that replaces Algorithm 2's model, if the study was created with one.
    """

    def __init__(self, history: History, sampler: Sampler | None = None) -> None:
        self._history = history
        self._function = sampler
        self._density = DensitySampler()
        self._proposers: Sequence[Proposer] = ()
        self._largest_only: Proposer | None = None
        self._several: SeveralSampler | None = None
        self._failures: Failures | None = None
        self._n_forgotten = len(history.forgotten)
        self._looked: tuple[list[tuple[int, int]], float] = ([], math.inf)  # rungs and seconds at the last look
        self._course = Course(frozenset())

    @property
    def history(self) -> History:
        """The history that decisions are made from."""
        return self._history

    def next_events(self, now: Now, max_brackets: int | None = None, left: TimeLeft | None = None) -> list[Event]:
        """Return the events that start the next trial or prepare it; none if nothing can start.

        left: the time until the session's deadline; None without a deadline.
        """
        if self._n_forgotten != len(self._history.forgotten):  # models were fitted to results that no longer count
            self._n_forgotten = len(self._history.forgotten)
            self._density, self._proposers, self._several, self._failures = DensitySampler(), (), None, None
            self._largest_only = None
        if left is None:
            return self._carry_out(decide(self._history, max_brackets), now)
        return list(self._changes(left)) or self._in_time(left, now, max_brackets)

    def possible_events(self, now: Now) -> Iterator[list[Event]]:
        """Yield what could start next, in order; with a deadline, runs that would not end in time are passed over."""
        for run in ready_runs(self._history):
            yield self._carry_out(run, now)
        yield self._carry_out(decide(self._history, None, lambda _: False), now)

    def _carry_out(self, decision: Decision, now: Now) -> list[Event]:
        match decision:
            case Restart(trial):
                return start_again(trial, now)
            case StartSample() as start:
                return self._sample(start, now)
            case StartPromotion() as start:
                return self._promote(start, now)
            case PlanBracket(index, None):
                return [self._plan(index)]
            case PlanBracket(index, budget):
                assert budget is not None
                return [BracketPlanned(index, ((budget, 1),), {GIVEN: True})]
            case Wait() | Done():
                return []

    def _changes(self, left: TimeLeft) -> Sequence[Event]:
        """Make open brackets smaller if they would end too late; looked at when a rung ends, and now and then."""
        rungs = [(index, self._history.brackets[index].rung) for index in self._history.open_brackets]
        again = (LOOK_CLOSELY if self._course.tight else LOOK_AGAIN) * self._looked[1]
        if rungs == self._looked[0] and left.seconds > again:
            return ()
        self._looked = rungs, left.seconds
        self._course = course(self._history, left)
        return self._course.events

    def _in_time(self, left: TimeLeft, now: Now, max_brackets: int | None) -> list[Event]:
        """Start what ends before the deadline, brackets that end in time first; choose new ones accordingly."""
        history, kept = self._history, self._course.kept
        index, given = len(history.brackets), history.given.on_budget
        if given and left.fits(history, StartSample(index, 0, given[0].budget or 0.0)):
            return self._carry_out(decide(history, max_brackets), now)
        ready = [run for run in ready_runs(history) if left.fits(history, run)]
        if ready or given:
            return self._carry_out(min(ready, key=lambda run: bracket_of(run) not in kept, default=Wait()), now)
        decision = decide(history, max_brackets, lambda _: False)
        match decision:
            case PlanBracket():
                bracket = Bracket(tuple(Rung(budget, size) for budget, size in self._plan(index).rungs))
            case StartSample():
                bracket = history.bracket_plan(index)
            case StartPromotion() as start if left.fits(history, start):
                return self._carry_out(start, now)
            case _:
                return []
        chosen = bracket if index in history.planned else fitting_bracket(history, left, kept, bracket)
        if not left.fits(history, StartSample(index, 0, chosen.rungs[0].budget)):
            return []
        return self._carry_out(decision, now) if chosen == bracket else [planned_for_deadline(history, left, chosen)]

    def model(self) -> Model | None:
        """Return the densities of the next proposal; None while there are too few results, or if it uses none."""
        return self._density.model(self._history) if self._history.settings.sampler == TPE else None

    def failures(self) -> Failures | None:
        """Return where evaluations fail, as far as is known; None while none did."""
        history = self._history
        if not history.settings.avoid_failures or not history.n_failures_known:
            return None
        n, n_failed = sum(len(d_b) for d_b in history.observations.values()), history.n_failures_known
        if self._failures is None or self._failures.n_ok + self._failures.n_failed != n:
            n_min = min_points(history.space, history.settings)
            self._failures = fit_failures(
                history.space.coordinates,
                history.evidence.recent_ok,
                history.evidence.recent_failed,
                n - n_failed,
                n_failed,
                n_min,
            )
        return self._failures

    def _plan(self, index: int) -> BracketPlanned:
        """Choose the rungs of a bracket by how well the budgets agree."""
        history = self._history
        assert history.created is not None
        rng = streams.bracket_stream(history.created.seed, index)
        if history.schedule.informed:
            choice = self._informed(rng, index)
        else:
            sizes = history.settings.bracket_sizes
            choice = choose_bracket(rng, history.budgets, history.created.eta, history.evidence.seen, sizes)
        return BracketPlanned(index, tuple((rung.budget, rung.size) for rung in choice.bracket.rungs), choice.reason)

    def _informed(self, rng: np.random.Generator, index: int) -> Choice:
        """Choose whether a bracket leaves out the lower rungs, and whether it repeats one that is unfinished."""
        schedule = self._history.schedule
        usual = Choice(schedule.plan(index), {SKIPS: False})
        choice = self._by_worth(rng, index) if schedule.may_skip(index) else usual
        if choice.reason[SKIPS] or not schedule.repeats(index):
            return choice
        return Choice(schedule.last_in_order(index), {**choice.reason, REPEATS: True})

    def _by_worth(self, rng: np.random.Generator, index: int) -> Choice:
        """Choose whether a bracket leaves out the lower rungs, by what the process expects of them."""
        from bohb.core.adaptive.informed import choose_informed  # slow to import, like the process itself
        from bohb.core.gp.sampler import GaussianSampler

        process = (self._proposers or self._make_proposers())[0]
        assert isinstance(process, GaussianSampler)
        return choose_informed(rng, self._history, index, process)

    def _given(self, start: StartSample) -> Proposal | None:
        """Return the user's configuration for this place; None if there is none."""
        history = self._history
        if history.schedule.is_given(start.bracket):
            return Proposal(history.space.restore(history.given.on_budget[0].config), Origin.GIVEN)
        if history.given.anywhere:
            return Proposal(history.space.restore(history.given.anywhere[0]), Origin.GIVEN)
        return None

    def _sample(self, start: StartSample, now: Now) -> list[Event]:
        """Start a new configuration."""
        number = len(self._history.trials)
        assert self._history.created is not None
        seed = self._history.created.seed
        rng = streams.proposal_stream(seed, number)
        proposal: Proposal | None = self._given(start)
        if proposal is None:
            proposal = self.propose(rng, start.budget, start.bracket)
        if proposal is None:
            return self._cut(start)
        trial = Trial(
            number=number,
            config=proposal.config,
            budget=start.budget,
            config_id=number,
            bracket=start.bracket,
            rung=start.rung,
            seed=streams.trial_seed(seed, number),
            origin=proposal.origin,
            reason=proposal.reason,
        )
        return [TrialStarted(trial, *now)]

    def propose(self, rng: np.random.Generator, budget: float, bracket: int) -> Proposal | None:
        """Propose a configuration by Algorithm 2; None if nothing new is left on this budget.

        If the bracket leaves out the lower rungs because they do not pay, results on them do not count either.

        budget: the one that the configuration will be evaluated on first.
        bracket: the index of its bracket.
        """
        history = self._history
        proposers = self._proposers or self._make_proposers()
        if history.schedule.skips(bracket):
            proposers = (self._largest_only or self._make_largest_only(), *proposers)
        may_repeat = not history.space.finite or history.settings.duplicates

        def is_new(config: Mapping[str, Any]) -> bool:
            return may_repeat or (history.key(config), budget) not in history.evaluated

        situation = Situation(history, budget, is_new, self.failures())
        if rng.random() < self._random_share(bracket):
            likely = None if self._several is None else self._several.propose_likely(rng, situation)
            return likely if isinstance(likely, Proposal) else propose_random(rng, situation, "random fraction")
        why = ""
        for proposer in proposers:
            answer = proposer.propose(rng, situation)
            if isinstance(answer, Proposal):
                return answer
            why = answer.why
        return propose_random(rng, situation, why)

    def _random_share(self, bracket: int) -> float:
        """Return ρ for a bracket."""
        return self._history.settings.random_fraction if self._history.schedule.draws_at_random(bracket) else 0.0

    def _make_largest_only(self) -> Proposer:
        """Return the process that knows the results on the largest budget alone."""
        from bohb.core.gp.sampler import GaussianSampler  # slow to import, and most studies do without

        self._largest_only = GaussianSampler(self._history.space, largest_only=True)
        return self._largest_only

    def _make_proposers(self) -> Sequence[Proposer]:
        """Return the samplers that the settings name; each is asked if those before it decline."""
        space, settings, goals = self._history.space, self._history.settings, self._history.goals
        if settings.sampler == TPE and settings.model == "density":
            self._proposers = (self._density,)
        elif settings.sampler == TPE:
            from bohb.core.gp.sampler import GaussianSampler  # slow to import, and most studies do without
            from bohb.core.gp.several import SeveralSampler

            self._several = None if goals.single else SeveralSampler(space, goals)
            self._proposers = (self._several or GaussianSampler(space), self._density)
        elif self._function is not None:
            self._proposers = (CustomSampler(self._function),)
        else:
            raise InvalidArgument(
                f"the sampler of this study is {settings.sampler!r}; to go on, open it with that function, sampler=…"
            )
        return self._proposers

    def _cut(self, start: StartSample) -> list[Event]:
        """End the rung, as nothing new is left on this budget, unless a whole round of brackets stayed empty."""
        empty = 0
        for bracket in reversed(self._history.brackets):
            if not bracket.empty:
                break
            empty += 1
        return [] if empty >= len(self._history.round) else [RungCut(start.bracket, start.rung)]

    def _promote(self, start: StartPromotion, now: Now) -> list[Event]:
        """Start a survivor on the next rung; if another bracket has its result there, take that one over."""
        history = self._history
        before = history.trials[start.number]
        reason: dict[str, Any] = {"loss": history.outcomes[start.number].loss, **self._place(start)}
        if start.number in history.schedule.at_random:
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

    def _place(self, start: StartPromotion) -> dict[str, Any]:
        """Return the place of a promoted trial in its rung, if the loss alone does not tell it."""
        history, before = self._history, self._history.trials[start.number]
        if history.goals.single:
            return {}
        rung = [n for n, t in history.trials.items() if (t.bracket, t.rung) == (before.bracket, before.rung)]
        rank = best_first(history.goals, history.outcomes, rung).index(start.number) + 1
        found: dict[str, Any] = {"rank": rank, "of": len(rung)}
        violation = history.violation(history.outcomes[start.number])
        if violation:
            return {**found, "violation": significant(violation)}
        return {**found, "front": 1 + int(levels(history.goals, history.outcomes, rung)[start.number])}


def restart_lost(history: History, now: Now, left: TimeLeft | None = None) -> list[Event]:
    """Return the restart of the cheapest trial that lost its worker, and ends in time; nothing if none did."""
    lost = [history.pending[number] for number in history.lost]
    lost = [trial for trial in lost if left is None or left.fits(history, Restart(trial))]
    return start_again(min(lost, key=lambda trial: (trial.budget, trial.number)), now) if lost else []


def start_again(trial: Trial, now: Now) -> list[Event]:
    """Return the start of the next attempt of a trial."""
    return [TrialStarted(replace(trial, attempt=trial.attempt + 1), *now)]
