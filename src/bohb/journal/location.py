"""Which file or database a user means by a journal, and where the files of its studies are.

What cannot be a journal is refused before anything is opened: no file, another kind of file, or a network file system,
on which the locks and the shared memory of SQLite do not work.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote, unquote

from bohb.errors import InvalidArgument, JournalDamaged, JournalError, install_hint

_SMALLEST = 512  # bytes of SQLite's smallest page; it would treat anything shorter as a new file
_LARGEST = 65536  # bytes of its largest page
_LONGEST = 255  # bytes that a file system allows in one name
_KEPT = 200

_HOST = r"(?:\[[^\]]*\]|[^:/?@,]*)(?::\d*)?"
_URL = re.compile(
    r"(?P<scheme>[\w+.-]+)://(?:(?P<user>[^:/?@]*)(?P<password>:[^/?@]*)?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^?@]*)?)(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_HARMLESS = {"application_name", "connect_timeout", "dbname", "host", "options", "port", "sslmode", "user"}
_CONNECTION_STRING = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|passfile|service)\s*=")
_NETWORK = re.compile(
    "9p|acfs|afpfs|afs|beegfs|ceph|cifs|coda|davfs|gfs2?|glusterfs|gpfs|lustre|mmfs|ncpfs|nfs[34]?|ocfs2|orangefs|"
    "panfs|pvfs2|smb[23]?|smbfs|webdav"
)
_OCTAL = re.compile(r"\\([0-7]{3})")  # a blank in the name of a mount point is \040
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.exfat", "fuse.gocryptfs", "fuse.encfs"})


def path_of(url: str | Path) -> Path | None:
    """Return the file that `url` names, without links, or None for a server. Refuses databases without a driver."""
    text = str(url)
    if not text or "\0" in text:
        raise InvalidArgument(f"journal={text!r} is not a path")
    if not isinstance(url, Path) and "://" not in text:
        shown_journal(text)  # refuses a connection string
    file = text.removeprefix("sqlite:///")
    if "://" not in text or isinstance(url, Path) or (file and file != text and "?" not in file):
        try:
            found = Path(file).resolve()  # there is one lock file, however the path is spelled
            found.exists()
        except (OSError, RuntimeError) as error:  # too long, or links in a circle
            raise InvalidArgument(
                f"journal={text[:80]!r} is not a path this system can use: {str(error)[:80]}"
            ) from error
        return found
    shown = shown_journal(text)
    if shown.startswith(("postgresql://", "postgresql+psycopg://")):
        return None
    raise InvalidArgument(
        f"journal={shown!r} cannot be used; give a file ('study.db', 'sqlite:///study.db') or "
        f"a PostgreSQL database ('postgresql+psycopg://user@host/name', after {install_hint('postgres')})"
    )


def check_file(path: Path, read_only: bool) -> None:
    """Refuse a file that cannot be a journal, before anything is created."""
    require_local(path)
    if path.is_dir():
        raise not_a_journal(path, "a directory")
    if not path.parent.is_dir():
        raise JournalError(f"{path} lies in a directory that does not exist; name a file in an existing directory")
    if read_only and not path.exists():
        raise JournalError(f"there is no journal {path}; check the path, or start the study first")
    size, names = (path.stat().st_size, path.stat().st_nlink) if path.exists() else (0, 1)
    if not read_only and names > 1:
        raise JournalError(
            f"{path} has {names} names (hard links), and a runner under another name would not see this one's lock and "
            "log; delete the other names, or run the study on a copy of the file"
        )
    if size == 0 and has_log(path):
        raise JournalDamaged(f"{path} is empty although its write-ahead log is not; restore a backup")
    if 0 < size < _SMALLEST:
        if (kind := other_kind(path)) is not None:
            raise not_a_journal(path, kind)
        raise JournalDamaged(f"{path} has {size} bytes, too few for a database; restore a backup or name another file")


def has_log(path: Path) -> bool:
    """Whether some events of a file may be in its write-ahead log only."""
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0


def not_a_journal(path: Path | str, kind: str) -> JournalError:
    """Return the error for something that is not a journal but of another kind, such as "a directory"."""
    return JournalError(f"{path} is not a bohb journal (it is {kind}); name a journal, such as study.db")


def other_kind(path: Path) -> str | None:
    """Return what a file is that SQLite does not recognise; None if it may be a damaged journal.

    Only for such files: closing a file that SQLite has open would release the locks of this process.
    """
    with path.open("rb") as file:
        start = file.read(_LARGEST)
    if start.startswith(b"SQLite format 3\0") or b"bohb_format" in start:  # the first page has the names of the tables
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


def shown_journal(journal: str) -> str:
    """Return the name of a journal without passwords. Raises InvalidArgument for what is neither a file nor a URL."""
    if "://" not in journal:
        if _CONNECTION_STRING.match(journal) and not Path(journal).exists():  # it may have a password
            raise InvalidArgument(
                f"journal='{journal.partition('=')[0]}=…' is a connection string; write it as a URL, "
                "'postgresql+psycopg://user:password@host:5432/name', or give a file of this name as a pathlib.Path"
            )
        return journal
    found = _URL.fullmatch(journal)
    if found is None:
        raise InvalidArgument(
            f"journal={journal.partition('://')[0] + '://…'!r} is not a URL like 'postgresql+psycopg://user@host:5432/"
            "name'; write @, : and / within a user name or password as %40, %3A and %2F"
        )
    user = "" if found["user"] is None else f"{found['user']}{':***' if found['password'] else ''}@"
    pairs = (pair.partition("=") for pair in (found["query"] or "").split("&") if pair)
    shown = (
        f"{name}={value if unquote(name) in _HARMLESS else '***'}" if sign else "***" for name, sign, value in pairs
    )
    query = "&".join(shown)
    return f"{found['scheme']}://{user}{found['place']}{query and '?'}{query}"


def study_of(text: str) -> tuple[str, str | None]:
    """Return the journal and the name of the study in "journal::study"; None if only the journal is named."""
    place = text.find("::", text.rfind("]") + 1 if "://" in text else 0)  # an IPv6 address has colons, too
    if place < 0 or ("://" not in text and Path(text).exists()):
        return text, None
    return text[:place], text[place + 2 :] or None


def require_local(path: Path) -> None:
    """Refuse a path on a network file system, where two machines could corrupt the journal together.

    path: the database file, which need not exist yet.
    """
    found = filesystem_type(path).lower()
    if _NETWORK.fullmatch(found) or (found.startswith("fuse") and found not in _LOCAL_FUSE | {"fuseblk"}):
        raise JournalError(
            f"{path} is on a network file system ({found}), where SQLite cannot keep a journal safe; put it on a local "
            f"disk, or use a PostgreSQL journal, journal='postgresql+psycopg://…' ({install_hint('postgres')})"
        )


def filesystem_type(path: Path) -> str:
    """Return the type of the file system that holds `path`, such as 'ext4' or 'nfs4'; '' if unknown."""
    here = f"{path.resolve()}/"
    around = [(len(point), kind) for point, kind in _mounts() if here.startswith(point.rstrip("/") + "/")]
    # a later mount hides an earlier one on the same point
    return max(reversed(around), key=itemgetter(0), default=(0, ""))[1]


def _mounts() -> list[tuple[str, str]]:
    """Return (mount point, type) of all mounts, in the order of mounting."""
    table = Path("/proc/self/mounts")
    if table.exists():
        lines = (line.split() for line in table.read_text(errors="surrogateescape").splitlines())
        return [(_OCTAL.sub(lambda code: chr(int(code[1], 8)), point), kind) for _, point, kind, *_ in lines]
    import psutil  # type: ignore[import-untyped]  # takes longer to import than everything else here

    return [(mount.mountpoint, mount.fstype) for mount in psutil.disk_partitions(all=True)]


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
