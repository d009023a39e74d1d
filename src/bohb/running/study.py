"""Study: what `minimize` and `load` return, what callbacks get while it runs, and what a notebook shows of it."""

from __future__ import annotations

import copy
import importlib
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from bohb.analysis.overview import Overview
from bohb.analysis.trials import floats, one_type, table
from bohb.arguments import TEXT, check_value
from bohb.core.confirm import Confirmation, last_confirmed
from bohb.core.goals import PLAIN, Goals
from bohb.core.history import History
from bohb.core.limits import common_cause
from bohb.core.results import Result
from bohb.core.schedule.brackets import Plan
from bohb.core.space import Space
from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument, JournalError, MissingExtra
from bohb.executors.base import Objective
from bohb.journal import SqlJournal, only_study, stored_events
from bohb.optimizer.ask_tell import BOHB, BestResults
from bohb.running.confirmation import Default, confirm
from bohb.running.run_options import RunSetup
from bohb.units import aligned, number

T = TypeVar("T")
log = logging.getLogger("bohb")
_WIDTH, _HEIGHT, _MARGIN = 320, 90, 14  # of the drawn trajectory
_LEAST = 0.01  # share of a loss by which it must change to be drawn in full height


@dataclass(frozen=True, slots=True, repr=False)
class Study(BestResults):
    """A study and its results so far.

    history: everything that happened.
    stopped: why it stopped; empty if it was loaded, because a journal does not store the reason.
    setup: how `confirm` evaluates trials, and where the study is stored.
    """

    history: History
    stopped: str = ""
    setup: RunSetup | None = field(default=None, compare=False, kw_only=True)
    _source: tuple[str, str] | None = field(default=None, compare=False)  # its journal, and its name there

    @property
    def trajectory(self) -> list[Result]:
        """Every incumbent in turn."""
        return self.history.trajectory

    @property
    def trials(self) -> list[tuple[Trial, Outcome | None]]:
        """Every trial with its outcome, None while it is unfinished."""
        return [(trial, self.history.outcomes.get(n)) for n, trial in self.history.trials.items()]

    @property
    def failures(self) -> list[tuple[Trial, Outcome]]:
        """The trials that failed, with the cause."""
        return [(self.history.trials[n], o) for n, o in self.history.outcomes.items() if not o.ok]

    @property
    def cause(self) -> str | None:
        """The most common error, if trials failed and none succeeded."""
        outcomes = self.history.outcomes.values()
        return common_cause(outcomes) if outcomes and self.incumbent is None else None

    @property
    def cost(self) -> float:
        """The budget spent in full evaluations; a promoted configuration counts for what it added."""
        return self.history.budget_spent / self.history.budgets[-1]

    @property
    def confirmation(self) -> Confirmation | None:
        """The last confirmation that has a winner."""
        return last_confirmed(self.history.confirmations)

    def confirm(
        self,
        top: int = 5,
        repeats: int = 5,
        default: Default = None,
        *,
        objective: Objective | None = None,
        workers: int | None = None,
        executor: Any = None,
        progress: bool | None = None,
    ) -> Confirmation:
        """Evaluate the most promising configurations again on the largest budget, with new seeds, and compare them.

        Which of them is best, and how good it is, follows from the new evaluations alone. They are stored in the
        journal; if a confirmation is interrupted, the same call continues it. Trials start without a checkpoint.

        top: number of configurations: the largest budget counts first, then the lowest loss.
        repeats: new evaluations per configuration, on average; the better ones get more.
        default: a configuration to compare with, which can win, too; "space" is the default of the search space.
        objective, workers, executor: what evaluates trials; by default that of `minimize`.
        progress: False shows nothing; otherwise each evaluation is shown as a line on stderr.
        """
        if self.setup is None:
            raise InvalidArgument("only a study of `minimize` or `load` can be confirmed; store it in a journal first")
        setup = replace(self.setup, objective=objective or self.setup.objective)
        if workers is not None or executor is not None:
            setup = replace(setup, workers=workers, executor=executor)
        return confirm(setup, top, repeats, default, progress is False, self.history)

    def to_dataframe(self) -> Any:
        """Return one row per trial as a pandas.DataFrame, or a polars.DataFrame if pandas is not installed.

        The columns are those of `bohb trials --format csv`: number, status, loss, budget, bracket, rung, origin, …,
        seconds, then `config.NAME` for each hyperparameter and `info.NAME` for each entry of `info`.
        """
        columns, numbers = table(self.history, self.history.trials), floats(self.history)
        pandas = _installed("pandas")
        if pandas is not None:
            return pandas.DataFrame(columns).astype(dict.fromkeys(numbers, float))
        polars = _installed("polars")
        if polars is not None:
            typed = {name: one_type(values) for name, values in columns.items()}
            return polars.DataFrame(typed, schema_overrides=dict.fromkeys(numbers, polars.Float64))
        raise MissingExtra("to_dataframe needs the package 'pandas' or 'polars': pip install pandas")

    def note(self, text: str, *, trial: int | None = None, tags: Iterable[str] = ()) -> None:
        """Add a note to the study or to one of its trials, in its journal; see `BOHB.note`."""
        self._change(lambda optimizer: optimizer.note(text, trial=trial, tags=tags))

    def enqueue(self, config: Mapping[str, Any], budget: float | None = None) -> bool:
        """Evaluate this configuration next, when a runner is at work; see `BOHB.enqueue`."""
        return self._change(lambda optimizer: optimizer.enqueue(config, budget))

    def _change(self, act: Callable[[BOHB], T]) -> T:
        if self._source is None:
            raise InvalidArgument(
                "this study is in no journal that could be opened again; run it with journal='study.db'"
            )
        with SqlJournal(*self._source) as journal:
            result = act(BOHB.from_journal(journal))
            self.history.extend(journal.read(self.history.n_events))
        return result

    def plan(self) -> Plan:
        """Return the table of the brackets that were opened."""
        return Plan(tuple(halving.bracket for halving in self.history.brackets) or self.history.schedule.round)

    def __str__(self) -> str:
        """Return a summary for people, for a terminal of 80 columns."""
        return aligned(Overview(self.history).rows(stopped=self.stopped), 80)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left;vertical-align:top;padding-right:1em'>"
        rows = "".join(
            f"<tr>{cell}<b>{label}</b></td>{cell}{escape(text)}</td></tr>"
            for label, text in Overview(self.history).rows(stopped=self.stopped)
        )
        drawn = trajectory_svg(self.trajectory, len(self.history.trials), self.history.goals)
        return f"<div><table>{rows}</table>{drawn}</div>"


def load(journal: str | Path, study: str | None = None) -> Study:
    """Return a stored study as it is now; nothing is locked or changed, and a runner may be at work.

    journal: a file such as "study.db", or the URL of a database.
    study: its name, which is needed only if the journal holds several.
    """
    name = study or only_study(journal)
    history = History().extend(stored_events(journal, name))
    return Study(history, _source=(str(journal), name), setup=RunSetup(str(journal), name))


def studies(journal: str | Path) -> dict[str, int]:
    """Return the names of the studies in a journal, sorted, with the number of finished trials of each.

    journal: a file such as "study.db", or the URL of a database.
    """
    with SqlJournal(journal, read_only=True) as opened:
        return opened.finished()


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RunningStudy(Study):
    """A study while it runs; callbacks are called with it. What they change in `latest` and `history` are copies.

    latest: the trial that has just finished, with its outcome.
    """

    latest: tuple[Trial, Outcome]
    _callbacks: Callbacks
    _optimizer: BOHB

    def stop(self, reason: str = "") -> None:
        """Start no further trial, and end the session when the running ones have finished; the study can be resumed.

        Where several runners share the study, only this one stops. Any thread may call this.

        reason: becomes `stopped` of the returned study.
        """
        check_value("reason", reason, TEXT)
        self._callbacks.stopped = reason or "a callback stopped the study"

    def _change(self, act: Callable[[BOHB], T]) -> T:
        if threading.get_ident() != self._callbacks.thread:
            raise InvalidArgument(
                "a running study is changed in the thread that calls its callbacks; from another thread or process, "
                "change it through its journal: bohb.load('study.db').enqueue(…) or .note(…)"
            )
        return act(self._optimizer)


Callback = Callable[[RunningStudy], object]


class Callbacks:
    """Calls the functions of the user, and remembers which of them failed and whether one of them stopped the study.

    functions: each is called with a RunningStudy. An exception is logged the first time, and the study goes on.
    space: of the study.
    """

    def __init__(self, functions: Iterable[Callback], space: Space) -> None:
        self.functions = checked_callbacks(functions)
        self._space, self._seen = space, History(space)  # of copies of the events, so that no change reaches a decision
        self._failed: set[int] = set()  # positions
        self.thread = threading.get_ident()
        self.stopped = ""  # why a callback stopped the study

    def call(self, optimizer: BOHB, number: int) -> None:
        """Call every function after trial `number` has finished. Raises JournalUnavailable, before it calls any."""
        read = optimizer.ledger.journal.read
        try:
            self._seen.extend(copy.deepcopy(read(self._seen.n_events)))
        except JournalError:  # what a callback has changed does not fit what follows; or the journal is unavailable
            self._seen = History(self._space).extend(copy.deepcopy(read(0)))
        for index, function in enumerate(self.functions):
            history = self._seen.snapshot()
            latest = copy.deepcopy((history.trials[number], history.outcomes[number]))
            try:
                function(RunningStudy(history, latest=latest, _callbacks=self, _optimizer=optimizer))
            except Exception as error:  # a user's function may raise anything
                if index not in self._failed:
                    self._failed.add(index)
                    name = getattr(function, "__qualname__", repr(function))
                    text = "callback %s failed after trial %d; the study goes on, and later errors of it are not shown"
                    log.warning(text, name, number, exc_info=error)


def checked_callbacks(functions: Iterable[Callback]) -> list[Callback]:
    """Return the callbacks as a list. Raises InvalidArgument for anything else than functions."""
    if callable(functions) or not isinstance(functions, Iterable):
        raise InvalidArgument(f"callbacks={functions!r:.200} must be a list of functions: write callbacks=[…]")
    found = list(functions)
    for function in found:
        if not callable(function):
            raise InvalidArgument(f"callbacks has {function!r:.200}, which cannot be called; give functions of a study")
    return found


def heights(losses: Sequence[float]) -> list[float]:
    """Return the heights of a curve of losses, from 0 to 1; logarithmic if all are positive, so that late steps show.

    A change that could not be seen in the numbers is not drawn as a cliff.
    """
    log = min(losses) > 0
    scaled = [math.log(loss) if log else loss for loss in losses]
    low, high = min(scaled), max(scaled)
    span = max(high - low, _LEAST if log else _LEAST * max(abs(low), abs(high)))
    return [(height - low) / span if span else 0.0 for height in scaled]


def trajectory_svg(trajectory: Iterable[Result], n_trials: int, goals: Goals = PLAIN) -> str:
    """Draw the best loss on the largest budget by trial as a step line; empty with fewer than two incumbents."""
    incumbents = list(trajectory)
    steps = [(r.trial.number, goals.shown(r.loss)) for r in incumbents if r.budget == incumbents[-1].budget]
    if len(steps) < 2:
        return ""
    last = max(n_trials - 1, steps[-1][0], 1)
    xs = [_MARGIN + (_WIDTH - 2 * _MARGIN) * at / last for at, _ in steps] + [_WIDTH - _MARGIN]
    ys = [_MARGIN + (_HEIGHT - 2 * _MARGIN) * (1 - share) for share in heights([loss for _, loss in steps])]
    path = f"M{xs[0]:.1f},{ys[0]:.1f}" + "".join(
        f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[1:], [*ys[1:], ys[-1]], strict=True)
    )
    text = "font-family='sans-serif' font-size='10' fill='#666'"
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>"
        f"<title>best {escape(goals.label)} by trial</title>"
        f"<path d='{path}' fill='none' stroke='#0072b2' stroke-width='1.5'/>"
        f"<text x='{_MARGIN}' y='10' {text}>{number(steps[0][1])}</text>"
        f"<text x='{_WIDTH - _MARGIN}' y='{_HEIGHT - 2}' text-anchor='end' {text}>"
        f"{number(steps[-1][1])} on budget {incumbents[-1].budget:g}, {n_trials} trials</text></svg>"
    )


def _installed(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is installed, and lacks something itself
            raise
        return None
