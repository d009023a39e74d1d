"""What a running study shows: a live panel in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import importlib
import io
import math
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from bohb.core.history import History, Result
from bohb.core.schedule.plan import plan
from bohb.running.limits import Limits

if TYPE_CHECKING:
    from bohb.core.schedule.halving import Halving

HEARTBEAT = 30.0  # seconds between two plain lines when nothing else happens
_REFRESH = 0.1
_BARS = "▁▂▃▄▅▆▇█"
_BRACKETS = 5  # open brackets and running trials that are shown one by one
_RUNNING = 4


class Progress:
    """Shows a study while it runs.

    limits: what it is measured against.
    console: where to show it; stderr, so that a script's own output stays clean.
    """

    def __init__(self, limits: Limits, console: Console | None = None) -> None:
        self._limits = limits
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._notebook: _Notebook | None = None
        if self._console.is_jupyter:
            self._notebook = _Notebook()
        elif self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
        self._last = -1e9  # by the monotonic clock: of the last panel or the last line
        self._shown = 0
        self._done: set[int] = set()  # brackets whose end was told
        self._first: tuple[float, int] | None = None  # seconds and finished trials when we began to look

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
        """Show the state of things, at most ten times a second."""
        if self._first is None:
            self._first = (seconds, len(history.outcomes))
            self._skip_earlier(history)
        if self._live is None and self._notebook is None:
            self._print(history, seconds)
        elif final or time.monotonic() - self._last > _REFRESH:
            self._last = time.monotonic()
            panel = self._panel(history, seconds, final)
            if self._live is not None:
                self._live.update(panel, refresh=True)
            elif self._notebook is not None:
                self._notebook.update(panel)

    def _skip_earlier(self, history: History) -> None:
        """Tell nothing again that an earlier session has told."""
        if len(history.sessions) < 2:
            return
        began = history.sessions[-1].time
        late = {n for n, outcome in history.outcomes.items() if (outcome.finished or began) >= began}
        self._shown = sum(best.trial.number not in late for best in history.trajectory)
        self._done = _finished(history) - {history.trials[n].bracket for n in late}

    def _print(self, history: History, seconds: float) -> None:
        """One line per new incumbent and per finished bracket, and one now and then if there is nothing to tell."""
        lines = [_improvement(best) for best in history.trajectory[self._shown :]]
        self._shown = len(history.trajectory)
        for index in sorted(_finished(history) - self._done):
            lines.append(f"bracket {index} finished; {self._standing(history, seconds)}")
            self._done.add(index)
        if not lines and time.monotonic() - self._last > HEARTBEAT and self._last > 0:
            lines.append(self._standing(history, seconds))
        for line in lines:
            self._console.print(f"[{seconds:7.1f} s] {line}", highlight=False, soft_wrap=True, markup=False)
        if lines or self._last < 0:
            self._last = time.monotonic()

    def _standing(self, history: History, seconds: float) -> str:
        left = self._left(history, seconds)
        until = "" if left is None else f", about {_span(left)} left"
        return f"{self._counts(history)}{until}"

    def _panel(self, history: History, seconds: float, final: bool) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        failed = f", [red]{history.n_failed} failed[/]" if history.n_failed else ""
        table.add_row("trials", f"{self._counts(history, failed)}{self._rate(history, seconds)}")
        for n, running in enumerate(_running(history)):
            table.add_row("" if n else "running", running)
        for n, rungs in enumerate(_rungs(history)):
            table.add_row("" if n else "brackets", rungs)
        best = history.incumbent
        if best is not None:
            where = f"on budget {best.budget:g} (trial {best.trial.number}, {best.trial.origin.value})"
            table.add_row(
                "best", f"[bold green]{best.loss:.6g}[/] {where}  {sparkline(history.trajectory, time.time())}"
            )
        spent = history.budget_spent / history.budgets[-1]
        table.add_row("spent", f"{spent:.1f}{_of(self._limits.max_cost)} full evaluations")
        table.add_row("time", self._time(history, seconds, final))
        return table

    def _counts(self, history: History, failed: str | None = None) -> str:
        if failed is None:
            failed = f", {history.n_failed} failed" if history.n_failed else ""
        limit = _of(self._limits.max_trials)
        return f"{len(history.outcomes)} done{limit}, {len(history.running)} running{failed}"

    def _rate(self, history: History, seconds: float) -> str:
        """Finished trials per time, since we began to look."""
        began, before = self._first or (0.0, 0)
        done, span = len(history.outcomes) - before, seconds - began
        if done < 1 or span < 1:
            return ""
        for unit, size in (("s", 1), ("min", 60), ("h", 3600)):
            if done / span * size >= 1 or unit == "h":
                return f", {done / span * size:.3g}/{unit}"
        return ""

    def _time(self, history: History, seconds: float, final: bool) -> str:
        limit = self._limits.max_seconds
        left = None if final else self._left(history, seconds)
        until = "" if left is None else f", about {_span(left)} left"
        return f"{_span(seconds)}{'' if limit is None else f' of {_span(limit)}'}{until}"

    def _left(self, history: History, seconds: float) -> float | None:
        """The time until the first limit, if all goes on as before; None while too little is known."""
        limits, full = self._limits, history.budgets[-1]
        spent = history.budget_spent
        brackets = limits.max_brackets if limits.bounded else len(history.round)
        planned = plan(history.round, int(brackets)).continued_cost * full if brackets is not None else None
        shares = [
            _share(len(history.outcomes), limits.max_trials),
            _share(spent, None if limits.max_cost is None else limits.max_cost * full),
            _share(history.cost_reported, limits.max_reported_cost),
            _share(spent, planned),
        ]
        ends = [seconds / share - seconds for share in shares if share is not None and share > 0.01]
        if limits.max_seconds is not None:
            ends.append(limits.max_seconds - seconds)
        return max(0.0, min(ends)) if ends else None


class _Notebook:
    """One output cell that is replaced in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def update(self, panel: RenderableType) -> None:
        ipython = importlib.import_module("IPython.display")  # a notebook has it
        console = Console(width=110, record=True, file=io.StringIO(), force_terminal=True, force_jupyter=False)
        console.print(panel)
        text = console.export_html(inline_styles=True, code_format='<pre style="line-height:1.3">{code}</pre>')
        page = ipython.HTML(text)
        if self._handle is None:
            self._handle = ipython.display(page, display_id=True)
        else:
            self._handle.update(page)


def sparkline(trajectory: list[Result], now: float, width: int = 24) -> str:
    """The incumbent's loss over time as a row of small bars; empty with fewer than two incumbents."""
    known = [(best.outcome.finished, best.loss) for best in trajectory if best.outcome.finished is not None]
    if len(known) < 2:
        return ""
    began = known[0][0]
    span = max(now - began, known[-1][0] - began, 1e-9)
    cells: list[float] = []
    for cell in range(width):
        until = began + span * (cell + 1) / width
        cells.append([loss for finished, loss in known if finished <= until or finished == began][-1])
    if min(cells) > 0:  # the last, small steps matter as much as the first
        cells = [math.log(loss) for loss in cells]
    low, high = min(cells), max(cells)
    step = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((loss - low) * step)] for loss in cells)


def _improvement(best: Result) -> str:
    number, origin = best.trial.number, best.trial.origin.value
    return f"trial {number}: loss {best.loss:.6g} on budget {best.budget:g} ({origin})"


def _finished(history: History) -> set[int]:
    return set(range(len(history.brackets))) - set(history.open_brackets)


def _running(history: History) -> Iterator[str]:
    """The running trials, those with the largest budgets first."""
    running = sorted(history.running.values(), key=lambda trial: (-trial.budget, trial.number))
    for trial in running[:_RUNNING]:
        since = history.started.get(trial.number)
        age = "" if since is None else f" for {_span(max(0.0, time.time() - since))}"
        config = ", ".join(f"{name}={_short(value)}" for name, value in trial.config.items())
        yield escape(f"trial {trial.number} on budget {trial.budget:g}{age}: {config}")
    if len(running) > _RUNNING:
        yield f"and {len(running) - _RUNNING} more"


def _rungs(history: History) -> Iterator[Text]:
    """The open brackets: how each rung has filled up."""
    shown = list(history.open_brackets)[:_BRACKETS]
    for index in shown:
        yield Text(f"#{index}  ") + Text("   ").join(_filled(history.brackets[index]))
    if len(history.open_brackets) > len(shown):
        yield Text(f"and {len(history.open_brackets) - len(shown)} more")


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


def _share(done: float, limit: float | None) -> float | None:
    return None if not limit else done / limit


def _of(limit: float | None) -> str:
    return "" if limit is None else f" of {limit:g}"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)[:20]


def _span(seconds: float) -> str:
    """A time in two units at most."""
    whole = round(seconds)
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= 2 * size:
            rest = whole % size // small
            return f"{whole // size} {unit} {rest} {below}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def wanted(progress: bool | None) -> bool:
    """Whether to show progress: as told, or in a terminal or a notebook."""
    return sys.stderr.isatty() or _in_notebook() if progress is None else progress


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
