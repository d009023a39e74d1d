"""From a decision to the events that carry it out: which configuration, which seed, and why."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bohb.core import decide, streams
from bohb.core.events import BracketPlanned, BracketShortened, Event, RungCut, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.limits import UNLIMITED, Limits, Now, reason_to_stop
from bohb.core.samplers.chain import Sampler, Samplers
from bohb.core.samplers.density import Model
from bohb.core.samplers.proposal import Proposal, significant
from bohb.core.schedule import rules
from bohb.core.schedule.halving import Done, Wait
from bohb.core.times.deadline import InTime, TimeLeft, chosen_in_time, in_time
from bohb.core.times.durations import DurationLearner
from bohb.core.times.forecast import remaining
from bohb.core.trial import Origin, Trial, first_trial, promoted_trial

LOOK_AGAIN = 0.97  # share of the time left after which open brackets are looked at again …
LOOK_CLOSELY = 0.995  # … and while some of them will have to become smaller


class Decider:
    """Decides what a study does next, given its history. It changes nothing and only keeps fitted models.

    sampler: the user's function that replaces Algorithm 2's model, if the study was created with one.
    """

    def __init__(self, history: History, sampler: Sampler | None = None) -> None:
        self._history, self._function = history, sampler
        self._samplers = Samplers(history, sampler)
        self._n_forgotten = len(history.forgotten)
        self._looked: tuple[list[tuple[int, int]], float] = ([], math.inf)  # rungs and seconds at the last look
        self._in_time = InTime()
        self._durations = DurationLearner()

    @property
    def history(self) -> History:
        """The history that decisions are made from."""
        return self._history

    def next_events(self, now: Now, limits: Limits = UNLIMITED) -> list[Event]:
        """Return the events that start the next trial or prepare it; none if nothing can start.

        Once a limit is reached, only trials start that lost their worker or asked for another try.
        """
        time, elapsed = now.time or 0.0, now.elapsed
        if elapsed is None:  # nobody runs the trials: what counts is the time since the study was created
            elapsed = max(0.0, time - (self._history.study.time or time))
        left = self._time_left(now, limits.seconds_left(elapsed, time))
        waiting = decide.delayed(self._history, now.time)
        # if more wait than can run at once, the place is to blame, and new trials would only join them
        crowded = waiting and len(waiting) > (now.workers or max(1, len(self._history.running)))
        if crowded or reason_to_stop(limits, self._history, elapsed, time) is not None:
            return self.carry_out(decide.restart(self._history, left, now.time), now)
        return self.events_in_time(now, limits.max_brackets, left)

    def events_in_time(self, now: Now, max_brackets: int | None, left: TimeLeft | None) -> list[Event]:
        """Return the next events of a session that has reached no limit.

        left: the time until its deadline; None without a deadline.
        """
        if self._n_forgotten != len(self._history.forgotten):  # models were fitted to results that no longer count
            self._n_forgotten = len(self._history.forgotten)
            self._samplers = Samplers(self._history, self._function)
        changes = () if left is None else self._changes(left)
        kept = () if left is None else self._in_time.kept
        return [*changes] or self.carry_out(decide.decide(self._history, max_brackets, left, kept, now.time), now, left)

    def carry_out(self, decision: decide.Decision, now: Now, left: TimeLeft | None = None) -> list[Event]:
        """Return the events of a decision."""
        match decision:
            case decide.Restart(trial):
                return [started(replace(trial, attempt=trial.attempt + 1), now)]
            case decide.StartSample() as start:
                return self._sample(start, now)
            case decide.StartPromotion() as start:
                return self._promote(start, now)
            case decide.PlanBracket(index, None):
                return self._open(index, now, left)
            case decide.PlanBracket(index, budget):
                assert budget is not None
                return [BracketPlanned(index, ((budget, 1),), "given")]
            case Wait() | Done():
                return []

    def propose(self, rng: np.random.Generator, number: int, budget: float, bracket: int) -> Proposal | None:
        """Propose a configuration by Algorithm 2; None if nothing new is left on this budget.

        If the bracket leaves out the lower rungs because they do not pay, results on them do not count either.

        number: of the trial that will evaluate it.
        budget: the one that the configuration will be evaluated on first.
        bracket: the index of its bracket.
        """
        share = self._history.schedule.random_share(bracket)
        return self._samplers.propose(rng, number, budget, share, self._history.schedule.rule(bracket) == "skip")

    def model(self) -> Model | None:
        """Return the densities of the next proposal; None while there are too few results, or if it uses none."""
        return self._samplers.model()

    def _time_left(self, now: Now, seconds: float) -> TimeLeft | None:
        """Return what a decision has to know about the deadline; None if it changes nothing."""
        if seconds == math.inf or now.workers is None:
            return None
        model = self._durations.model(self._history)
        running = remaining(self._history, model, now.time or 0.0)
        return TimeLeft(seconds, now.workers, model, running, now.alone)

    def _changes(self, left: TimeLeft) -> tuple[BracketShortened, ...]:
        """Make open brackets smaller if they would end too late; looked at when a rung ends, and now and then."""
        rungs = [(index, self._history.brackets[index].rung) for index in self._history.schedule.open]
        again = (LOOK_CLOSELY if self._in_time.tight else LOOK_AGAIN) * self._looked[1]
        if rungs == self._looked[0] and left.seconds > again:
            return ()
        self._looked = rungs, left.seconds
        self._in_time = in_time(self._history, left)
        return self._in_time.events

    def _open(self, index: int, now: Now, left: TimeLeft | None) -> list[Event]:
        """Return the choice of the rungs of bracket `index`; if they are Hyperband's, the start of its first trial."""
        history = self._history
        rng = streams.bracket_stream(history.study.seed, index)
        planned = rules.chosen(history, index, rng, self._samplers.process)
        if left is not None:
            planned = chosen_in_time(history, index, planned, left, self._in_time.kept)
        if planned is None:
            run = decide.first_run(history, index)
            return self.carry_out(run, now) if left is None or decide.fits(history, run, left) else []
        return [planned] if left is None or left.fits(planned.rungs[0][0]) else []

    def _given(self, start: decide.StartSample) -> Proposal | None:
        """Return the user's configuration for this place; None if there is none."""
        history = self._history
        if history.schedule.rule(start.bracket) == "given":
            return Proposal(history.space.restore(history.given.on_budget[0].config), Origin.GIVEN)
        if history.given.anywhere:
            return Proposal(history.space.restore(history.given.anywhere[0]), Origin.GIVEN)
        return None

    def _sample(self, start: decide.StartSample, now: Now) -> list[Event]:
        """Start a new configuration."""
        number, seed = len(self._history.trials), self._history.study.seed
        proposal = self._given(start)
        if proposal is None:
            proposal = self.propose(streams.proposal_stream(seed, number), number, start.budget, start.bracket)
        if proposal is None:
            return self._cut(start)
        place = start.budget, start.bracket, start.rung
        trial = first_trial(number, proposal.config, *place, streams.trial_seed(seed, number), proposal.origin)
        trial = replace(trial, explains=proposal.explains, reason=proposal.reason)
        return [started(trial, now)]

    def _cut(self, start: decide.StartSample) -> list[Event]:
        """End the rung, as nothing new is left on this budget, unless a whole round of brackets stayed empty."""
        last = self._history.brackets[-len(self._history.schedule.round) :]
        whole_round = len(last) == len(self._history.schedule.round)
        return [] if whole_round and all(bracket.empty for bracket in last) else [RungCut(start.bracket, start.rung)]

    def _promote(self, start: decide.StartPromotion, now: Now) -> list[Event]:
        """Start a survivor on the next rung; if another bracket has its result there, take that one over."""
        history = self._history
        before = history.trials[start.number]
        reason: dict[str, Any] = {"loss": history.outcomes[start.number].loss, **self._place(start)}
        known = decide.twin(history, start.number, start.budget)
        trial = promoted_trial(before, len(history.trials), start.budget, start.bracket, start.rung)
        trial = replace(trial, reuses=known, reason=reason)
        start_event = started(trial, now)
        return [start_event] if known is None else [start_event, TrialFinished(trial.number, history.outcomes[known])]

    def _place(self, start: decide.StartPromotion) -> dict[str, Any]:
        """Return the place of a promoted trial in its rung, if the loss alone does not tell it."""
        history, before = self._history, self._history.trials[start.number]
        if history.goals.single:
            return {}
        rung = [n for n, t in history.trials.items() if (t.bracket, t.rung) == (before.bracket, before.rung)]
        rank = history.order.best_first(rung).index(start.number) + 1
        found: dict[str, Any] = {"rank": rank, "of": len(rung)}
        violation = history.violation(history.outcomes[start.number])
        if violation:
            return {**found, "violation": significant(violation)}
        return {**found, "front": 1 + int(history.order.levels(rung)[start.number])}


def started(trial: Trial, now: Now) -> TrialStarted:
    """Return the event that starts a trial."""
    return TrialStarted(trial, now.time, now.elapsed, now.session, now.client)
