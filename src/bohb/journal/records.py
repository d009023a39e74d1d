"""How one event is stored: its JSON text, and a checksum over the event and all events before it."""

from __future__ import annotations

import gc
import json
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from bohb.core.encoding import LARGEST_BODY, encode, from_json, to_json
from bohb.core.events import Event
from bohb.errors import InvalidArgument, JournalDamaged, JournalError

SCHEMA = 1  # raised whenever the tables change; newer ones are refused untouched
LONGEST_NAME = 200
Content = tuple[str, str, str]  # kind, key and body of an event


class Record(NamedTuple):
    """One stored event: a row of the table."""

    position: int
    epoch: int
    kind: str
    key: str
    body: str
    crc: int


class End(NamedTuple):
    """Where a study ends: its length, and the checksum of its last event."""

    length: int
    crc: int


class DamagedAt(JournalDamaged):
    """A damaged journal, with the position of the first event that cannot be trusted."""

    def __init__(self, study: str, position: int, what: str) -> None:
        super().__init__(
            f"study {study!r} is damaged at position {position}: {what}. The {position} events before it are sound; "
            "restore a backup, or keep only them with 'bohb repair' (bohb.journal.repair), which makes a copy first"
        )
        self.study, self.position = study, position


def checksum(previous: int, study: str, position: int, epoch: int, kind: str, key: str, body: str) -> int:
    """Return the CRC-32 of a row, continued from the row before: it detects changed, swapped and missing rows."""
    return zlib.crc32(f"{study}\0{position}\0{epoch}\0{kind}\0{key}\0{body}".encode(errors="replace"), previous)


def contents(events: Iterable[Event]) -> list[Content]:
    """Return kind, key and JSON text of each event."""
    found = [(event.kind, event.key, encode(to_json(event))) for event in events]
    for _, key, body in found:
        if len(body) > LARGEST_BODY:
            raise JournalError(
                f"the event {key!r} has {len(body):,} bytes of JSON, more than the {LARGEST_BODY:,} a journal takes; "
                "keep large results in files and store their paths in `info`"
            )
    return found


def chained(study: str, after: int, previous: int, epoch: int, found: Iterable[Content]) -> list[Record]:
    """Return the records of events from position `after` on; `previous` is the checksum of the event before."""
    records = []
    for position, content in enumerate(found, after):
        previous = checksum(previous, study, position, epoch, *content)
        records.append(Record(position, epoch, *content, previous))
    return records


@contextmanager
def no_collector() -> Iterator[None]:
    """Pause the garbage collector, which takes a third of the time of reading many events."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Reader:
    """Turns stored rows into events and checks each of them.

    position: the position of the next row.
    crc: the checksum of the row before it.
    """

    def __init__(self, study: str, position: int = 0, crc: int = 0) -> None:
        self.study = study
        self.position = position
        self.crc = crc

    def check(self, rows: Iterable[Sequence[Any]]) -> list[tuple[str, str]]:
        """Return (kind, body) of the next rows. Raises DamagedAt for the first row that was changed."""
        found = []
        for position, epoch, kind, key, body, crc in rows:
            if position != self.position:
                raise DamagedAt(self.study, self.position, f"the event is missing, the next one has {position!r}")
            expected = checksum(self.crc, self.study, self.position, epoch, kind, key, body)
            if crc != expected:
                raise DamagedAt(self.study, self.position, f"its checksum is {crc!r}, not {expected}")
            self.crc = expected
            self.position += 1
            found.append((kind, body))
        return found

    def events(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        """Return the next rows as events."""
        first = self.position
        found = self.check(rows)
        bodies = self._parsed([body for _, body in found], first)
        events = list[Event]()
        try:
            for (kind, _), body in zip(found, bodies, strict=True):
                events.append(from_json(kind, body))
        except JournalError as error:
            raise JournalError(f"event {first + len(events)} of study {self.study!r}: {error}") from error
        return events

    def _parsed(self, texts: list[str], first: int) -> list[dict[str, Any]]:
        """Parse all bodies together, so that all trials share the names of the hyperparameters."""
        try:
            bodies = json.loads("[" + ",".join(texts) + "]")
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedAt(self.study, first, f"it or one soon after is not JSON ({error})") from error
        if len(bodies) != len(texts) or not all(type(body) is dict for body in bodies):
            raise DamagedAt(self.study, first, "it or one soon after is not one JSON object")
        return bodies  # type: ignore[no-any-return]  # checked just above

    def finish(self, length: int, crc: int) -> None:
        """Check that the study ends here; missing events at the end would not be noticed otherwise."""
        if self.position != length:
            raise DamagedAt(self.study, self.position, f"the event is missing, the study had {length}")
        if self.crc != crc:
            raise DamagedAt(self.study, self.position, f"the end of the study has checksum {self.crc}, not {crc!r}")


def check_study_name(name: object) -> str:
    """Return the name of a study, which may be any printable text of 1 to 200 characters."""
    if not isinstance(name, str):
        raise InvalidArgument(f"study={name!r:.80} is of type {type(name).__name__}; it must be text")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidArgument(f"study={name[:40]!r} has {len(name):,} characters; it must have 1 to {LONGEST_NAME}")
    for place, character in enumerate(name):
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise InvalidArgument(
                f"study={name!r} has the control character {character!r} at {place}; use printable text"
            )
    return name
