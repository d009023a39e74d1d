"""Convert docstrings to reStructuredText: a sentence, then lines `name: meaning`, plain text with `code`."""

from __future__ import annotations

import re
from collections.abc import Sequence

# One or several names, a colon, and their meaning: "seed: …", "trial_seconds, trial_memory: …", "a … b: …"
_NAME = r"\*{0,2}[A-Za-z_]\w*"
_FIELD = re.compile(rf"^({_NAME}(?:(?:, | … ){_NAME})*(?:, and [\w ]+)?): (\S.*)$")


def as_rst(lines: Sequence[str], title: bool = False) -> list[str]:
    """Return a docstring as reStructuredText.

    title: leave out the first line, because the page has it as its title.
    """
    found: list[str] = []
    before = ""
    for line in _whole(lines):
        field = _FIELD.match(line)
        if field is not None:
            found += [""] * (_FIELD.match(before) is None) + [f":{_plain(field[1])}: {_plain(field[2])}"]
        elif line.startswith("    "):  # an example
            found += [line] if before.startswith("    ") else ["::", "", line]
        else:
            found.append(_plain(line))
        before = line
    return found[1:] if title else found


def _whole(lines: Sequence[str]) -> list[str]:
    """Join continued lines; examples, which begin after an empty line, are left alone."""
    found: list[str] = []
    for line in lines:
        example = bool(found) and (not found[-1].strip() or found[-1].startswith("    "))
        if line.startswith(" ") and not example and found:
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return found


def _plain(text: str) -> str:
    """Escape characters that are markup in reStructuredText, except in `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*|\\_])", r"\\\1", part) for part in parts)
