"""A study in facts and sentences: what terminals, notebooks, the dashboard, reports and JSON show of it.

They only differ in how they render an `Overview`; no fact is put into words anywhere else.
"""

from __future__ import annotations

import copy
from array import array
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from bohb.analysis.trajectory import run_clock
from bohb.analysis.trials import FailureKind, failure_kinds, finished, notes_of, seconds, tags_of
from bohb.analysis.verdicts import confirmation_data, headline, last_verdict, remarks, result_data
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.times.forecast import time_to_end
from bohb.core.trial import Origin, Status
from bohb.units import clock, counted, duration, grouped, number, short, value_text

_RECENT = 1000  # trials among which the last event is looked for
_SMALLER = "; smaller batches, a narrower space or a larger device would help"
_NOTICEABLE = 0.2  # share of the time of trials in which their objectives did not run
_NOTES = 3  # notes that are shown, the latest
_CHARACTERS = 200  # of a note or an error
_BRACKETS = 8  # open brackets that are shown, the first


@dataclass(frozen=True, slots=True)
class Session:
    """What a runner knows beyond the history.

    seconds: working time of the study so far.
    left: expected seconds until the study ends; None if nothing is known.
    rate: trials that finish per second; None if nothing is known.
    max_trials, max_cost, max_seconds: its limits.
    """

    seconds: float
    left: float | None = None
    rate: float | None = None
    max_trials: float | None = None
    max_cost: float | None = None
    max_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class OpenBracket:
    """A bracket that is not complete: its current rung, and how many of its trials have finished."""

    bracket: int
    rung: int
    rungs: int
    budget: float
    finished: int
    size: int

    def __str__(self) -> str:
        """Return it in a line: #0: 3/9 on rung 1 of 3, budget 1."""
        where = f"rung {self.rung + 1} of {self.rungs}, budget {number(self.budget)}"
        return f"#{self.bracket}: {self.finished}/{self.size} on {where}"


@dataclass(frozen=True, slots=True)
class BudgetCount:
    """The trials that have finished on one budget.

    best: the best result; None if there is none.
    seconds: the mean duration of a trial; None if none was measured.
    """

    budget: float
    finished: int
    failed: int
    best: Result | None
    seconds: float | None


class Overview:
    """The facts of a study at one moment, each computed when it is first asked for.

    history: the study; it must not change as long as the overview is used.
    now: the time of day; None leaves out what depends on it.
    session: the numbers of the runner that shows its own study.
    model: whether the Gaussian process may be fitted to learn how large the noise is; the first fit takes a second.
    """

    def __init__(
        self, history: History, now: float | None = None, session: Session | None = None, model: bool = True
    ) -> None:
        self.history = history
        self.now = now
        self.session = session
        self._model = model

    def at(self, now: float) -> Overview:
        """Return the same facts at another time of day, without computing them again."""
        self.remarks  # noqa: B018 - it takes longest
        later = copy.copy(self)
        later.now = now
        vars(later).pop("left", None)
        return later

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of trials; waiting ones have lost their worker and will start again, late results are not used."""
        seen = self.history
        return {
            "started": len(seen.trials),
            "finished": len(seen.outcomes),
            "failed": seen.n_failed,
            "running": len(seen.running),
            "waiting": len(seen.lost),
            "late": len(seen.late),
        }

    @cached_property
    def configurations(self) -> int:
        """Number of different configurations."""
        return len({trial.config_id for trial in self.history.trials.values()})

    @cached_property
    def origins(self) -> dict[Origin, int]:
        """Numbers of started trials by origin."""
        found = Counter(trial.origin for trial in self.history.trials.values())
        return {origin: found[origin] for origin in Origin if origin in found}

    @cached_property
    def failures(self) -> list[FailureKind]:
        """The failed trials by status."""
        return failure_kinds(self.history)

    @cached_property
    def budgets(self) -> list[BudgetCount]:
        """The finished trials by budget, the smallest first."""
        numbers: dict[float, list[int]] = {}
        for n in self.history.outcomes:
            numbers.setdefault(self.history.trials[n].budget, []).append(n)
        return [self._of_budget(budget, numbers[budget]) for budget in sorted(numbers)]

    @cached_property
    def durations(self) -> dict[float, array[float]]:
        """The seconds that finished trials took, as far as they were measured, by budget."""
        found: dict[float, array[float]] = {}
        for n in self.history.outcomes:
            taken = seconds(self.history, n)
            if taken is not None:
                found.setdefault(self.history.trials[n].budget, array("d")).append(taken)
        return found

    def _of_budget(self, budget: float, numbers: list[int]) -> BudgetCount:
        timed = self.durations.get(budget)
        return BudgetCount(
            budget=budget,
            finished=len(numbers),
            failed=sum(not self.history.outcomes[n].ok for n in numbers),
            best=self.history.best.get(budget),
            seconds=sum(timed) / len(timed) if timed else None,
        )

    @property
    def cost(self) -> float:
        """The budget spent in full evaluations; a promoted configuration counts for what it added."""
        return self.history.budget_spent / self.history.budgets[-1]

    @cached_property
    def seconds(self) -> float | None:
        """The run time: the recorded one, or the last time that a trial started or ended, whichever is later.

        With ask and tell no time is recorded, and a simulated study takes longer than its recorded time.
        """
        if self.session is not None:
            return self.session.seconds
        seen, at_work = self.history, run_clock(self.history)
        times = [*seen.started.values(), *(finished(seen, n) for n in seen.outcomes)]
        latest = max((time for time in times if time is not None), default=None)
        known = (seen.seconds or None, at_work.seconds(latest))
        return max((time for time in known if time is not None), default=None)

    @cached_property
    def busy(self) -> float:
        """Seconds that workers spent in trials, as far as they were measured."""
        return float(sum(map(sum, self.durations.values())))

    @property
    def rate(self) -> float | None:
        """Finished trials per second; None if nothing is known."""
        if self.session is not None:
            return self.session.rate
        return len(self.history.outcomes) / self.seconds if self.seconds and self.history.outcomes else None

    @cached_property
    def left(self) -> float | None:
        """The expected seconds until the study ends; None if nobody runs it or nothing is known."""
        if self.session is not None or self.now is None:
            return None if self.session is None else self.session.left
        return time_to_end(self.history, self.history.seconds + (self.idle or 0.0), self.now)

    @cached_property
    def last_event(self) -> float | None:
        """When something last happened; None if no time was recorded."""
        seen = self.history
        times = [seen.created.time if seen.created else None, *list(seen.started.values())[-_RECENT:]]
        times += [session.time for session in seen.sessions[-1:]]
        times += [outcome.finished for outcome in list(seen.outcomes.values())[-_RECENT:]]
        times += [late.outcome.finished for late in seen.late[-_RECENT:]]
        return max((time for time in times if time is not None), default=None)

    @property
    def idle(self) -> float | None:
        """The seconds since something last happened; None if that or the time of day is unknown."""
        return None if self.last_event is None or self.now is None else max(0.0, self.now - self.last_event)

    @property
    def finished_brackets(self) -> int:
        """Number of complete brackets."""
        return len(self.history.brackets) - len(self.history.schedule.open)

    @property
    def open_brackets(self) -> list[OpenBracket]:
        """The brackets that are not complete."""
        found = []
        for index in self.history.schedule.open:
            of = self.history.brackets[index]
            size = of.bracket.rungs[of.rung].size
            found.append(OpenBracket(index, of.rung, len(of.bracket.rungs), of.budget, of.finished, size))
        return found

    @property
    def best(self) -> Result | None:
        """The incumbent."""
        return self.history.incumbent

    @cached_property
    def remarks(self) -> list[str]:
        """What is wrong with the best result, in a sentence each."""
        return remarks(self.history, self._model)

    # Sentences

    @property
    def trials(self) -> str:
        """How many trials there are: 40 of 100 finished (3 failed), 2 running."""
        n = self.counts
        of = _of(None if self.session is None else self.session.max_trials)
        text = f"{n['finished']}{of} finished ({n['failed']} failed), {n['running']} running"
        text += f", {n['waiting']} to start again" if n["waiting"] else ""
        text += f"; {counted(n['late'], 'late result')} not used" if n["late"] else ""
        return text

    @property
    def failed(self) -> list[str]:
        """How trials failed, a sentence per status: 3 crashed: ValueError: no (2 of them)."""
        return [
            f"{kind.n} {kind.status.value.replace('_', ' ')}: {short(kind.message, _CHARACTERS)}"
            + (f" ({kind.n_message} of them)" if kind.n_message < kind.n else "")
            + (_SMALLER if kind.status is Status.DEVICE_MEMORY else "")
            for kind in self.failures
        ]

    @cached_property
    def put_back(self) -> list[tuple[str, int]]:
        """Why trials asked to be started again (`bohb.Retry`), and how often; the most frequent reason first."""
        return Counter(again.reason for times in self.history.retries.values() for again in times).most_common()

    @property
    def spent(self) -> str:
        """What was spent: 12.56 of 50 full evaluations in 3 min of 1 h."""
        limits = self.session or Session(0.0)
        most = "" if limits.max_seconds is None else f" of {duration(limits.max_seconds)}"
        of = f"{number(self.cost, 4)}{_of(limits.max_cost)} full evaluations in {duration(self.seconds or 0.0)}{most}"
        seen = self.history
        return of + (f", {counted(len(seen.observed), 'observation')} from earlier studies" if seen.observed else "")

    @property
    def start_ups(self) -> str | None:
        """How long trials waited for workers and files, if that is a noticeable part of their time."""
        waits = self.history.waits.values()
        share, mean = sum(waits) / ((sum(waits) + self.busy) or 1.0), sum(waits) / (len(waits) or 1)
        if share < _NOTICEABLE or mean < 1:
            return None
        return f"start-ups took {duration(mean)} per trial, {share:.0%} of the time: see preload, in docs/workers.md"

    @property
    def end(self) -> str | None:
        """When the study will end: about 2 min, until 18:00; None if nothing is known."""
        if self.left is None:
            return None
        at = f", until {clock(self.now + self.left)}" if self.now is not None and self.left > 60 else ""
        return f"about {duration(self.left)}{at}"

    @property
    def headline(self) -> str | None:
        """The best result: loss 0.1 on budget 9 (trial 3, model); None without one."""
        return None if self.best is None else headline(self.history.goals, self.best)

    @property
    def config(self) -> list[tuple[str, str]]:
        """The names and values of the best configuration; empty without one."""
        return [] if self.best is None else [(name, value_text(value)) for name, value in self.best.config.items()]

    @property
    def verdict(self) -> list[str]:
        """What confirmations found, in a sentence each; empty without any."""
        return last_verdict(self.history)

    def rows(self, runner: str = "", stopped: str = "") -> list[tuple[str, str]]:
        """Return everything with a label in front of it; further lines of a label have an empty one.

        runner: who runs the study.
        stopped: why it stopped.
        """
        texts = [note.text for note in notes_of(self.history) if note.text.strip()]
        since = "" if self.idle is None else f"; last event {duration(self.idle)} ago"
        opened = self.open_brackets
        tags = tags_of(self.history)
        found: list[tuple[str, list[str]]] = [
            ("tags", [", ".join(tags)] if tags else []),
            ("notes", [short(" ".join(text.split()), _CHARACTERS) for text in texts[-_NOTES:]]),
            ("runner", [runner + since] if runner else []),
            ("trials", [self.trials]),
            ("failed", self.failed),
            ("put back", [f"{times_text(n)}: {short(reason, _CHARACTERS)}" for reason, n in self.put_back]),
            ("spent", [self.spent, *([self.start_ups] if self.start_ups else [])]),
            ("left", [self.end] if self.end and runner != "none" else []),
            ("stopped", [stopped] if stopped else []),
            ("brackets", [f"{self.finished_brackets} finished, {len(opened)} open", *map(str, opened[:_BRACKETS])]),
            ("best", [self.headline or "nothing has succeeded yet", *(f"{n} = {text}" for n, text in self.config)]),
            ("remarks", self.remarks),
            ("confirm", self.verdict),
        ]
        return [("" if place else label, line) for label, lines in found for place, line in enumerate(lines)]

    def data(self) -> dict[str, Any]:
        """Return everything as JSON."""
        seen = self.history
        return {
            "budgets": seen.budgets,
            "trials": self.counts,
            "tags": tags_of(seen),
            "notes": [{"text": note.text, "tags": list(note.tags), "time": note.time} for note in notes_of(seen)],
            "failures": [asdict(kind) for kind in self.failures],
            "put_back": [{"reason": reason, "times": times} for reason, times in self.put_back],
            "observations": len(seen.observed),
            "full_evaluations": self.cost,
            "reported_cost": seen.cost_reported,
            "seconds": self.seconds,
            "seconds_left": self.left,
            "last_event": self.last_event,
            "open_brackets": [asdict(bracket) for bracket in self.open_brackets],
            "finished_brackets": self.finished_brackets,
            "incumbent": None if self.best is None else result_data(seen.goals, self.best),
            "remarks": self.remarks,
            "confirmation": confirmation_data(seen.confirmations[-1]) if seen.confirmations else None,
        }


def rate_text(per_second: float, what: str = "") -> str:
    """Return a rate per time in which something happens at least once: 3.5 per second, 12 trials per minute.

    what: the noun of what happens, with a space behind it.
    """
    units = (("second", 1), ("minute", 60), ("hour", 3600))
    unit, size = next(((unit, size) for unit, size in units if per_second * size >= 1), units[-1])
    rate = per_second * size
    return f"{number(rate, 3) if rate < 100 else grouped(round(rate))} {what}per {unit}"


def _of(limit: float | None) -> str:
    return "" if limit is None else f" of {limit:g}"


def times_text(n: int) -> str:
    """Return how often something happened: once, 2 times."""
    return "once" if n == 1 else f"{n} times"
