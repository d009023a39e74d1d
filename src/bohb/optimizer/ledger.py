"""A history in step with its journal: nothing is known that is not stored, whoever stored it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from bohb.core.events import Event
from bohb.core.history import History
from bohb.core.space import Space
from bohb.errors import Conflict
from bohb.journal import Journal
from bohb.optimizer.leases import is_shared, turn_at

T = TypeVar("T")
_CONFLICTS = 100  # appends that another writer may beat before we give up


class Ledger:
    """The events of a study, folded.

    journal: where they are stored.
    space: the compiled space, so that folding need not compile it again.
    events: what the journal holds already.
    """

    def __init__(self, journal: Journal, space: Space, events: Sequence[Event]) -> None:
        self.journal = journal
        self._space = space
        self._stale = False  # whether the history may hold what the journal does not
        self._fold(events)

    @property
    def shared(self) -> bool:
        """Whether several runners may work on the study at once."""
        return is_shared(self.journal)

    def in_turn(self, act: Callable[[], T]) -> T:
        """Do something that appends while nobody else can, in the knowledge of all that is stored.

        A journal without turns reports a Conflict if it is longer than known; then what it has is noted, and it is
        done again.
        """
        for _ in range(_CONFLICTS):
            try:
                with self._turn():
                    return act()
            except Conflict:
                if not self._stale:
                    self.history.extend(self.journal.read(self.history.n_events))
        with self._turn():
            return act()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Our turn at the journal, if it has turns; should it come to nothing, what was decided in it is forgotten.

        Whatever ends it: the journal, a sampler of the user's, Ctrl-C.
        """
        known = self.history.n_events
        try:
            with turn_at(self.journal):
                self.catch_up()
                known = self.history.n_events
                yield
        except BaseException:
            if self.history.n_events != known:
                self._stale = True
                if not self.shared:  # else when it is our turn again: the server may be out of reach
                    self.reload()
            raise

    def catch_up(self) -> None:
        """Take note of what others have stored."""
        if self._stale:
            self.reload()
        elif self.shared:
            self.history.extend(self.journal.read(self.history.n_events))

    def append(self, events: Sequence[Event]) -> None:
        """Store events, then fold them: nothing is decided from what is not durable."""
        if events:
            self.journal.append(events, self.history.n_events)
            self.history.extend(events)

    def store(self, events: Sequence[Event], after: int) -> None:
        """Store events that were folded in this turn."""
        if events:
            self.journal.append(events, after)

    def reload(self) -> None:
        """Forget all but what the journal has."""
        self._fold(self.journal.read(0))

    def _fold(self, events: Sequence[Event]) -> None:
        self.history = History(self._space).extend(events)
        self._stale = False
