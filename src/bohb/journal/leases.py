"""Leases: which runners of a study are alive, by the clock of the database.

A runner holds one lease and renews it while it lives. Once it has run out, and not before, another runner may end it
and take over the trials. All times are the server's, so that runners whose clocks differ agree.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from bohb.journal import schema

_RENEW = text(
    "INSERT INTO lease VALUES (:study, :holder, clock_timestamp() + make_interval(secs => :seconds)) "
    "ON CONFLICT (study, holder) DO UPDATE SET expires = excluded.expires"
)
_END = text("DELETE FROM lease WHERE study = :study AND holder = :holder")
_END_EXPIRED = text(f"{_END} AND expires < clock_timestamp()")
_LIVE = text("SELECT holder FROM lease WHERE study = :study AND expires >= clock_timestamp()")
_HELD = text("SELECT 1 FROM lease WHERE study = :study AND holder = :holder")


def renew(connection: Connection, study: str, holder: str, seconds: float) -> None:
    """Let the lease run for so many seconds from now, whether or not it had run out."""
    connection.execute(_RENEW, {"study": study, "holder": holder, "seconds": seconds})


def end(connection: Connection, study: str, holder: str) -> None:
    """Give a lease back."""
    connection.execute(_END, {"study": study, "holder": holder})


def live(connection: Connection, study: str) -> set[str]:
    """The holders of leases that have not run out."""
    if not inspect(connection).has_table(schema.LEASE.name):  # no runner has been here since there are leases
        return set()
    return set(connection.execute(_LIVE, {"study": study}).scalars())


def end_expired(connection: Connection, study: str, holder: str) -> bool:
    """End a lease if it has run out; whether none is left. A renewal at the same time waits for this transaction."""
    of = {"study": study, "holder": holder}
    connection.execute(_END_EXPIRED, of)
    return connection.execute(_HELD, of).first() is None
