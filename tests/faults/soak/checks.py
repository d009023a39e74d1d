"""What must hold in the end: nothing lost, nothing doubled, no trial burnt, an exact replay, flat memory, no litter."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bohb import History, Outcome, replay
from bohb.core.events import Event, ResultLate, SessionStarted, TrialFinished, TrialLost, TrialStarted
from bohb.core.schedule.rules import kept_for_growth
from tests.faults.soak.stage import Sample
from tests.faults.soak.study import ORDERS

KIB_PER_MIB = 1024
Key = tuple[int, int]  # the number of a trial, and its attempt


class Line(NamedTuple):
    """A line of the log that the objective writes."""

    what: str
    number: int
    attempt: int
    loss: float | None
    time: float

    @property
    def key(self) -> Key:
        return self.number, self.attempt


def read_log(path: Path) -> list[Line]:
    return [Line(*json.loads(line)) for line in path.read_text().splitlines()]


@dataclass
class Records:
    """The journal, and what else is known about the same study.

    events: the journal, as it is in the end.
    log: what the objective logged.
    seen: the events that were read while the study ran.
    killed: the processes of runners that were killed before they could store their results.
    """

    events: list[Event]
    log: list[Line]
    seen: list[Event]
    killed: set[int]

    @cached_property
    def ended(self) -> dict[Key, float | None]:
        """The losses of all evaluations that reached their end."""
        return {line.key: line.loss for line in self.log if line.what == "end"}

    @cached_property
    def finished(self) -> dict[int, Outcome]:
        return {event.number: event.outcome for event in self.events if isinstance(event, TrialFinished)}

    @cached_property
    def late(self) -> set[Key]:
        return {(event.number, event.attempt) for event in self.events if isinstance(event, ResultLate)}

    @cached_property
    def lost(self) -> dict[Key, TrialLost]:
        return {(event.number, event.attempt): event for event in self.events if isinstance(event, TrialLost)}

    @cached_property
    def stored(self) -> dict[Key, float | None]:
        """The losses of all successful trials, by the attempt that succeeded."""
        return {(n, outcome.info["attempt"]): outcome.loss for n, outcome in self.finished.items() if outcome.ok}

    @cached_property
    def ran_again(self) -> list[Key]:
        """Evaluations that reached their end, but whose worker or runner was lost before the result was stored."""
        return [key for key in self.ended if key in self.lost and key not in self.late]

    @cached_property
    def owners(self) -> dict[Key, int]:
        """The process that started each attempt."""
        started = [event for event in self.events if isinstance(event, SessionStarted)]
        processes = {event.index: int(event.runner.split(":")[-2]) for event in started}
        starts = [event for event in self.events if isinstance(event, TrialStarted)]
        return {(e.trial.number, e.trial.attempt): processes[e.session] for e in starts if e.session is not None}


def what_is_lost(of: Records) -> list[str]:
    wrong = [] if of.events[: len(of.seen)] == of.seen else ["events that had been read before are gone or changed"]
    for key in of.ended:
        if key not in of.stored and key not in of.late and key not in of.lost:
            wrong.append(f"the result of {key} is neither stored nor late, and its trial was not given up")
    for key in of.ran_again:
        if not of.lost[key].counts and of.owners[key] not in of.killed:
            wrong.append(f"the result of {key} is lost although its runner lived")
    if running := History().extend(of.events).running:
        wrong.append(f"{len(running)} trials are still marked as running")
    return wrong


def what_is_doubled_or_invented(of: Records) -> list[str]:
    begun = Counter(line.key for line in of.log if line.what == "begin")
    wrong = [f"attempt {key} ran {n} times" for key, n in begun.items() if n > 1]
    results = Counter(event.number for event in of.events if isinstance(event, TrialFinished))
    wrong += [f"trial {number} has {n} results" for number, n in results.items() if n > 1]
    for key, loss in of.stored.items():
        if key not in of.ended or of.ended[key] != loss:
            wrong.append(f"the result of {key} is not what its evaluation returned")
    return wrong


def what_is_burnt(of: Records) -> list[str]:
    """Find the failures that nobody ordered."""
    ordered = defaultdict(set)
    for line in of.log:
        if line.what in ORDERS:
            ordered[line.number].add(ORDERS[line.what])
    return [
        f"trial {number} failed ({outcome.status}) for no reason of its own: {outcome.error}"
        for number, outcome in of.finished.items()
        if not outcome.ok and outcome.status not in ordered[number]
    ]


def what_is_wrong_with_checkpoints(of: Records) -> list[str]:
    bad = Counter(line.what for line in of.log if line.what in ("dirty", "torn", "wrong"))
    return [f"{n} checkpoints were {what}" for what, n in bad.items()]


def what_is_not_removed(place: Path, events: Sequence[Event]) -> list[str]:
    checkpoints = place / "files" / "study" / "checkpoints"
    wrong = [f"{path} was not removed" for path in (*(place / "tmp").iterdir(), *checkpoints.glob("working/*"))]
    kept = {int(path.name) for path in checkpoints.iterdir() if path.name.isdecimal()}
    history = History().extend(events)
    if useless := kept - history.alive() - kept_for_growth(history):
        wrong.append(f"{len(useless)} checkpoints can no longer be promoted but were not removed")
    return wrong


def check(of: Records) -> tuple[dict[str, Any], list[str]]:
    """Return the numbers of a study, and everything that is wrong with it."""
    burnt = what_is_burnt(of)
    replayed = replay(of.events)
    wrong = [
        *what_is_lost(of),
        *what_is_doubled_or_invented(of),
        *burnt,
        *what_is_wrong_with_checkpoints(of),
        *replayed.differences,
    ]
    starts = [event.trial for event in of.events if isinstance(event, TrialStarted)]
    numbers = {
        "events": len(of.events),
        "trials": len({trial.number for trial in starts}),
        "evaluations begun": sum(line.what == "begin" for line in of.log),
        "evaluations finished": len(of.ended),
        "results stored": len(of.finished),
        "late results, stored and not used": len(of.late),
        "trials started again": len(of.lost),
        "of these, because of": dict(Counter(_cause(loss) for loss in of.lost.values())),
        "finished evaluations that ran again": dict(Counter(_cause(of.lost[key]) for key in of.ran_again)),
        "failures that were ordered": dict(Counter(str(o.status) for o in of.finished.values() if not o.ok)),
        "burnt trials": len(burnt),
        "promoted trials": sum(trial.from_trial is not None for trial in starts),
        "promoted trials that started afresh": sum(line.what == "afresh" for line in of.log),
        "decisions": replayed.decisions,
        "decisions replayed exactly": replayed.exact,
    }
    return numbers, wrong


def _cause(loss: TrialLost) -> str:
    for words in ("its runner stopped", "guard", "SIGKILL", "SIGTERM"):
        if words in loss.reason:
            return words
    return loss.reason


def memory(samples: list[Sample], name: str) -> dict[str, Any]:
    """Return how the memory of a runner that lived throughout grew after the first quarter."""
    mine = [sample for sample in samples if sample.runner == name and sample.life == 1]
    if len(mine) < 8:
        return {"samples": len(mine)}
    later = [sample for sample in mine if sample.second >= mine[-1].second / 4]
    mib = [sample.kib / KIB_PER_MIB for sample in later]
    per_hour = float(np.polyfit([sample.second / 3600 for sample in later], mib, 1)[0])
    per_event = float(np.polyfit([sample.events for sample in later], [sample.kib for sample in later], 1)[0])
    quarters = [mine[min(len(mine) - 1, i * len(mine) // 4)].kib / KIB_PER_MIB for i in range(5)]
    return {
        "samples": len(mine),
        "CPU seconds": mine[-1].cpu_seconds,
        "MiB at each quarter": [round(value, 1) for value in quarters],
        "MiB per hour after the first quarter": round(per_hour, 2),
        "KiB per stored event after the first quarter": round(per_event, 2),
    }
