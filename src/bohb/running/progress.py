"""Progress of a running study: a live panel in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import errno
import importlib
import io
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bohb.analysis.overview import Overview, Session, rate_text
from bohb.core.goals import PLAIN, Goals
from bohb.core.history import History
from bohb.core.limits import Limits
from bohb.core.results import Result
from bohb.core.times.forecast import time_to_end
from bohb.running.study import heights
from bohb.units import duration, printable, short, value_text

if TYPE_CHECKING:
    from bohb.core.schedule.halving import Halving

HEARTBEAT = 60.0  # seconds between two plain lines when no bracket finishes
_PAUSE = 1.0  # seconds between two plain lines at least
_REFRESH = 0.1
_PATIENCE = 20.0  # the end is estimated again after so many times as long as the last estimate took
_PAGE = '<pre style="font-family:monospace;line-height:1.3">{code}</pre>'
_BARS = "▁▂▃▄▅▆▇█"
_SPARKLINE = 4  # cells of a sparkline at least
_BRACKETS = 5  # open brackets and running trials in the panel, at most
_RUNNING = 4


class _Console(Console):
    """A console that raises an error when its reader has gone; rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Progress:
    """Shows the progress of a study. A terminal that goes away or a full disk never stops the study.

    limits: the limits that progress is measured against.
    console: where to show it; stderr by default, so that a script's own output stays clean.
    """

    def __init__(self, limits: Limits, console: Console | None = None) -> None:
        self._limits = limits
        self._console = console or _Console(stderr=True)
        self._live: Live | None = None
        self._cell: Any = None  # the output of a notebook that is updated in place
        if self._console.is_terminal and not self._console.is_jupyter:
            self._live = Live(console=self._console, auto_refresh=False)
        self._plain = self._live is None and not self._console.is_jupyter
        self._last = time.monotonic() if self._plain else -math.inf  # the time of the last line or panel
        self._done: set[int] = set()  # brackets whose end was shown
        self._first: tuple[float, int] | None = None  # seconds and finished trials at the first update
        self._now = 0.0
        self._end: float | None = None  # the expected end, in seconds of working time …
        self._estimated = -math.inf  # … and when it was estimated

    def __enter__(self) -> Progress:
        if self._live is not None:
            try:
                self._live.start()
            except (OSError, ValueError):
                self._live = None  # it has not taken sys.stdout and sys.stderr yet
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._try(self._live.stop)

    def update(self, history: History, seconds: float, final: bool = False, now: float | None = None) -> None:
        """Show the current state: ten times a second at most, plain lines far less often.

        seconds, now: the working time of the study so far, and the time of day.
        """
        self._now = time.time() if now is None else now
        if self._first is None:
            self._first = (seconds, len(history.outcomes))
            self._done = _finished(history)  # shown by an earlier session
        if self._plain:
            line = self._due_line(history, seconds, final)
            if line is not None:
                self._try(lambda: print(line, file=self._console.file, flush=True))
        elif final or time.monotonic() - self._last > _REFRESH:
            self._last = time.monotonic()
            panel = self._panel(history, seconds, final)
            if self._live is not None:
                live = self._live
                self._try(lambda: live.update(panel, refresh=True))
            elif self._console.is_jupyter:
                self._show_in_notebook(panel)

    def _try(self, show: Callable[[], None]) -> None:
        """Show something; a panel that cannot be shown is given up, and lines are tried again."""
        try:
            show()
        except (OSError, ValueError):  # ValueError: the stream is closed
            if self._live is not None:
                self._console.quiet = True
                self._live.stop()  # gives back sys.stdout and sys.stderr
                self._live = None

    def _due_line(self, history: History, seconds: float, final: bool) -> str | None:
        since = time.monotonic() - self._last
        finished = sorted(_finished(history) - self._done)
        if not (final or since >= HEARTBEAT or (finished and since >= _PAUSE)):
            return None
        self._last = time.monotonic()
        self._done.update(finished)
        seen = self._overview(history, seconds, final)
        facts = (("trials", seen.trials), ("best", seen.headline), ("left", seen.end))
        parts = []
        if finished:
            first, last = finished[0], finished[-1]
            parts = [f"bracket {first} finished" if first == last else f"brackets {first} to {last} finished"]
        parts += [f"{label}: {printable(text)}" for label, text in facts if text is not None]
        return f"[{seconds:7.1f} s] {'; '.join(parts)}"

    def _overview(self, history: History, seconds: float, final: bool) -> Overview:
        limits = self._limits
        left = None if final else self._left(history, seconds)
        began, before = self._first or (0.0, 0)
        done, span = len(history.outcomes) - before, seconds - began
        rate = done / span if done >= 1 and span >= 1 else None
        session = Session(seconds, left, rate, limits.max_trials, limits.max_cost, limits.max_seconds)
        return Overview(history, self._now, session)

    def _panel(self, history: History, seconds: float, final: bool) -> RenderableType:
        """Return the panel: lines that are cut at the width of the terminal and never padded.

        A padded last line would make the terminal's own ^C wrap, and one line of the panel would stay on the screen.
        """
        seen = self._overview(history, seconds, final)
        trials = Text(seen.trials)
        if history.n_failed:
            trials.highlight_words([f"({history.n_failed} failed)"], "red")
        trials.append(f", {rate_text(seen.rate)}" if seen.rate else "")
        rows = [("trials", trials)]
        rows += [("" if n else "running", Text(running)) for n, running in enumerate(_running(history, self._now))]
        rows += [("" if n else "brackets", rungs) for n, rungs in enumerate(_rungs(history))]
        if seen.headline is not None:
            best = Text(printable(seen.headline), "bold green")
            room = min(20, self._console.width - best.cell_len - 12)  # beside the label and two spaces
            if room >= _SPARKLINE:
                best.append(f"  {sparkline(history.trajectory, time.time(), room, history.goals)}")
            rows.append(("best", best))
        rows.append(("spent", Text(seen.spent)))
        if seen.end is not None:
            rows.append(("left", Text(seen.end)))
        return Group(*(_line(label, content) for label, content in rows))

    def _left(self, history: History, seconds: float) -> float | None:
        """Return the expected time until the end, as `bohb status` does; while nothing runs, the last one counts."""
        began = time.monotonic()
        if began > self._estimated:
            left = time_to_end(history, seconds, self._now)
            self._end = self._end if left is None else seconds + left
            self._estimated = time.monotonic() + max(1.0, _PATIENCE * (time.monotonic() - began))
        return None if self._end is None else max(0.0, self._end - seconds)

    def _show_in_notebook(self, panel: RenderableType) -> None:
        ipython = importlib.import_module("IPython.display")  # a notebook has it
        console = Console(width=110, record=True, file=io.StringIO(), force_terminal=True, force_jupyter=False)
        console.print(panel)
        pages = {
            "text/plain": console.export_text(clear=False),
            "text/html": console.export_html(inline_styles=True, code_format=_PAGE),
        }
        if self._cell is None:
            self._cell = ipython.display(pages, raw=True, display_id=True)
        else:
            self._cell.update(pages, raw=True)


def sparkline(trajectory: list[Result], now: float, width: int = 20, goals: Goals = PLAIN) -> str:
    """Return the incumbent's loss over time as a row of small bars; empty with fewer than two incumbents."""
    known = [(at, goals.shown(best.loss)) for best in trajectory if (at := best.outcome.finished) is not None]
    if len(known) < 2:
        return ""
    began = known[0][0]
    span = max(now - began, known[-1][0] - began, 1e-9)
    ends = [began + span * (cell + 1) / width for cell in range(width)]
    cells = [[loss for at, loss in known if at <= end or at == began][-1] for end in ends]
    return "".join(_BARS[round(share * (len(_BARS) - 1))] for share in heights(cells))


def _line(label: str, content: Text) -> Text:
    line = Text.assemble((f"{label:10}", "dim"), content)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _finished(history: History) -> set[int]:
    return set(range(len(history.brackets))) - set(history.schedule.open)


def _running(history: History, now: float) -> Iterator[str]:
    """Yield a line per running trial, those with the largest budgets first."""
    running = sorted(history.running.values(), key=lambda trial: (-trial.budget, trial.number))
    for trial in running[:_RUNNING]:
        since = history.started.get(trial.number)
        age = "" if since is None else f" for {duration(max(0.0, now - since))}"
        config = ", ".join(f"{name}={short(value_text(value), 20)}" for name, value in trial.config.items())
        yield f"trial {trial.number} on budget {trial.budget:g}{age}: {printable(config)}"
    if len(running) > _RUNNING:
        yield f"and {len(running) - _RUNNING} more"


def _rungs(history: History) -> Iterator[Text]:
    """Yield a line per open bracket that shows how full each rung is."""
    indices = list(history.schedule.open)
    for index in indices[:_BRACKETS]:
        yield Text(f"#{index}  ") + Text("   ").join(_filled(history.brackets[index]))
    if len(indices) > _BRACKETS:
        yield Text(f"and {len(indices) - _BRACKETS} more")


def _filled(bracket: Halving) -> Iterator[Text]:
    for position, rung in enumerate(bracket.bracket.rungs):
        done = rung.size if position < bracket.rung else bracket.finished if position == bracket.rung else 0
        cells = min(rung.size, 9)
        full = round(cells * done / rung.size)
        yield Text.assemble(
            f"{rung.budget:g} ",
            ("━" * full, "green" if done == rung.size else "cyan"),
            ("━" * (cells - full), "bright_black"),
            f" {done}/{rung.size}",
        )
