"""The user's notes and tags on a study and its trials; no decision uses them."""

from __future__ import annotations

from collections.abc import Iterable

from bohb.core.events import NoteAdded
from bohb.core.history import History
from bohb.errors import InvalidArgument, UnknownTrial

LONGEST_TEXT = 10_000
LONGEST_TAG = 50


def notes_of(history: History, trial: int | None = None) -> list[NoteAdded]:
    """Return the notes on a trial in the order in which they were added; None: those on the study itself."""
    return [note for note in history.notes if note.number == trial]


def tags_of(history: History, trial: int | None = None) -> list[str]:
    """Return the tags of a trial, each once; None: those of the study itself."""
    return list(dict.fromkeys(tag for note in notes_of(history, trial) for tag in note.tags))


def new_note(history: History, text: str, trial: int | None, tags: Iterable[str], time: float) -> NoteAdded:
    """Return the event that adds a note. Raises InvalidArgument or UnknownTrial for one that says nothing or too much.

    trial: the number of a trial; None for the study itself.
    """
    if isinstance(tags, str):
        raise InvalidArgument(f"tags={tags!r:.80} must be a list of texts: write tags=[{tags!r:.80}]")
    found = tuple(dict.fromkeys(tags))
    for tag in found:
        if not isinstance(tag, str) or not 1 <= len(tag) <= LONGEST_TAG or not tag.isprintable() or "," in tag:
            raise InvalidArgument(
                f"the tag {tag!r:.80} must be 1 to {LONGEST_TAG} printable characters without a comma"
            )
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise InvalidArgument(f"the note {text!r:.80} must be text of at most {LONGEST_TEXT:,} characters")
    if not text.strip() and not found:
        raise InvalidArgument("a note needs a text or a tag; both are empty")
    if trial is not None and trial not in history.trials:
        raise UnknownTrial(f"trial {trial!r} does not exist; this study has started {len(history.trials)} trials")
    return NoteAdded(len(history.notes), text, found, trial, time)
