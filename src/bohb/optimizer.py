"""BOHB: ask and tell over a journal."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from bohb._version import __version__
from bohb.core.events import Event, SessionStarted, StudyCreated, TrialFinished, TrialLost, TrialStarted
from bohb.core.history import History, Result
from bohb.core.plan import Plan, plan
from bohb.core.sampler import Model
from bohb.core.settings import PAPER, Settings
from bohb.core.space import Space
from bohb.core.starting import Now, Starter, restart_lost
from bohb.core.trial import Outcome, Trial, outcome_of
from bohb.creation import (
    changed_settings,
    continue_events,
    given_events,
    observed_events,
    space_to_fold,
    study_budgets,
    study_seed,
)
from bohb.errors import (
    AlreadyTold,
    BohbError,
    Conflict,
    InvalidArgument,
    NoTrialReady,
    StudyDone,
    UnknownTrial,
)
from bohb.journal import Journal, MemoryJournal

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


log = logging.getLogger("bohb")
T = TypeVar("T")
_CONFLICTS = 100  # appends that another runner may beat before we give up


class BOHB:
    """BOHB as published, driven by `ask` and `tell`.

    space: a ConfigSpace, or a dict such as {"lr": (1e-5, 1e-1, "log"), "units": (16, 512), "act": ["relu", "tanh"]}.
    min_budget, max_budget: no evaluation gets less or more; the budgets between are a factor eta apart.
    eta: a rung keeps the best 1/eta of its configurations.
    budgets: the budgets themselves, increasing, instead of min_budget and max_budget.
    integer_budgets: round the budgets to whole numbers.
    seed: decides everything; the same seed and the same order of results give the same trials.
    settings: `PAPER` or `HPBANDSTER`; single settings can be changed by name, as in random_fraction=1 for Hyperband.
    max_brackets: open no more brackets than this.
    initial_configs: configurations to evaluate before the sampler is asked.
    warm_start: histories (or optimizers) whose results the model should know.
    journal: where events go; a list in memory unless told otherwise.
    clock, stopwatch: the time of day for people, and one that only runs forward for limits; a simulation has its own.
    """

    history: History

    def __init__(
        self,
        space: Space | ConfigurationSpace | Mapping[str, Any],
        *,
        min_budget: float | None = None,
        max_budget: float | None = None,
        eta: float = 3,
        budgets: Sequence[float] | None = None,
        integer_budgets: bool = False,
        seed: int | None = None,
        settings: Settings = PAPER,
        max_brackets: int | None = None,
        initial_configs: Iterable[Mapping[str, Any]] = (),
        warm_start: Iterable[History | BOHB] | History | BOHB = (),
        journal: Journal | None = None,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
        **changes: Any,
    ) -> None:
        compiled = space if isinstance(space, Space) else Space(space)
        created = StudyCreated(
            space=compiled.to_json(),
            budgets=study_budgets(min_budget, max_budget, eta, budgets, integer_budgets),
            eta=eta,
            seed=study_seed(seed),
            settings=changed_settings(settings, changes).to_json(),
            version=__version__,
            time=clock(),
        )
        journal = MemoryJournal() if journal is None else journal
        stored = journal.read(0)
        self._attach(journal, stored, space_to_fold(stored, created, compiled), max_brackets, clock, stopwatch)
        if self.history.created is not None:
            self._append(continue_events(self.history, created, seed is not None))
            log.info("continuing a study of %d trials; initial_configs and warm_start stay", len(self.history.trials))
            return
        sources = [warm_start] if isinstance(warm_start, History | BOHB) else warm_start
        histories = [source.history if isinstance(source, BOHB) else source for source in sources]
        self._append([created, *given_events(compiled, initial_configs), *observed_events(compiled, histories)])

    @classmethod
    def from_journal(
        cls,
        journal: Journal,
        space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
        max_brackets: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> BOHB:
        """The optimizer of a stored study: it goes on as the one that wrote the journal would have."""
        events = journal.read(0)
        if not events or not isinstance(events[0], StudyCreated):
            raise InvalidArgument("a study must begin with a StudyCreated event; this journal has none")
        if space is None:
            space = Space.from_json(events[0].space)
        study = cls.__new__(cls)
        study._attach(journal, events, space if isinstance(space, Space) else Space(space), max_brackets, clock)
        return study

    @classmethod
    def from_events(
        cls, events: Iterable[Event], space: Space | ConfigurationSpace | Mapping[str, Any] | None = None
    ) -> BOHB:
        """The optimizer that has seen these events."""
        return cls.from_journal(MemoryJournal(events), space)

    def _attach(
        self,
        journal: Journal,
        events: Sequence[Event],
        space: Space,
        max_brackets: int | None,
        clock: Callable[[], float],
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take up a journal that holds these events."""
        if max_brackets is not None and max_brackets < 1:
            raise InvalidArgument(f"max_brackets={max_brackets!r} must be at least 1")
        self.max_brackets = max_brackets
        self._journal = journal
        self._compiled = space
        self._clock = clock
        self._stopwatch = stopwatch
        self._fold(events)
        self._earlier = self.history.seconds
        self._began: float | None = None  # by the stopwatch, once a runner is at work

    def ask(self) -> Trial:
        """The next trial to run. There always is one, unless `max_brackets` or a finite space sets an end.

        Raises NoTrialReady if the rest depends on running trials, and StudyDone if there is no rest.
        """
        trials = self.ask_many(1)
        if trials:
            return trials[0]
        if self.done:
            raise StudyDone(f"the study is complete after {len(self.history.trials)} trials")
        raise NoTrialReady(
            f"no trial can start before one of the {len(self.history.running)} running ones is told; call tell first"
        )

    def ask_many(self, n: int, enough: Callable[[], bool] = lambda: False) -> list[Trial]:
        """Up to n trials to run at once, written to the journal together; fewer if fewer are ready.

        enough: asked before each further trial; if it says True, only trials that lost their worker are started again.
        """
        return self._decide_anew_on_conflict(lambda: self._ask(n, enough))

    def _ask(self, n: int, enough: Callable[[], bool]) -> list[Trial]:
        first = self.history.n_events
        events: list[Event] = []
        trials: list[Trial] = []
        while len(trials) < n:
            new = restart_lost(self.history, self._now()) if enough() else self.next_events()
            if not new:
                break
            self.history.extend(new)
            events += new
            last = new[-1]
            if isinstance(last, TrialStarted):
                trials.append(self.history.trials[last.trial.number])
        self._store(events, first)
        return [replace(trial, config=dict(trial.config)) for trial in trials]  # what users do to it is their business

    def tell(self, trial: Trial | int, result: object) -> None:
        """Report how a trial ended: a loss, {"loss": …, "info": …, "cost": …}, an Outcome or an exception."""
        self.tell_many([(trial, result)])

    def tell_many(self, results: Iterable[tuple[Trial | int, object]]) -> None:
        """Report several trials, written to the journal together."""
        results = list(results)
        self._decide_anew_on_conflict(lambda: self._tell(results))

    def _tell(self, results: Sequence[tuple[Trial | int, object]]) -> None:
        events: list[Event] = []
        told: dict[int, Outcome] = {}
        for trial, result in results:
            number = self._known(trial)
            outcome = outcome_of(result)
            before = self.history.outcomes.get(number, told.get(number))
            if before is None:
                told[number] = outcome
                events.append(TrialFinished(number, outcome, self._now().elapsed))
            elif not before.same_effect(outcome):
                raise AlreadyTold(
                    f"trial {number} has already ended with {_describe(before)}; {_describe(outcome)} is not recorded"
                )
        self._append(events)

    def lose(self, trial: Trial | int, reason: str, counts: bool = True) -> None:
        """Report that the worker of a trial disappeared; the trial will be asked for again.

        counts: whether it counts as an attempt of this trial; not if the whole runner stopped.
        """
        self._decide_anew_on_conflict(lambda: self._lose(self._known(trial), reason, counts))

    def _lose(self, number: int, reason: str, counts: bool) -> None:
        if number in self.history.pending and number not in self.history.lost:
            attempt = self.history.pending[number].attempt
            self._append([TrialLost(number, attempt, reason, self._clock(), counts)])

    def begin_session(self, runner: str) -> None:
        """Note that a runner takes the study up; trials that an earlier one left running will be asked for again."""
        orphans = [
            TrialLost(n, trial.attempt, "the runner stopped while it ran", self._clock(), counts=False)
            for n, trial in self.history.running.items()
        ]
        self._began = self._stopwatch()
        self._append([SessionStarted(len(self.history.sessions), runner, self._clock()), *orphans])

    @property
    def done(self) -> bool:
        """Whether no trial will ever be ready again."""
        return not self.history.pending and not self.next_events()

    @property
    def incumbent(self) -> Result | None:
        """The best configuration so far: the largest budget counts first, then the lowest loss."""
        return self.history.incumbent

    @property
    def space(self) -> Space:
        """The compiled search space."""
        return self.history.space

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.history.settings

    @property
    def events(self) -> Sequence[Event]:
        """All events so far."""
        return self._journal.read(0)

    def plan(self, brackets: int | None = None) -> Plan:
        """The table of brackets, rungs, configurations and costs; one round of Hyperband unless told otherwise."""
        return plan(self.history.round, brackets)

    def model(self) -> Model | None:
        """The densities that the next model-based proposal would use, or None while there are too few results."""
        return self._starter.model()

    def next_events(self) -> list[Event]:
        """The events that `ask` would store next; none if nothing can start."""
        return self._starter.next_events(self._now(), self.max_brackets)

    def _known(self, trial: Trial | int) -> int:
        number = trial.number if isinstance(trial, Trial) else trial
        if not isinstance(number, int) or isinstance(number, bool) or number not in self.history.trials:
            raise UnknownTrial(
                f"trial {number!r} was never asked for; this study has started {len(self.history.trials)} trials"
            )
        if isinstance(trial, Trial) and trial.seed != self.history.trials[number].seed:
            raise UnknownTrial(f"trial {number} of this study has another seed; is the one told from another study?")
        return number

    @property
    def seconds(self) -> float:
        """How long the study has been at work, earlier sessions included."""
        return self.history.seconds if self._began is None else self._earlier + self._stopwatch() - self._began

    def _now(self) -> Now:
        return Now(self._clock(), None if self._began is None else self.seconds)

    def _decide_anew_on_conflict(self, act: Callable[[], T]) -> T:
        """Do something that appends; if the journal is longer than known, take note of what it has and do it again.

        So it is when another runner was faster, or when an earlier append was stored but its answer was lost.
        """
        for _ in range(_CONFLICTS):
            try:
                return act()
            except Conflict:
                self.history.extend(self._journal.read(self.history.n_events))
        return act()

    def _append(self, events: Sequence[Event]) -> None:
        """Store events, then fold them: nothing is decided from what is not durable."""
        if events:
            self._journal.append(events, self.history.n_events)
            self.history.extend(events)

    def _store(self, events: Sequence[Event], after: int) -> None:
        """Store events that are folded already; if that fails, forget them."""
        try:
            if events:
                self._journal.append(events, after)
        except BohbError:
            self.reload()
            raise

    def reload(self) -> None:
        """Forget all but what the journal has."""
        self._fold(self._journal.read(0))

    def _fold(self, events: Sequence[Event]) -> None:
        """Begin with these events and nothing else."""
        self.history = History(self._compiled).extend(events)
        self._starter = Starter(self.history)


def _describe(outcome: Outcome) -> str:
    return f"loss {outcome.loss!r}" if outcome.ok else f"{outcome.status.value} ({outcome.error})"
