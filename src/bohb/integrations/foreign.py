"""Studies of other libraries: the rungs that their trials reach, their results as a history, and proposals from it.

Libraries that start trials and stop them early (Optuna, Ray Tune) have no brackets of their own, and their trials
cannot pause: each is stopped or goes on when it reaches a rung. Trials belong to brackets by their number. A trial is
compared with the latest ones on its rung instead of waiting for a complete rung.

If a library does not say on what a parameter depends, that is inferred: a parameter that some trials lack depends on
the choices or whole numbers that separate the trials that have it from those that do not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bohb.core import streams
from bohb.core.decider import Decider
from bohb.core.events import BracketPlanned, ObservationAdded, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket, geometric_budgets, hyperband
from bohb.core.settings import Settings
from bohb.core.space import Space
from bohb.core.trial import Outcome, Status, first_trial
from bohb.errors import InvalidArgument
from bohb.optimizer.ask_tell import one_thread

Config = dict[str, Any]
Id = TypeVar("Id", int, str)  # Optuna numbers its trials, Ray Tune names them
_SLACK = 1e-9  # a budget such as 52/27 is rounded


@dataclass(frozen=True, slots=True)
class Ladder:
    """The budgets and brackets of a study; a rung is an index of the budgets.

    round: one round of Hyperband. Its brackets take trials by their number, one after the other, and start over.
    eta: the best 1/eta of a rung go on.
    """

    round: tuple[Bracket, ...]
    eta: float

    @classmethod
    def of(cls, min_budget: float, max_budget: float, eta: float, sizes: str = "paper") -> Ladder:
        """Return the ladder of these budgets; `sizes` as for `hyperband`."""
        return cls(hyperband(geometric_budgets(min_budget, max_budget, eta), eta, sizes), eta)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets, ascending."""
        return tuple(rung.budget for rung in self.round[0].rungs)

    @property
    def top(self) -> int:
        """The highest rung."""
        return len(self.round[0].rungs) - 1

    def bracket(self, number: int) -> Bracket:
        """Return the bracket of trial `number`."""
        places = [bracket for bracket in self.round for _ in range(bracket.rungs[0].size)]
        return places[number % len(places)]

    def first_rung(self, number: int) -> int:
        """Return the rung on which trial `number` is judged first."""
        return len(self.round) - len(self.bracket(number).rungs)

    def rung_at(self, spent: float) -> int:
        """Return the highest rung that is reached with a budget; −1 if none is."""
        return sum(budget <= spent * (1 + _SLACK) for budget in self.budgets) - 1

    def goes_on(self, number: int, rung: int, loss: float, others: Iterable[float]) -> bool:
        """Whether trial `number` goes on from a rung: it is among the best 1/η, and its loss is finite.

        others: the losses of other trials on the rung, the latest first, whichever bracket they belong to. As many
            count as the trial's bracket has; earlier ones were proposed by a model that knew less.
        """
        if rung >= self.top or rung < self.first_rung(number):
            return True
        if math.isinf(loss):
            return False
        latest = list(itertools.islice(others, self.bracket(number).rungs[0].size))
        places = max(1, math.floor((len(latest) + 1) / self.eta))
        return sum(other < loss for other in latest) < places


def finite_or_inf(value: float | None, sign: float) -> float:
    """Return a value as a loss: +inf where it is missing, NaN or infinite; `sign` is −1 if values are maximised."""
    return sign * value if value is not None and math.isfinite(value) else math.inf


class Results(Generic[Id]):
    """The results of trials: their losses on the rungs, and who goes on.

    losses: trial, rung and loss, in the order of arrival; +inf if the trial failed.
    stopped: the trials that were stopped on a rung.
    """

    def __init__(self, ladder: Ladder) -> None:
        self.ladder = ladder
        self.losses: list[tuple[Id, int, float]] = []
        self.stopped: set[Id] = set()
        self._numbers: dict[Id, int] = {}
        self._reached: dict[Id, int] = {}
        self._failed: dict[Id, int] = {}  # the rung reached before the failure

    def to_json(self) -> dict[str, Any]:
        """Return everything that is known, as JSON."""
        return {
            "brackets": [bracket.pairs for bracket in self.ladder.round],
            "eta": self.ladder.eta,
            "losses": [[trial, rung, None if math.isinf(loss) else loss] for trial, rung, loss in self.losses],
            "stopped": sorted(self.stopped),
            "numbers": self._numbers,
            "failed": list(self._failed.items()),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Results[Id]:
        """Return the results that `to_json` wrote."""
        results: Results[Id] = cls(Ladder(tuple(Bracket.of(pairs) for pairs in stored["brackets"]), stored["eta"]))
        for trial, rung, loss in stored["losses"]:
            results.add(trial, rung, math.inf if loss is None else loss)
        results.stopped, results._numbers = set(stored["stopped"]), dict(stored["numbers"])
        results._failed = dict(stored["failed"])
        return results

    def number(self, trial: Id) -> int:
        """Return the number of a trial; a new trial with a name gets the next one."""
        return trial if isinstance(trial, int) else self._numbers.setdefault(trial, len(self._numbers))

    def next_rung(self, trial: Id) -> int:
        """Return the rung that a trial reaches next."""
        following = self._reached.get(trial, -1) + 1
        return min(max(self.ladder.first_rung(self.number(trial)), following), self.ladder.top)

    def add(self, trial: Id, rung: int, loss: float) -> bool:
        """Add a loss; return False if the trial has reached the rung before, as one that was restarted may have."""
        if rung <= self._reached.get(trial, -1):
            return False
        self._reached[trial] = rung
        self.losses.append((trial, rung, loss))
        return True

    def goes_on(self, trial: Id, rung: int, loss: float) -> bool:
        """Whether a trial goes on from the rung that it has reached."""
        others = (other for name, at, other in reversed(self.losses) if at == rung and name != trial)
        return self.ladder.goes_on(self.number(trial), rung, loss, others)

    def fail(self, trial: Id) -> None:
        """Note that a trial failed on the rung that it was to reach next."""
        self._failed[trial] = self._reached.get(trial, -1)
        self.add(trial, self.next_rung(trial), math.inf)

    def run_again(self, trial: Id) -> None:
        """Forget the failure of a trial, if it failed: a restored tuner runs it again."""
        if trial in self._failed:
            before = self._reached[trial] = self._failed.pop(trial)
            self.losses = [known for known in self.losses if known[0] != trial or known[1] <= before]


class Proposals(Generic[Id]):
    """The results as a history, and proposals from it.

    seed: decides the proposals, together with the number of the trial and the results that are known.
    """

    def __init__(self, space: Space, results: Results[Id], settings: Settings, seed: int) -> None:
        self._results: Results[Id] = results
        self._settings, self._seed = settings, seed
        ladder = results.ladder
        created = StudyCreated(space.to_json(), ladder.budgets, ladder.eta, seed, settings.to_json())
        self.history = History(space).extend([created])
        self._decider = Decider(self.history)
        self._n_added = 0

    def propose(self, number: int, configs: Mapping[Id, Config], running: Iterable[Id]) -> Config | None:
        """Return the configuration of trial `number`; None if a finite space has nothing new left.

        configs: the configurations of all trials that have results or are running.
        """
        results, budgets = self._results, self._results.ladder.budgets
        for trial, rung, loss in results.losses[self._n_added :]:
            # a bracket of its own, since others decide who goes on
            bracket, budget = len(self.history.brackets), budgets[rung]
            added = first_trial(len(self.history.trials), configs[trial], budget, bracket)
            outcome = Outcome(Status.OK, loss) if math.isfinite(loss) else Outcome(Status.CRASHED)
            planned = BracketPlanned(bracket, ((budget, 1),), "given")
            self.history.extend([planned, TrialStarted(added), TrialFinished(added.number, outcome)])
        self._n_added = len(results.losses)
        pending = [
            first_trial(-1 - i, configs[trial], budgets[results.next_rung(trial)])
            for i, trial in enumerate(sorted(running))
        ]
        with self.history.supposing(pending), one_thread(self._settings.explains):
            rng = streams.proposal_stream(self._seed, number)
            # With one budget every trial is a bracket; with several, all brackets count as Hyperband's.
            proposal = self._decider.propose(rng, number, budgets[results.ladder.first_rung(number)], number)
        return None if proposal is None else proposal.config


def earlier(space: Space, observations: Sequence[ObservationAdded]) -> History:
    """Return the history of a study with these observations and no trial, for `warm_start=`."""
    if not observations:
        raise InvalidArgument("there is no result to start from; leave warm_start out")
    budgets = tuple(sorted({event.budget for event in observations}))
    created = StudyCreated(space.to_json(), budgets, 3, 0, Settings().to_json())
    return History(space).extend([created, *observations])


Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Column:
    """A parameter in some trials.

    present: which trials have it.
    values: its values there; None if no other parameter can depend on it.
    legal: all values it may have.
    choice: whether its values have no order.
    """

    present: Mask
    values: NDArray[np.int64] | None = None
    legal: range = range(0)
    choice: bool = False

    def active_values(self, active: Mask) -> frozenset[int]:
        """Return the values with which another parameter is active; a number never seen counts like the nearest."""
        assert self.values is not None
        values = self.values[self.present]
        seen, known = frozenset(values[active[self.present]].tolist()), np.unique(values)
        if self.choice:
            return seen
        return frozenset(value for value in self.legal if int(known[np.abs(known - value).argmin()]) in seen)


def conditions(columns: Mapping[str, Column]) -> dict[str, dict[str, frozenset[int]]]:
    """Return the parameters whose activity can be explained, parents first, with the values that each parent must have.

    A parent is present in more trials than its child, so there are no cycles.
    """
    explained: dict[str, dict[str, frozenset[int]]] = {}
    for name in sorted(columns, key=lambda name: -int(columns[name].present.sum())):
        present = columns[name].present
        candidates: dict[str, tuple[frozenset[int], Mask]] = {}
        for parent in explained:
            column = columns[parent]
            if column.values is not None and not (present & ~column.present).any():
                values = column.active_values(present)
                candidates[parent] = values, ~column.present | ~np.isin(column.values, list(values))
        chosen = _explain(~present, candidates, columns)
        if chosen is not None:
            explained[name] = {parent: candidates[parent][0] for parent in chosen}
    return explained


def _explain(
    absent: Mask, candidates: Mapping[str, tuple[frozenset[int], Mask]], columns: Mapping[str, Column]
) -> list[str] | None:
    """Return the parents that together rule out exactly the trials without the parameter, or None if none do.

    The parent that rules out most comes first; a choice is preferred to a number.
    """

    def merit(parent: str) -> tuple[int, bool]:
        return int((left & candidates[parent][1]).sum()), columns[parent].choice

    left, chosen = absent.copy(), list[str]()
    while left.any():
        best = max(candidates, key=merit, default=None)
        if best is None or merit(best)[0] == 0:
            return None
        chosen.append(best)
        left &= ~candidates[best][1]
    return chosen
