"""Checkpoints: one directory per configuration, which the objective fills and finds again on the next budget.

A trial works in a directory below `working`, which starts as a copy of the configuration's checkpoint of its previous
budget. If the trial succeeds, the directory becomes `<config_id>/trial-<number>`, and the older one is removed once the
result is stored. If it fails or is killed, its directory is removed. So a checkpoint is always complete and always
belongs to `trial.previous_budget`, even after a crash.

Most objectives write nothing; then the directory is reused, because creating one takes longer than choosing a trial.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument

log = logging.getLogger("bohb")


class Checkpoints:
    """The checkpoint directories of one study.

    root: the directory that contains them.
    quota: total size of finished checkpoints in bytes. Beyond it the cheapest to lose are removed first: those of the
        smallest budgets, the worst losses first. Their configurations start afresh. The incumbent's is always kept.
    """

    def __init__(self, root: Path, quota: int | None = None) -> None:
        if quota is not None and (isinstance(quota, bool) or not isinstance(quota, int) or quota <= 0):
            raise InvalidArgument(f"checkpoint_quota={quota!r} must be a positive number of bytes")
        self.root = root
        self._quota = quota
        root.mkdir(parents=True, exist_ok=True)
        self._sizes = {int(path.name): _size(path) for path in root.iterdir() if path.name.isdecimal()}
        self._homes = set(self._sizes)  # configurations that have a directory
        self._own = _workplace(root / "working")
        self._working: dict[int, Path] = {}  # by the number of the running trial
        self._clean: list[Path] = []  # empty directories that can be reused
        self._made = 0
        self._empty_file = root / "empty"  # numbers of successful trials that wrote nothing
        self._empty = _numbers(self._empty_file)

    def prepare(self, trial: Trial) -> Trial:
        """Return the trial with its directory; `previous_budget` becomes None if its checkpoint no longer exists."""
        lost = self._working.pop(trial.number, None)
        if lost is not None:  # not reused: the lost worker may still write to it
            _remove(lost)
        current = self._working[trial.number] = self._clean.pop() if self._clean else self._make()
        if trial.previous_budget is not None:
            number = trial.from_trial
            before = self._home(trial) / f"trial-{number}"
            if before.exists():
                shutil.copytree(before, current, symlinks=True, dirs_exist_ok=True)
            elif not self._left_nothing(number):
                trial = replace(trial, previous_budget=None)
        return replace(trial, checkpoint_dir=current)

    def keep(self, trial: Trial) -> None:
        """Keep the directory of a successful trial; calling this twice is harmless."""
        current = self._working.get(trial.number)
        if current is None:
            return
        kept = self._home(trial) / f"trial-{trial.number}"
        if trial.config_id in self._homes and kept.exists():
            _remove(kept)
        if _is_empty(current):
            _append(self._empty_file, trial.number)
            self._empty.add(trial.number)
            self._clean.append(current)
        else:
            kept.parent.mkdir(exist_ok=True)
            self._homes.add(trial.config_id)
            current.rename(kept)
        del self._working[trial.number]

    def settle(self, trial: Trial) -> None:
        """Remove the checkpoints of smaller budgets, now that the result is stored."""
        home = self._home(trial)
        kept = home / f"trial-{trial.number}"
        if trial.config_id in self._homes or trial.from_trial is not None:
            for path in home.glob("trial-*"):
                if path != kept:
                    _remove(path)
        self._sizes[trial.config_id] = _size(kept) if self._quota is not None else 0
        self._vacate(trial)

    def discard(self, trial: Trial) -> None:
        """Remove what a failed trial wrote."""
        self._vacate(trial)
        self._sizes.setdefault(trial.config_id, 0)

    def close(self) -> None:
        """Remove the working directories; no trial may be running."""
        shutil.rmtree(self._own, ignore_errors=True)
        self._working.clear()
        self._clean.clear()
        try:
            self._own.parent.rmdir()
        except OSError:
            pass  # other runners use it, or it was never created

    def _vacate(self, trial: Trial) -> None:
        current = self._working.pop(trial.number, None)
        if current is None:
            return
        if _is_empty(current):
            self._clean.append(current)
        else:
            _remove(current)

    def _make(self) -> Path:
        path = self._own / str(self._made)
        self._made += 1
        path.mkdir(parents=True)
        return path

    def _left_nothing(self, number: object) -> bool:
        if number not in self._empty:
            self._empty = _numbers(self._empty_file)  # another runner of this study may have added it
        return number in self._empty

    def _home(self, trial: Trial) -> Path:
        return self.root / str(trial.config_id)

    def sweep(self, history: History) -> None:
        """Remove checkpoints that cannot be promoted any more or exceed the quota, except the incumbent's."""
        alive = history.alive()
        for config_id in [c for c in self._sizes if c not in alive]:
            self._drop(config_id)
        if self._quota is None or sum(self._sizes.values()) <= self._quota:
            return
        for config_id in cheapest_to_lose(history, self._sizes):
            if sum(self._sizes.values()) <= self._quota:
                return
            self._drop(config_id)
        if sum(self._sizes.values()) > self._quota:
            log.warning("the incumbent's checkpoint alone exceeds checkpoint_quota=%d bytes; it is kept", self._quota)

    def _drop(self, config_id: int) -> None:
        if config_id in self._homes:
            _remove(self.root / str(config_id))
            self._homes.discard(config_id)
        del self._sizes[config_id]


def cheapest_to_lose(history: History, config_ids: Iterable[int]) -> list[int]:
    """Return configurations in the order of removing their checkpoints, without running ones and the incumbent."""
    busy = {trial.config_id for trial in history.pending.values()}
    if history.incumbent is not None:
        busy.add(history.incumbent.trial.config_id)
    reached: dict[int, tuple[float, float]] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if outcome.ok:
            budget, _ = reached.get(trial.config_id, (0.0, 0.0))
            if trial.budget >= budget:
                reached[trial.config_id] = (trial.budget, -outcome.ranking_loss)
    return sorted((c for c in config_ids if c not in busy), key=lambda c: reached.get(c, (0.0, 0.0)))


def _remove(path: Path) -> None:
    """Remove a directory, quickly if it is empty or contains empty directories only."""
    try:
        for inside in path.iterdir():
            inside.rmdir()
        path.rmdir()
    except OSError:  # not empty, or gone
        shutil.rmtree(path, ignore_errors=True)


def _is_empty(path: Path) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except FileNotFoundError:  # the objective has removed it
        path.mkdir(parents=True)
        return True


def _workplace(root: Path) -> Path:
    """Return the working directory of this runner, and remove those of dead runners on this machine."""
    machine = platform.node()
    for path in root.iterdir() if root.exists() else ():
        name, _, process = path.name.rpartition("-")[0].rpartition("-")
        if name == machine and process.isdecimal() and not psutil.pid_exists(int(process)):
            shutil.rmtree(path, ignore_errors=True)
    return root / f"{machine}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _numbers(file: Path) -> set[int]:
    try:
        return {int(line) for line in file.read_text().split() if line.isdecimal()}
    except FileNotFoundError:
        return set()


def _append(file: Path, number: int) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{number}\n".encode())
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    return sum(p.lstat().st_size for p in path.rglob("*") if not p.is_dir()) if path.exists() else 0
