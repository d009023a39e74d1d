"""The recorded studies: one compressed export per study, in the folder `studies`."""

from __future__ import annotations

import lzma
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.core.events import Event, RepeatFinished, ResultLate, SessionStarted, TrialFinished
from bohb.journal import MemoryJournal, export_jsonl, import_jsonl

if TYPE_CHECKING:
    import numpy as np

    from bohb import Situation

STUDIES = Path(__file__).parent / "studies"
_END = ".jsonl.xz"


def names() -> list[str]:
    """The recorded studies."""
    return sorted(path.name.removesuffix(_END) for path in STUDIES.glob(f"*{_END}"))


def events_of(name: str) -> list[Event]:
    """Read a recorded study."""
    with tempfile.TemporaryDirectory() as directory:
        plain = Path(directory) / "study.jsonl"
        plain.write_bytes(lzma.decompress((STUDIES / f"{name}{_END}").read_bytes()))
        return import_jsonl(plain).events


def store(name: str, events: Sequence[Event]) -> None:
    """Record a study, without what tells the machine that ran it."""
    with tempfile.TemporaryDirectory() as directory:
        plain = Path(directory) / "study.jsonl"
        export_jsonl(MemoryJournal([_neutral(event) for event in events]), plain)
        STUDIES.mkdir(exist_ok=True)
        (STUDIES / f"{name}{_END}").write_bytes(lzma.compress(plain.read_bytes(), preset=9))


def _neutral(event: Event) -> Event:
    if isinstance(event, SessionStarted):
        return replace(event, runner=f"machine:{event.index}")
    if isinstance(event, TrialFinished | ResultLate | RepeatFinished):
        outcome = event.outcome
        lines = (outcome.traceback or "").splitlines(keepends=True)
        worker = outcome.worker and outcome.worker.replace(platform.node(), "machine")
        shorter = replace(outcome, traceback="".join(lines[-1:]) or None, output=None, worker=worker)
        return replace(event, outcome=shorter)
    return event


def cautious(rng: np.random.Generator, situation: Situation) -> Any:
    """A sampler of a user: near the best configuration so far, which it names in its reason."""
    best = situation.history.incumbent
    if best is None or rng.random() < 0.3:
        return None
    vector = situation.space.encode(best.config)
    moved = (vector + 0.1 * rng.standard_normal(len(vector))).clip(0, 1 - 1e-9)
    return moved, {"near": best.trial.number}


SAMPLERS = {"own-sampler": cautious, "own-sampler-parallel": cautious}
