"""The exceptions of this package. Every message names the value, the rule and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class BohbError(Exception):
    """The base class of all exceptions that this package raises on purpose."""


class InvalidArgument(BohbError, ValueError):
    """An argument has an invalid value."""


class InvalidSpace(InvalidArgument):
    """The search space cannot be used."""


class InvalidConfiguration(InvalidArgument):
    """A configuration does not belong to the search space."""


class ForbiddenConfiguration(InvalidConfiguration):
    """A configuration violates a forbidden clause."""


class DeviceMemory(BohbError, MemoryError):
    """An objective may raise it if its GPU has too little memory; the errors of common libraries mean the same.

    If the trial shared the GPU with others, it runs again alone, and nothing is held against its configuration.
    """


class InvalidResult(BohbError, TypeError):
    """An objective returned, or `tell` was given, something that is not a result."""


class UnknownTrial(BohbError, KeyError):
    """A result was given for a trial that this study never started."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class AlreadyTold(BohbError):
    """Another outcome was given for a finished trial; the first one stays."""


class NoTrialReady(BohbError):
    """No trial can start before the result of a running one is known."""


class NoResult(BohbError, ValueError):
    """No trial has succeeded yet, so that there is no best one."""


class StudyDone(BohbError):
    """The study is complete; no trial is left to start."""


class Conflict(BohbError):
    """Another writer appended to the journal first; read it again and repeat the decision."""


class WorkersUnavailable(BohbError):
    """Workers could not be started, or lost every trial, for too long; the same call continues the study."""


class Retry(BohbError):
    """Raise it in an objective, or give it to `tell`, to have a trial started again later: `Retry("no GPU here")`.

    That is neither a failure nor a lost worker. The trial waits for 1 s, then 2 s, 4 s, … up to 5 minutes. When it has
    asked 20 times, it fails.
    """


class JournalError(BohbError):
    """The journal cannot be used: it is damaged, full, locked or of another format."""


class JournalUnavailable(JournalError):
    """The journal cannot be written at the moment (disk full, locked, server down); retry later, nothing is lost."""


class JournalDamaged(JournalError):
    """A stored event has a wrong checksum or position; the message names the first one."""


class JournalBusy(JournalError):
    """Another process uses this journal, which is needed alone; the message names it and the time."""


class FilesUnavailable(BohbError, OSError):
    """Checkpoints or learning curves cannot be read or written; the message names the file. The journal is safe."""


class StudyMismatch(JournalError):
    """A stored study was opened with another space, budgets, seed or settings.

    differences: (what, stored value, given value), one for each difference.
    """

    def __init__(self, message: str, differences: Sequence[tuple[str, str, str]] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


class MissingExtra(BohbError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


def install_hint(extra: str) -> str:
    """Return the command that installs an optional dependency of this package."""
    return f'pip install ".[{extra}]" in a clone of bohb'
