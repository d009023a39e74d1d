"""The exception tree. Every message names the value, the rule and the way out."""

from __future__ import annotations

from collections.abc import Sequence


class BohbError(Exception):
    """The root of everything this package raises on purpose."""


class InvalidArgument(BohbError, ValueError):
    """An argument breaks a rule; the message names both."""


class InvalidSpace(InvalidArgument):
    """The search space cannot be used."""


class InvalidConfiguration(InvalidArgument):
    """A configuration does not belong to the search space."""


class ForbiddenConfiguration(InvalidConfiguration):
    """A configuration violates a forbidden clause."""


class InvalidResult(BohbError, TypeError):
    """An objective returned, or `tell` was given, something that is not a result."""


class UnknownTrial(BohbError, KeyError):
    """A trial was told that this study never started."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class AlreadyTold(BohbError):
    """A finished trial was told another outcome; the first one stands."""


class NoTrialReady(BohbError):
    """Nothing can start until one of the running trials is told."""


class StudyDone(BohbError):
    """The study has reached its end; there is nothing left to ask for."""


class Conflict(BohbError):
    """Somebody else appended to the journal first; read again and decide anew."""


class JournalError(BohbError):
    """The journal cannot be used: damaged, full, locked or of another format."""


class JournalUnavailable(JournalError):
    """The journal cannot be written just now (disk full, locked, server gone); nothing is lost, trying again helps."""


class JournalDamaged(JournalError):
    """A stored event fails its checksum or breaks the sequence; the position is named."""


class JournalBusy(JournalError):
    """Another runner holds this journal; the message says which one and since when."""


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
