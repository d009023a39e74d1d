"""Checkpoints: one directory per configuration, which the objective fills and finds again on the next budget.

A trial works in a directory below `working`, which starts as a copy of the configuration's checkpoint of its previous
budget. If the trial succeeds, the directory is written to the disk and becomes `<config_id>/trial-<number>`; only then
is the result stored, and after that the older checkpoint is removed. If the trial fails or is killed, its directory is
removed. So a checkpoint is always complete and always belongs to `trial.previous_budget`, even after a power cut.

Most objectives write nothing; then the directory is reused, because creating one takes longer than choosing a trial.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bohb.core.history import History
from bohb.core.schedule.rules import kept_for_growth
from bohb.core.trial import Outcome, Status, Trial
from bohb.running import directories
from bohb.running.directories import MARKER, UnusableTree, Workplace

log = logging.getLogger("bohb")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_THERE = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}  # something is at the place that a directory should get


class Checkpoints:
    """The checkpoint directories of one study.

    files: the directory of the study's files, which `claim` has marked; everything in its `checkpoints` may be removed.
    study: identifies the study (`History.study_key`).
    quota: total size of finished checkpoints in bytes. Beyond it the cheapest to lose are removed first: those of the
        smallest budgets, the worst losses first. Their configurations start afresh. The incumbent's is always kept.
    """

    def __init__(self, files: Path, study: str, quota: int | None = None) -> None:
        self.root = root = files / "checkpoints"
        self._study, self._quota = study, quota
        self._synced = False  # whether the parents of `root` are on the disk
        self._working: dict[int, Path] = {}  # by the number of the running trial
        self._clean: list[Path] = []  # empty directories that can be reused
        self._empty_file = root / "empty"  # numbers of successful trials that wrote nothing
        with directories.usable(root):
            root.mkdir(parents=True, exist_ok=True)
            homes = directories.homes(root)
            self._empty = _numbers(self._empty_file)
            self._workplace = Workplace(root / "working")
        # of the configurations that have a directory; 0 without a quota
        self._sizes = {number: 0 if quota is None else directories.size(path) for number, path in homes.items()}

    def prepare(self, trial: Trial, directory: Path | None = None) -> Trial:
        """Return the trial with its directory; `previous_budget` becomes None if its checkpoint cannot be read.

        directory: where it works, also after this process; by default in a directory that is removed at the end.
        """
        lost = self._working.pop(trial.number, None)
        if lost is not None:  # not reused: the lost worker may still write to it
            directories.remove(lost)
        if not (self.root.parent / MARKER).exists():  # somebody has removed it, or everything
            directories.mark(self.root.parent, self._study)
            self._synced = False
        self._working[trial.number] = self._new()
        if trial.previous_budget is not None and not self._hand_on(trial):
            trial = replace(trial, previous_budget=None)
        if directory is not None:
            self._put(trial, directory)
        return replace(trial, checkpoint_dir=self._working[trial.number])

    def _new(self) -> Path:
        """Return an empty directory."""
        return self._clean.pop() if self._clean else self._workplace.make()

    def _put(self, trial: Trial, directory: Path) -> None:
        """Let a trial work in this directory, whatever is there, and whoever does the same at this moment."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with suppress(FileNotFoundError):
                directories.permit(directory)
                directory.rename(self._workplace.make() / "old")
            try:
                self._working[trial.number] = self._working[trial.number].rename(directory)
                return
            except OSError as error:
                if error.errno not in _THERE:
                    raise

    def resume(self, trial: Trial, directory: Path) -> None:
        """Go on with a directory that another process has prepared for this trial."""
        self._working[trial.number] = directory

    def _hand_on(self, trial: Trial) -> bool:
        """Copy the previous checkpoint into the directory of a trial; return whether that was possible."""
        before = self._home(trial) / f"trial-{trial.from_trial}"
        if not directories.is_directory(before):
            if trial.from_trial not in self._empty:
                self._empty = _numbers(self._empty_file)  # another runner of this study may have added it
            return trial.from_trial in self._empty
        current = self._working[trial.number]
        try:
            directories.copy(before, current)
        except (OSError, UnusableTree) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            log.error("trial %d starts afresh: its checkpoint %s cannot be copied (%s)", trial.number, before, error)
            directories.remove(current)
            self._working[trial.number] = self._new()
            return False
        return True

    def replaces(self, trial: Trial) -> bool:
        """Whether keeping the directory of a trial may replace a checkpoint, perhaps one of another runner."""
        current = self._working.get(trial.number)
        return current is not None and (trial.config_id in self._sizes or not _is_empty(current))

    def keep(self, trial: Trial) -> None:
        """Keep the directory of a successful trial, durably; calling this twice is harmless.

        Raises UnusableTree if it contains something that could not be copied for the next budget. After any error the
        checkpoint is gone: a second sync could succeed although the first one has lost data.
        """
        current = self._working.pop(trial.number, None)
        if current is None:
            return
        kept = self._home(trial) / f"trial-{trial.number}"
        if trial.config_id in self._sizes:
            directories.remove(kept)
        if _is_empty(current):
            self._clean.append(current)
            directories.append(self._empty_file, f"\n{trial.number};")  # without the semicolon it is not complete
            self._empty.add(trial.number)
            return
        try:
            self._store(current, kept)
        except (OSError, UnusableTree):
            directories.remove(current)
            directories.remove(kept)
            raise
        self._sizes.setdefault(trial.config_id, 0)

    def _store(self, current: Path, kept: Path) -> None:
        """Rename a directory once its contents are on the disk, so that a power cut leaves all of it or nothing."""
        directories.make_durable(current)
        kept.parent.mkdir(exist_ok=True)
        if not self._synced:  # the checkpoints must not survive without it
            directories.sync(self.root.parent / MARKER)
        current.rename(kept)
        directories.sync(kept.parent)
        directories.sync(self.root)
        if not self._synced:
            for parent in self.root.parents:
                with suppress(OSError):  # one that we may not read is not one that we have created
                    directories.sync(parent)
            self._synced = True

    def ended(self, trial: Trial, ok: bool) -> None:
        """Remove the checkpoints of smaller budgets if the trial succeeded, and what it wrote if it failed.

        Call this when the result is stored.
        """
        if ok:
            home = self._home(trial)
            kept = home / f"trial-{trial.number}"
            if trial.config_id in self._sizes or trial.from_trial is not None:
                try:
                    for path in home.glob("trial-*"):
                        if path != kept:
                            directories.remove(path)
                except OSError as error:
                    log.warning("earlier checkpoints stay in %s: %s", home, error.strerror)
            if self._quota is not None and trial.config_id in self._sizes:
                self._sizes[trial.config_id] = directories.size(kept)
        current = self._working.pop(trial.number, None)
        if current is not None and _is_empty(current):
            self._clean.append(current)
        elif current is not None:
            directories.remove(current)

    def close(self) -> None:
        """Remove the working directories; no trial may be running."""
        self._workplace.close()
        self._working.clear()
        self._clean.clear()

    def _home(self, trial: Trial) -> Path:
        return self.root / str(trial.config_id)

    def sweep(self, history: History) -> None:
        """Remove checkpoints that cannot be promoted any more or exceed the quota, except the incumbent's.

        Those of the best on the largest budget stay, because it may grow.
        """
        for config_id in self._sizes.keys() - history.alive() - kept_for_growth(history):
            self._drop(config_id)
        while self._quota is not None and sum(self._sizes.values()) > self._quota:
            removable = cheapest_to_lose(history, self._sizes)
            if not removable:
                text = "the incumbent's checkpoint alone exceeds checkpoint_quota=%d bytes; it is kept"
                log.warning(text, self._quota)
                return
            self._drop(removable[0])

    def _drop(self, config_id: int) -> None:
        directories.remove(self.root / str(config_id))
        del self._sizes[config_id]


def keep_checkpoint(checkpoints: Checkpoints, trial: Trial, outcome: Outcome) -> Outcome:
    """Keep the checkpoint of a trial if it succeeded, and return its outcome.

    A result whose checkpoint the disk cannot hold still counts; a trial that left something else than files,
    directories and links fails.
    """
    if not outcome.ok:
        return outcome
    try:
        checkpoints.keep(trial)
    except OSError as error:
        log.error("the checkpoint of trial %d is lost: %s", trial.number, error)
    except UnusableTree as error:
        text = f"its checkpoint cannot be kept: {error}; leave only readable files, directories and links there"
        return replace(outcome, status=Status.BAD_RESULT, loss=None, info={}, error=text)
    return outcome


def cheapest_to_lose(history: History, config_ids: Iterable[int]) -> list[int]:
    """Return configurations in the order of removing their checkpoints, without running ones and the incumbent."""
    busy = {trial.config_id for trial in history.pending.values()} | history.leading
    reached = {
        result.trial.config_id: (result.budget, -result.outcome.ranking_loss)
        for result in sorted(history.results, key=lambda result: result.budget)
    }
    return sorted((c for c in config_ids if c not in busy), key=lambda c: reached.get(c, (0.0, 0.0)))


def _is_empty(path: Path) -> bool:
    """Whether a directory is empty; one that the objective has removed is made again."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with os.scandir(path) as entries:
            return not path.is_symlink() and next(entries, None) is None
    except OSError:
        return False


def _numbers(file: Path) -> set[int]:
    try:
        return {int(line[:-1]) for line in file.read_text().split() if line[-1] == ";" and line[:-1].isdecimal()}
    except FileNotFoundError:
        return set()
