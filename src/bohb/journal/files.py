"""Which directory belongs to a study: its checkpoints and the output of its trials."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import quote

_LONGEST = 255  # bytes that a file system allows in one name
_KEPT = 200


def files_directory(journal: str | Path | None, study: str, directory: str | Path | None = None) -> Path | None:
    """Return the directory of a study's files, or None if neither the journal nor the user names a place.

    journal: the file of the journal, None for a server or a journal in memory.
    study: the name of the study, which may be any text; as a path it is one plain component.
    directory: where the user wants the files of all studies; "<journal>.files" by default.
    """
    if directory is None:
        if journal is None:
            return None
        directory = f"{journal}.files"
    return Path(directory).absolute() / plain_component(study)


def plain_component(name: str) -> str:
    """Return a text as the name of one directory: without separators, and never "." or "..".

    What is too long for a file system is cut and ends in a hash; "+" occurs in no other name.
    """
    quoted = quote(name, safe="").replace(".", "%2E")
    if len(quoted) <= _LONGEST:
        return quoted
    return re.sub("%.?$", "", quoted[:_KEPT]) + "+" + hashlib.sha256(name.encode()).hexdigest()[:32]
