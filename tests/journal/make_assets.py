"""Write the stored examples. Run it when the format number changes, and commit the files.

python -m tests.journal.make_assets
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from bohb import BOHB, Trial
from bohb.journal import MemoryJournal, SqlJournal, export_jsonl
from bohb.testing import example_events, numbered_events
from tests.core.spaces import conditional

ASSETS = Path(__file__).parent / "assets"


def main() -> None:
    """Store every kind of event, in two studies, as a database and as text."""
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "made.db"
        with SqlJournal(made, "second <b>") as journal:
            journal.append(numbered_events(3), after=0)
        with SqlJournal(made) as journal:
            journal.append(example_events(), after=0)
            export_jsonl(journal, ASSETS / "events.jsonl")
        (ASSETS / "events.db").write_bytes(made.read_bytes())
    export_jsonl(real_study(), ASSETS / "study.jsonl")


def real_study() -> MemoryJournal:
    """A study of 90 trials on a mixed, conditional space with failures, by three workers that finish out of order."""
    journal = MemoryJournal()
    study = BOHB(
        conditional(), min_budget=1, max_budget=9, seed=2018, preset="paper", journal=journal, clock=lambda: 0.0
    )
    running: list[Trial] = []
    for step in range(90):
        running += study.ask_many(3 - len(running))
        trial = running.pop(step % len(running))
        loss = {"svm": 0.5, "forest": 0.2, "net": 0.9}[trial.config["algo"]] + 1 / (7 + step % 11) / trial.budget
        study.tell(trial, math.nan if trial.config_id % 9 == 4 else loss)
    return journal


if __name__ == "__main__":
    main()
