"""What all events have."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar


class BaseEvent:
    """The parent of all events: a kind, and the fields that identify an event among others of the same kind."""

    __slots__ = ()
    kind: ClassVar[str]
    identity: ClassVar[tuple[str, ...]] = ()

    @property
    def key(self) -> str:
        """The kind and the identity, such as "lost/12/1"; unique in a study."""
        return "/".join([self.kind, *(str(attrgetter(name)(self)) for name in self.identity)])
