"""What a Gaussian process learns from: a number of every result, on the level of the largest budget, standardised.

With one objective it is the loss. With several objectives or constraints, there is a process for every `Quantity`.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bohb.core.events import ObservationAdded
from bohb.core.goals import Constraint, Goals, Objective
from bohb.core.history import History
from bohb.core.samplers.process import MOST_BELOW, Data
from bohb.core.space import Array
from bohb.core.trial import Outcome

LOWER_SHARE = 0.35  # of the results that the process is given may be lower results of promoted configurations
_LARGEST = 1e308
_SMALL = 0.1  # of a bound or a usual value: above it values are compared by ratios, below it by differences
_HIGHEST = 700.0  # the hyperbolic sine of more overflows


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of each result that one process models.

    objective: the objective that it is the loss of, or None for a value that is only bounded.
    constraints: the bounds on this value.
    first: whether it is the first objective: a failed evaluation counts as bad there, elsewhere its value is unknown.
    unit: the loss of an objective counts by its logarithm where it is larger than this; 0: it counts as it is.
    """

    objective: Objective | None
    constraints: tuple[Constraint, ...] = ()
    first: bool = True
    unit: float = 0.0

    def value(self, result: Outcome | ObservationAdded) -> float:
        """Return the number of a result; NaN if it is unknown, +inf for the first objective of a failed evaluation.

        A value that is only bounded counts by its logarithm, unless it is far below its bound, and so does an objective
        other than the first, if its sign does not change. One huge value then does not hide the differences between the
        others, and budgets on which all values are twice as high differ by a constant. Below the bound is good.
        """
        if self.first:
            return math.inf if result.loss is None else result.loss
        value = result.values.get(self.constraints[0].name if self.objective is None else self.objective.name)
        return math.nan if value is None else self._scaled(value)

    @property
    def bounds(self) -> list[tuple[float, bool]]:
        """Each bound on the scale of `value`, and whether it is an upper one."""
        if self.objective is not None:
            maximised = self.objective.maximised
            return [(self._scaled(c.bound), (c.sense == "<=") != maximised) for c in self.constraints]
        return [(self._scaled(c.bound), True) for c in self.constraints]

    def _scaled(self, value: float) -> float:
        if self.objective is not None:
            loss = self.objective.loss(value)
            return math.asinh(loss / self.unit) if self.unit else loss
        constraint = self.constraints[0]
        ratio = math.asinh(value / (_SMALL * abs(constraint.bound) or 1.0))
        return ratio if constraint.sense == "<=" else 0.0 - ratio

    def loss(self, scaled: float) -> float:
        """Return the loss of an objective that has this value; the inverse of `value`."""
        return self.unit * math.sinh(min(max(scaled, -_HIGHEST), _HIGHEST)) if self.unit else scaled


LOSS = Quantity(Objective("loss"))


def quantities(goals: Goals, results: Iterable[Outcome | ObservationAdded] = ()) -> Sequence[Quantity]:
    """Return what to model: the objectives first, then the values that are only bounded.

    results: some of the study, whose medians determine the units of objectives.
    """
    known = [result.values for result in results]
    found = []
    for number, objective in enumerate(goals.objectives):
        bounds = tuple(c for c in goals.constraints if c.name == objective.name)
        usual = [values[objective.name] for values in known if number and objective.name in values]
        # values of both signs show that ratios mean nothing
        unit = _SMALL * abs(statistics.median(usual)) if usual and min(usual) * max(usual) > 0 else 0.0
        found.append(Quantity(objective, bounds, first=number == 0, unit=unit))
    names = {objective.name for objective in goals.objectives}
    return [*found, *(Quantity(None, (c,), first=False) for c in goals.constraints if c.name not in names)]


class Results:
    """The vectors of all configurations, and every result in the order of arrival, those of earlier studies first.

    Two evaluations of one configuration share a row, whichever study they come from. If they are of one study and one
    budget, their mean counts, with a smaller variance; evaluations of confirmations are among them.

    quantity: which number of each result counts; a result without it is left out.
    largest_only: whether results on smaller budgets than the largest, and those of earlier studies, are left out.
    n_earlier: the number of results of earlier studies.
    studies: the number of studies, this one included.
    """

    def __init__(self, d: int, quantity: Quantity = LOSS, largest_only: bool = False) -> None:
        self.quantity = quantity
        self._largest_only = largest_only
        self._row_of: dict[bytes, int] = {}
        self._vectors = np.empty((16, d))
        self._entries = np.empty((16, 4))  # row, budget, loss, study; 0 is this one
        self._own: set[bytes] = set()
        self._places: dict[tuple[int, float, int], int] = {}  # the first entry of each row, budget and study
        self._repeated: dict[tuple[int, float, int], list[int]] = {}  # all entries, where there are several
        self._n_repeats = 0
        self._n = 0
        self._n_outcomes = self._n_observed = 0
        self.n_earlier = 0
        self.studies = 1

    def __len__(self) -> int:
        return self._n

    def __contains__(self, vector: Array) -> bool:
        """Whether this study has a result of the configuration."""
        return vector.tobytes() in self._own

    def vectors(self, rows: NDArray[np.intp]) -> Array:
        """Return the vectors of configurations."""
        return self._vectors[rows]

    def catch_up(self, history: History) -> None:
        """Add the results that are new in the history."""
        encode, restore = history.space.encode, history.space.restore
        for event in () if self._largest_only else history.observed[self._n_observed :]:
            self._add(encode(restore(event.config)), event.budget, self.quantity.value(event), 1 + event.study)
            self.n_earlier = self._n
        self._n_observed = len(history.observed)
        start = self._n_outcomes
        for position, (number, outcome) in enumerate(itertools.islice(history.outcomes.items(), start, None), start):
            self._add_repeats(history, position)
            trial = history.trials[number]
            if trial.reuses is None and number not in history.forgotten:  # reused: another trial's result
                vector = encode(trial.config)
                self._add(vector, trial.budget, self.quantity.value(outcome), 0)
                self._own.add(vector.tobytes())
        self._n_outcomes = len(history.outcomes)
        self._add_repeats(history, self._n_outcomes)

    def _add_repeats(self, history: History, n_outcomes: int) -> None:
        """Add the results of confirmations that came after the first n outcomes, or earlier."""
        while self._n_repeats < len(history.repeats):
            after, config, budget, outcome = history.repeats[self._n_repeats]
            if after > n_outcomes:
                break
            self._add(history.space.encode(history.space.restore(config)), budget, self.quantity.value(outcome), 0)
            self._n_repeats += 1

    def _add(self, vector: Array, budget: float, loss: float, study: int) -> None:
        row = self._row_of.setdefault(vector.tobytes(), len(self._row_of))
        if row == len(self._vectors):
            self._vectors = np.resize(self._vectors, (2 * row, self._vectors.shape[1]))
        if self._n == len(self._entries):
            self._entries = np.resize(self._entries, (2 * self._n, 4))
        self._vectors[row] = vector
        if math.isnan(loss):
            return
        self._entries[self._n] = row, budget, loss, study
        if math.isfinite(loss):
            first = self._places.setdefault((row, budget, study), self._n)
            if first != self._n:
                self._repeated.setdefault((row, budget, study), [first]).append(self._n)
        self._n += 1
        self.studies = max(self.studies, study + 1)

    def table(self, n: int, budgets: Sequence[float], study: int = 0) -> Table:
        """Return a study's results among the first n ones.

        Of several results on one rung the latest counts. Results of an earlier study on larger budgets are left out.
        """
        entries = self._entries[:n]
        entries = entries[(entries[:, 1] <= budgets[-1] * (1 + 1e-9)) & (entries[:, 3] == study)]
        below = rungs_below(entries[:, 1], budgets)
        if self._largest_only:
            entries, below = entries[below == 0], below[below == 0]
        losses = np.full((len(self._row_of), 1 + int(below.max(initial=0))), np.nan)
        losses[entries[:, 0].astype(np.intp), below] = entries[:, 2]
        repeated = []
        for (row, budget, of), places in self._repeated.items():
            known = [place for place in places if place < n]
            if of == study and len(known) > 1 and budget <= budgets[-1] * (1 + 1e-9):
                column = int(rungs_below(np.array([budget]), budgets)[0])
                if column == 0 or not self._largest_only:
                    repeated.append((row, column, self._entries[known, 2]))
                    losses[row, column] = repeated[-1][2].mean()
        rows = np.flatnonzero(~np.isnan(losses).all(axis=1))
        return Table(rows, losses[rows], repeated)


class Table(NamedTuple):
    """The results of one study.

    rows: which configurations, as `Results` numbers them.
    losses: by rung, (configurations, rungs). The first column is the largest budget, the next one the second largest,
        and so on; NaN where nothing is known, +inf where an evaluation failed. Of repeated evaluations, the mean.
    repeated: the row, the rung and the losses of repeated evaluations.
    """

    rows: NDArray[np.intp]
    losses: Array
    repeated: Sequence[tuple[int, int, Array]] = ()


def rungs_below(of: Array, budgets: Sequence[float]) -> NDArray[np.intp]:
    """Return how many rungs each budget lies below the largest one.

    A budget of an earlier study that is none of this study's belongs to the nearest, by their ratio.
    """
    apart = np.abs(np.log(of)[:, None] - np.log(np.array(budgets[::-1], dtype=float)))
    nearest: NDArray[np.intp] = np.minimum(np.argmin(np.round(apart, 9), axis=1), MOST_BELOW)
    return nearest


def winsorised(losses: Array, bound: float = -math.inf) -> Array:
    """Return losses cut at the median plus twice the distance from the best to the median.

    A diverged network must not decide the scale of all others. NaN and +inf stay.

    bound: losses are cut no nearer to it than twice its distance from the best, so that both of its sides stay apart.
    """
    finite = losses[np.isfinite(losses)]
    if not len(finite):
        return losses
    median = float(np.median(finite))
    best = float(finite.min())
    cut = max(median + 2 * (median - best), 2 * bound - best)
    return np.where(np.isfinite(losses), np.minimum(losses, cut), losses)


@dataclass(frozen=True, slots=True)
class Targets:
    """What the process is fitted to, one row per result.

    rows: which configurations, as `Results` numbers them.
    below: how many rungs below the largest budget each was evaluated.
    y: the loss there, shifted to the largest budget and standardised: less `centre`, divided by `spread`.
    highest: whether the configuration has no result on a larger budget.
    study: whose result it is; 0 is this study.
    counts: how many evaluations each loss is the mean of.
    squares: the sum of the squared deviations of these from their mean, in units of the squared `spread`.
    finite: how many configurations have a loss.
    """

    rows: NDArray[np.intp]
    below: NDArray[np.intp]
    y: Array
    highest: NDArray[np.bool_]
    study: NDArray[np.intp]
    counts: Array
    squares: Array
    centre: float
    spread: float
    finite: int

    def data(self, rungs: int, points: Array, owner: NDArray[np.intp]) -> Data:
        """Return what a process with so many rungs is given; points: φ of the configurations, and their `owner`."""
        return Data(owner, points, self.study * rungs + self.below, self.y, self.counts, self.squares)

    def take(self, kept: NDArray[np.intp]) -> Targets:
        """Return some of the results."""
        return replace(self, **{name: getattr(self, name)[kept] for name in _OF_EACH})

    def with_earlier(self, earlier: Targets) -> Targets:
        """Return the results of two studies; the user's scale is the first one's, if it is known."""
        both = {name: np.concatenate([getattr(self, name), getattr(earlier, name)]) for name in _OF_EACH}
        centre = self.centre if self.finite else earlier.centre
        spread = self.spread if self.y.any() else earlier.spread
        return Targets(**both, centre=centre, spread=spread, finite=self.finite + earlier.finite)


_OF_EACH = ("rows", "below", "y", "highest", "study", "counts", "squares")  # have an entry for every result


def targets(table: Table, bound: float = -math.inf, study: int = 0) -> Targets:
    """Return the targets of a study.

    Longer training lowers all losses. Each rung is therefore shifted by the median difference of the configurations
    that were evaluated on it and the next one; what else separates rungs is left to the process. Losses are cut once
    they are on one scale: if they were cut rung by rung, a bad configuration among the good ones of a high rung would
    look good. A failed evaluation counts as the worst that did not fail.
    """
    unit = float(np.abs(table.losses[np.isfinite(table.losses)]).max(initial=0.0)) or 1.0
    shifted = table.losses / unit  # so that no square overflows
    columns = np.flatnonzero(np.isfinite(shifted).any(axis=0)).tolist()
    for above, column in itertools.pairwise(columns):
        shifted[:, column] += shift(shifted[:, column], shifted[:, above])  # +inf stays
    configuration, below = np.nonzero(~np.isnan(shifted))
    y = shifted[configuration, below]
    finite = np.isfinite(y)
    y[~finite] = y[finite].max(initial=-math.inf)
    y, centre, spread = standardised(winsorised(y, bound / unit))
    centre, spread = bounded(centre * unit), bounded(spread * unit)
    highest = below == np.argmax(~np.isnan(shifted), axis=1)[configuration]
    rows, counts, squares = table.rows[configuration], np.ones(len(y)), np.zeros(len(y))
    for row, column, values in table.repeated:
        at = (rows == row) & (below == column)
        counts[at], squares[at] = len(values), (((values - values.mean()) / spread) ** 2).sum()
    n = int(np.isfinite(shifted).any(axis=1).sum())
    return Targets(rows, below, y, highest, np.full_like(below, study), counts, squares, centre, spread, n)


def joined(
    results: Results, n: int, budgets: Sequence[float], most: int, merit: Callable[[Targets], Array] | None = None
) -> Targets:
    """Return at most `most` targets from the first n results.

    Losses of every study are standardised on their own, since those of another data set have another scale. Earlier
    studies share the places that this study's results leave, and so fade out as it grows.

    merit: returns what to compare this study's results by if there are too many, lower is better; default: the losses.
    """
    bound = max((bound for bound, _ in results.quantity.bounds), default=-math.inf)
    every = [targets(results.table(n, budgets, study), bound, study) for study in range(results.studies)]
    kept = best_first(every[0], most, None if merit is None else merit(every[0]))
    room = (most - len(kept.y)) // max(1, results.studies - 1)
    for earlier in every[1:]:
        kept = kept.with_earlier(best_first(earlier, room))
    return kept


def shift(x: Array, y: Array) -> float:
    """Return the median difference from one rung's losses x to the next one's y; NaN or inf is unknown."""
    shared = np.isfinite(x) & np.isfinite(y)
    if shared.any():
        return float(np.median(y[shared] - x[shared]))
    return float(np.median(y[np.isfinite(y)]) - np.median(x[np.isfinite(x)]))


def bounded(loss: float) -> float:
    """Return a loss that is finite even if the mean or deviation of huge losses is not."""
    return min(max(loss, -_LARGEST), _LARGEST)


def standardised(y: Array) -> tuple[Array, float, float]:
    """Return losses with mean 0 and deviation 1, their mean and their deviation; all 0 if they are equal."""
    if not len(y) or not np.isfinite(y).all():
        return np.zeros(len(y)), 0.0, 1.0
    centre, spread = float(y.mean()), float(y.std())
    if spread <= 1e-12 * max(abs(centre), float(np.abs(y).max())):
        return np.zeros(len(y)), centre, 1.0
    return (y - centre) / spread, centre, spread


def best_first(found: Targets, most: int, merit: Array | None = None) -> Targets:
    """Return at most `most` results: the highest rungs and lowest losses, and lower results of promoted configurations.

    The latter show how well rungs agree. They fill the remaining places, at least LOWER_SHARE of all.

    merit: what to compare instead of losses.
    """
    order = np.lexsort((found.y if merit is None else merit, found.below, ~found.highest))
    n_highest = int(found.highest.sum())
    highest, lower = order[:n_highest], order[n_highest:]
    room = max(most - len(lower), math.floor((1 - LOWER_SHARE) * most))
    return found.take(np.concatenate([highest[:room], lower])[:most])


def prefixes(n: int, growth: float = 1.15, first: int = 8) -> list[int]:
    """Return the numbers of results up to n at which hyperparameters are fitted, each `growth` times the last."""
    sizes: list[int] = []
    size = float(first)
    while size <= n:
        sizes.append(math.ceil(size))
        size *= growth
    return sizes
