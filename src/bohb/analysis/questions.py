"""What one wants to know at a glance at a study: is it running well, how good is it, what should I do?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bohb.analysis.overview import Overview, rate_text, times_text
from bohb.analysis.trials import FailureKind
from bohb.analysis.verdicts import best_on_budget, best_title
from bohb.core.history import History
from bohb.units import DASH, counted, duration, grouped, number, short

_FEWEST = 5  # failures, or full evaluations; of fewer, much may be chance
_MANY = 0.2  # share of trials that fail
_SILENT = 600.0  # seconds without an event


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


def answers(seen: Overview) -> Answers:
    """Return the answers for a study."""
    longest = max(map(max, seen.durations.values()), default=0.0)
    advice = [
        *silence(len(seen.history.running), seen.idle, longest),
        *failing(seen.history, seen.failures),
        *seen.remarks,
        *settled(seen.history),
    ]
    return Answers(_known(_running(seen)), _known(_result(seen)), advice)


def _known(facts: Iterator[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.text or fact.moment is not None]


def _running(seen: Overview) -> Iterator[Fact]:
    n, left, created = seen.counts, seen.left, seen.history.created
    yield Fact("State", f"{n['running']} running" if n["running"] else "idle" if n["started"] else "not started")
    yield Fact("Workers", f"{seen.busy / seen.seconds:.2g} busy on average" if seen.seconds and seen.busy else "")
    yield Fact("Trials finished", f"{grouped(n['finished'])} of {grouped(n['started'])} started")
    yield Fact("Trials failed", _counts(seen.failures))
    yield Fact("Waiting for a worker", counted(n["waiting"], "trial") if n["waiting"] else "")
    reasons = "; ".join(f"{times_text(times)}: {short(reason, 200)}" for reason, times in seen.put_back)
    yield Fact("Put back", reasons)
    yield Fact("Rate", rate_text(seen.rate, "trials ") if seen.rate else "")
    yield Fact("Brackets complete", f"{seen.finished_brackets} of {len(seen.history.brackets)}")
    if left is not None and seen.now is not None:
        yield Fact("Time left", f"about {duration(left)}, until", moment=seen.now + left)
    yield Fact("Last activity", "" if seen.idle is None else f"{duration(seen.idle)} ago", since=seen.last_event)
    yield Fact("Started", "", moment=created.time if created else None)


def _counts(kinds: Sequence[FailureKind]) -> str:
    listed = ", ".join(f"{grouped(kind.n)} {kind.status.value.replace('_', ' ')}" for kind in kinds)
    return f"{grouped(sum(kind.n for kind in kinds))}: {listed}" if kinds else "0"


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
