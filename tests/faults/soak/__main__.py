"""Run the soak: `python -m tests.faults.soak --seconds 7200 --every 20 --seed 0 --summary soak.json`."""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bohb import History, __version__
from bohb.journal import SqlJournal, export_jsonl
from tests.faults.soak.checks import Records, check, memory, read_log, what_is_not_removed
from tests.faults.soak.kinds import KINDS, fill_the_disk
from tests.faults.soak.stage import Stage, staged


def soak(stage: Stage, seconds: float, every: float) -> Counter[str]:
    """Let the study run and cause a fault every so many seconds; return how often each kind was caused."""
    caused: Counter[str] = Counter()
    due: list[Any] = []
    stage.wait(every)
    try:
        while stage.now < seconds - every:
            if not due:  # all kinds once, in random order, then again
                due = [kind for kind in KINDS if kind is not fill_the_disk or stage.counts["small disk"]]
                stage.rng.shuffle(due)
            kind = due.pop()
            name, began = kind.__name__.replace("_", " "), stage.now
            stage.say(f"{name}: {kind(stage)} (since {began:.1f} s; {len(stage.seen)} events)")
            caused[name] += 1
            stage.wait(max(0.0, began + every - stage.now))
    except KeyboardInterrupt:
        stage.say("interrupted: what has happened so far is checked")
    return caused


def finish(stage: Stage) -> dict[str, Any]:
    """End all runners, and return the memory of a fresh one on the same study."""
    stage.open = False
    for runner in stage.runners:
        if runner.alive and not runner.ends:
            stage.end(runner, signal.SIGINT)
    deadline = time.monotonic() + 180
    while any(runner.alive for runner in stage.runners) and time.monotonic() < deadline:
        stage.wait(0.5)
    for runner in stage.runners:
        if runner.alive:
            stage.accuse(f"runner {runner.name} still runs three minutes after Ctrl-C")
    with SqlJournal(stage.server.url_at(), read_only=True) as journal:
        n_trials = len(History().extend(journal.read()).trials)
    fresh = stage.runners[0]
    stage.start(fresh, max_trials=n_trials + 8)
    fresh.ends = True
    while fresh.alive:
        stage.wait(0.5)
    stage.wait(80)  # so that orphans are noticed
    last = json.loads((stage.place / "A.out").read_text().splitlines()[-1])
    return {"MiB of a fresh runner on the same study": round(last["kib"] / 1024, 1)}


def keep(stage: Stage, directory: Path) -> None:
    """Copy the logs, the samples and the journal, for whoever has to find out what went wrong."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in stage.place.iterdir():
        if path.is_file():
            shutil.copy(path, directory)
    (directory / "samples.json").write_text(json.dumps(stage.samples))
    (directory / "killed.json").write_text(json.dumps(sorted(stage.killed)))
    with SqlJournal(stage.server.url_at(), read_only=True) as journal:
        export_jsonl(journal, directory / "journal.jsonl")


def summarize(stage: Stage, caused: Counter[str], fresh: dict[str, Any]) -> dict[str, Any]:
    """Check everything, and return the numbers."""
    with SqlJournal(stage.server.url_at(), read_only=True) as journal:
        events = list(journal.read())
    numbers, wrong = check(Records(events, read_log(stage.place / "evaluations"), stage.seen, stage.killed))
    stage.violations += wrong + what_is_not_removed(stage.place, events)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "version": __version__,
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(stage.now),
        "faults": sum(caused.values()),
        "kinds": len(caused),
        "caused": dict(sorted(caused.items())),
        **numbers,
        **stage.counts,
        "lives of runners": {runner.name: runner.lives for runner in stage.runners},
        "memory of a runner that was never killed": {**memory(stage.samples, "A"), **fresh},
        "CPU seconds of all runners that ended": round(usage.ru_utime + usage.ru_stime),
        "violations": stage.violations,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--every", type=float, default=20, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--summary", type=Path, default=Path("soak.json"))
    parser.add_argument("--keep", type=Path, help="a directory for all logs and the journal")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or the runners of a shell's background job ignore it
    with (
        tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as directory,
        staged(Path(directory) / "place", given.seed) as stage,
    ):
        caused = soak(stage, given.seconds, given.every)
        fresh = finish(stage)
        if given.keep is not None:
            keep(stage, given.keep)
        summary = {"seed": given.seed, **summarize(stage, caused, fresh)}
    text = json.dumps(summary, indent=1) + "\n"
    given.summary.write_text(text)
    sys.stdout.write(text)
    return 1 if stage.violations else 0


if __name__ == "__main__":
    sys.exit(main())
