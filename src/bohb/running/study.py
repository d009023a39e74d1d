"""Study: what `minimize` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bohb.analysis.overview import Overview
from bohb.core.confirm import Confirmation, last_confirmed
from bohb.core.history import History
from bohb.core.limits import common_cause
from bohb.core.results import BestResults, Result
from bohb.core.schedule.plan import Plan
from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument
from bohb.executors.base import Objective
from bohb.journal import SqlJournal
from bohb.optimizer.ask_tell import BOHB
from bohb.running.confirm import Default, confirm
from bohb.running.notebook import study_html, trials_frame
from bohb.running.setup import RunSetup
from bohb.units import aligned

T = TypeVar("T")


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
        return trials_frame(self.history)

    def note(self, text: str, *, trial: int | None = None, tags: Iterable[str] = ()) -> None:
        """Add a note to the study or to one of its trials, in its journal; see `BOHB.note`."""
        self._change(lambda optimizer: optimizer.note(text, trial=trial, tags=tags))

    def enqueue(self, config: Mapping[str, Any], budget: float | None = None) -> bool:
        """Evaluate this configuration next, when a runner is at work; see `BOHB.enqueue`."""
        return self._change(lambda optimizer: optimizer.enqueue(config, budget))

    def _change(self, act: Callable[[BOHB], T]) -> T:
        """Open the journal, change the study there, and read what is new."""
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
        """Return a summary for people."""
        return aligned(self._seen.rows(stopped=self.stopped))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return study_html(self._seen, self.stopped)

    @property
    def _seen(self) -> Overview:
        return Overview(self.history)
