"""minimize: build the optimizer, the executor and the limits from the arguments, and run the study."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from bohb.arguments import MOMENT, check_names, known_names, pick, with_help
from bohb.core.goals import Direction, Objectives
from bohb.core.limits import Limits
from bohb.core.samplers.chain import Sampler
from bohb.core.settings import Budgets, Preset, Settings
from bohb.core.space import Space
from bohb.errors import InvalidArgument
from bohb.executors.base import Objective
from bohb.executors.options import StartMethod, TrialOptions, trial_options
from bohb.journal import Journal, SqlJournal, open_journal
from bohb.journal.base import shared_journal
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.creation import StudyOptions
from bohb.running.checkpoints import Checkpoints
from bohb.running.loop import patiently
from bohb.running.progress import Progress
from bohb.running.run_options import RunSetup, SessionOptions, choose_executor, files_of
from bohb.running.runner import run
from bohb.running.study import Callback, Study, checked_callbacks

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

log = logging.getLogger("bohb")


class MinimizeOptions(StudyOptions, total=False):
    """Arguments of `bohb.minimize` that its signature does not list.

    They are those of `BOHB`, and of `Limits`, `SessionOptions` and `TrialOptions`.
    """

    max_brackets: int | None
    max_trials: int | None
    max_seconds: float | None
    until: str | float | datetime.datetime | datetime.time | None
    max_cost: float | None
    max_reported_cost: float | None
    target_loss: float | None
    patience: float | None
    max_initial_failures: int | None
    grace: float
    forget_failures: bool
    max_attempts: int
    lease_seconds: float
    checkpoints: bool
    checkpoint_quota: int | None
    trial_seconds: float | None
    trial_memory: int | None
    recycle_after: int | None
    start_method: StartMethod
    preload: Sequence[str]


@with_help(
    {
        "Budgets": Budgets,
        "Limits: the study stops at the first of them, by default after one round of Hyperband": Limits,
        "Sessions": SessionOptions,
        "Trials": TrialOptions,
        "Single settings, which replace those of the preset": Settings,
    }
)
def minimize(
    objective: Objective,
    space: Space | ConfigurationSpace | Mapping[str, Any],
    *,
    min_budget: float | None = None,
    max_budget: float | None = None,
    budgets: Sequence[float] | None = None,
    seed: int | None = None,
    preset: Preset = "best",
    sampler: Sampler | None = None,
    objectives: Objectives = None,
    constraints: Mapping[str, str] | None = None,
    direction: Direction = "minimize",
    workers: int | None = None,
    executor: Any = None,
    resources: Mapping[str, Any] | None = None,
    journal: str | Path | Journal | None = None,
    study: str = "study",
    directory: str | Path | None = None,
    initial_configs: Iterable[Mapping[str, Any]] = (),
    warm_start: object = (),
    callbacks: Iterable[Callback] = (),
    progress: bool | None = None,
    **options: Unpack[MinimizeOptions],
) -> Study:
    """Find the configuration with the lowest loss.

    objective: called with a Trial; returns the loss, or {"loss": …, "info": {…}, "cost": …}.
        With named objectives or constraints it returns their values: {"losses": {"error": …, "latency": …}, "info": …}.
    space, min_budget, max_budget, budgets, seed, preset, sampler, objectives, constraints, direction, initial_configs,
        warm_start: as for `BOHB`.
    workers: number of trials that run at once, each in its own process, which may crash, hang or be killed without
        affecting the others. None runs them one after the other in this process, without that protection; with
        `executor`, None uses as many as the engine reports.
    executor: where trials run instead: any pool of concurrent.futures, a Dask Client, a submitit executor, an address
        such as "dask://host:8786" or "ray://auto", or an executor of ours (docs/cluster.md).
    resources: what each trial needs, such as {"gpu": 1, "cpu": 2, "memory": "8GB"}.
    journal: a file such as "study.db" (or a database URL) that stores the study; the same call with the same journal
        continues it. Several processes of this machine can share it; on PostgreSQL, those of several machines.
    study: the name of the study in the journal.
    directory: for checkpoints and the output of trials; "<journal>.files" by default, temporary if the
        journal is not a file.
    callbacks: functions that are called, one after the other, with a `RunningStudy` after each trial that this runner
        has finished. `study.stop()` ends the session, `study.enqueue(config)` adds a configuration. If one raises, the
        error is logged and the study goes on.
    progress: False shows nothing. By default a terminal or notebook shows a live panel, and anything else, such as a
        log file, one line per finished bracket or minute on stderr.
    options: further arguments by name. `help(bohb.minimize)` lists those of `Budgets` (eta=3), `Limits` (max_cost=15,
        until="18:00"), `SessionOptions` (grace=60), `TrialOptions` (trial_seconds=30) and `Settings`
        (random_fraction=1).

    Pressing Ctrl-C once finishes the running trials and returns; pressing it twice stops at once. No finished trial is
    lost either way.
    """
    given = {**locals(), **options}  # all arguments by name
    check_names(minimize, MinimizeOptions, options)
    functions = checked_callbacks(callbacks)
    limits = pick(Limits, {**given, "until": _moment(given.get("until"))})
    session, trials = pick(SessionOptions, given), trial_options(given)
    names = known_names(BOHB, StudyOptions) & given.keys()
    # a server may have to be asked twice, and a generator could be used only once
    asked: Any = {name: list(of) if isinstance(of := given[name], Iterator) else of for name in names}
    with ExitStack() as stack:
        on_server = isinstance(journal, str) and journal.startswith("postgres")
        opened = patiently(on_server, lambda: open_journal(journal, study))
        if opened is not journal:
            stack.callback(opened.close)
        create = partial(BOHB, **{**asked, "journal": opened})
        optimizer = patiently(shared_journal(opened) is not None, create)
        limits = limits.or_one_round(optimizer.history)
        files = stack.enter_context(files_of(opened, study, directory, optimizer.history.study_key))
        kept = None
        if session.checkpoints:
            kept = Checkpoints(files, optimizer.history.study_key, session.checkpoint_quota)
            stack.callback(kept.close)
        chosen = choose_executor(objective, executor, workers, replace(trials, log_dir=files / "logs"))
        shown = None if progress is False else stack.enter_context(Progress(limits))
        logs = files / "logs"
        found = run(optimizer, chosen, limits, kept, session=session, callbacks=functions, progress=shown, logs=logs)
    where = opened if journal is None else journal
    setup = RunSetup(where, study, directory, objective, executor, workers, trials, session)
    return replace(found, setup=setup, _source=opened.source if isinstance(opened, SqlJournal) else None)


def _moment(until: object) -> float | None:
    """Return a time of day in seconds since the epoch. Raises InvalidArgument."""
    try:
        return None if until is None else MOMENT.read(until)
    except ValueError as error:
        raise InvalidArgument(f"until={until!r} {error}") from error
