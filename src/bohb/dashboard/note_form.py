"""The form by which readers add a note to a study or a trial, and what it sends."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from bohb.dashboard.guard import NOTE
from bohb.dashboard.pages.parts import field
from bohb.optimizer.creation import LONGEST_TEXT
from bohb.plots.markup import Markup, element

_MOST_BYTES = 12 * LONGEST_TEXT  # a character of a form takes at most 12 bytes


class NewNote(NamedTuple):
    """What a reader has sent.

    trial: the number of a trial as text; empty for the study itself.
    """

    study: str
    trial: str
    text: str
    tags: tuple[str, ...]


def note_form(study: str, trial: int | None = None) -> Markup:
    """Return the form for a new note."""
    text = element("textarea", name="text", id="note", rows="2", maxlength=LONGEST_TEXT)
    tags = element("input", name="tags", id="tags", placeholder="separated by commas", autocomplete="off")
    return element(
        "form",
        element("input", type="hidden", name="study", value=study),
        None if trial is None else element("input", type="hidden", name="trial", value=trial),
        field("New note", "note", text),
        field("Tags", "tags", tags),
        element("div", element("button", "Add", type="submit"), class_="field"),
        action=NOTE,
        method="post",
        class_="filters note-form",
        data_keep=True,
    )


async def sent_note(request: Request) -> NewNote:
    """Read what the form has sent. Raises HTTPException if that is too much."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, f"A note may have at most {LONGEST_TEXT} characters")
    try:
        sent = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=8))
    except ValueError as error:
        raise HTTPException(400, "This is not what the form sends") from error
    tags = tuple(tag.strip() for tag in sent.get("tags", "").split(",") if tag.strip())
    text = sent.get("text", "").replace("\r\n", "\n")
    return NewNote(sent.get("study", ""), sent.get("trial", ""), text, tags)
