"""One directory per configuration: filled by the objective, handed on from budget to budget.

A trial works in `<config_id>/current`, which starts as a copy of what its configuration had when it finished the budget
before. When the trial ends well, `current` becomes `trial-<number>`; once the result is durable, the older one goes.
When the trial fails or is killed, `current` is thrown away. So what a trial finds is always complete and always belongs
to `trial.previous_budget`, whenever and however its predecessor or the runner died.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument

log = logging.getLogger("bohb")


class Checkpoints:
    """The checkpoint directories of one study.

    root: where they are.
    quota: bytes that finished checkpoints may take together; the incumbent's is always kept. Beyond it those that are
        cheapest to lose go first: of the smallest budgets, the worst losses. Their configurations start afresh.
    """

    def __init__(self, root: Path, quota: int | None = None) -> None:
        if quota is not None and (isinstance(quota, bool) or not isinstance(quota, int) or quota <= 0):
            raise InvalidArgument(f"checkpoint_quota={quota!r} must be a positive number of bytes")
        self.root = root
        self._quota = quota
        root.mkdir(parents=True, exist_ok=True)
        self._sizes = {int(path.name): _size(path) for path in root.iterdir() if path.name.isdecimal()}

    def prepare(self, trial: Trial) -> Trial:
        """The trial with its directory, as the budget before left it; `previous_budget` is None if that is gone."""
        home = self._home(trial)
        current = home / "current"
        if current.exists():
            _remove(current)
        before = home / f"trial-{trial.reason.get('from_trial')}"
        if trial.previous_budget is not None and before.exists():
            shutil.copytree(before, current, symlinks=True)
        else:
            current.mkdir(parents=True)
            trial = replace(trial, previous_budget=None)
        return replace(trial, checkpoint_dir=current)

    def keep(self, trial: Trial) -> None:
        """The trial ended well: put its directory by. Doing so twice is fine."""
        home = self._home(trial)
        current, kept = home / "current", home / f"trial-{trial.number}"
        if current.exists():
            if kept.exists():
                _remove(kept)
            current.rename(kept)

    def settle(self, trial: Trial) -> None:
        """The result of a successful trial is durable: its directory replaces those of smaller budgets."""
        home = self._home(trial)
        kept = home / f"trial-{trial.number}"
        if trial.config_id in self._sizes:
            for path in home.glob("trial-*"):
                if path != kept:
                    _remove(path)
        self._sizes[trial.config_id] = _size(kept) if self._quota is not None else 0

    def discard(self, trial: Trial) -> None:
        """The trial failed: forget what it wrote."""
        _remove(self._home(trial) / "current")
        self._sizes.setdefault(trial.config_id, 0)

    def _home(self, trial: Trial) -> Path:
        return self.root / str(trial.config_id)

    def sweep(self, history: History) -> None:
        """Remove what can no longer be promoted, and what exceeds the quota; the incumbent's stays."""
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
        _remove(self.root / str(config_id))
        del self._sizes[config_id]


def cheapest_to_lose(history: History, config_ids: Iterable[int]) -> list[int]:
    """Configurations in the order in which their checkpoints may go; running ones and the incumbent never."""
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
    """Remove a directory; most are empty, or hold one that is."""
    try:
        for inside in path.iterdir():
            inside.rmdir()
        path.rmdir()
    except OSError:  # not empty, or gone
        shutil.rmtree(path, ignore_errors=True)


def _size(path: Path) -> int:
    return sum(p.lstat().st_size for p in path.rglob("*") if not p.is_dir()) if path.exists() else 0
