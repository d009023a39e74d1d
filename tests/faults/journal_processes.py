"""What the other processes of the journal's fault tests do. Each talks to its test through one end of a pipe."""

from __future__ import annotations

import os
import random
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from bohb.errors import Conflict
from bohb.journal import SqlJournal
from bohb.testing import numbered_events

_context = ForkServerContext()
_context.set_forkserver_preload(["bohb.journal", "bohb.testing", "psycopg"])


def start(role: Any, *arguments: Any) -> tuple[ForkServerProcess, Connection]:
    """Start `role(pipe, *arguments)` in a process of its own."""
    here, there = _context.Pipe()
    process = _context.Process(target=role, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    return process, here


def write_for_ever(pipe: Connection, path: Path, seed: int) -> None:
    """Append groups of events, and tell the length that was acknowledged after each."""
    rng = random.Random(seed)
    with SqlJournal(path) as journal:
        length = len(journal.read())
        while True:
            group = numbered_events(rng.randint(1, 5), first=length)
            journal.append(group, after=length)
            length += len(group)
            pipe.send(length)


def commit_and_pause(pipe: Connection, path: Path, first: int, count: int) -> None:
    """Append, but stop for ever between the commit and its acknowledgement."""
    with SqlJournal(path) as journal:
        journal.append([], after=first)  # claims the epoch, so that the next commit is that of the events
        commit = journal.database.commit

        def pause() -> None:
            commit()
            pipe.send("committed")
            pipe.recv()

        journal.database.commit = pause  # type: ignore[method-assign]
        journal.append(numbered_events(count, first), after=first)


def write_groups_of_three(pipe: Connection, path: Path, groups: int) -> None:
    """Append `groups` times three events."""
    with SqlJournal(path) as journal:
        for group in range(groups):
            journal.append(numbered_events(3, first=3 * group), after=3 * group)
        pipe.send("done")
        pipe.recv()


def hold_and_fork(pipe: Connection, path: Path) -> None:
    """Open a journal, then leave a child behind that outlives this process."""
    with SqlJournal(path):
        if os.fork() == 0:
            pipe.send(os.getpid())
            pipe.poll(None)  # until the test closes its end
            os._exit(0)
        os.waitpid(-1, 0)


def race(pipe: Connection, url: str, writer: int, rounds: int) -> None:
    """Append one event per round, the same in every process, and tell which rounds were won."""
    with SqlJournal(url) as journal:
        pipe.send("ready")
        pipe.recv()
        won = []
        while (length := len(journal.read())) < rounds:
            try:
                journal.append(numbered_events(1, first=length), after=length)
                won.append(length)
            except Conflict:
                continue
        pipe.send(won)
