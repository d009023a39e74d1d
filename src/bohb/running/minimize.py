"""minimize: build the optimizer, the executor and the limits from the arguments, and run the study."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bohb.core.goals import Direction, Objectives
from bohb.core.samplers.function import Sampler
from bohb.core.settings import Preset
from bohb.core.space import Space
from bohb.errors import InvalidArgument
from bohb.executors.base import Objective
from bohb.executors.choose import choose_executor
from bohb.executors.options import START_METHOD, StartMethod, TrialOptions
from bohb.executors.resources import Resources
from bohb.journal import Journal, SqlJournal, open_journal
from bohb.journal.base import shared_journal
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.unknown import check_changes
from bohb.running.callbacks import Callback, checked_callbacks
from bohb.running.checkpoints import Checkpoints
from bohb.running.limits import Limits, check_grace, deadline
from bohb.running.patience import patiently
from bohb.running.progress import Progress
from bohb.running.runner import LEASE_SECONDS, run
from bohb.running.setup import RunSetup, files_of
from bohb.running.study import Study

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
    budgets: Sequence[float] | Literal["adaptive"] | None = None,
    integer_budgets: bool = False,
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
    max_brackets: int | None = None,
    max_trials: int | None = None,
    max_seconds: float | None = None,
    until: str | float | datetime.datetime | datetime.time | None = None,
    grace: float = 0.0,
    max_cost: float | None = None,
    max_reported_cost: float | None = None,
    target_loss: float | None = None,
    patience: float | None = None,
    max_initial_failures: int | None = 10,
    forget_failures: bool = False,
    trial_seconds: float | None = None,
    trial_memory: int | None = None,
    max_attempts: int = 3,
    lease_seconds: float = LEASE_SECONDS,
    checkpoints: bool = True,
    checkpoint_quota: int | None = None,
    start_method: StartMethod = START_METHOD,
    recycle_after: int | None = None,
    initial_configs: Iterable[Mapping[str, Any]] = (),
    warm_start: object = (),
    callbacks: Iterable[Callback] = (),
    progress: bool | None = None,
    **changes: Any,
) -> Study:
    """Find the configuration with the lowest loss.

    objective: called with a Trial; returns the loss, or {"loss": …, "info": {…}, "cost": …}.
        With named objectives or constraints it returns their values: {"losses": {"error": …, "latency": …}, "info": …}.
    space, min_budget, max_budget, eta, budgets, integer_budgets, seed, preset, sampler, objectives, constraints,
        direction, initial_configs, warm_start, and single settings by name: as for `BOHB`.
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
    max_brackets … max_initial_failures: see `Limits`. Without any limit, one round of Hyperband is run.
    until: a deadline: "18:00" (today, or tomorrow if it has passed), "2026-05-01 18:00" or a datetime, in local time
        unless it has a time zone.
    grace: seconds that running trials have after a deadline (`until` or `max_seconds`) before they are stopped;
        math.inf lets them finish. Stopped trials do not count as failed and run again when the study is resumed. With
        workers=None a running trial cannot be stopped: the study ends when it does.
    forget_failures: whether failures of earlier sessions no longer count as evidence for the sampler; use it after
        fixing a bug in the objective. Those of a session in which every trial failed are forgotten anyway if there were
        at least three, or if no trial of the study had ever succeeded.
    trial_seconds, trial_memory: limits of a single evaluation, in seconds and bytes; they need workers or executor.
    max_attempts: how often a trial is started before it counts as failed because its worker disappeared.
    lease_seconds: where several runners share a study, the time without a sign of life after which the others take
        over a runner's trials.
    checkpoints: False for objectives that keep no state, on machines that share no file system.
    checkpoint_quota: bytes that checkpoints may take together.
    start_method, recycle_after: see `LocalExecutor`.
    callbacks: functions that are called, one after the other, with a `RunningStudy` after each trial that this runner
        has finished. `study.stop()` ends the session, `study.enqueue(config)` adds a configuration. If one raises, the
        error is logged and the study goes on.
    progress: False shows nothing. By default a terminal or notebook shows a live panel, and anything else, such as a
        log file, one line per finished bracket or minute on stderr.

    Pressing Ctrl-C once finishes the running trials and returns; pressing it twice stops at once. No finished trial is
    lost either way.
    """
    check_changes(minimize, changes)
    if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 1:
        raise InvalidArgument(f"max_attempts={max_attempts!r} must be a whole number of at least 1")
    functions = checked_callbacks(callbacks)
    limits = Limits(
        max_brackets,
        max_trials,
        max_seconds,
        deadline(until),
        max_cost,
        max_reported_cost,
        target_loss,
        patience,
        max_initial_failures,
    )
    check_grace(grace)
    with ExitStack() as stack:
        opened = open_journal(journal, study)
        if opened is not journal:
            stack.callback(opened.close)
        create = partial(
            BOHB,
            space,
            min_budget=min_budget,
            max_budget=max_budget,
            eta=eta,
            budgets=budgets,
            integer_budgets=integer_budgets,
            seed=seed,
            preset=preset,
            sampler=sampler,
            objectives=objectives,
            constraints=constraints,
            direction=direction,
            max_brackets=max_brackets,
            initial_configs=_repeatable(initial_configs),
            warm_start=_repeatable(warm_start),
            journal=opened,
            **changes,
        )
        optimizer = patiently(shared_journal(opened) is not None, create)
        if not limits.bounded:
            optimizer.max_brackets = len(optimizer.history.schedule.round)
        files = stack.enter_context(files_of(opened, study, directory))
        kept = (
            Checkpoints(files / "checkpoints", optimizer.history.study_key, checkpoint_quota) if checkpoints else None
        )
        if kept is not None:
            stack.callback(kept.close)
        options = TrialOptions(
            trial_seconds, trial_memory, recycle_after, start_method, files / "logs", Resources.of(resources)
        )
        chosen = choose_executor(objective, executor, workers, options)
        shown = None if progress is False else stack.enter_context(Progress(limits))
        found = run(
            optimizer,
            chosen,
            limits,
            kept,
            max_attempts=max_attempts,
            lease_seconds=lease_seconds,
            grace=grace,
            forget_failures=forget_failures,
            callbacks=functions,
            progress=shown,
        )
    where = opened if journal is None else journal
    setup = RunSetup(where, study, directory, objective, executor, workers, options, checkpoints, max_attempts)
    return replace(found, setup=setup, _source=opened.source if isinstance(opened, SqlJournal) else None)


def _repeatable(given: Any) -> Any:
    """Return a list in place of a generator, which could be used only once."""
    return list(given) if isinstance(given, Iterator) else given
