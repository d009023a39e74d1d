"""History: a study's events folded into what decisions are made from.

Compiling the space and encoding configurations is left until somebody needs vectors, so that commands which only count
and compare (`bohb status`) import neither numpy nor ConfigSpace.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bohb.core import events
from bohb.core.confirm import Confirmation, Repeat, begun, continued
from bohb.core.encoding import digest
from bohb.core.goals import PLAIN, goals_of
from bohb.core.results import Evidence, Leaders, Result
from bohb.core.schedule.halving import Halving
from bohb.core.schedule.schedule import Given, Schedule
from bohb.core.settings import Settings
from bohb.core.trial import Outcome, Trial
from bohb.errors import JournalError, NoResult
from bohb.units import counted

if TYPE_CHECKING:
    from bohb.core.order import Order
    from bohb.core.space import Space

_EMPTY = "the history is empty: a study begins with a StudyCreated event"


class History:
    """The state of a study. It changes only through `apply`, and depends on nothing but the events.

    trials: every trial that was started, by number; the last attempt of each.
    outcomes: the outcomes of finished trials, by number.
    pending: the trials that have started and not finished, by number.
    lost: the pending trials whose worker disappeared and that will be started again, with the reason.
    losses: how often a trial lost its worker.
    retries: each time that a trial has asked to be started again, by number.
    given_up: the (number, attempt) pairs that were declared lost; results that still arrive are late.
    sessions: the runners that worked on the study, in order.
    shortened: the changes of open brackets that had to end before a deadline.
    forgotten: the failed trials that are not evidence because the objective was broken; brackets keep their places.
    starts: how the pending trials were started last: by which session, for which client, and when.
    started: when every trial was started last, in seconds since the epoch.
    seconds: how long the study has been running, over all sessions.
    waits: the seconds between the start of a finished trial and its end in which its objective did not run, by number.
    given: the user's configurations that have not been started yet.
    late, notes: late results, and the user's notes, in the order of their arrival; no decision uses them.
    schedule: its brackets, and what each of them can start.
    confirmations, repeats: new evaluations of promising configurations, and the same in the order of their arrival.
    goals: the objectives and constraints.
    """

    def __init__(self, space: Space | None = None) -> None:
        self._space = space
        self.created: events.StudyCreated | None = None
        self.n_events = self.n_failed = 0
        self.trials: dict[int, Trial] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.pending: dict[int, Trial] = {}
        self.lost: dict[int, str] = {}
        self.losses: dict[int, int] = {}
        self.retries: dict[int, tuple[events.TrialLost, ...]] = {}
        self.given_up: set[tuple[int, int]] = set()
        self.late: list[events.ResultLate] = []
        self.starts: dict[int, events.TrialStarted] = {}
        self.started: dict[int, float | None] = {}
        self.given = Given()
        self.observed: list[events.ObservationAdded] = []
        self.notes: list[events.NoteAdded] = []
        self._leaders = Leaders()
        self.sessions: list[events.SessionStarted] = []
        self.shortened: list[events.BracketShortened] = []
        self.n_before_session = 0  # trials that had finished when the last session began
        self.forgotten: set[int] = set()
        self.confirmations: list[Confirmation] = []
        self.repeats: list[Repeat] = []
        self.seconds = 0.0
        self.waits: dict[int, float] = {}
        self.budget_spent = 0.0  # by started trials, beyond what their configurations had reached before
        self.spent_at_improvement = self.cost_reported = 0.0
        self._evidence = Evidence()
        self._evaluated: dict[tuple[bytes, float], int] = {}
        self._n_indexed = 0  # trials that `_evaluated` knows

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the mistake if somebody asks for what only the first event brings."""
            if name in ("settings", "schedule", "goals"):
                raise JournalError(_EMPTY)
            raise AttributeError(f"a History has no attribute {name!r}")

    def __str__(self) -> str:
        """Return the number of trials and the best result."""
        best = self.incumbent
        shown = f", best {self.goals.described(best.loss, best.values)} on budget {best.budget:g}" if best else ""
        return f"{counted(len(self.trials), 'trial')}, {len(self.outcomes)} finished{shown}"

    def __repr__(self) -> str:
        return f"<History of {self}>"

    @property
    def study(self) -> events.StudyCreated:
        """What determines the study, apart from the results: the first event."""
        if self.created is None:
            raise JournalError(_EMPTY)
        return self.created

    @property
    def space(self) -> Space:
        """The search space, compiled when it is first needed."""
        if self._space is None:
            from bohb.core.space import Space

            self._space = Space.from_json(self.study.space)
        return self._space

    @property
    def study_key(self) -> str:
        """An identifier of the study that does not depend on where it is stored."""
        return digest(self.study)

    @property
    def evidence(self) -> Evidence:
        """The results that models are fitted to, those of earlier studies included, as vectors."""
        self._evidence.encode(self.space, self.trials, self.outcomes)
        return self._evidence

    @property
    def evaluated(self) -> dict[tuple[bytes, float], int]:
        """In a finite space, the trial that evaluates a configuration on a budget; empty in other spaces."""
        if self.space.finite:
            for number, trial in itertools.islice(self.trials.items(), self._n_indexed, None):
                if number not in self.forgotten:
                    self._evaluated.setdefault((self.key(trial.config), trial.budget), number)
            self._n_indexed = len(self.trials)
        return self._evaluated

    @property
    def incumbent(self) -> Result | None:
        """The best result so far: the lowest loss on the largest budget that has results.

        With constraints, results that keep them come first, whatever their budget; while there are none, it is the
        result that violates them least (`Result.feasible` is False). With several objectives, the first one counts.
        """
        return self.trajectory[-1] if self.trajectory else None

    @property
    def front(self) -> list[Result]:
        """The results that keep the constraints and that no other dominates, on the largest budget that has any.

        They come by their first loss. With one objective it is the incumbent alone.
        """
        return self._leaders.front()

    def front_on(self, budget: float) -> list[Result]:
        """Return the same on one budget."""
        return self._leaders.front(budget)

    @property
    def trajectory(self) -> list[Result]:
        """All incumbents in order; the last one is current."""
        return self._leaders.trajectory

    @property
    def best(self) -> dict[float, Result]:
        """The best result per budget: the lowest loss among those that keep the constraints, or the least violation."""
        return self._leaders.best

    @property
    def order(self) -> Order:
        """How finished trials compare."""
        from bohb.core.order import Order  # imports numpy

        return Order(self.goals, self.outcomes)

    def violation(self, outcome: Outcome) -> float:
        """Return by how much an outcome violates the constraints; 0 if it keeps them, +inf if it failed."""
        return self.goals.standing(outcome.loss, outcome.values)[0]

    def require_incumbent(self) -> Result:
        """Return the incumbent. Raises NoResult if no trial has succeeded yet."""
        if self.incumbent is None:
            n = len(self.outcomes)
            done = f"all {n} finished trials failed" if n else "none has finished"
            raise NoResult(f"no trial has succeeded yet ({done}); `incumbent` is None until one does")
        return self.incumbent

    @property
    def results(self) -> list[Result]:
        """All successful evaluations, in the order in which they finished."""
        return [Result(self.trials[n], o, self.violation(o)) for n, o in self.outcomes.items() if o.ok]

    @property
    def running(self) -> dict[int, Trial]:
        """The trials that are being evaluated."""
        return {n: trial for n, trial in self.pending.items() if n not in self.lost}

    def owner(self, number: int) -> int | None:
        """Return the session that started a pending trial, if several runners share the study."""
        return self.starts[number].session

    @property
    def brackets(self) -> list[Halving]:
        """Every bracket opened so far."""
        return self.schedule.brackets

    @property
    def budgets(self) -> tuple[float, ...]:
        """The current budgets, ascending."""
        return self.schedule.budgets

    def alive(self) -> set[int]:
        """Return the config_ids that can still be promoted, and those of the incumbent and the front."""
        return {self.trials[number].config_id for number in self.schedule.alive()} | self.leading

    @property
    def leading(self) -> set[int]:
        """The config_ids of the incumbent and the front."""
        return {result.trial.config_id for result in (*self.front, *self.trajectory[-1:])}

    def key(self, config: Mapping[str, Any]) -> bytes:
        """Return bytes that are equal exactly for equal configurations."""
        return self.space.encode(config).tobytes()

    def extend(self, more: Iterable[events.Event]) -> History:
        """Apply several events and return the history itself."""
        for event in more:
            try:
                self.apply(event)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                raise JournalError(
                    f"event {self.n_events} ({event.key!r:.80}) does not fit the events before it "
                    f"({type(error).__name__}: {error!s:.200}); the study was not written by bohb"
                ) from error
        return self

    def apply(self, event: events.Event) -> None:
        """Apply one event."""
        if self.created is None and not isinstance(event, events.StudyCreated):
            raise JournalError(f"a study must begin with 'created', not with {event.kind!r}")
        match event:  # the most frequent events first
            case events.TrialStarted():
                self._apply_started(event)
            case events.TrialFinished():
                self._apply_finished(event)
            case events.StudyCreated():
                self._apply_created(event)
            case events.ConfigGiven():
                self.given.add(event)
            case events.ObservationAdded():
                self._evidence.add(event, event.loss)
                self.observed.append(event)
            case events.BudgetsRaised():
                self.schedule.use_budgets(event.budgets, event.first_bracket)
            case events.BracketPlanned():
                self.schedule.add_planned(event)
            case events.TrialLost():
                self._apply_lost(event)
            case events.ResultLate():
                self.late.append(event)
            case events.RungCut():
                self.schedule.cut(event.bracket)
            case events.BracketShortened():
                self.schedule.shorten(event.bracket, event.rungs)
                self.shortened.append(event)
            case events.SessionStarted():
                self.sessions.append(event)
                self.n_before_session = len(self.outcomes)
            case events.FailuresForgotten():
                self._apply_forgotten(event.since)
            case events.NoteAdded():
                self.notes.append(event)
            case events.ConfirmationStarted() | events.RepeatFinished() | events.ConfirmationFinished():
                self._apply_confirmation(event)
        self.n_events += 1

    def _apply_created(self, event: events.StudyCreated) -> None:
        if self.created is not None:
            raise JournalError("a study is created once, but a second 'created' event follows")
        self.created = event
        self.settings = Settings.from_json(event.settings)
        self.goals = goals_of(event.objectives, event.constraints)
        self._leaders = Leaders(self.goals)
        self.schedule = Schedule(self.settings, event.eta, event.budgets, None if self.goals.single else self.order)
        self._evidence = Evidence(self.goals)

    def _apply_started(self, event: events.TrialStarted) -> None:
        trial, number = event.trial, event.trial.number
        self.started[number], self.starts[number] = event.time, event
        self.seconds = max(self.seconds, event.elapsed or 0.0)
        if number in self.pending:  # started again after its worker was lost
            self.lost.pop(number, None)
            self.trials[number] = self.pending[number] = replace(self.trials[number], attempt=trial.attempt)
            return
        if number != len(self.trials):
            raise JournalError(f"trial {number} starts, but the next number is {len(self.trials)}")
        self.schedule.start(trial.bracket, number)
        if trial.origin == "given":
            self.given.start(own_bracket=self.schedule.rule(trial.bracket) == "given")
        before = None if trial.from_trial is None else self.trials[trial.from_trial].config
        if trial.config is not before and trial.config == before:  # as read from a journal: keep one of them
            trial = replace(trial, config=before)
        self.trials[number] = self.pending[number] = trial
        if trial.reuses is None:
            self.budget_spent += trial.budget - (trial.previous_budget or 0.0)

    def _apply_lost(self, event: events.TrialLost) -> None:
        if event.number not in self.pending:
            raise JournalError(f"trial {event.number} is lost, but it is not running")
        self.lost[event.number] = event.reason
        self.given_up.add((event.number, event.attempt))
        if event.counts:
            self.losses[event.number] = self.losses.get(event.number, 0) + 1
        if event.retry:
            self.retries[event.number] = (*self.retries.get(event.number, ()), event)

    def _apply_finished(self, event: events.TrialFinished) -> None:
        trial, outcome = self.pending.pop(event.number, None), event.outcome
        if trial is None:
            raise JournalError(f"trial {event.number} finishes, but it is not running")
        number = trial.number
        self.lost.pop(number, None)
        self.outcomes[number] = outcome
        self.n_failed += not outcome.ok
        self.cost_reported += outcome.cost or 0.0
        self.seconds = max(self.seconds, event.elapsed or 0.0)
        began = self.starts.pop(number).elapsed
        if began is not None and event.elapsed is not None and outcome.seconds is not None:
            self.waits[number] = max(0.0, event.elapsed - began - outcome.seconds)
        if trial.reuses is None:
            self._evidence.add(number, outcome.loss)
        self.schedule.finish(trial.bracket, number, outcome.ranking_loss)
        if outcome.ok:
            improved = self._leaders.add(Result(trial, outcome, self.violation(outcome)))
            self.spent_at_improvement = self.budget_spent if improved else self.spent_at_improvement

    def _apply_confirmation(self, event: events.ConfirmationEvent) -> None:
        if isinstance(event, events.ConfirmationStarted):
            self.confirmations.append(begun(event, self.goals, self.trials, self.outcomes))
            return
        before = self.confirmations[event.confirmation]
        self.confirmations[event.confirmation] = continued(before, event)
        if isinstance(event, events.RepeatFinished):
            config = before.candidates[event.candidate].config
            self.repeats.append(Repeat(len(self.outcomes), config, before.budget, event.outcome))

    def _apply_forgotten(self, since: int) -> None:
        """Collect the evidence again without the failures from the `since`-th finished trial on."""
        self.forgotten |= {n for n, outcome in itertools.islice(self.outcomes.items(), since, None) if not outcome.ok}
        counting = {trial.bracket for number, trial in self.trials.items() if number not in self.forgotten}
        self.schedule.forgotten = frozenset(range(len(self.brackets))) - counting - self.schedule.open.keys()
        self._evidence = Evidence(self.goals)
        for event in self.observed:
            self._evidence.add(event, event.loss)
        for number, outcome in self.outcomes.items():
            if self.trials[number].reuses is None and number not in self.forgotten:
                self._evidence.add(number, outcome.loss)
        self._evaluated, self._n_indexed = {}, 0

    def ahead(self) -> History:
        """Return a copy to simulate the rest of the study with.

        Hyperband's brackets follow, the lowest losses go on, and no configuration is encoded or compared with others.
        """
        ahead = self._copied()
        ahead.settings, ahead.goals, ahead.given = replace(self.settings, duplicates=True), PLAIN, Given()
        ahead.schedule, ahead._leaders, ahead._evidence = self.schedule.simulated(), Leaders(), Evidence()
        return ahead

    @contextmanager
    def supposing(self, running: Iterable[Trial]) -> Iterator[None]:
        """Let these trials be the running ones within the context: a library that starts its own trials may drop some.

        No event describes that, so the history is as before when the context ends.
        """
        before, self.pending = self.pending, {trial.number: trial for trial in running}
        try:
            yield
        finally:
            self.pending = before

    def snapshot(self) -> History:
        """Return a copy that later events do not change; it encodes configurations when vectors are first needed."""
        still = self._copied()
        still.schedule, still._leaders = self.schedule.snapshot(), self._leaders.snapshot()
        still.given, still._evidence = copy.deepcopy(self.given), self._evidence.snapshot()
        return still

    def _copied(self) -> History:
        """Return a copy with collections of its own."""
        copied = copy.copy(self)
        vars(copied).update({k: copy.copy(v) for k, v in vars(self).items() if isinstance(v, dict | list | set)})
        return copied
