"""BOHB: ask and tell over a journal."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bohb._version import __version__
from bohb.core.custom_sampler import Sampler
from bohb.core.density.sampler import Model
from bohb.core.events import (
    FORMAT,
    Event,
    ResultLate,
    SessionStarted,
    StudyCreated,
    TrialFinished,
    TrialLost,
    TrialStarted,
)
from bohb.core.history import History, Result
from bohb.core.policy import Now, Starter, restart_lost
from bohb.core.schedule.plan import Plan, plan
from bohb.core.settings import PAPER, Preset, Settings
from bohb.core.space import Space
from bohb.core.trial import Outcome, Trial, outcome_of
from bohb.errors import (
    AlreadyTold,
    InvalidArgument,
    NoTrialReady,
    StudyDone,
    UnknownTrial,
)
from bohb.journal import Journal, MemoryJournal, SqlJournal
from bohb.optimizer.blas import one_thread
from bohb.optimizer.creation import (
    Budgets,
    as_histories,
    changed_settings,
    continue_events,
    forgotten_brackets,
    forgotten_events,
    given_events,
    observed_events,
    scheduled,
    space_to_fold,
    study_budgets,
    study_seed,
)
from bohb.optimizer.leases import Heartbeat, any_gone, orphans, turn_at
from bohb.optimizer.ledger import Ledger
from bohb.optimizer.unknown import check_changes

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


log = logging.getLogger("bohb")


class BOHB:
    """BOHB as published, driven by `ask` and `tell`.

    space: a ConfigSpace, or a dict such as {"lr": (1e-5, 1e-1, "log"), "units": (16, 512), "act": ["relu", "tanh"]}.
    min_budget, max_budget: no evaluation gets less or more; the budgets between are a factor eta apart.
    eta: a rung keeps the best 1/eta of its configurations.
    budgets: the budgets themselves, increasing, instead of min_budget and max_budget; or "adaptive" beside them: then
        two of three brackets are chosen by how well rungs agree, and may start on as little as min_budget/eta².
    integer_budgets: round the budgets to whole numbers.
    seed: decides everything; the same seed and the same order of results give the same trials.
    settings: "paper" (BOHB as published, the default), "best" (strongest measured) or "hpbandster", or a `Settings`;
        single settings can be changed by name: random_fraction=1 is Hyperband.
    sampler: a function that proposes configurations in the place of the paper's model (see `Situation`).
    max_brackets: open no more brackets than this.
    initial_configs: a list of configurations to evaluate before the sampler is asked; when a study is continued, new
        ones are added.
    warm_start: a study, history, optimizer, journal or path of a journal (or several) whose results the model uses.
    journal: where events go; a list in memory unless told otherwise.
    clock, stopwatch: the time of day for people, and one that only runs forward for limits; a simulation has its own.
    """

    def __init__(
        self,
        space: Space | ConfigurationSpace | Mapping[str, Any],
        *,
        min_budget: float | None = None,
        max_budget: float | None = None,
        eta: float = 3,
        budgets: Budgets = None,
        integer_budgets: bool = False,
        seed: int | None = None,
        settings: Settings | Preset = PAPER,
        sampler: Sampler | None = None,
        max_brackets: int | None = None,
        initial_configs: Iterable[Mapping[str, Any]] = (),
        warm_start: object = (),
        journal: Journal | None = None,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
        **changes: Any,
    ) -> None:
        check_changes(BOHB, changes)
        compiled = space if isinstance(space, Space) else Space(space)
        created = StudyCreated(
            space=compiled.to_json(),
            budgets=study_budgets(min_budget, max_budget, eta, budgets, integer_budgets),
            eta=eta,
            seed=study_seed(seed),
            settings=changed_settings(settings, scheduled(changes, budgets), sampler).to_json(),
            version=__version__,
            format=FORMAT,
            time=clock(),
        )
        journal = MemoryJournal() if journal is None else journal
        self._sampler = sampler
        with turn_at(journal):  # of several runners that start together, one creates the study
            stored = journal.read(0)
            self._attach(journal, stored, space_to_fold(stored, created, compiled), max_brackets, clock, stopwatch)
            if self.history.created is None:
                given = given_events(compiled, initial_configs, self.history)
                self._ledger.append([created, *given, *observed_events(compiled, as_histories(warm_start))])
                return
            more = continue_events(self.history, created, seed is not None)
            more += given_events(compiled, initial_configs, self.history)
            self._ledger.append(more)
            log.info("continuing a study of %d trials; warm_start stays as it was", len(self.history.trials))

    @classmethod
    def from_journal(
        cls,
        journal: Journal,
        space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
        max_brackets: int | None = None,
        clock: Callable[[], float] = time.time,
        sampler: Sampler | None = None,
    ) -> BOHB:
        """The optimizer of a stored study: it goes on as the one that wrote the journal would have."""
        events = journal.read(0)
        if not events or not isinstance(events[0], StudyCreated):
            raise InvalidArgument("a study must begin with a StudyCreated event; this journal has none")
        if space is None:
            space = Space.from_json(events[0].space)
        study = cls.__new__(cls)
        study._sampler = sampler
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
        self._clock = clock
        self._stopwatch = stopwatch
        self._ledger = Ledger(journal, space, events)
        self._last_starter: Starter | None = None
        self._earlier = self.history.seconds
        self._began: float | None = None  # by the stopwatch, once a runner is at work
        self._session: int | None = None  # the index of our own, if several runners share the study

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
        return self._ledger.in_turn(lambda: self._ask(n, enough))

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
        self._ledger.store(events, first)
        return [replace(trial, config=dict(trial.config)) for trial in trials]  # what users do to it is their business

    def tell(self, trial: Trial | int, result: object) -> None:
        """Report how a trial ended: a loss, {"loss": …, "info": …, "cost": …}, an Outcome or an exception.

        The result of a trial that was declared lost in the meantime is stored as late, and nothing is decided from it.
        """
        self.tell_many([(trial, result)])

    def tell_many(self, results: Iterable[tuple[Trial | int, object]]) -> None:
        """Report several trials, written to the journal together."""
        results = list(results)
        self._ledger.in_turn(lambda: self._tell(results))

    def _tell(self, results: Sequence[tuple[Trial | int, object]]) -> None:
        events: list[Event] = []
        told: dict[int, Outcome] = {}
        for trial, result in results:
            number = self._known(trial)
            outcome = outcome_of(result)
            if isinstance(trial, Trial) and (number, trial.attempt) in self.history.given_up:
                events += self._late(trial, outcome)
                continue
            before = self.history.outcomes.get(number, told.get(number))
            if before is None:
                told[number] = outcome
                events.append(TrialFinished(number, outcome, self._now().elapsed))
            elif not before.same_effect(outcome):
                raise AlreadyTold(
                    f"trial {number} has already ended with {_describe(before)}; {_describe(outcome)} is not recorded"
                )
        self._ledger.append(events)

    def _late(self, trial: Trial, outcome: Outcome) -> list[Event]:
        """The event of a result that comes too late; none if it was stored already."""
        if any((late.number, late.attempt) == (trial.number, trial.attempt) for late in self.history.late):
            return []
        log.warning("the result of trial %d, attempt %d, is late and not used", trial.number, trial.attempt)
        return [ResultLate(trial.number, trial.attempt, outcome, self._now().elapsed)]

    def lose(self, trial: Trial | int, reason: str, counts: bool = True) -> None:
        """Report that the worker of a trial disappeared; the trial will be asked for again.

        counts: whether it counts as an attempt of this trial; not if the whole runner stopped.
        """
        self._ledger.in_turn(lambda: self._lose(trial, reason, counts))

    def _lose(self, trial: Trial | int, reason: str, counts: bool) -> None:
        running = self.history.running.get(self._known(trial))
        if running is not None and (not isinstance(trial, Trial) or trial.attempt == running.attempt):
            self._ledger.append([TrialLost(running.number, running.attempt, reason, self._clock(), counts)])

    def begin_session(self, runner: str, forget_failures: bool = False) -> None:
        """Note that a runner takes the study up; trials that an earlier one left running will be asked for again.

        runner: its unique name, which identifies its lease where several share a study.
        forget_failures: whether earlier failures no longer count as evidence. Those of a session in which every trial
            failed never do: the objective was broken.
        """
        self._ledger.in_turn(lambda: self._begin_session(runner, forget_failures))

    def _begin_session(self, runner: str, forget_failures: bool) -> None:
        index = len(self.history.sessions)
        forgotten = forgotten_events(self.history, forget_failures, self.shared)
        if forgotten:
            log.warning("failures of earlier sessions no longer count: the sampler does not learn from them")
        self._began, self._earlier = self._stopwatch(), self.history.seconds
        self._ledger.append([SessionStarted(index, runner, self._clock()), *forgotten, *self._orphans()])
        if self.max_brackets is not None:
            self.max_brackets += forgotten_brackets(self.history)
        self._session = index if self.shared else None

    def lease(self, runner: str, seconds: float) -> AbstractContextManager[object]:
        """What tells the other runners of a shared study that this one is alive, for as long as it is held."""
        journal = self._ledger.journal
        return Heartbeat(journal, runner, seconds) if isinstance(journal, SqlJournal) and self.shared else nullcontext()

    def take_over(self) -> None:
        """Declare the trials of runners lost that are gone, so that they are asked for again."""
        self.catch_up()
        if self._session is not None and any_gone(self.history, self._ledger.journal, self._session):
            self._ledger.in_turn(lambda: self._ledger.append(self._orphans()))

    def _orphans(self) -> list[Event]:
        return orphans(self.history, self._ledger.journal, self._session, self._clock())

    @property
    def shared(self) -> bool:
        """Whether several runners may work on the study at once."""
        return self._ledger.shared

    @property
    def ours(self) -> list[Trial]:
        """The running trials that this session started, where several share the study."""
        session = self._session
        return [t for n, t in self.history.running.items() if session is not None and self.history.owners[n] == session]

    @property
    def done(self) -> bool:
        """Whether no trial will ever be ready again."""
        return not self.history.pending and not self.next_events()

    @property
    def history(self) -> History:
        """What has happened so far."""
        return self._ledger.history

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
        return self._ledger.journal.read(0)

    def plan(self, brackets: int | None = None) -> Plan:
        """The table of brackets, rungs, configurations and costs; one round of Hyperband unless told otherwise."""
        return plan(self.history.round, brackets)

    def model(self) -> Model | None:
        """The densities that the next model-based proposal would use, or None while there are too few results."""
        return self._starter.model()

    def next_events(self) -> list[Event]:
        """The events that `ask` would store next; none if nothing can start."""
        with one_thread(self.settings):
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
        return Now(self._clock(), None if self._began is None else self.seconds, self._session)

    def catch_up(self) -> None:
        """Take note of what other runners have stored."""
        self._ledger.catch_up()

    def reload(self) -> None:
        """Forget all but what the journal has."""
        self._ledger.reload()

    @property
    def _starter(self) -> Starter:
        """What decides, with the densities it has fitted to the history as it is."""
        if self._last_starter is None or self._last_starter.history is not self.history:
            self._last_starter = self._make_starter()
        return self._last_starter

    def _make_starter(self) -> Starter:
        return Starter(self.history, self._sampler)


def _describe(outcome: Outcome) -> str:
    return f"loss {outcome.loss!r}" if outcome.ok else f"{outcome.status.value} ({outcome.error})"
