"""From what the user says to an executor."""

from __future__ import annotations

import sys
from concurrent import futures
from typing import Any

from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Objective
from bohb.executors.engines.executor import Engine, EngineExecutor, TaskOptions
from bohb.executors.inline import SerialExecutor
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.resources import slot_environment

_PROTOCOL = ("slots", "submit", "wait", "shutdown")


def choose_executor(objective: Objective, executor: Any, workers: int | None, options: TaskOptions) -> Executor:
    """An executor for `minimize`.

    executor: None, an executor of ours, a pool, a Dask client, a submitit executor, or the address of an engine.
    workers: how many trials run at once; with an engine, None follows what it reports.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InvalidArgument(f"workers={workers!r} must be an integer, at least 1")
    if executor is None:
        return _here(objective, workers, options)
    if all(hasattr(executor, name) for name in _PROTOCOL):
        return _finished(executor, workers, options)
    engine = _engine(executor, options)
    try:
        chosen = EngineExecutor(engine, objective, workers, options)
        chosen.slots  # noqa: B018 - an engine that cannot tell says so now
    except InvalidArgument:
        engine.close("")
        raise
    return chosen


def _here(objective: Objective, workers: int | None, options: TaskOptions) -> Executor:
    if workers is None:
        wanted = {"trial_seconds": options.trial_seconds, "trial_memory": options.trial_memory}
        if options.resources != type(options.resources)():
            wanted["resources"] = 1
        for name, value in wanted.items():
            if value is not None:
                raise InvalidArgument(f"{name} needs isolated workers; say workers=1 or more, or executor=")
        return SerialExecutor(objective)
    resources = options.resources
    resources.only("local workers", "cpu", "gpu", "memory")
    return LocalExecutor(
        objective,
        workers,
        trial_seconds=options.trial_seconds,
        trial_memory=options.trial_memory if options.trial_memory is not None else resources.memory,
        log_dir=options.log_dir,
        start_method=options.start_method,
        recycle_after=options.recycle_after,
        slot_env=slot_environment(workers, resources),
    )


def _finished(executor: Executor, workers: int | None, options: TaskOptions) -> Executor:
    """An executor that somebody else put together, with its own objective and its own limits."""
    if workers is not None or options != TaskOptions(log_dir=options.log_dir):
        raise InvalidArgument(
            f"executor={executor!r} brings its own workers and limits; set workers, trial_seconds, trial_memory, "
            "recycle_after, start_method and resources where it is made"
        )
    return executor


def _engine(executor: Any, options: TaskOptions) -> Engine:
    resources = options.resources
    if isinstance(executor, str):
        return _engine_at(executor, options)
    if isinstance(executor, futures.Executor):
        from bohb.executors.engines.pools import PoolEngine

        resources.only(f"a {type(executor).__name__}", "cpu", "memory")
        return PoolEngine(executor)
    # whoever made one of these has imported its library
    if "distributed" in sys.modules and isinstance(executor, sys.modules["distributed"].Client):
        from bohb.executors.engines.dask import DaskEngine

        return DaskEngine(executor, resources)
    if "submitit" in sys.modules and isinstance(executor, sys.modules["submitit"].Executor):
        from bohb.executors.engines.slurm import SubmititEngine

        return SubmititEngine(executor, resources)
    raise InvalidArgument(
        f"executor={executor!r} must be a pool of concurrent.futures, a Dask client, a submitit executor, an address "
        "such as 'dask://host:8786' or 'ray://auto', or have slots, submit, wait and shutdown"
    )


def _engine_at(address: str, options: TaskOptions) -> Engine:
    match address.partition("://")[0]:
        case "dask":
            from bohb.executors.engines.dask import DaskEngine, connect

            return DaskEngine(connect(address), options.resources, owned=True)
        case "ray":
            from bohb.executors.engines.ray import RayEngine

            return RayEngine(address, options.resources)
    raise InvalidArgument(
        f"executor={address!r} must be dask://host:port, dask:///path/of/scheduler.json, ray://auto or ray://host:port"
    )
