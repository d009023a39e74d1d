"""How a study is run: the options of its sessions, which executor evaluates its trials, and where it is stored."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.arguments import BYTES, COUNT, FLAG, GRACE, LEASE, argument, check, check_value
from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Objective
from bohb.executors.options import Resources, TrialOptions
from bohb.journal import Journal, SqlJournal
from bohb.journal.location import files_directory
from bohb.running.directories import claim

if TYPE_CHECKING:
    from bohb.executors.engines.engine import Engine

_PROTOCOL = ("slots", "submit", "wait", "shutdown")  # of an executor


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session treats its trials.

    grace: seconds that running trials have after a deadline (`until` or `max_seconds`); then they are stopped. math.inf
        lets them finish. Stopped trials do not count as failed and run again when the study is resumed. With
        workers=None a running trial cannot be stopped: the study ends when it does.
    forget_failures: whether failures of earlier sessions no longer count as evidence for the sampler; use it after
        fixing a bug in the objective. Those of a session in which every trial failed are forgotten anyway if there were
        at least three, or if no trial of the study had ever succeeded.
    max_attempts: how often a trial is started before it counts as failed because its worker disappeared.
    lease_seconds: where several runners share a study, the time without a sign of life after which the others take
        over a runner's trials; a living runner renews its lease four times in that span.
    checkpoints: whether trials get a directory; False for objectives that keep no state, on machines that share no file
        system.
    checkpoint_quota: bytes that checkpoints may take together.
    """

    grace: float = argument(0.0, GRACE, "limits.grace")
    forget_failures: bool = argument(False, FLAG)
    max_attempts: int = argument(3, COUNT, "trial.attempts")
    lease_seconds: float = argument(60.0, LEASE)
    checkpoints: bool = argument(True, FLAG)
    checkpoint_quota: int | None = argument(None, BYTES, "checkpoint_quota")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What `minimize` was given, as far as another evaluation of the same study needs it.

    journal, study, directory: where the study and its files are stored.
    objective: None if the study was only loaded.
    executor, workers, trials, session: how trials are evaluated.
    """

    journal: str | Path | Journal = field(repr=False)  # a URL may have a password
    study: str
    directory: str | Path | None = None
    objective: Objective | None = None
    executor: Any = None
    workers: int | None = None
    trials: TrialOptions = field(default_factory=TrialOptions)
    session: SessionOptions = field(default_factory=SessionOptions)


@contextmanager
def files_of(journal: Journal, study: str, directory: str | Path | None, key: str) -> Iterator[Path]:
    """Yield the directory of a study's checkpoints and logs; a temporary one if the journal is not a file either.

    key: identifies the study (`History.study_key`). A directory of somebody else is refused.
    """
    permanent = files_directory(journal.path if isinstance(journal, SqlJournal) else None, study, directory)
    if permanent is not None:
        claim(permanent, key)
        yield permanent
        return
    with tempfile.TemporaryDirectory(prefix="bohb-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def choose_executor(objective: Objective, executor: Any, workers: int | None, options: TrialOptions) -> Executor:
    """Return the executor for `minimize`.

    executor: None, an Executor, a pool, a Dask client, a submitit executor, or the address of an engine.
    workers: number of trials that run at once; with an engine, None follows the size that the engine reports.
    """
    # imported here: the options above are read by commands that run nothing
    from bohb.executors.engines.engine import EngineExecutor
    from bohb.executors.local.executor import LocalExecutor

    if workers is not None:
        check_value("workers", workers, COUNT)
    if executor is None:
        return _inline(objective, options) if workers is None else LocalExecutor(objective, workers, options)
    if all(hasattr(executor, name) for name in _PROTOCOL):
        if workers is not None or options != TrialOptions(log_dir=options.log_dir):
            raise InvalidArgument(
                f"executor={executor!r} has its own workers and limits; set workers, trial_seconds, trial_memory, "
                "recycle_after, start_method and resources where you create it"
            )
        return executor  # type: ignore[no-any-return]  # it has the four methods
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
    from bohb.executors.evaluate import InlineExecutor

    return InlineExecutor(objective)


def _engine(executor: Any, resources: Resources) -> Engine:
    scheme = executor.partition("://")[0] if isinstance(executor, str) else ""
    if isinstance(executor, futures.Executor):
        from bohb.executors.engines.engine import PoolEngine

        return PoolEngine(executor, resources)
    # an object of one of these libraries exists only if the library has been imported
    if scheme == "dask" or ("distributed" in sys.modules and isinstance(executor, sys.modules["distributed"].Client)):
        from bohb.executors.engines.dask import DaskEngine, connect

        return DaskEngine(connect(executor) if scheme else executor, resources, owned=bool(scheme))
    if scheme == "ray":
        from bohb.executors.engines.ray import RayEngine

        return RayEngine(executor, resources)
    if "submitit" in sys.modules and isinstance(executor, sys.modules["submitit"].Executor):
        from bohb.executors.engines.slurm import SubmititEngine

        return SubmititEngine(executor, resources)
    raise InvalidArgument(
        f"executor={executor!r} must be a pool of concurrent.futures, a Dask client, a submitit executor, an address "
        "(dask://host:port, dask:///path/of/scheduler.json, ray://auto or ray://host:port), or an object with slots, "
        "submit, wait and shutdown"
    )
