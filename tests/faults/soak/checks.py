"""What must hold in the end: nothing lost, nothing doubled, no trial burnt, an exact replay, flat memory, no litter."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bohb import History, replay
from bohb.core.events import Event, ResultLate, TrialFinished, TrialLost, TrialStarted
from tests.faults.soak.stage import Sample
from tests.faults.soak.study import ORDERS

KIB_PER_MIB = 1024


class Line(NamedTuple):
    """A line of the log that the objective writes."""

    what: str
    number: int
    attempt: int
    loss: float | None
    time: float

    @property
    def key(self) -> tuple[int, int]:
        return self.number, self.attempt


def read_log(path: Path) -> list[Line]:
    return [Line(*json.loads(line)) for line in path.read_text().splitlines()]


def check_journal(events: list[Event], log: list[Line], seen: list[Event]) -> tuple[dict[str, Any], list[str]]:
    """Compare the journal with what the objective logged, and with what was read while the study ran."""
    wrong: list[str] = []
    if events[: len(seen)] != seen:
        wrong.append("events that had been read before are gone or changed")
    finished = {e.number: e.outcome for e in events if isinstance(e, TrialFinished)}
    n_finished = sum(isinstance(e, TrialFinished) for e in events)
    if n_finished != len(finished):
        wrong.append(f"{n_finished - len(finished)} results are stored twice")
    wrong += _doubled(log)
    ended = {line.key: line.loss for line in log if line.what == "end"}
    stored = {(n, o.info["attempt"]): o.loss for n, o in finished.items() if o.ok}
    late = {(e.number, e.attempt): e.outcome.loss for e in events if isinstance(e, ResultLate)}
    lost = {(e.number, e.attempt): e for e in events if isinstance(e, TrialLost)}
    wrong += [f"result {key} is not what its evaluation returned" for key in stored if stored[key] != ended.get(key)]
    missing = [key for key in ended if key not in stored and key not in late and key not in lost]
    wrong += [f"the result of {key} is neither stored nor late, and its trial was not given up" for key in missing]
    ran_again = Counter(_cause(lost[key]) for key in ended if key in lost and key not in late)
    burnt, failures = _burnt(finished, log)
    checked = replay(events)
    if checked.exact != checked.decisions:
        wrong.append(f"{checked.decisions - checked.exact} of {checked.decisions} decisions are not replayed exactly")
    history = History().extend(events)
    if history.running:
        wrong.append(f"{len(history.running)} trials are still marked as running")
    problems = Counter(line.what for line in log if line.what in ("dirty", "torn", "wrong", "afresh"))
    wrong += [f"{n} checkpoints were {what}" for what, n in problems.items() if what != "afresh"]
    numbers = {
        "events": len(events),
        "trials": len(history.trials),
        "evaluations begun": sum(line.what == "begin" for line in log),
        "evaluations finished": len(ended),
        "results stored": len(finished),
        "late results, stored and not used": len(late),
        "trials started again": len(lost),
        "of these, because of": dict(Counter(_cause(loss) for loss in lost.values())),
        "finished evaluations that ran again": dict(ran_again),
        "failures that were ordered": dict(failures),
        "burnt trials": len(burnt),
        "promoted trials": sum(isinstance(e, TrialStarted) and e.trial.from_trial is not None for e in events),
        "promoted trials that started afresh": problems["afresh"],
        "decisions": checked.decisions,
        "decisions replayed exactly": checked.exact,
    }
    return numbers, wrong + burnt


def _doubled(log: list[Line]) -> list[str]:
    begun = Counter(line.key for line in log if line.what == "begin")
    return [f"attempt {key} ran {n} times" for key, n in begun.items() if n > 1]


def _burnt(finished: dict[int, Any], log: list[Line]) -> tuple[list[str], Counter[str]]:
    """Find the failures that nobody ordered."""
    ordered = defaultdict(set)
    for line in log:
        if line.what in ORDERS:
            ordered[line.number].add(ORDERS[line.what])
    burnt, failures = [], Counter[str]()
    for number, outcome in finished.items():
        if not outcome.ok and outcome.status in ordered[number]:
            failures[str(outcome.status)] += 1
        elif not outcome.ok:
            burnt.append(f"trial {number} failed ({outcome.status}) for no reason of its own: {outcome.error}")
    return burnt, failures


def _cause(loss: TrialLost) -> str:
    for words in ("its runner stopped", "guard", "SIGKILL", "SIGTERM"):
        if words in loss.reason:
            return words
    return loss.reason


def check_files(place: Path, events: list[Event]) -> list[str]:
    """Find what should have been removed."""
    wrong = [f"{path} was not removed" for path in (place / "tmp").iterdir()]
    checkpoints = place / "files" / "study" / "checkpoints"
    wrong += [f"{path} was not removed" for path in checkpoints.glob("working/*")]
    alive = History().extend(events).alive()
    kept = {int(path.name) for path in checkpoints.iterdir() if path.name.isdecimal()}
    if kept - alive:
        wrong.append(f"{len(kept - alive)} checkpoints can no longer be promoted but were not removed")
    return wrong


def memory(samples: list[Sample], name: str) -> dict[str, Any]:
    """Return how the memory of a runner that lived throughout grew after the first quarter."""
    mine = [sample for sample in samples if sample.runner == name and sample.life == 1]
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
