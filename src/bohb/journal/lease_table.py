"""The table of leases: a runner holds one while it lives; once it has expired, another may take over its trials.

On a server all times are those of the server, so that the clocks of the runners do not matter. A file has runners on
one machine only, and their monotonic clock is the same one. It starts again when the machine does; a lease is therefore
over when all writers of its generation have ended (`WriterLock`).
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Column, Connection, DateTime, Float, MetaData, Table, Text, inspect, text

LEASE = "lease"
_SQLITE = "sqlite"


def lease_table(dialect: str) -> Table:
    """Return the table of a file or of a server."""
    columns: list[Column[Any]] = [Column("study", Text, primary_key=True), Column("holder", Text, primary_key=True)]
    if dialect == _SQLITE:
        columns += [Column("expires", Float, nullable=False), Column("generation", Text, nullable=False)]
    else:
        columns += [Column("expires", DateTime(timezone=True), nullable=False)]
    return Table(LEASE, MetaData(), *columns)


class Leases:
    """The leases of one study.

    generation: the generation of the writers of a file; None for a server.
    """

    def __init__(self, study: str, generation: str | None) -> None:
        self._study = study
        self._generation = generation or ""

    def renew(self, connection: Connection, holder: str, seconds: float) -> None:
        """Let a lease expire `seconds` from now, even if it had already expired."""
        on_file = connection.dialect.name == _SQLITE
        later = ":now + :seconds, :generation" if on_file else "clock_timestamp() + make_interval(secs => :seconds)"
        same = ", generation = excluded.generation" if on_file else ""
        statement = f"""INSERT INTO lease VALUES (:study, :holder, {later})
            ON CONFLICT (study, holder) DO UPDATE SET expires = excluded.expires{same}"""
        connection.execute(text(statement), self._values(on_file, holder=holder, seconds=seconds))

    def end(self, connection: Connection, holder: str) -> None:
        """Delete a lease."""
        statement = text("DELETE FROM lease WHERE study = :study AND holder = :holder")
        connection.execute(statement, {"study": self._study, "holder": holder})

    def is_over(self, connection: Connection, holder: str) -> bool:
        """Whether a runner has no lease any more; one that has expired is deleted, and renewals wait for that."""
        on_file = connection.dialect.name == _SQLITE
        where = f"study = :study AND holder = :holder AND NOT ({_alive(on_file)})"
        connection.execute(text(f"DELETE FROM lease WHERE {where}"), self._values(on_file, holder=holder))
        held = text("SELECT 1 FROM lease WHERE study = :study AND holder = :holder")
        return connection.execute(held, {"study": self._study, "holder": holder}).first() is None

    def live(self, connection: Connection) -> set[str]:
        """Return the holders of all leases that have not expired."""
        if not inspect(connection).has_table(LEASE):  # written before leases existed
            return set()
        on_file = connection.dialect.name == _SQLITE
        statement = text(f"SELECT holder FROM lease WHERE study = :study AND {_alive(on_file)}")
        return set(connection.execute(statement, self._values(on_file)).scalars())

    def _values(self, on_file: bool, **values: Any) -> dict[str, Any]:
        ours = {"now": time.monotonic(), "generation": self._generation} if on_file else {}
        return {"study": self._study, **ours, **values}


def _alive(on_file: bool) -> str:
    return "generation = :generation AND expires >= :now" if on_file else "expires >= clock_timestamp()"
