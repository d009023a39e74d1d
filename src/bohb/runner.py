"""minimize: from what the user says to a study, an executor and a session."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from bohb.checkpoints import Checkpoints
from bohb.core.history import History
from bohb.core.settings import PAPER, Settings
from bohb.core.space import Space
from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Objective
from bohb.executors.local import START_METHOD, LocalExecutor
from bohb.executors.serial import SerialExecutor
from bohb.executors.setup import StartMethod
from bohb.journal import Journal, SqlJournal, open_journal
from bohb.optimizer import BOHB
from bohb.progress import Progress, wanted
from bohb.session import run
from bohb.stopping import Limits
from bohb.study import Study

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

log = logging.getLogger("bohb")


def minimize(
    objective: Objective,
    space: Space | ConfigurationSpace | Mapping[str, Any],
    *,
    min_budget: float | None = None,
    max_budget: float | None = None,
    eta: float = 3,
    budgets: Sequence[float] | None = None,
    integer_budgets: bool = False,
    seed: int | None = None,
    settings: Settings = PAPER,
    workers: int | None = None,
    journal: str | Path | Journal | None = None,
    study: str = "study",
    directory: str | Path | None = None,
    max_brackets: int | None = None,
    max_trials: int | None = None,
    max_seconds: float | None = None,
    max_cost: float | None = None,
    max_reported_cost: float | None = None,
    target_loss: float | None = None,
    patience: float | None = None,
    max_initial_failures: int | None = 10,
    trial_seconds: float | None = None,
    trial_memory: int | None = None,
    max_attempts: int = 3,
    checkpoint_quota: int | None = None,
    start_method: StartMethod = START_METHOD,
    recycle_after: int | None = None,
    initial_configs: Iterable[Mapping[str, Any]] = (),
    warm_start: Iterable[History | BOHB] | History | BOHB = (),
    progress: bool | None = None,
    **changes: Any,
) -> Study:
    """Find the configuration with the lowest loss.

    objective: called with a Trial; returns the loss, or {"loss": …, "info": {…}, "cost": …}.
    space, min_budget, max_budget, eta, budgets, integer_budgets, seed, settings, initial_configs, warm_start, and
        further settings by name: as for `BOHB`.
    workers: how many trials run at once, each in a process of its own that may crash, hang or be killed without harm to
        the others. None runs them one after the other in this process, without that protection.
    journal: a file such as "study.db" (or a database URL) that makes the study durable; the same call with the same
        journal continues it.
    study: the name of the study in the journal.
    directory: for checkpoints and the output of trials; "<journal>.files" by default, temporary if the
        journal is not a file.
    max_brackets … max_initial_failures: see `Limits`. Without any limit, one round of Hyperband is run.
    trial_seconds, trial_memory: limits of a single evaluation, in seconds and bytes; they need workers.
    max_attempts: how often a trial is started whose worker disappears.
    checkpoint_quota: bytes that checkpoints may take together.
    start_method, recycle_after: see `LocalExecutor`.
    progress: show what happens; None does so in a terminal.

    Ctrl-C once finishes the running trials and returns; twice stops at once, and nothing that finished is lost.
    """
    if workers is None and (trial_seconds is not None or trial_memory is not None):
        raise InvalidArgument("trial_seconds and trial_memory need isolated workers; say workers=1 or more")
    if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1:
        raise InvalidArgument(f"max_attempts={max_attempts!r} must be a whole number of at least 1")
    limits = Limits(
        max_brackets, max_trials, max_seconds, max_cost, max_reported_cost, target_loss, patience, max_initial_failures
    )
    with ExitStack() as stack:
        opened = open_journal(journal, study)
        if isinstance(opened, SqlJournal) and opened is not journal:
            stack.enter_context(opened)
        optimizer = BOHB(
            space,
            min_budget=min_budget,
            max_budget=max_budget,
            eta=eta,
            budgets=budgets,
            integer_budgets=integer_budgets,
            seed=seed,
            settings=settings,
            max_brackets=max_brackets,
            initial_configs=initial_configs,
            warm_start=warm_start,
            journal=opened,
            **changes,
        )
        if not limits.bounded:
            optimizer.max_brackets = len(optimizer.history.round)
        files = stack.enter_context(_files(directory, opened, study))
        checkpoints = Checkpoints(files / "checkpoints", checkpoint_quota)
        executor: Executor = SerialExecutor(objective)
        if workers is not None:
            executor = LocalExecutor(
                objective,
                workers,
                trial_seconds=trial_seconds,
                trial_memory=trial_memory,
                log_dir=files / "logs",
                start_method=start_method,
                recycle_after=recycle_after,
            )
        shown = stack.enter_context(Progress(limits)) if wanted(progress) else None
        return run(optimizer, executor, limits, checkpoints, max_attempts=max_attempts, progress=shown)


@contextmanager
def _files(directory: str | Path | None, journal: Journal, study: str) -> Iterator[Path]:
    """The directory of a study's checkpoints and logs; a temporary one if nothing else is kept either."""
    if directory is None and isinstance(journal, SqlJournal) and journal.path is not None:
        directory = f"{journal.path}.files"
    if directory is not None:
        # A study may be called anything; as a path it is one plain component.
        name = quote(study, safe="").replace(".", "%2E")
        yield Path(directory).absolute() / name
        return
    temporary = Path(tempfile.mkdtemp(prefix="bohb-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
