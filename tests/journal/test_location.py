"""Which file or server is meant by a journal, what cannot be one, and where the files of a study are."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from bohb import BOHB, load, minimize, replay
from bohb.cli.app import app
from bohb.errors import BohbError, InvalidArgument, JournalError, MissingExtra
from bohb.journal import MemoryJournal, SqlJournal, location, open_journal, repair, study_names
from bohb.journal.location import (
    files_directory,
    filesystem_type,
    plain_component,
    require_local,
    shown_journal,
    study_of,
)
from bohb.running.external import ExternalStudy
from bohb.running.run_options import RunSetup
from bohb.testing import numbered_events
from tests.objectives import SPACE, quadratic


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


NETWORK = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse.sshfs",
    "fuse",
    "lustre",
    "beegfs",
    "gpfs",
    "ceph",
    "9p",
    "afs",
]


@pytest.mark.parametrize("kind", NETWORK)
@pytest.mark.parametrize("read_only", [True, False])
def test_row_23_a_network_file_system_is_refused_with_advice(
    path: Path, kind: str, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "filesystem_type", lambda _: kind)
    with pytest.raises(JournalError, match=rf"network file system \({kind}\).*local disk.*\[postgres\]"):
        open_journal(path, read_only=read_only)
    assert not path.exists()
    assert not Path(f"{path}.lock").exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "apfs", "overlay", "tmpfs", "fuseblk", "ntfs", ""])
def test_row_23_a_local_disk_is_accepted(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "filesystem_type", lambda _: kind)
    require_local(path)


MOUNTS = """/dev/sda1 / ext4 rw 0 0
systemd-1 /home autofs rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/my\\040disk xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [("/x.db", "ext4"), ("/home/me/x.db", "nfs4"), ("/home/me/my disk/x.db", "xfs"), ("/homes/x.db", "ext4")],
)
def test_row_23_the_innermost_latest_mount_counts(place: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_text

    def fake(self: Path, *arguments: Any, **options: Any) -> str:
        return MOUNTS if str(self) == "/proc/self/mounts" else real(self, *arguments, **options)

    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(Path, "resolve", lambda self: self)
    monkeypatch.setattr(Path, "read_text", fake)
    assert filesystem_type(Path(place)) == kind


def test_row_23_without_proc_the_mounts_that_psutil_knows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [
        SimpleNamespace(mountpoint="/", fstype="apfs"),
        SimpleNamespace(mountpoint="/Volumes/share", fstype="smbfs"),
    ]
    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)
    assert filesystem_type(Path("/Volumes/share/x.db")) == "smbfs"
    assert filesystem_type(Path("/x.db")) == "apfs"


@pytest.mark.parametrize("target", [None, ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_no_file_means_a_journal_in_memory(target: str | None) -> None:
    assert isinstance(open_journal(target), MemoryJournal)


def test_a_journal_is_returned_as_it_is() -> None:
    journal = MemoryJournal()
    assert open_journal(journal) is journal


def test_a_path_a_text_and_a_url_name_the_same_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqlJournal(path) as written:
        written.append(numbered_events(3), after=0)
    monkeypatch.chdir(path.parent)
    for target in (path, str(path), f"sqlite:///{path}", "study.db", "sqlite:///study.db", Path("./x/../study.db")):
        journal = open_journal(target, read_only=True)
        assert isinstance(journal, SqlJournal)
        with journal:
            assert len(journal.read()) == 3


@pytest.mark.parametrize(
    "target",
    ["mysql://user:secret@host/db", "http://me:secret@x", "sqlite:///a.db?mode=ro", "://", "", "a\0b", 17, "x" * 2**20],
)
def test_what_cannot_be_a_journal_is_refused_by_name_without_its_password(target: str) -> None:
    with pytest.raises(InvalidArgument, match="journal=") as refused:
        open_journal(target)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("postgresql://host", {"host": "host"}),
        ("postgresql+psycopg://me@host/name", {"user": "me", "host": "host", "dbname": "name"}),
        ("postgresql://me:p%40s%2Fs%3Ax@host:5433/a%20b", {
            "user": "me", "password": "p@s/s:x", "host": "host", "port": "5433", "dbname": "a b",
        }),
        ("postgresql://me:@/name?host=/tmp/a%20b", {"user": "me", "host": "/tmp/a b", "dbname": "name"}),
        ("postgresql://%2Ftmp%2Fa:5433/name", {"host": "/tmp/a", "port": "5433", "dbname": "name"}),
        ("postgresql://[::1]:5433/name", {"host": "::1", "port": "5433", "dbname": "name"}),
        ("postgresql://a:1,b/name", {"host": "a,b", "port": "1,", "dbname": "name"}),
        ("postgresql+psycopg://me@a:1,b:2/name?target_session_attrs=any", {
            "user": "me", "host": "a,b", "port": "1,2", "dbname": "name", "target_session_attrs": "any",
        }),
        ("postgresql://host/?host=::1&port=7&options=-c%20a%3Db+c", {
            "host": "::1", "port": "7", "options": "-c a=b+c",
        }),
        ("postgresql://host/name?user=me%40x&password=a+b", {
            "host": "host", "dbname": "name", "user": "me@x", "password": "a+b",
        }),
    ],
)  # fmt: skip
def test_a_url_is_read_as_the_parameters_of_a_connection(url: str, parameters: dict[str, str]) -> None:
    postgres = pytest.importorskip("bohb.journal.postgres", reason="needs the driver", exc_type=ModuleNotFoundError)
    assert {name: value for name, value in postgres.connection_parameters(url).items() if value} == parameters


@pytest.mark.parametrize("url", ["postgresql://me:p/s@host/name", "postgresql://me:p@s@host/name", "postgresql://h:x"])
def test_a_url_that_can_be_read_in_two_ways_says_how_to_write_it(url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"journal='postgresql://…' is not a URL like .*%40, %3A and %2F"):
        shown_journal(url)


URLS = [
    "postgresql://me:hunter2@127.0.0.1:1/name",
    "postgresql+psycopg://127.0.0.1:1/name?user=me&password=hunter2&connect_timeout=2",
    "postgresql://127.0.0.1:1/name?sslpassword=hunter2&sslmode=disable",
    "postgresql://127.0.0.1:1/name?p%61ssword=hunter2",
    "postgresql://127.0.0.1:1/name?oauth_client_secret=hunter2",
    "postgresql://127.0.0.1:1/name?no_such_option=1&password=hunter2",
    "postgresql://127.0.0.1:1/name?user=me&hunter2",
    "postgresql://127.0.0.1:1/name?user=me&password=%zzhunter2",
    "postgresql://me:hun/hunter2@127.0.0.1/name",
    "postgresql://me:hunter2@hunter2@127.0.0.1/name",
    "postgresql://me:x@127.0.0.1:hunter2/name",
    "mysql://127.0.0.1/name?password=hunter2",
    "sqlite:///s.db?password=hunter2",
    "postgresql://127.0.0.1:1/name?password=hunter2 x",
    "postgresql://127.0.0.1:1/name?passwrd=hunter2",
    "host=127.0.0.1 password=hunter2",
    "password='hunter2' port = 1",
]


@pytest.mark.parametrize("url", URLS)
def test_a_password_of_a_url_is_shown_nowhere(url: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    acts = (
        open_journal, load, replay, study_names, repair,
        lambda name: BOHB(SPACE, budgets=[1], seed=0, warm_start=f"{name}::study"),
        lambda name: minimize(quadratic, SPACE, budgets=[1], seed=0, journal=name),
    )  # fmt: skip
    for act in acts:
        with pytest.raises(BohbError) as refused:
            act(url)
        assert "hunter2" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(BohbError) as refused:
        app.main(["status", url], standalone_mode=False)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))
    assert "hunter2" not in caplog.text + repr(RunSetup(url, "study")) + repr(ExternalStudy(url, "study"))


def test_a_connection_string_is_no_file_unless_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=r"journal='host=…' is a connection string; write it as a URL"):
        SqlJournal("host=here dbname=name")
    assert list(tmp_path.iterdir()) == []
    SqlJournal(Path("host=here dbname=name")).close()
    assert study_names("host=here dbname=name") == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://me:x@host:1/name", "postgresql+psycopg://me:***@host:1/name"),
        (
            "postgresql://me@host/name?password=x&options=-c%20a",
            "postgresql://me@host/name?password=***&options=-c%20a",
        ),
        ("postgresql://me@a:1,[::1]:2/name", "postgresql://me@a:1,[::1]:2/name"),
        ("/tmp/a:b@c/study.db", "/tmp/a:b@c/study.db"),
    ],
)
def test_a_journal_is_shown_as_it_was_given_without_its_password(url: str, shown: str) -> None:
    assert shown_journal(url) == shown


def test_a_file_of_a_url_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "me@host%20").mkdir()
    with SqlJournal(f"sqlite:///{tmp_path}/me@host%20/s:1.db") as journal:
        assert journal.path == tmp_path / "me@host%20" / "s:1.db"


def test_a_study_is_named_after_its_journal() -> None:
    assert study_of("study.db::a::b") == ("study.db", "a::b")
    assert study_of("postgresql://[::1]/name::a") == ("postgresql://[::1]/name", "a")
    assert study_of("postgresql://[::1]/name") == ("postgresql://[::1]/name", None)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "bohb.journal.postgres", raising=False)  # another test may have imported it
    with pytest.raises(MissingExtra, match=r"postgresql\+psycopg://me:\*\*\*@host/db.*\[postgres\]"):
        open_journal("postgresql+psycopg://me:secret@host/db")


LONG = ["研" * 29, "研" * 200, "é" * 200, "\U0001f600" * 200, "a" * 100 + "é" * 60, "." * 200, "/" * 200]


@pytest.mark.parametrize("name", LONG, ids=[f"{name[0]!a}-{len(name)}" for name in LONG])
def test_a_long_study_name_is_a_directory_of_its_own(tmp_path: Path, name: str) -> None:
    directory = files_directory(tmp_path / "s.db", name)
    assert directory is not None
    directory.mkdir(parents=True)
    assert plain_component(name[:-1] + "x") != directory.name


def test_a_study_with_a_long_name_runs_and_resumes_with_checkpoints(tmp_path: Path) -> None:
    name = "研究" * 100
    for n in (3, 6):
        study = minimize(
            quadratic, SPACE, budgets=[1], seed=0, max_trials=n, journal=tmp_path / "s.db", study=name, progress=False
        )
        assert len(study.history.outcomes) == n
    assert len(list((tmp_path / "s.db.files").iterdir())) <= 1


@pytest.mark.parametrize(
    ("name", "plain"), [("a b", "a%20b"), ("..", "%2E%2E"), ("a+", "a%2B"), ("x" * 200, "x" * 200)]
)
def test_names_that_fit_keep_their_directory(name: str, plain: str) -> None:
    assert plain_component(name) == plain
