"""Writes the stored examples of the current format. Run it once per format and commit the files; never change old ones.

python tests/journal/make_assets.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bohb.journal import SqlJournal, export_jsonl
from bohb.journal.schema import SCHEMA
from bohb.testing import example_events, numbered_events

ASSETS = Path(__file__).parent / "assets"


def main() -> None:
    """Store every kind of event, in two studies, as a database and as text."""
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "made.db"
        with SqlJournal(made, "second <b>") as journal:
            journal.append(numbered_events(3), after=0)
        with SqlJournal(made) as journal:
            journal.append(example_events(), after=0)
            export_jsonl(journal, ASSETS / f"format-{SCHEMA}.jsonl")
        (ASSETS / f"format-{SCHEMA}.db").write_bytes(made.read_bytes())


if __name__ == "__main__":
    main()
