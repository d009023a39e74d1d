"""What one wants to know at a glance: is a study running well, how good is it, what should I do, which is better?

The last of these questions is about several studies: their results, their best losses at equal cost, and their best
configurations, beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bohb.analysis.overview import Overview, rate_text, times_text
from bohb.analysis.trajectory import Step, trajectory
from bohb.analysis.trials import FailureKind
from bohb.analysis.verdicts import best_on_budget, best_title
from bohb.core.history import History
from bohb.units import DASH, counted, duration, grouped, number, short, value_text

_FEWEST = 5  # failures, or full evaluations; of fewer, much may be chance
_MANY = 0.2  # share of trials that fail
_SILENT = 600.0  # seconds without an event
SHARES = (0.1, 0.25, 0.5, 1.0)  # of the cost that all studies have spent


class Fact(NamedTuple):
    """A number with its title.

    moment: the time of day that it is about; since: the time of day since when it grows. A page keeps both current.
    """

    title: str
    text: str
    moment: float | None = None
    since: float | None = None


class Answers(NamedTuple):
    """The answers to the three questions: numbers, numbers, and sentences, the most urgent first."""

    running: list[Fact]
    result: list[Fact]
    advice: list[str]


def answers(seen: Overview, runner: str = "") -> Answers:
    """Return the answers for a study.

    runner: who runs it; empty if that is not known.
    """
    longest = max(map(max, seen.durations.values()), default=0.0)
    advice = [
        *silence(len(seen.history.running), seen.idle, longest),
        *failing(seen.history, seen.failures),
        *seen.remarks,
        *settled(seen.history),
    ]
    return Answers(_known(_running(seen, runner)), _known(_result(seen)), advice)


def _known(facts: Iterator[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.text or fact.moment is not None]


def _running(seen: Overview, runner: str) -> Iterator[Fact]:
    n, left, created = seen.counts, seen.left, seen.history.created
    yield Fact("State", f"{n['running']} running" if n["running"] else "idle" if n["started"] else "not started")
    yield Fact("Runner", runner)
    yield Fact("Workers", f"{seen.busy / seen.seconds:.2g} busy on average" if seen.seconds and seen.busy else "")
    yield Fact("Trials finished", f"{grouped(n['finished'])} of {grouped(n['started'])} started")
    kinds = [f"{grouped(kind.n)} {kind.status.value.replace('_', ' ')}" for kind in seen.failures]
    yield Fact("Trials failed", f"{grouped(n['failed'])}{': ' if kinds else ''}{', '.join(kinds)}")
    yield Fact("Waiting for a worker", counted(n["waiting"], "trial") if n["waiting"] else "")
    reasons = "; ".join(f"{times_text(times)}: {short(reason, 200)}" for reason, times in seen.put_back)
    yield Fact("Put back", reasons)
    yield Fact("Rate", rate_text(seen.rate, "trials ") if seen.rate else "")
    yield Fact("Brackets complete", f"{seen.finished_brackets} of {len(seen.history.brackets)}")
    if left is not None and seen.now is not None:
        yield Fact("Time left", f"about {duration(left)}, until", moment=seen.now + left)
    yield Fact("Last activity", "" if seen.idle is None else f"{duration(seen.idle)} ago", since=seen.last_event)
    yield Fact("Started", "", moment=created.time if created else None)


def _result(seen: Overview) -> Iterator[Fact]:
    best, history = seen.best, seen.history
    improved = history.spent_at_improvement / history.budgets[-1]
    yield Fact(best_title(history.goals), DASH if best is None else best_on_budget(history.goals, best))
    yield Fact("Last improvement", "" if best is None else f"after {number(improved, 4)} full evaluations")
    yield Fact("Budget spent", f"{number(seen.cost, 4)} full evaluations")
    yield Fact("Reported cost", number(history.cost_reported) if history.cost_reported else "")
    yield Fact("Run time", duration(seen.seconds))
    yield Fact("Configurations", grouped(seen.configurations))


def silence(running: int, seconds: float | None, longest: float) -> Iterator[str]:
    """Yield a sentence if trials are marked as running, but nothing has happened for much longer than a trial takes.

    seconds: since the last event; None if unknown.
    longest: the longest duration of a trial in seconds; 0 if unknown.
    """
    if running and seconds is not None and seconds > max(_SILENT, 5 * longest):
        yield (
            f"nothing has happened for {duration(seconds)}, but {counted(running, 'trial')} never ended: if the runner "
            "was killed, start the study again, and it continues"
        )


def failing(history: History, kinds: Sequence[FailureKind]) -> Iterator[str]:
    """Yield a sentence if many trials fail, with the most frequent cause."""
    finished, failed = len(history.outcomes), sum(kind.n for kind in kinds)
    if failed >= _FEWEST and failed >= _MANY * finished:
        first = max(kinds, key=lambda kind: kind.n_message)
        yield (
            f"{failed} of {counted(finished, 'trial')} failed, {first.n_message} of them with "
            f"“{short(first.message, 120)}”: mend this first, or narrow the space"
        )


def settled(history: History) -> Iterator[str]:
    """Yield a sentence if the second half of what was spent has improved nothing."""
    spent, idle = history.budget_spent, history.budget_spent - history.spent_at_improvement
    full = history.budgets[-1]
    if history.incumbent is not None and idle >= max(spent / 2, _FEWEST * full):
        yield (
            f"the last {number(idle / full, 3)} of {number(spent / full, 3)} full evaluations have improved nothing: "
            "stop, or widen the space"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Studies in numbers.

    studies: an overview of each.
    budget: the largest budget on which all of them have a result; None if there is none.
    costs: numbers of full evaluations, up to what the study that spent least has spent; a promoted configuration counts
        for what it added.
    losses: for each study its best loss on that budget at each of these costs; None while it had none.
    """

    studies: tuple[Overview, ...]
    budget: float | None
    costs: tuple[float, ...]
    losses: tuple[tuple[float | None, ...], ...]

    @property
    def title(self) -> str:
        """What the best results are called: `Best loss`, or `Best result` if the studies have other names for it."""
        titles = {best_title(study.history.goals) for study in self.studies}
        return titles.pop() if len(titles) == 1 else "Best result"

    def data(self) -> list[dict[str, Any]]:
        """Return each study as JSON."""
        return [self._of_study(place, study) for place, study in enumerate(self.studies)]

    def _of_study(self, place: int, study: Overview) -> dict[str, Any]:
        shown, best = study.history.goals.shown, study.best
        return {
            "finished": study.counts["finished"],
            "failed": study.counts["failed"],
            "full_evaluations": study.cost,
            "seconds": study.seconds,
            "loss": None if best is None else shown(best.loss),
            "budget": None if best is None else best.budget,
            "config": None if best is None else best.config,
            "losses": [shown(loss) for loss in self.losses[place]] if self.losses else [],
        }

    def results(self) -> list[tuple[str, ...]]:
        """Return the best loss, its budget, finished and failed trials, cost and time of each study, as text."""
        rows: list[tuple[str, ...]] = []
        for study in self.studies:
            best, n = study.best, study.counts
            shown = None if best is None else study.history.goals.shown(best.loss)
            budget = number(None if best is None else best.budget, 4)
            counts = grouped(n["finished"]), grouped(n["failed"]), number(study.cost, 4), duration(study.seconds)
            rows.append((number(shown), budget, *counts))
        return rows

    def progress(self) -> list[tuple[str, ...]]:
        """Return the best loss of each study at each of the costs, as text."""
        shown = [study.history.goals.shown for study in self.studies]
        return [tuple(number(of(loss)) for loss in row) for of, row in zip(shown, self.losses, strict=False)]


def comparison(histories: Sequence[History]) -> Comparison:
    """Compare the best losses of studies at equal cost, on the largest budget that all of them have reached."""
    studies = tuple(Overview(history) for history in histories)
    tables = [trajectory(history) for history in histories]
    common = set(tables[0].per_budget).intersection(*(table.per_budget for table in tables[1:])) if tables else set()
    if not common:
        return Comparison(studies, None, (), ())
    budget = max(common)
    least = min(table.end.continued for table in tables)
    costs = tuple(share * least for share in SHARES)
    losses = tuple(tuple(_best(table.per_budget[budget], cost) for cost in costs) for table in tables)
    return Comparison(studies, budget, costs, losses)


def configurations_beside(studies: Sequence[Overview]) -> list[tuple[str, ...]]:
    """Return a row per hyperparameter: its name, and its value in the best configuration of each study."""
    configs = [{} if study.best is None else study.best.config for study in studies]
    names = dict.fromkeys(name for config in configs for name in config)
    return [(name, *(value_text(c[name]) if name in c else DASH for c in configs)) for name in names]


def _best(steps: Sequence[Step], cost: float) -> float | None:
    """Return the best loss by the time that this much was spent."""
    reached = [step.loss for step in steps if step.at.continued <= cost * (1 + 1e-9)]
    return reached[-1] if reached else None
