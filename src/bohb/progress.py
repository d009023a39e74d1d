"""What a running study shows: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from bohb.core.history import History
from bohb.stopping import Limits


class Progress:
    """Shows a study while it runs.

    limits: what it is measured against.
    console: where to show it; stderr, so that a script's own output stays clean.
    """

    def __init__(self, limits: Limits, console: Console | None = None) -> None:
        self._limits = limits
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._last = 0.0
        self._shown = 0
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, history: History, seconds: float, final: bool = False) -> None:
        """Show the state of things, at most ten times a second in a terminal."""
        if self._live is None:
            self._print_improvements(history, seconds)
        elif final or time.monotonic() - self._last > 0.1:
            self._last = time.monotonic()
            self._live.update(self._panel(history, seconds), refresh=True)

    def _print_improvements(self, history: History, seconds: float) -> None:
        """One line per new incumbent."""
        for best in history.trajectory[self._shown :]:
            self._console.print(
                f"[{seconds:7.1f} s] trial {best.trial.number}: loss {best.loss:.6g} on budget {best.budget:g} "
                f"({best.trial.origin.value})",
                highlight=False,
                soft_wrap=True,
                markup=False,
            )
        self._shown = len(history.trajectory)

    def _panel(self, history: History, seconds: float) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row("trials", self._counts(history))
        table.add_row("rungs", _rungs(history))
        best = history.incumbent
        if best is not None:
            table.add_row("best", f"[bold]{best.loss:.6g}[/] on budget {best.budget:g} (trial {best.trial.number})")
        table.add_row("time", _time(seconds, self._limits.max_seconds))
        return table

    def _counts(self, history: History) -> str:
        limit = "" if self._limits.max_trials is None else f" of {self._limits.max_trials}"
        failed = f", [red]{history.n_failed} failed[/]" if history.n_failed else ""
        return f"{len(history.outcomes)} done{limit}, {len(history.running)} running{failed}"


def _rungs(history: History) -> str:
    """The open brackets: how far the current rung of each has come."""
    parts = []
    for index in list(history.open_brackets)[:6]:
        bracket = history.brackets[index]
        parts.append(f"#{index} {bracket.finished}/{bracket.bracket.rungs[bracket.rung].size} on {bracket.budget:g}")
    return "   ".join(parts) or "–"


def _time(seconds: float, limit: float | None) -> str:
    return f"{seconds:.0f} s" if limit is None else f"{seconds:.0f} s of {limit:.0f} s"


def wanted(progress: bool | None) -> bool:
    """Whether to show progress: as told, or in a terminal."""
    return sys.stderr.isatty() if progress is None else progress
