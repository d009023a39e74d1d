"""Let every call of a small study to the file system fail once, and see that nothing is lost.

`python -m tests.faults.nth_call SEED PART COUNT` tries a random choice of the faults of one of four parts, 0 for all.
Each life of the study is a forked process in a directory of its own, in which one call fails or kills the process.
Another process then goes on without failures and compares what it finds with what the first one was told.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import bohb
from bohb.core.trial import Trial
from bohb.errors import BohbError
from bohb.journal import SqlJournal, export_jsonl, import_jsonl, repair, study_names
from bohb.journal.copy import delete_study, rename_study
from bohb.running.external import ExternalStudy
from tests.faults.calls import HOW, Calls, Fault

SPACE = {"x": (0.0, 1.0)}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where waiting for the disk takes no time
PARTS = 4
SECONDS = 60.0  # after which a life counts as hanging
FOREIGN = ("notes.txt", "study.db.bak.txt", "study.db.files/mine", "study.db.files/study/mine", "study.jsonl.part")
SIGNALS = Fault("signal", "EINTR", 0)  # all calls are interrupted by signals, 2 000 a second
Say = Callable[[str, Any], None]


def loss_of(trial: Trial) -> float:
    return float((trial.config["x"] - 0.3) ** 2 + 1 / trial.budget)


def train(trial: Trial, calls: Calls) -> float:
    """Continue from the checkpoint, which must be the one of the previous budget."""
    assert trial.checkpoint_dir is not None
    with calls.paused():
        state = trial.checkpoint_dir / "inner" / "state"
        found = float(state.read_text()) if state.exists() else None
        assert found == trial.previous_budget, f"found the state of budget {found}, not {trial.previous_budget}"
        state.parent.mkdir(exist_ok=True)
        state.write_text(str(trial.budget))
    return loss_of(trial)


def run(root: Path, n: int, calls: Calls, say: Say) -> bohb.Study:
    """Continue the study to n trials, and say which results were stored."""

    def stored(study: Any) -> None:
        for trial, outcome in ((study.history.trials[n], o) for n, o in study.history.outcomes.items()):
            say("stored", [trial.number, outcome.loss])

    return bohb.minimize(
        partial(train, calls=calls), SPACE, min_budget=1, max_budget=3, seed=3, preset="paper", random_fraction=1,
        journal=root / "study.db", max_trials=n, checkpoint_quota=10**6, callbacks=[stored], progress=False,
    )  # fmt: skip


def external(root: Path) -> ExternalStudy:
    def create(journal: Any) -> bohb.BOHB:
        return bohb.BOHB(SPACE, min_budget=1, max_budget=3, seed=1, preset="paper", random_fraction=1, journal=journal)

    return ExternalStudy(str(root / "study.db"), "other", create, wait_seconds=1)


def life(root: Path, calls: Calls, say: Say) -> None:
    """Everything that writes files: a study that is resumed, other programs, exports, and changes of whole studies."""
    run(root, 2, calls, say)
    run(root, 4, calls, say)
    programs = external(root)
    trial = programs.ask()
    programs.report(trial.number, 1, 0.5)
    programs.tell(trial.number, loss_of(trial))
    say("told", [trial.number, loss_of(trial)])
    with SqlJournal(root / "study.db", read_only=True) as journal:
        export_jsonl(journal, root / "study.jsonl")
        say("exported", len(import_jsonl(root / "study.jsonl").events))
    rename_study(root / "study.db", "other", "renamed")
    say("renamed", None)
    delete_study(root / "study.db", "renamed")
    say("deleted", None)
    repair(root / "study.db")


def check(root: Path, told: list[tuple[str, Any]], denied: bool = False) -> None:
    """Go on without failures, and find everything that the first process was told.

    denied: whether a directory could not be read, which is the fault of a trial that works in it.
    """
    known = [value for name, value in told if name == "stored"]
    events = stored_events(root, "study")
    before = {n: o.loss for n, o in bohb.History().extend(events).outcomes.items()}
    assert all(before.get(number) == loss for number, loss in known), "a stored result is lost"
    study = run(root, 6, Calls(root), lambda *_: None)
    unusable = [o for o in study.history.outcomes.values() if "its checkpoint cannot be kept" in (o.error or "")]
    assert sum(not o.ok for o in study.history.outcomes.values()) == len(unusable) <= denied, study.history.outcomes
    assert len(study.history.outcomes) == 6
    assert all(study.history.outcomes[number].loss == loss for number, loss in known)
    assert bohb.replay(root / "study.db", "study").ok
    names = [name for name, _ in told]
    others = [stored_events(root, name) for name in ("other", "renamed")]
    others += [import_jsonl(path).events for path in root.glob("study.db.renamed.deleted*.jsonl")]
    for number, loss in (value for name, value in told if name == "told"):
        kept = [bohb.History().extend(found).outcomes for found in others if found]
        assert any(number in outcomes and outcomes[number].loss == loss for outcomes in kept), "a told result is lost"
    if "exported" in names:
        assert len(import_jsonl(root / "study.jsonl").events) == dict(told)["exported"]
    if "renamed" in names:
        assert "other" not in study_names(root / "study.db")
    if "deleted" in names:
        assert study_names(root / "study.db") == ["study"]


def stored_events(root: Path, study: str) -> Any:
    if not (root / "study.db").exists():
        return []
    with SqlJournal(root / "study.db", study) as journal:
        return journal.read()


def in_child(act: Callable[[Say], None]) -> tuple[list[tuple[str, Any]], str]:
    """Call a function in a forked process; return what it said, and how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        pipe = os.fdopen(write, "wb", 0)
        put = pipe.write

        def say(name: str, value: Any) -> None:
            put(json.dumps([name, value]).encode() + b"\n")

        try:
            act(say)
            say("end", "done")
        except BohbError as error:
            say("end", f"refused: {error}")
        except BaseException:  # noqa: BLE001 - the parent reports it
            say("end", traceback.format_exc())
        finally:
            os._exit(0)
    os.close(write)
    data, deadline = b"", time.monotonic() + SECONDS
    while (left := deadline - time.monotonic()) > 0 and select.select([read], [], [], left)[0]:
        if not (piece := os.read(read, 1 << 16)):
            break
        data += piece
    hangs = left <= 0
    if hangs:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    said = [tuple(json.loads(line)) for line in data.splitlines()]
    ends = [value for name, value in said if name == "end"]
    return said, "it hangs" if hangs else ends[0] if ends else "killed"


def attempt(fault: Fault | None) -> tuple[dict[str, int], str]:
    """Live once with a fault. Return how many calls there were without one, and what went wrong ("" for nothing)."""
    root = Path(tempfile.mkdtemp(prefix="bohb-nth-", dir=MEMORY))
    calls = Calls(root, fault)
    try:
        for name in FOREIGN:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"precious {name}")

        def first(say: Say) -> None:
            time.sleep = lambda _: None  # the runner waits while its disk is full
            with nullcontext() if fault == SIGNALS else calls.watched():
                try:
                    if fault == SIGNALS:
                        signal.signal(signal.SIGALRM, lambda *_: None)
                        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
                    life(root, calls, say)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    say("calls", [calls.met or fault == SIGNALS, calls.seen])

        told, end = in_child(first)
        trouble = _trouble(root, fault, told, end)
        return next((value[1] for name, value in told if name == "calls"), {}), trouble
    finally:
        shutil.rmtree(root)


def _trouble(root: Path, fault: Fault | None, told: list[tuple[str, Any]], end: str) -> str:
    killed = fault is not None and fault.how in ("kill", "torn")
    met = end == "killed" or any(name == "calls" and value[0] for name, value in told)
    if fault is not None and not met:
        return "the call was never made"
    if end.startswith("Traceback") or end == "it hangs" or (end == "killed") != killed:
        return end
    _, again = in_child(lambda _: check(root, told, fault is not None and fault.how == "EACCES"))
    if again != "done":
        return f"{end}\nafterwards: {again}"
    changed = [name for name in FOREIGN if not same(root / name, f"precious {name}")]
    return f"{end}\nchanged: {changed}" if changed else ""


def same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _warm_up() -> None:
    """Import everything in this process, so that forked ones need not."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        told: list[tuple[str, Any]] = []
        life(Path(place), Calls(Path(place)), lambda *said: told.append(said))
        check(Path(place), told)


def every_fault() -> Iterator[Fault]:
    """All faults of all calls of a life in which nothing fails."""
    seen, trouble = attempt(None)
    assert not trouble, trouble
    yield SIGNALS
    for kind, ways in HOW.items():
        for how in ways:
            for n in range(1, seen[kind] + 1):
                yield Fault(kind, how, n)


def main(seed: int, part: int, count: int) -> None:
    """Try some faults of one part, and write which there were, and what went wrong, as JSON."""
    _warm_up()
    faults = list(every_fault())[part::PARTS]
    chosen = random.Random(seed).sample(faults, count) if count else faults
    wrong = [[*fault, trouble] for fault in chosen if (trouble := attempt(fault)[1])]
    sys.stdout.write(json.dumps({"kinds": sorted({fault.kind for fault in faults}), "wrong": wrong}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
