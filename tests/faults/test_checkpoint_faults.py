"""Faults of checkpoints: power cuts, torn and hostile directories, runners in other containers."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Status, Trial, minimize, replay
from bohb.core.events import TrialFinished
from bohb.errors import JournalError
from bohb.journal import SqlJournal
from bohb.running.checkpoints import Checkpoints
from tests.faults.power_cut import PowerCut

ROOT = Path(__file__).parent.parent.parent
SPACE = {"x": (0.01, 0.5)}


def trial_of(number: int, budget: float, **keywords: Any) -> Trial:
    return Trial(number, {"x": 0.1}, budget, 0, 0, 0, 1, bohb.Origin.RANDOM, **keywords)


def directory_of(trial: Trial) -> Path:
    assert trial.checkpoint_dir is not None
    return trial.checkpoint_dir


def write_model(trial: Trial) -> None:
    folder = directory_of(trial)
    (folder / "inner" / "empty").mkdir(parents=True)
    (folder / "model").write_text(f"model of trial {trial.number}")
    (folder / "inner" / "weights").write_bytes(bytes(range(256)) * 100)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def test_a_checkpoint_survives_a_power_cut_as_soon_as_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PowerCut(monkeypatch)
    store = Checkpoints(tmp_path / "study", "study")
    first = store.prepare(trial_of(0, 1))
    write_model(first)
    expected = content(directory_of(first))
    store.keep(first)
    disk.survivors(tmp_path, tmp_path / "after")
    second = Checkpoints(tmp_path / "after" / "study", "study").prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
    assert second.previous_budget == 1
    assert content(directory_of(second)) == expected


def test_a_power_cut_while_a_checkpoint_is_kept_leaves_all_of_it_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []

    def cut() -> None:
        after = tmp_path / f"after-{len(kept)}"
        disk.survivors(tmp_path / "before", after)
        again = Checkpoints(after, "study").prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
        kept.append(again.previous_budget is not None)
        assert content(directory_of(again)) == (expected if kept[-1] else {})

    disk = PowerCut(monkeypatch, cut)
    store = Checkpoints(tmp_path / "before", "study")
    first = store.prepare(trial_of(0, 1))
    write_model(first)
    expected = content(directory_of(first))
    store.keep(first)
    assert len(kept) > 5
    assert (kept[0], kept[-1]) == (False, True)


def test_a_trial_that_writes_nothing_costs_no_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    minimize(plain, SPACE, budgets=[1, 3], seed=0, directory=tmp_path, max_trials=8, progress=False)
    assert synced == []


def plain(trial: Trial) -> float:
    return float(trial.config["x"])


# ---- a real file system ---------------------------------------------------------------------------------------------

STATE = b"x" * 200_000


def stateful(trial: Trial) -> float:
    """Fails unless it finds what its previous budget left; syncs nothing itself."""
    state = directory_of(trial) / "state"
    if trial.previous_budget is not None:
        assert state.read_bytes() == STATE + str(trial.previous_budget).encode()
    state.write_bytes(STATE + str(trial.budget).encode())
    return float(trial.config["x"])


def stateful_study(path: Path, trials: int) -> bohb.Study:
    return minimize(
        stateful,
        SPACE,
        min_budget=1,
        max_budget=243,
        seed=0,
        workers=2,
        journal=path,
        max_trials=trials,
        progress=False,
    )


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """An ext4 file system in a file, mounted on `tmp_path / "disk"`."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("mounting an image needs Linux, root and mkfs.ext4")
    file = tmp_path / "image"
    with file.open("wb") as made:
        made.truncate(2**26)
    subprocess.run(["mkfs.ext4", "-q", file], check=True)
    if not mounted(file, tmp_path / "disk"):
        pytest.skip("this machine does not allow to mount an image")
    yield file
    for folder in (tmp_path / "disk", tmp_path / "after"):
        subprocess.run(["umount", folder], check=False, capture_output=True)


def mounted(image: Path, folder: Path) -> bool:
    folder.mkdir()
    return subprocess.run(["mount", "-o", "loop", image, folder], check=False, capture_output=True).returncode == 0


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def finished(path: Path) -> int:
    try:
        with SqlJournal(path, read_only=True) as journal:
            return sum(isinstance(event, TrialFinished) for event in journal.read(0))
    except JournalError:  # its tables are not there yet
        return 0


def test_after_a_power_cut_on_ext4_every_promotable_checkpoint_is_complete(image: Path, tmp_path: Path) -> None:
    path = tmp_path / "disk" / "a.db"
    script = f"from tests.faults.test_checkpoint_faults import *\nstateful_study(Path({str(path)!r}), 10**6)"
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, start_new_session=True) as runner:
        try:
            wait_for(path.exists)
            wait_for(lambda: finished(path) >= 12, seconds=200)
            os.killpg(runner.pid, signal.SIGSTOP)
            shutil.copyfile(image, tmp_path / "snapshot")  # what has reached the disk, without the page cache
        finally:
            os.killpg(runner.pid, signal.SIGKILL)
    assert mounted(tmp_path / "snapshot", tmp_path / "after")
    path = tmp_path / "after" / "a.db"
    done = finished(path)
    assert done >= 12
    with SqlJournal(path, read_only=True) as journal:
        history = BOHB.from_events(journal.read(0)).history
    latest = {history.trials[n].config_id: history.trials[n] for n, o in sorted(history.outcomes.items()) if o.ok}
    promotable = [trial for config_id, trial in latest.items() if config_id in history.alive()]
    assert len(promotable) > 5
    for trial in promotable:
        state = path.with_name("a.db.files") / f"study/checkpoints/{trial.config_id}/trial-{trial.number}/state"
        assert state.read_bytes() == STATE + str(trial.budget).encode()
    study = stateful_study(path, done + 15)
    assert {o.status for o in study.history.outcomes.values()} == {Status.OK}
    assert replay(path).ok


# ---- hostile directories ---------------------------------------------------------------------------------------------


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def unix_socket(folder: Path) -> None:
    before = os.getcwd()
    os.chdir(folder)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    os.chdir(before)


def device(folder: Path) -> None:
    os.mknod(folder / "zero", 0o20666, os.makedev(1, 5))


def a_file_instead(folder: Path) -> None:
    folder.rmdir()
    folder.write_text("not a directory")


def a_link_instead(folder: Path) -> None:
    folder.rmdir()
    folder.symlink_to(os.environ["BOHB_TARGET"])


def unreadable(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("")
    (folder / "inner").chmod(0)
    folder.chmod(0)


def deep(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: some disks take seconds to remove 1500 directories."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
NOT_AS_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root can read every directory")
HOSTILE = [
    pytest.param(fifo, "'pipe' is a FIFO", id="fifo"),
    pytest.param(unix_socket, "'socket' is a socket", id="socket"),
    pytest.param(device, "'zero' is a device", id="device", marks=AS_ROOT),
    pytest.param(a_file_instead, "the directory was replaced by a file", id="file"),
    pytest.param(a_link_instead, "the directory was replaced by a symbolic link", id="link"),
    pytest.param(unreadable, "'.' cannot be read (Permission denied)", id="unreadable", marks=NOT_AS_ROOT),
    pytest.param(deep, "directories are nested more than 100 deep", id="deep"),
]


@pytest.mark.parametrize(("spoil", "message"), HOSTILE)
@pytest.mark.parametrize("fails", [False, True])
def test_a_trial_with_a_checkpoint_that_cannot_be_copied_fails_by_name_and_the_study_goes_on(
    spoil: Callable[[Path], None], message: str, fails: bool, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = quick_path / "target"
    (target / "empty").mkdir(parents=True)
    monkeypatch.setenv("BOHB_TARGET", str(target))

    def objective(trial: Trial) -> float:
        if trial.config_id == 1:
            spoil(directory_of(trial))
            if fails:
                raise RuntimeError("after writing")
        return plain(trial)

    files = quick_path / "files"
    study = minimize(
        objective,
        SPACE,
        budgets=[1, 3, 9],
        seed=0,
        directory=files,
        max_trials=20,
        progress=False,
        checkpoint_quota=999,
    )
    errors = {o.error for t, o in study.trials if o is not None and t.config_id == 1}
    expected = f"its checkpoint cannot be kept: {message}; leave only readable files, directories and links there"
    assert errors == ({"RuntimeError: after writing"} if fails else {expected})
    assert {o.ok for t, o in study.trials if o is not None and t.config_id != 1} == {True}
    assert len(study.history.outcomes) == 20
    assert {p.name for p in (files / "study" / "checkpoints").iterdir()} == {"empty"}
    assert [p.name for p in target.iterdir()] == ["empty"]


def test_links_inside_a_checkpoint_are_copied_and_removed_as_links(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "empty").mkdir(parents=True)
    store = Checkpoints(tmp_path, "study")
    first = store.prepare(trial_of(0, 1))
    (directory_of(first) / "data").symlink_to(target)
    (directory_of(first) / "dangling").symlink_to("nowhere")
    store.keep(first)
    second = store.prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
    assert os.readlink(directory_of(second) / "data") == str(target)
    assert os.readlink(directory_of(second) / "dangling") == "nowhere"
    store.ended(second, ok=False)
    store.ended(first, ok=True)
    store.close()
    assert [p.name for p in target.iterdir()] == ["empty"]


def test_a_kept_checkpoint_that_cannot_be_copied_any_more_means_starting_afresh(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Checkpoints(tmp_path, "study")
    first = store.prepare(trial_of(0, 1))
    write_model(first)
    store.keep(first)
    store.ended(first, ok=True)
    fifo(tmp_path / "checkpoints" / "0" / "trial-0")
    second = store.prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
    assert second.previous_budget is None
    assert content(directory_of(second)) == {}
    assert "trial 4 starts afresh: its checkpoint" in caplog.text
    store.keep(second)
    store.ended(second, ok=True)
    assert not list((tmp_path / "checkpoints" / "0").iterdir())


def test_a_disk_that_cannot_sync_loses_the_checkpoint_and_not_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    before: list[float | None] = []

    def objective(trial: Trial) -> float:
        before.append(trial.previous_budget)
        assert list(directory_of(trial).iterdir()) == []
        write_model(trial)
        return plain(trial)

    monkeypatch.setattr(os, "fsync", failing)
    study = minimize(objective, SPACE, budgets=[1, 3], seed=0, directory=tmp_path, max_trials=12, progress=False)
    assert {o.status for o in study.history.outcomes.values()} == {Status.OK}
    assert set(before) == {None}
    assert any(trial.previous_budget is not None for trial in study.history.trials.values())
    assert "the checkpoint of trial 0 is lost: [Errno 5] Input/output error" in caplog.text


def test_a_checkpoint_whose_sync_failed_once_is_not_kept_by_a_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error the system takes the lost pages for written, so that the next sync reports success."""
    store = Checkpoints(tmp_path, "study")
    first = store.prepare(trial_of(0, 1))
    write_model(first)
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", lambda _: os.stat(tmp_path / "nothing"))
        with pytest.raises(OSError, match="No such file"):
            store.keep(first)
    store.keep(first)  # the runner repeats it if the journal was unavailable
    store.ended(first, ok=True)
    second = store.prepare(trial_of(4, 3, previous_budget=1, from_trial=0))
    assert second.previous_budget is None
    assert content(directory_of(second)) == {}


# ---- containers ------------------------------------------------------------------------------------------------------


def test_a_runner_in_another_container_of_the_same_name_leaves_our_directories_alone(tmp_path: Path) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine does not allow a pid namespace")
    ours = directory_of(Checkpoints(tmp_path, "study").prepare(trial_of(0, 1)))
    script = (
        "import os, sys, platform, psutil\nfrom pathlib import Path\nfrom bohb.running.checkpoints import Checkpoints\n"
        "Checkpoints(Path(sys.argv[1]), 'study')\nprint(platform.node(), psutil.pid_exists(int(sys.argv[2])))"
    )
    there = subprocess.run(
        [*unshare, sys.executable, "-c", script, str(tmp_path), str(os.getpid())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == [platform.node(), "False"], "it has our name and does not see our process"
    assert ours.exists()
