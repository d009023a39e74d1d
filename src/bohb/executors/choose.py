"""Choose the executor that the arguments of `minimize` ask for."""

from __future__ import annotations

import sys
from concurrent import futures
from typing import Any

from bohb.arguments import COUNT, check_value
from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Objective
from bohb.executors.engines.engine import Engine, EngineExecutor, PoolEngine
from bohb.executors.evaluate import InlineExecutor
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import Resources, TrialOptions

_PROTOCOL = ("slots", "submit", "wait", "shutdown")


def choose_executor(objective: Objective, executor: Any, workers: int | None, options: TrialOptions) -> Executor:
    """Return the executor for `minimize`.

    executor: None, an Executor, a pool, a Dask client, a submitit executor, or the address of an engine.
    workers: number of trials that run at once; with an engine, None follows the size that the engine reports.
    """
    if workers is not None:
        check_value("workers", workers, COUNT)
    if executor is None:
        return _inline(objective, options) if workers is None else LocalExecutor(objective, workers, options)
    if all(hasattr(executor, name) for name in _PROTOCOL):
        return _as_given(executor, workers, options)
    engine = _engine(executor, options.resources)
    try:
        chosen = EngineExecutor(engine, objective, workers, options)
        chosen.slots  # noqa: B018 - raises now if the engine does not know its size
    except InvalidArgument:
        engine.close("")
        raise
    return chosen


def _inline(objective: Objective, options: TrialOptions) -> Executor:
    needs_workers = {
        "resources": options.resources != Resources(),
        "trial_seconds": options.trial_seconds is not None,
        "trial_memory": options.trial_memory is not None,
        "preload": bool(options.preload),
    }
    for name, given in needs_workers.items():
        if given:
            raise InvalidArgument(f"{name} needs isolated workers; give workers=1 or more, or executor=")
    return InlineExecutor(objective)


def _as_given(executor: Executor, workers: int | None, options: TrialOptions) -> Executor:
    """Return an executor that the user has built, with its own objective and limits."""
    if workers is not None or options != TrialOptions(log_dir=options.log_dir):
        raise InvalidArgument(
            f"executor={executor!r} has its own workers and limits; set workers, trial_seconds, trial_memory, "
            "recycle_after, start_method and resources where you create it"
        )
    return executor


def _engine(executor: Any, resources: Resources) -> Engine:
    if isinstance(executor, str):
        return _engine_at(executor, resources)
    if isinstance(executor, futures.Executor):
        return PoolEngine(executor, resources)
    # an object of one of these libraries exists only if the library has been imported
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


def _engine_at(address: str, resources: Resources) -> Engine:
    match address.partition("://")[0]:
        case "dask":
            from bohb.executors.engines.dask import DaskEngine, connect

            return DaskEngine(connect(address), resources, owned=True)
        case "ray":
            from bohb.executors.engines.ray import RayEngine

            return RayEngine(address, resources)
    raise InvalidArgument(
        f"executor={address!r} must be dask://host:port, dask:///path/of/scheduler.json, ray://auto or ray://host:port"
    )
