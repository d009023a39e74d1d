"""Exports a study to a text file and imports it: one JSON object per line, with checksums as in the database."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bohb.core.events import Event
from bohb.errors import JournalDamaged, JournalError
from bohb.journal.base import Journal
from bohb.journal.records import DamagedAt, Reader, body_of, chained, check_study_name

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Imported:
    """The contents of a file: the study's name, its events, and the damage that ended them, if any."""

    study: str
    events: list[Event] = field(repr=False)
    damage: JournalDamaged | None = None


def export_jsonl(journal: Journal, path: str | Path) -> int:
    """Write all events of a journal to a file, completely or not at all. Return their number.

    The first line has the name of the study and the number of events, so that missing lines are noticed.
    """
    events = journal.read()
    study = getattr(journal, "study", "study")
    partial = Path(f"{path}.part")
    with partial.open("w", encoding="ascii", newline="\n") as file:
        header = {"format": FORMAT, "study": study, "events": len(events)}
        file.write(json.dumps({"bohb": "journal", **header}) + "\n")
        for record in chained(study, 0, 0, 0, ((event, body_of(event)) for event in events)):
            place = {"position": record.position, "kind": record.kind, "key": record.key, "crc": record.crc}
            file.write(f'{json.dumps(place)[:-1]}, "body": {record.body}}}\n')
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    return len(events)


def import_jsonl(path: str | Path, *, damaged: bool = False) -> Imported:
    """Read an exported file.

    damaged: return the events before the first damaged line instead of raising JournalDamaged.
    """
    try:
        with Path(path).open("rb") as file:
            study, length = _header(file.readline(), path)
            found = Imported(study, *_events(file, study, length))
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    if found.damage is not None and not damaged:
        raise found.damage
    return found


def _header(line: bytes, path: str | Path) -> tuple[str, int]:
    try:
        header = json.loads(line)
        if header["bohb"] != "journal":
            raise ValueError(f"it says {header['bohb']!r}")
        version, study, length = int(header["format"]), check_study_name(header["study"]), int(header["events"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise JournalDamaged(f"{path}: the first line is not that of an exported study ({error})") from error
    if version > FORMAT:
        raise JournalError(f"{path} has format {version}, this version reads up to {FORMAT}; upgrade bohb to read it")
    return study, length


def _events(lines: Iterator[bytes], study: str, length: int) -> tuple[list[Event], JournalDamaged | None]:
    reader, events = Reader(study), list[Event]()
    try:
        for line in lines:
            events += reader.events([_row(line, study, reader.position)])
        reader.finish(length, reader.crc)
    except JournalDamaged as damage:
        return events, damage
    return events, None


def _row(line: bytes, study: str, position: int) -> tuple[Any, ...]:
    """Return a line as a row of the table; encoding the body again gives the text of which the checksum was made."""
    try:
        found = json.loads(line)
        body = json.dumps(found["body"], allow_nan=False, separators=(",", ":"))
        return found["position"], 0, found["kind"], found["key"], body, found["crc"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedAt(study, position, f"the line is incomplete or not from bohb ({error})") from error
