"""Ask and tell for programs outside of this process: every call opens the journal, acts and closes it.

No runner lives between two calls, so that nobody notices when a program dies. A trial that was handed out stays with
its program until it is told, until `lose` gives it up, or until its last sign of life is older than the lease of
another `ask`. Asking for a trial and reporting a point of its curve are signs of life; they are leases in the journal
that have expired at once, so that they have the same clock as those of runners.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from bohb.arguments import LEASE, check_value
from bohb.core.encoding import check_storable
from bohb.core.history import History
from bohb.core.limits import Limits, reason_to_stop
from bohb.core.trial import Outcome, Status, Trial, outcome_of
from bohb.errors import AlreadyTold, InvalidArgument, JournalBusy, JournalError, NoTrialReady, StudyDone, UnknownTrial
from bohb.journal import Journal, SharedJournal, SqlJournal, stored_events
from bohb.journal.database import OF_A_PROGRAM
from bohb.journal.location import files_directory, shown_journal
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.ledger import known_number
from bohb.running.checkpoints import Checkpoints, keep_checkpoint
from bohb.running.directories import append, claim, is_directory, remove, sync, usable
from bohb.units import duration

log = logging.getLogger("bohb")
WAIT_SECONDS = 60.0
Told = Literal["stored", "known", "late"]
"""What became of a result: "known" if the same one was stored before, "late" if the trial was handed out again
meanwhile, so that it is stored and no decision uses it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25  # seconds between two attempts to open a journal or to get a trial


@dataclass(frozen=True, slots=True)
class ExternalStudy:
    """A study whose trials are evaluated by other programs.

    journal, study: the file or database, and the name of the study in it.
    open: opens the study with its journal, or creates it there.
    directory: for checkpoints and learning curves; "<journal>.files" by default.
    limits: when `ask` stops handing out trials. Without any limit, one round of Hyperband is run. `max_seconds` counts
        from the creation of the study, because nobody knows when its programs worked.
    max_attempts: how often a trial is handed out before it counts as failed because no result came.
    checkpoint_quota: bytes that checkpoints may take together.
    wait_seconds: how long a call waits for another process to close the journal, and `ask` for a trial.
    """

    journal: str = field(repr=False)  # a URL may have a password
    study: str
    open: Callable[[Journal], BOHB] = BOHB.from_journal
    directory: str | Path | None = None
    limits: Limits = field(default_factory=Limits)
    max_attempts: int = 3
    checkpoint_quota: int | None = None
    wait_seconds: float = WAIT_SECONDS

    def ask(self, lease_seconds: float | None = None, client: str | None = None) -> Trial:
        """Return the next trial, with a checkpoint directory that is kept until the trial ends.

        Raises NoTrialReady if none is ready in time, and StudyDone if none is left.

        lease_seconds: hand out trials again that were not told and gave no sign of life for so long. It must be the
            same for all programs of a study, and longer than a program takes from one report to the next.
        client: a name of the program that asks, which no other one has. If it asks again before it has told its trial,
            it gets the same trial in a clean directory.
        """
        check_value("lease_seconds", lease_seconds, LEASE, none=True)
        for _ in _attempts(self.wait_seconds):
            with self.opened() as optimizer:
                files = self._claimed(optimizer.history)  # before a trial starts
                trial = self._next(optimizer, lease_seconds, client)
            if trial is not None:
                return trial if files is None else self._prepared(trial, files, optimizer.history.study_key)
        raise NoTrialReady(f"no trial can start before {optimizer.awaited}; ask again")

    def tell(self, number: int, result: object, attempt: int | None = None) -> Told:
        """Store how a trial ended.

        number, attempt: as `ask` returned them; without an attempt, the first one, unless there were several.
        result: as for `BOHB.tell`.
        """
        history = self._history()
        files = self._claimed(history)
        kept = None if files is None else Checkpoints(files, history.study_key, self.checkpoint_quota)
        trial = attempt_of(history, number, attempt)
        told: Told = "known" if number in history.outcomes else "stored"
        if (number, trial.attempt) in history.given_up:
            told = "late"
        outcome = check_storable(replace(outcome_of(result, history.goals), curve=self._curve(trial)))
        outcome = replace(outcome, started=history.started[number] or time.time(), finished=time.time())
        if kept is not None and files is not None and told == "stored" and is_directory(_place(files, trial)):
            kept.resume(trial, _place(files, trial))
            outcome = keep_checkpoint(kept, trial, outcome)
        with self.opened() as optimizer:
            optimizer.tell(trial, outcome)
            if any((late.number, late.attempt) == (number, trial.attempt) for late in optimizer.history.late):
                told = "late"  # perhaps only since a moment ago
            if kept is not None and told == "stored":
                kept.ended(trial, outcome.ok)
                kept.sweep(optimizer.history)
            self._forget(optimizer, trial)
        return told

    def lose(self, number: int, reason: str, attempt: int | None = None) -> None:
        """Give up a trial whose program will not tell it; `ask` hands it out max_attempts times, then it has failed."""
        with self.opened() as optimizer:
            trial = attempt_of(optimizer.history, number, attempt)
            if number in optimizer.history.outcomes:
                raise AlreadyTold(f"trial {number} has already ended; it cannot be lost any more")
            self._lose(optimizer, trial, reason)

    def report(self, number: int, step: float, loss: float, attempt: int | None = None) -> None:
        """Store one point of the learning curve durably; it becomes part of the outcome when the trial is told."""
        history = self._history()
        trial = attempt_of(history, number, attempt)
        if number in history.outcomes:
            raise AlreadyTold(f"trial {number} has already ended; report the points of a curve before `tell`")
        with self._journal() as journal:
            journal.renew_lease(_holder(trial), 0.0)
        files = self._claimed(history)
        if files is None:
            raise InvalidArgument(
                f"{shown_journal(self.journal)} is on a server, and no directory is given for learning curves: this "
                "was a sign of life only; name a study file with the key 'directory', or give --directory"
            )
        file = _curve_file(files, trial)

        def store(*point: float) -> None:
            is_new = not file.exists()
            append(file, f"\n{json.dumps(point)}")  # so it continues no line cut off by a power cut
            sync(file)
            if is_new:
                sync(file.parent)

        with usable(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
            replace(trial, reporter=store).report(step, loss)

    @contextmanager
    def opened(self) -> Iterator[BOHB]:
        """Open the study."""
        with self._journal() as journal:
            yield self.open(journal)

    def _journal(self) -> SqlJournal:
        """Return the open journal, after waiting for another process that needs its file alone."""
        attempts = _attempts(self.wait_seconds)
        while True:
            try:
                return SqlJournal(self.journal, self.study)
            except JournalBusy:
                if not next(attempts, False):
                    raise

    def _history(self) -> History:
        return History().extend(stored_events(self.journal, self.study))

    def _next(self, optimizer: BOHB, lease_seconds: float | None, client: str | None) -> Trial | None:
        """Start the next trial; None if running ones have to end first."""
        history, journal = optimizer.history, _leases(optimizer)
        if lease_seconds is not None:
            silent = journal.expired_leases()
            for trial in [trial for number, trial in history.running.items() if history.owner(number) is None]:
                holder = _holder(trial)
                if silent.get(holder, 0.0) > lease_seconds:
                    self._lose(optimizer, trial, f"no result within {duration(lease_seconds)}")
                elif holder not in silent:  # killed before its first sign, or the clock began anew: count from now
                    journal.renew_lease(holder, 0.0)
        limits = self.limits.or_one_round(history)
        trials = optimizer.ask_many(1, limits, client=client)
        if trials:
            journal.renew_lease(_holder(trials[0]), 0.0)
            return trials[0]
        seconds = time.time() - (history.study.time or time.time())
        why = reason_to_stop(limits, optimizer.history, seconds)
        if why is None and optimizer.exhausted(limits):
            why = "no trial is left"
        if why is not None:
            raise StudyDone(f"the study is complete after {len(history.trials)} trials: {why}")
        return None

    def _prepared(self, trial: Trial, files: Path, key: str) -> Trial:
        """Return the trial with a clean checkpoint directory; give it up if that cannot be made."""
        try:
            with usable(files / "checkpoints"), closing(Checkpoints(files, key, self.checkpoint_quota)) as checkpoints:
                remove(_curve_file(files, trial))  # of the same client from before it crashed
                return checkpoints.prepare(trial, _place(files, trial))
        except OSError:
            with self.opened() as optimizer:
                optimizer.lose(trial, "its checkpoint directory could not be made", counts=False)
            raise

    def _lose(self, optimizer: BOHB, trial: Trial, reason: str) -> None:
        if optimizer.history.losses.get(trial.number, 0) + 1 < self.max_attempts:
            optimizer.lose(trial, reason)
        elif (trial.number, trial.attempt) not in optimizer.history.given_up:
            error = f"handed out {self.max_attempts} times without a result, at last: {reason}"
            with suppress(AlreadyTold):  # its result has come after all
                optimizer.tell(trial, Outcome(Status.LOST, error=error))
        self._forget(optimizer, trial)

    def _forget(self, optimizer: BOHB, trial: Trial) -> None:
        """Remove what an attempt leaves beside its checkpoint, and its signs of life."""
        with suppress(JournalError):  # its end is stored
            _leases(optimizer).end_lease(_holder(trial))
        if self._files is not None:
            remove(_place(self._files, trial))
            remove(_curve_file(self._files, trial))

    def _curve(self, trial: Trial) -> tuple[tuple[float, float], ...]:
        files = self._files
        if files is None or not _curve_file(files, trial).exists():
            return ()
        with usable(files / "curves"):
            lines = _curve_file(files, trial).read_text().splitlines()
        points = []
        for line in filter(None, lines):
            try:
                step, loss = json.loads(line)
                points.append((float(step), float(loss)))
            except ValueError:
                log.warning("the learning curve of trial %d has an incomplete line, left by a power cut", trial.number)
        return tuple(points)

    def _claimed(self, history: History) -> Path | None:
        """Return the directory of checkpoints and curves, None if there is none. Refuses that of somebody else."""
        if self._files is not None:
            claim(self._files, history.study_key)
        return self._files

    @property
    def _files(self) -> Path | None:
        """The directory of checkpoints and curves; None for a study on a server without one."""
        path = None if "://" in self.journal else Path(self.journal).resolve()
        return files_directory(path, self.study, self.directory)


def _attempts(seconds: float) -> Iterator[bool]:
    """Yield True at once, and again after pauses that grow, until a time is over."""
    since, pause = time.monotonic(), _FIRST_PAUSE
    yield True
    while time.monotonic() - since + pause <= seconds:
        time.sleep(pause)
        yield True
        pause = min(2 * pause, _LONGEST_PAUSE)


def attempt_of(history: History, number: int, attempt: int | None) -> Trial:
    """Return a trial that was handed out. Raises UnknownTrial, or InvalidArgument if the attempt is in doubt."""
    trial = history.trials[known_number(history, number)]
    if attempt is None and (trial.attempt, (number, 1) in history.given_up) != (1, False):
        raise InvalidArgument(
            f"trial {number} was handed out more than once or declared lost; give the attempt that this is about, "
            "as `ask` returned it"
        )
    attempt = 1 if attempt is None else attempt
    if not 1 <= attempt <= trial.attempt:
        raise UnknownTrial(f"trial {number} has no attempt {attempt!r}; it was handed out {trial.attempt} times")
    return replace(trial, attempt=attempt)


def _leases(optimizer: BOHB) -> SharedJournal:
    """Return the journal of a study that was opened here."""
    assert optimizer.ledger.shared is not None
    return optimizer.ledger.shared


def _holder(trial: Trial) -> str:
    """Return the name under which the program of a trial gives its signs of life."""
    return f"{OF_A_PROGRAM}{trial.number}, attempt {trial.attempt}"


def _place(files: Path, trial: Trial) -> Path:
    return files / "checkpoints" / "asked" / f"{trial.number}-{trial.attempt}"


def _curve_file(files: Path, trial: Trial) -> Path:
    return files / "curves" / f"{trial.number}-{trial.attempt}.jsonl"
