"""Leases show which runners of a study are alive.

A runner holds one lease and renews it. Once a lease has expired, another runner may delete it and take over the trials.
All times are those of the server, so that the clocks of the runners do not matter.
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
    """Let a lease expire `seconds` from now, even if it had already expired."""
    connection.execute(_RENEW, {"study": study, "holder": holder, "seconds": seconds})


def end(connection: Connection, study: str, holder: str) -> None:
    """Delete a lease."""
    connection.execute(_END, {"study": study, "holder": holder})


def live(connection: Connection, study: str) -> set[str]:
    """Return the holders of leases that have not expired."""
    if not inspect(connection).has_table(schema.LEASE.name):  # written before leases existed
        return set()
    return set(connection.execute(_LIVE, {"study": study}).scalars())


def end_expired(connection: Connection, study: str, holder: str) -> bool:
    """Delete a lease if it has expired. Return whether there is none. Renewals wait for the transaction."""
    of = {"study": study, "holder": holder}
    connection.execute(_END_EXPIRED, of)
    return connection.execute(_HELD, of).first() is None
