"""BOHB: ask and tell over a journal."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from bohb._version import __version__
from bohb.arguments import check_names, pick, with_help
from bohb.core.decide import delayed
from bohb.core.decider import Decider
from bohb.core.events import FORMAT, Event, StudyCreated, TrialStarted
from bohb.core.goals import Direction, Objectives, goals_of
from bohb.core.history import History
from bohb.core.limits import Limits
from bohb.core.results import Result
from bohb.core.samplers.chain import Sampler
from bohb.core.samplers.density import Model
from bohb.core.schedule.brackets import Plan, plan
from bohb.core.settings import Budgets, Preset, Settings
from bohb.core.space import Space
from bohb.core.trial import Explains, Lost, Trial
from bohb.errors import InvalidArgument, NoTrialReady, StudyDone
from bohb.journal import Journal, MemoryJournal
from bohb.journal.base import shared_journal
from bohb.optimizer.creation import StudyOptions, continue_events, given_events, new_note, study_seed, study_settings
from bohb.optimizer.ledger import Ledger, result_events, turn_at
from bohb.optimizer.session import Session
from bohb.optimizer.warm_start import as_histories, observed_events

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from threadpoolctl import ThreadpoolController

log = logging.getLogger("bohb")
_LONGEST_NAME = 200  # of a client


class BestResults:
    """The answers of a study, for whatever has its `history`."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def history(self) -> History:
            """Everything that happened."""

    @property
    def incumbent(self) -> Result | None:
        """The best configuration: the largest budget counts first, then the lowest loss. None if nothing succeeded."""
        return self.history.incumbent

    @property
    def best_config(self) -> dict[str, Any]:
        """The configuration of the incumbent. Raises NoResult if no trial has succeeded."""
        return dict(self.history.require_incumbent().config)

    @property
    def best_loss(self) -> float:
        """The loss of the incumbent, or the value of its first objective as the user returned it. Raises NoResult."""
        return self.history.goals.shown(self.history.require_incumbent().loss)

    @property
    def best_trial(self) -> Trial:
        """The trial of the incumbent. Raises NoResult if no trial has succeeded."""
        return self.history.require_incumbent().trial

    @property
    def front(self) -> list[Result]:
        """The results that no other dominates and that keep the constraints, by their first loss.

        They are those on the largest budget that has any. `Result.values` has what the objective returned.
        """
        return self.history.front


@with_help({"Budgets": Budgets, "Single settings, which replace those of the preset": Settings})
class BOHB(BestResults):
    """A study driven by `ask` and `tell`.

    space: a ConfigSpace, or a dict such as {"lr": (1e-5, 1e-1, "log"), "units": (16, 512), "act": ["relu", "tanh"]}.
    min_budget, max_budget, budgets, eta, integer_budgets: what an evaluation may spend; see below.
    seed: random seed; the same seed and the same order of results give the same trials.
    preset: "best" (the strongest in our measurements), "paper" (BOHB as published) or "hpbandster" (like the program of
        the authors). Single settings can be changed by name: random_fraction=1 is Hyperband. See `Settings`.
    sampler: a function that proposes configurations instead of the preset's model (see `Situation`).
    objectives: the names of the values to minimise, such as ["error", "-accuracy"]; a minus maximises. The objective
        returns them by name: {"losses": {"error": …, "accuracy": …}}. Default: one unnamed loss.
    constraints: bounds of values by name, such as {"latency": "<= 10ms", "memory": "<= 8GB"}, in seconds and bytes. The
        objective returns these values, too: {"loss": …, "latency": …, "memory": …}.
    direction: "maximize" if the objective returns one score to maximise; short for objectives=["-score"].
    max_brackets: open no more brackets than this, unless a call names its own limits.
    initial_configs: a list of configurations to evaluate before the sampler proposes any; when a study is continued,
        new ones are added.
    warm_start: a study, history, optimizer, journal or path of a journal (or several) whose results the model uses.
    journal: where events are stored; default: in memory.
    clock, stopwatch: the time of day for people, and a monotonic clock for limits; a simulation has its own.
    """

    def __init__(
        self,
        space: Space | ConfigurationSpace | Mapping[str, Any],
        *,
        min_budget: float | None = None,
        max_budget: float | None = None,
        budgets: Sequence[float] | None = None,
        seed: int | None = None,
        preset: Preset = "best",
        sampler: Sampler | None = None,
        objectives: Objectives = None,
        constraints: Mapping[str, str] | None = None,
        direction: Direction = "minimize",
        max_brackets: int | None = None,
        initial_configs: Iterable[Mapping[str, Any]] = (),
        warm_start: object = (),
        journal: Journal | None = None,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
        **options: Unpack[StudyOptions],
    ) -> None:
        check_names(BOHB, StudyOptions, options)
        asked = {"min_budget": min_budget, "max_budget": max_budget, "budgets": budgets, **options}
        given_budgets = pick(Budgets, asked)
        compiled = space if isinstance(space, Space) else Space(space)
        goals = goals_of(objectives, constraints, direction)
        created = StudyCreated(
            space=compiled.to_json(),
            budgets=given_budgets.values(),
            eta=given_budgets.eta,
            seed=study_seed(seed),
            settings=study_settings(preset, options, sampler).to_json(),
            version=__version__,
            format=FORMAT,
            time=clock(),
            **goals.to_json(),
        )
        journal = MemoryJournal() if journal is None else journal
        self._sampler = sampler
        with turn_at(shared_journal(journal)):  # if several runners start together, one of them creates the study
            self._attach(journal, journal.read(0), compiled, max_brackets, clock, stopwatch)
            if self.history.created is None:
                given = given_events(compiled, initial_configs, self.history)
                earlier = observed_events(compiled, as_histories(warm_start), created, goals)
                self.ledger.append([created, *given, *earlier])
                return
            more = continue_events(self.history, created, seed is not None)
            self.ledger.append(more + given_events(compiled, initial_configs, self.history))
            log.info("continuing a study of %d trials; warm_start stays as it was", len(self.history.trials))

    def __repr__(self) -> str:
        return f"<BOHB of {self.history}>"

    @classmethod
    def from_journal(
        cls,
        journal: Journal,
        space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
        max_brackets: int | None = None,
        clock: Callable[[], float] = time.time,
        sampler: Sampler | None = None,
    ) -> BOHB:
        """Return the optimizer of a stored study, which continues as the one that wrote the journal would have."""
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
        """Return an optimizer in the state after these events."""
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
        """Attach a journal that holds these events."""
        self.limits = Limits(max_brackets=max_brackets, max_initial_failures=None)
        self.ledger = Ledger(journal, space, events)
        self.session = Session(self.ledger, clock, stopwatch)
        self._last_decider: Decider | None = None

    def ask(self, client: str | None = None) -> Trial:
        """Return the next trial to run. There always is one, unless `max_brackets` or a finite space ends the study.

        Raises NoTrialReady if running trials have to finish first, and StudyDone if no trial is left.

        client: a name of the program that asks, which no other one has. If it asks again before it has told its trial,
            because it had crashed or the answer was lost, it gets the same trial.
        """
        trials = self.ask_many(1, client=client)
        if trials:
            return trials[0]
        if self.done:
            raise StudyDone(f"the study is complete after {len(self.history.trials)} trials")
        raise NoTrialReady(f"no trial can start before {self.awaited}; call tell first")

    def ask_many(
        self, n: int, limits: Limits | None = None, *, client: str | None = None, one_rung: bool = False
    ) -> list[Trial]:
        """Return up to n trials to run at once, stored together; fewer if fewer are ready.

        limits: once one of them is reached, only trials start that lost their worker or asked for another try; before a
            deadline, only those that are likely to end in time. Default: the `max_brackets` that the study was made
            with.
        client: as for `ask`.
        one_rung: whether all of them have to belong to the same rung.
        """
        if client is not None and not (isinstance(client, str) and 0 < len(client) <= _LONGEST_NAME):
            raise InvalidArgument(f"client={client!r:.80} must be a text of 1 to {_LONGEST_NAME} characters, or None")
        return self.ledger.in_turn(lambda: self._ask(n, limits, client, one_rung))

    def _ask(self, n: int, limits: Limits | None, client: str | None, one_rung: bool) -> list[Trial]:
        history = self.ledger.history
        first = history.n_events
        events: list[Event] = []
        trials = [] if client is None else [t for i, t in history.running.items() if history.starts[i].client == client]
        while len(trials) < n:
            new = self.next_events(limits, client)
            last = new[-1] if new else None
            if last is None or (one_rung and trials and not _on_rung_of(trials[0], last)):
                break
            history.extend(new)
            events += new
            if isinstance(last, TrialStarted):
                trials.append(history.trials[last.trial.number])
        self.ledger.store(events, first)
        # Copies, so that changes by the user cannot reach the history.
        return [replace(trial, config=dict(trial.config), goals=history.goals) for trial in trials[:n]]

    def tell(self, trial: Trial | int, result: object) -> None:
        """Report how a trial ended: a loss, {"loss": …, "info": …, "cost": …}, an Outcome or an exception.

        After `bohb.Retry("no GPU here")`, `ask` returns the trial again once it has waited.

        With named objectives or constraints, their values: {"losses": {"error": …, "latency": …}, "info": …}.

        The result of a trial that was declared lost in the meantime is stored as late, and no decision uses it.
        """
        self.tell_many([(trial, result)])

    def tell_many(self, results: Iterable[tuple[Trial | int, object]]) -> None:
        """Report several trials, which are stored together."""
        results = list(results)
        self.ledger.add(lambda: result_events(self.ledger.history, results, self.session.now()))

    def enqueue(self, config: Mapping[str, Any], budget: float | None = None) -> bool:
        """Evaluate this configuration before the sampler proposes any; return False if the study was given it before.

        It takes the next place of a bracket that is free for a new configuration, on the budget of that place. If no
        limit leaves such a place, it waits until the study is continued.

        budget: one of the study's; the configuration is the next one to start, directly there, and belongs to no other
            bracket.
        """
        return bool(self.ledger.add(lambda: given_events(self.space, [config], self.history, budget)))

    def note(self, text: str, *, trial: int | None = None, tags: Iterable[str] = ()) -> None:
        """Add a note to the study, or to one of its trials; no decision uses it.

        trial: the number of a trial.
        tags: short texts, by which studies and trials can be found.
        """
        tags = tags if isinstance(tags, str) else tuple(tags)
        self.ledger.add(lambda: [new_note(self.history, text, trial, tags, self.session.clock())])

    def lose(self, trial: Trial | int, reason: str, counts: bool = True) -> None:
        """Report that the worker of a trial disappeared; `ask` will return the trial again.

        counts: whether it counts as an attempt of this trial; False if the whole runner stopped.
        """
        self.tell(trial, Lost(reason, counts))

    @property
    def awaited(self) -> str:
        """What has to happen before a trial can start, if none is ready."""
        n = len(delayed(self.history, self.session.clock()))
        waits = f", or one of the {n} that asked for another try has waited" if n else ""
        return f"one of the {len(self.history.running)} running ones is told{waits}"

    @property
    def done(self) -> bool:
        """Whether no trial will ever be ready again."""
        return self.exhausted(self.limits)

    def exhausted(self, limits: Limits) -> bool:
        """Whether no trial will ever be ready again because of `max_brackets` or a finite space."""
        brackets = replace(self.limits, max_brackets=limits.max_brackets)
        return not self.history.pending and not self.next_events(brackets)

    @property
    def history(self) -> History:
        """The state of the study."""
        return self.ledger.history

    @property
    def space(self) -> Space:
        """The compiled search space."""
        return self.history.space

    @property
    def settings(self) -> Settings:
        """The settings of the study."""
        return self.history.settings

    @property
    def events(self) -> Sequence[Event]:
        """All events so far."""
        return self.ledger.journal.read(0)

    def plan(self, brackets: int | None = None) -> Plan:
        """Return the table of brackets, rungs, configurations and costs; default: one round of Hyperband."""
        return plan(self.history.schedule.round, brackets)

    def model(self) -> Model | None:
        """Return the densities that the next proposal would use, or None while there are too few results."""
        return self._decider.model()

    def next_events(self, limits: Limits | None = None, client: str | None = None) -> list[Event]:
        """Return the events that `ask_many` would store next; none if nothing can start."""
        decider = self._decider
        with one_thread(self._explains):
            return decider.next_events(self.session.now(client), limits or self.limits)

    @property
    def _decider(self) -> Decider:
        """What decides, with the models that it has fitted to this history."""
        history = self.ledger.history
        if self._last_decider is None or self._last_decider.history is not history:
            self._last_decider, self._explains = Decider(history, self._sampler), history.settings.explains
        return self._last_decider


def _on_rung_of(trial: Trial, event: Event) -> bool:
    """Whether an event starts a trial on the rung of another one."""
    return isinstance(event, TrialStarted) and (event.trial.bracket, event.trial.rung) == (trial.bracket, trial.rung)


def one_thread(explains: Explains | None) -> AbstractContextManager[object]:
    """Return a context that limits BLAS to one thread; it does nothing for models that need no linear algebra.

    The Gaussian process factorises matrices of a few hundred rows. BLAS libraries use all cores even for these; while
    trials keep the cores busy, the threads wait for each other, and a proposal that needs milliseconds takes seconds.
    """
    return _controller().limit(limits=1, user_api="blas") if explains == "process" else nullcontext()


@functools.cache
def _controller() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    import bohb.core.samplers.gaussian  # noqa: F401 - the controller only finds libraries that are loaded

    return ThreadpoolController()
