"""The way of configurations: who picked them, their rungs, their losses from budget to budget, and learning curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bohb.core.history import History
from bohb.core.trial import Origin, Status, Trial
from bohb.units import counted


@dataclass(frozen=True, slots=True)
class Entry:
    """One trial on a rung.

    loss: None if it failed or is still running; `status` is None while it runs.
    rank: its rank among the finished trials of the rung, from 1; None if it failed or is running.
    promoted: None while the rung is incomplete, and on the last rung, from which nothing is promoted.
    """

    number: int
    config_id: int
    status: Status | None
    loss: float | None
    rank: int | None
    promoted: bool | None


@dataclass(frozen=True, slots=True)
class RungTable:
    """One rung of one bracket.

    planned: number of trials in the plan; a finite space or failures can leave it with fewer.
    keep: number of trials that are promoted; 0 on the last rung.
    next_budget: the budget of the next rung; None on the last rung.
    complete: whether all its trials have finished and the promotions are decided.
    cutoff: the worst loss that was promoted; None while there is none, and where the loss alone does not decide.
    """

    bracket: int
    rung: int
    budget: float
    planned: int
    keep: int
    next_budget: float | None
    complete: bool
    cutoff: float | None
    entries: tuple[Entry, ...]

    @property
    def finished(self) -> int:
        """Number of finished trials."""
        return sum(entry.status is not None for entry in self.entries)


def rung_of(history: History, number: int) -> RungTable:
    """Return the rung of a trial."""
    trial = history.trials[number]
    bracket, rung = trial.bracket, trial.rung
    members = [n for n, other in history.trials.items() if (other.bracket, other.rung) == (bracket, rung)]
    halving = history.brackets[bracket]
    rungs = halving.bracket.rungs
    last = rung == len(rungs) - 1
    # A bracket without a survivor ends early; its rung is then the number of its rungs.
    complete = halving.rung > rung
    survivors = halving.survivors[rung] if complete and rung < len(halving.survivors) else []
    losses = [history.outcomes[n].ranking_loss for n in survivors]
    ranked = history.order.best_first(n for n in members if n in history.outcomes)
    rank = {n: place for place, n in enumerate(ranked, start=1)}
    entries = tuple(
        Entry(
            number=n,
            config_id=history.trials[n].config_id,
            status=history.outcomes[n].status if n in history.outcomes else None,
            loss=history.outcomes[n].loss if n in history.outcomes else None,
            rank=rank.get(n),
            promoted=None if last or not complete else n in survivors,
        )
        for n in members
    )
    return RungTable(
        bracket=bracket,
        rung=rung,
        budget=rungs[rung].budget,
        planned=rungs[rung].size,
        keep=0 if last else rungs[rung + 1].size,
        next_budget=None if last else rungs[rung + 1].budget,
        complete=complete,
        cutoff=max(losses, default=None) if history.goals.single else None,
        entries=entries,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """Losses in order: a configuration from budget to budget, or the learning curve of a trial.

    budget: the largest one that the configuration has reached, or that of the trial.
    x: the budgets, or the steps at which the objective reported.
    losses: to be minimised; those of a curve may be NaN or infinite.
    numbers: the trial of each.
    """

    budget: float
    x: Sequence[float]
    losses: Sequence[float]
    numbers: Sequence[int]


def curves(history: History) -> list[Line]:
    """Return the learning curves that objectives reported, in the order in which trials finished."""
    found = []
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if outcome.curve and trial.reuses is None:
            steps, values = zip(*outcome.curve, strict=True)
            losses = [history.goals.minimised(value) for value in values]
            found.append(Line(trial.budget, steps, losses, [number] * len(steps)))
    return found


def paths(history: History) -> list[Line]:
    """Return every configuration that has a loss with its losses from budget to budget."""
    numbers: dict[int, list[int]] = {}
    for number, outcome in history.outcomes.items():
        if outcome.ok:
            numbers.setdefault(history.trials[number].config_id, []).append(number)
    found = []
    for mine in numbers.values():
        mine.sort(key=lambda n: history.trials[n].budget)
        budgets = [history.trials[n].budget for n in mine]
        found.append(Line(budgets[-1], budgets, [history.outcomes[n].ranking_loss for n in mine], mine))
    return found


@dataclass(frozen=True, slots=True)
class Picks:
    """The new configurations of one origin on one budget.

    losses: losses of those that succeeded, in the order in which they finished.
    """

    budget: float
    origin: Origin
    n: int
    failed: int
    losses: tuple[float, ...]


def picks(history: History) -> list[Picks]:
    """Return new configurations by budget and origin, without promoted ones, which were selected."""
    groups: dict[tuple[float, Origin], list[float]] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if trial.origin is not Origin.PROMOTED:
            groups.setdefault((trial.budget, trial.origin), []).append(outcome.ranking_loss)
    order = list(Origin)
    rows = []
    for budget, origin in sorted(groups, key=lambda key: (key[0], order.index(key[1]))):
        losses = groups[budget, origin]
        finite = tuple(loss for loss in losses if np.isfinite(loss))
        rows.append(Picks(budget, origin, len(losses), len(losses) - len(finite), finite))
    return rows


@dataclass(frozen=True, slots=True)
class Record:
    """How the new configurations of one proposer have done.

    proposer: "process", "density", "prior", "user", or the name of a sampler.
    n: how many of them have finished.
    rank: their mean rank among all new configurations on the same budget, from 0 (all better) to 1 (all worse).
    """

    proposer: str
    n: int
    rank: float


def records(history: History) -> list[Record]:
    """Return the record of each proposer, the best first."""
    budgets: dict[float, list[int]] = {}
    for number in history.outcomes:
        trial = history.trials[number]
        if trial.origin is not Origin.PROMOTED:
            budgets.setdefault(trial.budget, []).append(number)
    ranks: dict[str, list[float]] = {}
    for new in budgets.values():
        losses = np.array(list(history.order.levels(new).values()))
        below, upto = (np.searchsorted(np.sort(losses), losses, side) for side in ("left", "right"))
        for number, rank in zip(new, (below + upto - 1) / 2 / max(1, len(new) - 1), strict=True):
            ranks.setdefault(proposer(history.trials[number]), []).append(float(rank))
    found = [Record(name, len(known), float(np.mean(known))) for name, known in ranks.items()]
    return sorted(found, key=lambda record: (record.rank, record.proposer))


def proposer(trial: Trial) -> str:
    """Return who proposed the configuration of a trial that was not promoted."""
    match trial.origin:
        case Origin.GIVEN:
            return "user"
        case Origin.MODEL:
            return str(trial.reason["sampler"]) if trial.explains == "function" else str(trial.explains)
        case _:
            return "prior"


def standing(history: History, number: int, rung: RungTable) -> Iterator[str]:
    """How it compares with the other results of its rung, if one loss does not decide alone."""
    goals, outcome = history.goals, history.outcomes.get(number)
    if goals.single or outcome is None or not outcome.ok:
        return
    if goals.constraints:
        broken = [goal for goal in goals.constraints if goal.violation(outcome.values[goal.name])]
        text = ", ".join(f"{goal.name} {outcome.values[goal.name]:.6g}, not {goal}" for goal in broken)
        yield f"It violates the constraints: {text}." if broken else "It keeps all constraints."
        if broken:
            yield "Results that keep the constraints are promoted first; the others by how little they violate them."
            return
    if goals.several:
        others = [history.outcomes[e.number] for e in rung.entries if e.status is Status.OK and e.number != number]
        mine = goals.losses(outcome.values)
        kept = [goals.losses(other.values) for other in others if history.violation(other) == 0]
        better = sum(other != mine and all(x <= y for x, y in zip(other, mine, strict=True)) for other in kept)
        among = f"the {counted(len(kept), 'other result')} of its rung" + (
            " that keep them" if goals.constraints else ""
        )
        if better:
            yield f"{better} of {among} dominate it: they are at least as good in all objectives and better in one."
        else:
            yield f"None of {among} dominates it, so it is on the front of its rung."
        yield "Promotion goes by fronts; within one, results that are far apart from each other come first."
