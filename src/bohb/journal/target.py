"""What a user may name as a journal, and what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from bohb.errors import InvalidArgument, JournalDamaged, JournalError, install_hint
from bohb.journal.disk import require_local

_SMALLEST = 512  # the smallest page of SQLite, which would take anything shorter for a new file


def path_of(url: str | Path) -> Path | None:
    """The file that `url` names, or None for a server. Refuses what we have no driver for."""
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
        f"journal={parsed.render_as_string()!r} is none we can use; give a file ('study.db', 'sqlite:///study.db') or "
        f"a PostgreSQL database ('postgresql+psycopg://user@host/name', after {install_hint('postgres')})"
    )


def _resolved(path: str) -> Path:
    """The path without links, so that there is one lock file, however it is spelled."""
    try:
        found = Path(path).resolve()
        found.exists()
    except (OSError, RuntimeError) as error:  # too long, or links in a circle
        raise InvalidArgument(f"journal={path[:80]!r} is not a path this system can use: {str(error)[:80]}") from error
    return found


def check_file(path: Path, read_only: bool) -> None:
    """Refuse a file that cannot be a journal, before anything is created."""
    require_local(path)
    if path.is_dir() or not path.parent.is_dir():
        what = "is a directory" if path.is_dir() else "lies in a directory that does not exist"
        raise JournalError(f"{path} {what}; name a file in an existing directory")
    if read_only and not path.exists():
        raise JournalError(f"there is no journal {path}; check the path, or start the study first")
    size = path.stat().st_size if path.exists() else 0  # opening it here would drop SQLite's locks of this process
    log = Path(f"{path}-wal")
    if size == 0 and log.exists() and log.stat().st_size > 0:
        raise JournalDamaged(f"{path} is empty although its write-ahead log is not; restore a backup")
    if 0 < size < _SMALLEST:
        raise JournalDamaged(f"{path} has {size} bytes, too few for a database; restore a backup or name another file")
