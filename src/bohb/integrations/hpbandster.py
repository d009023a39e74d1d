"""Run workers written for HpBandSter unchanged, and use its logs for a warm start.

HpBandSter itself is not needed: a worker is any object with its `compute` method.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.core.trial import Trial
from bohb.errors import InvalidArgument

if TYPE_CHECKING:
    from bohb.core.history import History
    from bohb.core.space import Space

# Attributes of HpBandSter's Worker for its server: `compute` does not use them, and a lock cannot be pickled.
_SERVER_ATTRIBUTES = ("thread_cond", "thread", "timer", "pyro_daemon", "_pyroDaemon")


def objective_of(worker: Any, working_directory: str | Path | None = None) -> Callable[[Trial], Any]:
    """Return the objective that calls a worker's `compute(config_id, config, budget, working_directory)`.

    worker: an object with that method, such as an instance of a subclass of `hpbandster.core.worker.Worker`; or a
        function without arguments that creates one, called once in each process that evaluates trials.
    working_directory: one directory for all, as in HpBandSter. Default: the configuration's checkpoint directory.

    `config_id` is (bracket, 0, config_id of the trial): different for every configuration, the same on all its budgets.
    """
    if isinstance(worker, type):
        raise InvalidArgument(
            f"worker={worker!r} is a class; give an instance, or a function that creates one, "
            f"such as lambda: {worker.__name__}(run_id=0)"
        )
    if not callable(getattr(worker, "compute", None)) and not callable(worker):
        raise InvalidArgument(f"worker={worker!r} must have a method compute, or be a function that creates a worker")
    return _Objective(worker, None if working_directory is None else str(working_directory))


class _Objective:
    """Calls a worker; it is pickled without the attributes for HpBandSter's server."""

    def __init__(self, worker: Any, working_directory: str | None) -> None:
        self._given = worker
        self._working_directory = working_directory
        self._worker: Any = worker if hasattr(worker, "compute") else None

    def __call__(self, trial: Trial) -> Any:
        if self._worker is None:
            self._worker = self._given()
        directory = self._working_directory
        if directory is None:
            directory = "." if trial.checkpoint_dir is None else str(trial.checkpoint_dir)
        return self._worker.compute(
            config_id=(trial.bracket, 0, trial.config_id),
            config=dict(trial.config),
            budget=trial.budget,
            working_directory=directory,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "_worker": None}
        if hasattr(self._given, "compute") and hasattr(self._given, "__dict__"):
            kept = {name: value for name, value in vars(self._given).items() if name not in _SERVER_ATTRIBUTES}
            state["_given"] = (type(self._given), kept)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        given = state["_given"]
        if isinstance(given, tuple):
            kind, kept = given
            state["_given"] = kind.__new__(kind)
            vars(state["_given"]).update(kept)
        vars(self).update(state)
        if hasattr(self._given, "compute"):
            self._worker = self._given


def read_logs(directory: str | Path, space: Space) -> History:
    """Return the results in `configs.json` and `results.json` for `warm_start=`; crashed runs count as failed.

    directory: the directory of HpBandSter's json_result_logger.
    space: the space of the new study; every configuration must belong to it.
    """
    from bohb.integrations.foreign import earlier
    from bohb.integrations.hpbandster_logs import observations, read_hpbandster

    runs = read_hpbandster(directory)
    return earlier(space, observations(runs, space, sorted({run.budget for run in runs})))
