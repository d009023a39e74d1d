"""History: a study's events folded into what decisions are made from.

Compiling the space and encoding configurations is left until somebody needs vectors, so that commands which only count
and compare (`bohb status`) import neither numpy nor ConfigSpace.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from bohb.core.events import (
    BracketPlanned,
    BudgetsRaised,
    ConfigGiven,
    Event,
    FailuresForgotten,
    ObservationAdded,
    ResultLate,
    RungCut,
    SessionStarted,
    StudyCreated,
    TrialFinished,
    TrialLost,
    TrialStarted,
)
from bohb.core.evidence import Evidence, collected
from bohb.core.schedule.brackets import Bracket, Rung, hyperband, is_published, published_before
from bohb.core.schedule.halving import Halving
from bohb.core.schedule.promotion import Promotions
from bohb.core.settings import Settings
from bohb.core.trial import Outcome, Trial
from bohb.errors import JournalError

if TYPE_CHECKING:
    from bohb.core.density.observations import Observations
    from bohb.core.space import Space

T = TypeVar("T", "History", Halving)


@dataclass(frozen=True, slots=True)
class Result:
    """A finished trial with its finite loss."""

    trial: Trial
    outcome: Outcome

    @property
    def config(self) -> dict[str, Any]:
        """The configuration."""
        return self.trial.config

    @property
    def budget(self) -> float:
        """The budget it was evaluated on."""
        return self.trial.budget

    @property
    def loss(self) -> float:
        """Its loss."""
        return self.outcome.ranking_loss


class History:
    """The state of a study. It changes only through `apply`, and depends on nothing but the events.

    trials: every trial started, by number, as last started.
    outcomes: how the finished ones ended, by number.
    pending: the ones handed out and not yet finished, by number.
    lost: those of them whose worker disappeared and that wait to be started again, in order.
    losses: how often a trial lost its worker.
    given_up: the (number, attempt) pairs that were declared lost; what still comes of them is late.
    late: such results, in the order in which they came; nothing is decided from them.
    sessions: who took the study up and when, each time.
    forgotten: the failed trials that are no evidence because the objective was broken; their places in brackets stay.
    owners: the session that a trial was last started by, if several runners share the study.
    seconds: how long runners have been at work, all sessions together.
    given: the user's configurations that have not been started yet.
    brackets: the state of every bracket opened so far; `open_brackets` has the indices of the unfinished ones,
        `ready_brackets` of those that have a trial to start.
    planned: the brackets that an adaptive study chose, by index, opened or not.
    promotions: who was promoted at random, in an adaptive study.
    trajectory: every incumbent in turn; the last one is current.
    best: the best result per budget.
    """

    def __init__(self, space: Space | None = None) -> None:
        self._space = space
        self.created: StudyCreated | None = None
        self.n_events = 0
        self.trials: dict[int, Trial] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.pending: dict[int, Trial] = {}
        self.lost: dict[int, str] = {}
        self.losses: dict[int, int] = {}
        self.given_up: set[tuple[int, int]] = set()
        self.late: list[ResultLate] = []
        self.owners: dict[int, int | None] = {}
        self.started: dict[int, float | None] = {}
        self.given: deque[dict[str, Any]] = deque()
        self.n_given = 0
        self.observed: list[ObservationAdded] = []
        self.brackets: list[Halving] = []
        self.open_brackets: dict[int, None] = {}
        self.ready_brackets: dict[int, None] = {}
        self.planned: dict[int, BracketPlanned] = {}
        self.promotions = Promotions(Settings(), partial(_draw, 0))  # until the study is created
        self.trajectory: list[Result] = []
        self.best: dict[float, Result] = {}
        self.sessions: list[SessionStarted] = []
        self.n_before_session = 0  # trials that had finished when the last session began
        self.forgotten: set[int] = set()
        self.seconds = 0.0
        self.budget_spent = 0.0  # what started trials add to the budget their configuration had reached before
        self.spent_at_improvement = 0.0
        self.cost_reported = 0.0
        self.n_failed = 0
        self._evidence = Evidence()
        self._evaluated: dict[tuple[bytes, float], int] = {}
        self._n_indexed = 0  # trials that `_evaluated` knows
        self._round: tuple[Bracket, ...] = ()
        self._first_bracket_of_round = 0

    @property
    def space(self) -> Space:
        """The search space, compiled when it is first needed."""
        if self._space is None:
            if self.created is None:
                raise JournalError("the study has no StudyCreated event yet")
            from bohb.core.space import Space

            self._space = Space.from_json(self.created.space)
        return self._space

    @property
    def evidence(self) -> Evidence:
        """The results that models are fitted to, those of earlier studies included, as vectors."""
        self._evidence.encode(self.space, self.adaptive)
        return self._evidence

    @property
    def observations(self) -> dict[float, Observations]:
        """D_b by budget."""
        return self.evidence.observations

    @property
    def n_failures_known(self) -> int:
        """Number of failed evaluations, those of earlier studies included."""
        return self._evidence.n_failures

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
    def settings(self) -> Settings:
        """The settings the study was created with."""
        return self._settings

    @property
    def incumbent(self) -> Result | None:
        """The best configuration so far: the largest budget counts first, then the lowest loss."""
        return self.trajectory[-1] if self.trajectory else None

    @property
    def results(self) -> list[Result]:
        """All evaluations that have a loss, in the order in which they finished."""
        return [Result(self.trials[n], outcome) for n, outcome in self.outcomes.items() if outcome.ok]

    @property
    def running(self) -> dict[int, Trial]:
        """The trials that somebody is working on."""
        return {n: trial for n, trial in self.pending.items() if n not in self.lost}

    def bracket_plan(self, index: int) -> Bracket:
        """The rungs of the bracket that opens as number `index`."""
        chosen = self.planned.get(index)
        if chosen is not None:
            return Bracket(tuple(Rung(budget, size) for budget, size in chosen.rungs))
        place = index - self._first_bracket_of_round
        if self.adaptive:  # in Hyperband's order, those left out that are chosen
            place = published_before(index) - published_before(self._first_bracket_of_round)
        return self._round[place % len(self._round)]

    @property
    def adaptive(self) -> bool:
        """Whether some brackets are chosen."""
        return self._settings.schedule == "adaptive"

    def is_to_be_planned(self, index: int) -> bool:
        """Whether the bracket of this number is chosen, but was not yet."""
        return self.adaptive and not is_published(index) and index not in self.planned

    @property
    def round(self) -> tuple[Bracket, ...]:
        """One round of Hyperband with the budgets now in force."""
        return self._round

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets now in force."""
        return tuple(rung.budget for rung in self._round[0].rungs)

    def alive(self) -> set[int]:
        """The config_ids that can still be promoted, and the incumbent's."""
        alive = {self.trials[n].config_id for index in self.open_brackets for n in self.brackets[index].alive()}
        return alive | ({self.incumbent.trial.config_id} if self.incumbent else set())

    def key(self, config: Mapping[str, Any]) -> bytes:
        """What tells two configurations apart."""
        return self.space.encode(config).tobytes()

    def extend(self, events: Iterable[Event]) -> History:
        """Apply several events; returns itself."""
        for event in events:
            self.apply(event)
        return self

    def apply(self, event: Event) -> None:
        """Fold one event."""
        if self.created is None and not isinstance(event, StudyCreated):
            raise JournalError(f"a study must begin with 'created', not with {event.kind!r}")
        match event:
            case StudyCreated():
                self._apply_created(event)
            case ConfigGiven():
                self.given.append(event.config)
                self.n_given += 1
            case ObservationAdded():
                self._evidence.add(event.budget, event.config, event.loss)
                self.observed.append(event)
            case BudgetsRaised():
                self._apply_budgets(event.budgets, event.first_bracket)
            case BracketPlanned():
                self._apply_planned(event)
            case TrialStarted():
                self._apply_started(event)
            case TrialFinished():
                self._apply_finished(event.number, event.outcome)
                self.seconds = max(self.seconds, event.elapsed or 0.0)
            case TrialLost():
                self._apply_lost(event)
            case ResultLate():
                self.late.append(event)
            case RungCut():
                self._apply_cut(event.bracket)
            case SessionStarted():
                self.sessions.append(event)
                self.n_before_session = len(self.outcomes)
            case FailuresForgotten():
                self._apply_forgotten(event.since)
        self.n_events += 1

    def _apply_created(self, event: StudyCreated) -> None:
        if self.created is not None:
            raise JournalError("a study is created once, but a second 'created' event follows")
        self.created = event
        self._settings = Settings.from_json(event.settings)
        self.promotions = Promotions(self._settings, partial(_draw, event.seed))
        self._apply_budgets(event.budgets, 0)

    def _apply_budgets(self, budgets: tuple[float, ...], first_bracket: int) -> None:
        assert self.created is not None
        self._round = hyperband(budgets, self.created.eta, self._settings.bracket_sizes)
        self._first_bracket_of_round = first_bracket

    def _apply_planned(self, event: BracketPlanned) -> None:
        if event.index != len(self.brackets) or event.index in self.planned:
            raise JournalError(f"bracket {event.index} is planned, but the next one is {len(self.brackets)}")
        self.planned[event.index] = event

    def _apply_started(self, event: TrialStarted) -> None:
        trial = event.trial
        number = trial.number
        self.started[number] = event.time
        self.owners[number] = event.session
        self.seconds = max(self.seconds, event.elapsed or 0.0)
        if number in self.pending:  # started again after its worker was lost
            self.lost.pop(number, None)
            self.trials[number] = self.pending[number] = replace(self.trials[number], attempt=trial.attempt)
            return
        if number != len(self.trials):
            raise JournalError(f"trial {number} starts, but the next number is {len(self.trials)}")
        self._open(trial.bracket).start(number)
        self._refresh(trial.bracket)
        if trial.origin == "given" and self.given:
            self.given.popleft()
        self.trials[number] = self.pending[number] = trial
        if trial.reuses is None:
            self.budget_spent += trial.budget - (trial.previous_budget or 0.0)

    def _open(self, index: int) -> Halving:
        """The bracket with this index, opened if it is the next one."""
        if index == len(self.brackets):
            choose = self.promotions.chooser(index)
            self.brackets.append(Halving(self.bracket_plan(index), self._settings.refill, choose))
            self.open_brackets[index] = None
        return self.brackets[index]

    def _refresh(self, index: int) -> None:
        """Note whether a bracket has something to start, and whether it is done."""
        bracket = self.brackets[index]
        if bracket.ready:
            self.ready_brackets[index] = None
        else:
            self.ready_brackets.pop(index, None)
        if bracket.done:
            self.open_brackets.pop(index, None)

    def _apply_cut(self, index: int) -> None:
        self._open(index).cut()
        self._refresh(index)

    def _apply_lost(self, event: TrialLost) -> None:
        if event.number not in self.pending:
            raise JournalError(f"trial {event.number} is lost, but it is not running")
        self.lost[event.number] = event.reason
        self.given_up.add((event.number, event.attempt))
        if event.counts:
            self.losses[event.number] = self.losses.get(event.number, 0) + 1

    def _apply_finished(self, number: int, outcome: Outcome) -> None:
        trial = self.pending.pop(number, None)
        if trial is None:
            raise JournalError(f"trial {number} finishes, but it is not running")
        self.lost.pop(number, None)
        self.outcomes[number] = outcome
        self.n_failed += not outcome.ok
        self.cost_reported += outcome.cost or 0.0
        loss = outcome.ranking_loss
        if trial.reuses is None:
            self._evidence.add(trial.budget, trial.config, loss)
        self.brackets[trial.bracket].finish(number, loss)
        self._refresh(trial.bracket)
        if outcome.ok:
            self._update_incumbent(trial, outcome, loss)

    def snapshot(self) -> History:
        """Return a fully encoded copy that later events do not change, so that several threads may read it."""
        still = _copy(self)
        still._evidence = copy.deepcopy(self.evidence)
        still._evaluated = self.evaluated.copy()
        still.brackets = [bracket if bracket.done else _copy(bracket) for bracket in self.brackets]
        still.promotions = copy.deepcopy(self.promotions)
        return still

    def _apply_forgotten(self, since: int) -> None:
        """Collect the evidence again without the failures from the `since`-th finished trial on."""
        self.forgotten |= {n for n, outcome in itertools.islice(self.outcomes.items(), since, None) if not outcome.ok}
        self._evidence = collected(self.observed, self.trials, self.outcomes, self.forgotten)
        self._evaluated, self._n_indexed = {}, 0

    def _update_incumbent(self, trial: Trial, outcome: Outcome, loss: float) -> None:
        best = self.best.get(trial.budget)
        if best is not None and loss >= best.loss:
            return
        result = self.best[trial.budget] = Result(trial, outcome)
        if trial.budget == max(self.best):
            self.trajectory.append(result)
            self.spent_at_improvement = self.budget_spent


def _copy(thing: T) -> T:
    """Return a shallow copy with containers of its own."""
    copied = copy.copy(thing)
    for name, value in vars(copied).items():
        if isinstance(value, dict | list | set | deque):
            setattr(copied, name, copy.copy(value))
    return copied


def _draw(seed: int, bracket: int, rung: int, n: int) -> int:
    """Return a number below n from a generator that depends on the study's seed and the place alone."""
    from bohb.core.streams import random_promotion  # imports numpy, which only adaptive studies need here

    return random_promotion(seed, bracket, rung, n)
