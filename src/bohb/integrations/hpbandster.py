"""Run workers written for HpBandSter unchanged, and read and write its logs. HpBandSter itself is not needed.

A worker is any object with HpBandSter's method `compute`. The logs are the directory of its json_result_logger.
`configs.json` has one line per configuration, `[[bracket, rung, index], {config}, {"model_based_pick": bool}]`;
`results.json` one per run, `[[id], budget, {"submitted", "started", "finished"}, {"loss", "info"} or null, traceback or
null]`. HpBandSter writes NaN, which is not valid JSON; we read it and never write it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.core.events import ObservationAdded
from bohb.core.trial import Origin, Trial, jsonable
from bohb.errors import BohbError, InvalidArgument, InvalidConfiguration
from bohb.integrations.foreign import earlier

if TYPE_CHECKING:
    from bohb.core.history import History
    from bohb.core.space import Space

CONFIGS, RESULTS = "configs.json", "results.json"
Id = tuple[int, int, int]
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

    def __reduce__(self) -> tuple[Callable[..., _Objective], tuple[Any, ...]]:
        given = self._given
        if hasattr(given, "compute") and hasattr(given, "__dict__"):
            given = copy(given)
            for name in _SERVER_ATTRIBUTES:
                vars(given).pop(name, None)
        return _Objective, (given, self._working_directory)


class InterchangeError(BohbError):
    """The logs of another tool cannot be read; the message names file and line."""


def read_logs(directory: str | Path, space: Space) -> History:
    """Return the results in `configs.json` and `results.json` for `warm_start=`; crashed runs count as failed.

    directory: the directory of HpBandSter's json_result_logger.
    space: the space of the new study; every configuration must belong to it.
    """
    return earlier(space, read_hpbandster(directory, space))


def read_hpbandster(
    directory: str | Path, space: Space, budgets: Sequence[float] = (), first: int = 0
) -> list[ObservationAdded]:
    """Return the runs of a directory in the order in which they ended; the last run on a budget counts.

    space: the space of the study, to which every configuration must belong.
    budgets: the study's budgets; a budget that differs from one of them only by rounding is replaced by it.
    first: number of observations that the study already has.

    The loss is None if the run crashed or returned NaN or an infinity.
    """
    configs: dict[Id, dict[str, Any]] = {}
    for place, entry in _lines(Path(directory) / CONFIGS):
        if not (len(entry) >= 2 and isinstance(entry[1], dict)):
            raise InterchangeError(f"{place}: a line must be [[bracket, rung, index], {{config}}, {{info}}]")
        configs[_id(place, entry[0])] = entry[1]
    runs: dict[tuple[Id, float], ObservationAdded] = {}
    for place, entry in _lines(Path(directory) / RESULTS):
        if len(entry) < 4 or not _is_number(entry[1]):
            raise InterchangeError(
                f"{place}: a line must be [[bracket, rung, index], budget, {{times}}, result, error]"
            )
        who, result = _id(place, entry[0]), entry[3]
        if who not in configs:
            raise InterchangeError(f"{place}: the configuration {list(who)} is not in {CONFIGS}")
        config = space.restore(configs[who])
        try:
            space.encode({**configs[who], **config})
        except InvalidConfiguration as error:
            raise InterchangeError(f"{place}: {error}") from error
        budget = next((b for b in budgets if math.isclose(b, entry[1], rel_tol=1e-6)), float(entry[1]))
        loss: Any = result.get("loss") if isinstance(result, dict) else result
        known = float(loss) if _is_number(loss) and math.isfinite(loss) else None
        runs.pop((who, budget), None)
        runs[who, budget] = ObservationAdded(0, config, budget, known, f"HpBandSter {list(who)}")
    return [replace(run, index=index) for index, run in enumerate(runs.values(), first)]


def write_hpbandster(history: History, directory: str | Path) -> tuple[int, int]:
    """Write a study in HpBandSter's format; return the numbers of configurations and of runs.

    The id of a configuration is its bracket, its first rung and its index there. Existing files are replaced.
    """
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    count: Counter[tuple[int, int]] = Counter()
    ids: dict[int, Id] = {}
    configs, runs = [], []
    for number, trial in history.trials.items():
        if trial.config_id == number:
            place = (trial.bracket, trial.rung)
            ids[number] = (*place, count[place])
            count[place] += 1
            configs.append([list(ids[number]), trial.config, {"model_based_pick": trial.origin is Origin.MODEL}])
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        submitted = history.started.get(number)
        started = submitted if outcome.started is None else outcome.started
        times = {"submitted": submitted or started, "started": started, "finished": outcome.finished or started}
        info = outcome.info if outcome.cost is None else {**outcome.info, "cost": outcome.cost}
        result = {"loss": outcome.loss, "info": info} if outcome.ok else None
        error = None if outcome.ok else outcome.traceback or outcome.error or outcome.status.value
        runs.append([list(ids[trial.config_id]), trial.budget, times, result, error])
    for name, lines in ((CONFIGS, configs), (RESULTS, runs)):
        text = "".join(json.dumps(jsonable(line), allow_nan=False) + "\n" for line in lines)
        (root / name).write_text(text, encoding="utf-8")
    return len(configs), len(runs)


def _lines(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield place and content of each entry; a last line cut short by a crash is skipped."""
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        what = f"{path}: {(error.strerror or str(error)).lower()}"
        raise InterchangeError(f"{what}; HpBandSter's logs are a directory with {CONFIGS} and {RESULTS}") from error
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
        except ValueError as error:
            if number == len(texts):
                return
            raise InterchangeError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(entry, list):
            raise InterchangeError(f"{path}:{number}: a line must be a list, not {type(entry).__name__}")
        yield f"{path}:{number}", entry


def _id(place: str, value: Any) -> Id:
    if not (isinstance(value, list) and len(value) == 3 and all(isinstance(part, int) for part in value)):
        raise InterchangeError(f"{place}: {value!r:.80} must be the id of a configuration, [bracket, rung, index]")
    return (value[0], value[1], value[2])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
