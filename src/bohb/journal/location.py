"""Which file or database a user means by a journal; what cannot be one is refused before anything is opened."""

from __future__ import annotations

import codecs
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from bohb.errors import InvalidArgument, JournalDamaged, JournalError, install_hint
from bohb.journal.disk import require_local

_SMALLEST = 512  # bytes of SQLite's smallest page; it would treat anything shorter as a new file
_LARGEST = 65536  # bytes of its largest page
_SQLITE = b"SQLite format 3\0"


def path_of(url: str | Path) -> Path | None:
    """Return the file that `url` names, or None for a server. Refuses databases without a driver."""
    text = str(url)
    if not text or "\0" in text:
        raise InvalidArgument(f"journal={text!r} is not a path")
    if "://" not in text or isinstance(url, Path):
        return _resolved(text)
    try:
        parsed = make_url(text)
    except ArgumentError as error:
        raise InvalidArgument(f"journal={text.split('@')[-1]!r} is not a URL: {error}") from error
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return None
    if parsed.drivername == "sqlite" and parsed.database and not parsed.query:
        return _resolved(parsed.database)
    raise InvalidArgument(
        f"journal={parsed.render_as_string()!r} cannot be used; give a file ('study.db', 'sqlite:///study.db') or "
        f"a PostgreSQL database ('postgresql+psycopg://user@host/name', after {install_hint('postgres')})"
    )


def _resolved(path: str) -> Path:
    """Return the path without links, so that there is one lock file, however the path is spelled."""
    try:
        found = Path(path).resolve()
        found.exists()
    except (OSError, RuntimeError) as error:  # too long, or links in a circle
        raise InvalidArgument(f"journal={path[:80]!r} is not a path this system can use: {str(error)[:80]}") from error
    return found


def check_file(path: Path, read_only: bool) -> None:
    """Refuse a file that cannot be a journal, before anything is created."""
    require_local(path)
    if path.is_dir():
        raise not_a_journal(path, "a directory")
    if not path.parent.is_dir():
        raise JournalError(f"{path} lies in a directory that does not exist; name a file in an existing directory")
    if read_only and not path.exists():
        raise JournalError(f"there is no journal {path}; check the path, or start the study first")
    if not read_only and path.exists() and path.stat().st_nlink > 1:
        raise JournalError(
            f"{path} has {path.stat().st_nlink} names (hard links), and a runner under another name would not see this "
            "one's lock and log; delete the other names, or run the study on a copy of the file"
        )
    size = path.stat().st_size if path.exists() else 0
    log = Path(f"{path}-wal")
    if size == 0 and log.exists() and log.stat().st_size > 0:
        raise JournalDamaged(f"{path} is empty although its write-ahead log is not; restore a backup")
    if 0 < size < _SMALLEST:
        kind = other_kind(path)
        if kind is not None:
            raise not_a_journal(path, kind)
        raise JournalDamaged(f"{path} has {size} bytes, too few for a database; restore a backup or name another file")


def not_a_journal(path: Path | str, kind: str) -> JournalError:
    """Return the error for something that is not a journal.

    kind: what it is instead, such as "a directory".
    """
    return JournalError(f"{path} is not a bohb journal (it is {kind}); name a journal, such as study.db")


def other_kind(path: Path) -> str | None:
    """Return what a file is that SQLite does not recognise; None if it may be a damaged journal.

    Only for such files: closing a file that SQLite has open would release the locks of this process.
    """
    with path.open("rb") as file:
        start = file.read(_LARGEST)
    if start.startswith(_SQLITE) or b"bohb_format" in start:  # the first page has the names of the tables
        return None
    if start.startswith(b'{"bohb": "journal"'):
        return "an exported study, which 'bohb import' turns into a journal"
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)  # its end may cut a character in two
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return "not an SQLite database"
    return "a TOML file" if path.suffix == ".toml" else "a text file"
