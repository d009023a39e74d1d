"""The rungs of all brackets: trials, ranks, promotions and cut-offs."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.standings import best_first
from bohb.core.trial import Status


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
    cutoff: the worst loss that was promoted, except at random; None while there is none, and where the loss alone does
        not decide.
    at_random: the trial that was promoted at random, or None.
    """

    bracket: int
    rung: int
    budget: float
    planned: int
    keep: int
    next_budget: float | None
    complete: bool
    cutoff: float | None
    at_random: int | None
    entries: tuple[Entry, ...]

    @property
    def finished(self) -> int:
        """Number of finished trials."""
        return sum(entry.status is not None for entry in self.entries)


def survival(history: History) -> list[RungTable]:
    """Return every rung that has a trial, bracket by bracket."""
    members: dict[tuple[int, int], list[int]] = {}
    for number, trial in history.trials.items():
        members.setdefault((trial.bracket, trial.rung), []).append(number)
    return [_table(history, bracket, rung, members[bracket, rung]) for bracket, rung in sorted(members)]


def rung_of(history: History, number: int) -> RungTable:
    """Return the rung of a trial."""
    trial = history.trials[number]
    place = (trial.bracket, trial.rung)
    members = [n for n, other in history.trials.items() if (other.bracket, other.rung) == place]
    return _table(history, *place, members)


def _table(history: History, bracket: int, rung: int, members: list[int]) -> RungTable:
    halving = history.brackets[bracket]
    rungs = halving.bracket.rungs
    last = rung == len(rungs) - 1
    keep = 0 if last else rungs[rung + 1].size
    ranked = best_first(history.goals, history.outcomes, (n for n in members if n in history.outcomes))
    # A bracket without a survivor ends early; its rung is then the number of its rungs.
    complete = halving.rung > rung
    survivors = halving.survivors[rung] if complete and rung < len(halving.survivors) else []
    lucky = next((n for n in survivors if n in history.schedule.at_random), None)
    by_merit = [history.outcomes[n].ranking_loss for n in survivors if n != lucky]
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
        keep=keep,
        next_budget=None if last else rungs[rung + 1].budget,
        complete=complete,
        cutoff=max(by_merit, default=None) if history.goals.single else None,
        at_random=lucky,
        entries=entries,
    )
