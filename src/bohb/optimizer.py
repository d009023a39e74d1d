"""BOHB: ask and tell over a journal."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bohb._version import __version__
from bohb.core.brackets import check_budgets, geometric_budgets
from bohb.core.decide import Restart, StartPromotion, StartSample, decide
from bohb.core.events import (
    ConfigGiven,
    Event,
    ObservationAdded,
    StudyCreated,
    TrialFinished,
    TrialLost,
    TrialStarted,
)
from bohb.core.halving import Done, Wait
from bohb.core.history import History, Result
from bohb.core.plan import Plan, plan
from bohb.core.sampler import Model, Proposal, fit_model, min_points, model_budget, propose
from bohb.core.settings import PAPER, Settings
from bohb.core.space import Space
from bohb.core.trial import Origin, Outcome, Trial, outcome_of
from bohb.errors import (
    AlreadyTold,
    BohbError,
    InvalidArgument,
    NoTrialReady,
    StudyDone,
    UnknownTrial,
)
from bohb.journal import Journal, MemoryJournal

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

SpaceLike = "Space | ConfigurationSpace | Mapping[str, Any]"
_ENDED = "every configuration of the space has been evaluated on every budget that is left"


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
    """

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
        **changes: Any,
    ) -> None:
        self._compiled = space if isinstance(space, Space) else Space(space)
        created = StudyCreated(
            space=self._compiled.to_json(),
            budgets=_budgets(min_budget, max_budget, eta, budgets, integer_budgets),
            eta=eta,
            seed=_seed(seed),
            settings=_changed(settings, changes).to_json(),
            version=__version__,
            time=clock(),
        )
        if max_brackets is not None and max_brackets < 1:
            raise InvalidArgument(f"max_brackets={max_brackets!r} must be at least 1")
        self.max_brackets = max_brackets
        self._journal = MemoryJournal() if journal is None else journal
        self._clock = clock
        self.history = History(self._compiled)
        self._model: Model | None = None
        self._restart()
        if self.history.created is None:
            self._append([created, *_given(self._compiled, initial_configs), *_observed(self._compiled, warm_start)])

    @classmethod
    def from_events(
        cls,
        events: Iterable[Event],
        space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
        max_brackets: int | None = None,
    ) -> BOHB:
        """The optimizer that has seen these events: it goes on as the one that wrote them would have."""
        events = list(events)
        if not events or not isinstance(events[0], StudyCreated):
            raise InvalidArgument("events must begin with a StudyCreated event")
        first = events[0]
        return cls(
            Space.from_json(first.space) if space is None else space,
            budgets=first.budgets,
            eta=first.eta,
            seed=first.seed,
            settings=Settings.from_json(first.settings),
            max_brackets=max_brackets,
            journal=MemoryJournal(events),
        )

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

    def ask_many(self, n: int) -> list[Trial]:
        """Up to n trials to run at once, written to the journal together; fewer if fewer are ready."""
        first = self.history.n_events
        events: list[Event] = []
        while sum(isinstance(event, TrialStarted) for event in events) - _reused(events) < n:
            new = self._next_events()
            if not new:
                break
            for event in new:
                self.history.apply(event)
            events += new
        self._store(events, first)
        finished = {event.number for event in events if isinstance(event, TrialFinished)}
        return [
            self.history.trials[event.trial.number]
            for event in events
            if isinstance(event, TrialStarted) and event.trial.number not in finished
        ]

    def tell(self, trial: Trial | int, result: object) -> None:
        """Report how a trial ended: a loss, {"loss": …, "info": …, "cost": …}, an Outcome or an exception."""
        self.tell_many([(trial, result)])

    def tell_many(self, results: Iterable[tuple[Trial | int, object]]) -> None:
        """Report several trials, written to the journal together."""
        events: list[Event] = []
        told: dict[int, Outcome] = {}
        for trial, result in results:
            number = self._known(trial)
            outcome = outcome_of(result)
            before = self.history.outcomes.get(number, told.get(number))
            if before is None:
                told[number] = outcome
                events.append(TrialFinished(number, outcome))
            elif not before.same_effect(outcome):
                raise AlreadyTold(
                    f"trial {number} has already ended with {_describe(before)}; {_describe(outcome)} is not recorded"
                )
        self._append(events)

    def lose(self, trial: Trial | int, reason: str) -> None:
        """Report that the worker of a trial disappeared; the trial will be asked for again."""
        number = self._known(trial)
        if number in self.history.pending and number not in self.history.lost:
            attempt = self.history.pending[number].attempt
            self._append([TrialLost(number, attempt, reason, self._clock())])

    @property
    def done(self) -> bool:
        """Whether no trial will ever be ready again."""
        return not self.history.pending and not self._next_events()

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
        n_min = min_points(self.space, self.settings)
        budget = model_budget(self.history.observations, n_min, self.settings)
        if budget is None:
            return None
        d_b = self.history.observations[budget]
        if self._model is None or (self._model.budget, self._model.n) != (budget, len(d_b)):
            self._model = fit_model(self.space, budget, d_b, self.settings)
        return self._model

    def _next_events(self) -> list[Event]:
        """The events that start the next trial; none if nothing can start."""
        match decide(self.history, self.max_brackets):
            case Restart(trial):
                return [TrialStarted(replace(trial, attempt=trial.attempt + 1), self._clock())]
            case StartSample() as start:
                return self._start_sample(start)
            case StartPromotion() as start:
                return self._start_promotion(start)
            case Wait() | Done():
                return []

    def _start_sample(self, start: StartSample) -> list[Event]:
        number = len(self.history.trials)
        assert self.history.created is not None
        seed = self.history.created.seed
        proposal = self._propose(number, seed, start.budget)
        if proposal is None:
            return []
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
        return [TrialStarted(trial, self._clock())]

    def _propose(self, number: int, seed: int, budget: float) -> Proposal | None:
        if self.history.given:
            return Proposal(self.history.given[0], Origin.GIVEN)
        rng = np.random.default_rng([seed, number])
        return propose(rng, self.space, self.settings, self.model)

    def _start_promotion(self, start: StartPromotion) -> list[Event]:
        before = self.history.trials[start.number]
        loss = self.history.outcomes[start.number].loss
        trial = replace(
            before,
            number=len(self.history.trials),
            budget=start.budget,
            bracket=start.bracket,
            rung=start.rung,
            origin=Origin.PROMOTED,
            previous_budget=before.budget,
            attempt=1,
            reason={"from_trial": start.number, "loss": loss},
        )
        return [TrialStarted(trial, self._clock())]

    def _known(self, trial: Trial | int) -> int:
        number = trial.number if isinstance(trial, Trial) else trial
        if not isinstance(number, int) or isinstance(number, bool) or number not in self.history.trials:
            raise UnknownTrial(
                f"trial {number!r} was never asked for; this study has started {len(self.history.trials)} trials"
            )
        if isinstance(trial, Trial) and trial.config != self.history.trials[number].config:
            raise UnknownTrial(f"trial {number} of this study has another configuration; is it from another study?")
        return number

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
            self._restart()
            raise

    def _restart(self) -> None:
        """Fold the journal from its beginning."""
        self._model = None
        self.history = History(self._compiled).extend(self._journal.read(0))


def _reused(events: Iterable[Event]) -> int:
    return sum(isinstance(event, TrialFinished) for event in events)


def _budgets(
    min_budget: float | None,
    max_budget: float | None,
    eta: float,
    budgets: Sequence[float] | None,
    integer: bool,
) -> tuple[float, ...]:
    """The budgets of the study, from whichever way they were given."""
    if budgets is not None:
        if min_budget is not None or max_budget is not None:
            raise InvalidArgument("give either budgets or min_budget and max_budget, not both")
        checked = check_budgets(budgets)
        geometric_budgets(1, 1, eta)  # checks eta
        return checked
    if min_budget is None or max_budget is None:
        raise InvalidArgument(
            f"min_budget={min_budget!r} and max_budget={max_budget!r} must both be given (or the list budgets=[…])"
        )
    return geometric_budgets(min_budget, max_budget, eta, integer)


def _seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(32)
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InvalidArgument(f"seed={seed!r} must be a whole number of at least 0, or None for a random one")
    return int(seed)


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some of them replaced by name."""
    if not isinstance(settings, Settings):
        raise InvalidArgument(f"settings={settings!r} must be a Settings, such as bohb.PAPER")
    return Settings.from_json({**settings.to_json(), **changes})


def _given(space: Space, configs: Iterable[Mapping[str, Any]]) -> list[Event]:
    checked: list[Event] = []
    for index, config in enumerate(configs):
        space.encode(config)
        checked.append(ConfigGiven(index, dict(config)))
    return checked


def _observed(space: Space, sources: Iterable[History | BOHB] | History | BOHB) -> list[Event]:
    """The finished trials of earlier studies, checked against this space."""
    if isinstance(sources, History | BOHB):
        sources = [sources]
    events: list[Event] = []
    for source in sources:
        history = source.history if isinstance(source, BOHB) else source
        for number, outcome in history.outcomes.items():
            trial = history.trials[number]
            space.encode(trial.config)
            events.append(ObservationAdded(len(events), trial.config, trial.budget, outcome.loss, f"trial {number}"))
    return events


def _describe(outcome: Outcome) -> str:
    return f"loss {outcome.loss!r}" if outcome.ok else f"{outcome.status.value} ({outcome.error})"
