"""Read and write HpBandSter's logs: the directory with `configs.json` and `results.json` of its json_result_logger.

`configs.json` has one line per configuration, `[[bracket, rung, index], {config}, {"model_based_pick": bool}]`;
`results.json` one per run, `[[id], budget, {"submitted", "started", "finished"}, {"loss", "info"} or null, traceback or
null]`. HpBandSter writes NaN, which is not valid JSON; we read it and never write it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bohb.core.events import ObservationAdded
from bohb.core.history import History
from bohb.core.space import Space
from bohb.core.trial import Origin, jsonable
from bohb.errors import BohbError, InvalidConfiguration

CONFIGS, RESULTS = "configs.json", "results.json"
Id = tuple[int, int, int]


class InterchangeError(BohbError):
    """The logs of another tool cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of HpBandSter.

    loss: None if it crashed or returned NaN or an infinity.
    line: its line in results.json.
    """

    id: Id
    config: dict[str, Any]
    budget: float
    loss: float | None
    line: int
    model_based: bool = False
    info: Any = None
    error: str | None = None
    times: dict[str, float] = field(default_factory=dict)


def read_hpbandster(directory: str | Path) -> list[Run]:
    """Return the runs of a directory in the order in which they ended; the last run on a budget counts."""
    root = Path(directory)
    configs: dict[Id, tuple[dict[str, Any], dict[str, Any]]] = {}
    for place, entry in _lines(root / CONFIGS):
        if not (len(entry) >= 2 and isinstance(entry[1], dict)):
            raise InterchangeError(f"{place}: a line must be [[bracket, rung, index], {{config}}, {{info}}]")
        info = entry[2] if len(entry) > 2 and isinstance(entry[2], dict) else {}
        configs[_id(place, entry[0])] = (entry[1], info)
    runs: dict[tuple[Id, float], Run] = {}
    for place, entry in _lines(root / RESULTS):
        if len(entry) < 4 or not _is_number(entry[1]):
            raise InterchangeError(
                f"{place}: a line must be [[bracket, rung, index], budget, {{times}}, result, error]"
            )
        who = _id(place, entry[0])
        if who not in configs:
            raise InterchangeError(f"{place}: the configuration {list(who)} is not in {CONFIGS}")
        run = _run(who, configs[who], entry, int(place.rpartition(":")[2]))
        runs.pop((who, run.budget), None)
        runs[who, run.budget] = run
    return list(runs.values())


def _run(who: Id, config: tuple[dict[str, Any], dict[str, Any]], entry: Sequence[Any], line: int) -> Run:
    result, error = entry[3], entry[4] if len(entry) > 4 else None
    times = entry[2] if isinstance(entry[2], dict) else {}
    known = result if isinstance(result, Mapping) else {"loss": result}
    loss: Any = known.get("loss")
    return Run(
        id=who,
        config=config[0],
        budget=float(entry[1]),
        loss=float(loss) if _is_number(loss) and math.isfinite(loss) else None,
        line=line,
        model_based=bool(config[1].get("model_based_pick", False)),
        info=known.get("info"),
        error=None if error is None else str(error),
        times={name: float(time) for name, time in times.items() if _is_number(time)},
    )


def observations(runs: Sequence[Run], space: Space, budgets: Sequence[float], first: int = 0) -> list[ObservationAdded]:
    """Return the runs as observations of a study, each checked against its space.

    budgets: the study's budgets; a budget that differs from one of them only by rounding is replaced by it.
    first: number of observations that the study already has.
    """
    events = []
    for index, run in enumerate(runs, first):
        config = space.restore(run.config)
        try:
            space.encode({**run.config, **config})
        except InvalidConfiguration as error:
            raise InterchangeError(f"{RESULTS}:{run.line}: {error}") from error
        budget = next((b for b in budgets if math.isclose(b, run.budget, rel_tol=1e-6)), run.budget)
        source = f"HpBandSter {list(run.id)}"
        events.append(ObservationAdded(index, config, budget, run.loss, source))
    return events


def write_hpbandster(history: History, directory: str | Path) -> tuple[int, int]:
    """Write a study in HpBandSter's format; return the numbers of configurations and of runs.

    The id of a configuration is its bracket, its first rung and its index there. Existing files are replaced.
    """
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    ids = _ids(history)
    configs = []
    for number, who in ids.items():
        trial = history.trials[number]
        configs.append([list(who), trial.config, {"model_based_pick": trial.origin is Origin.MODEL}])
    runs = []
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        submitted = history.started.get(number)
        started = outcome.started if outcome.started is not None else submitted
        times = {"submitted": submitted or started, "started": started, "finished": outcome.finished or started}
        result = {"loss": outcome.loss, "info": _info(outcome.info, outcome.cost)} if outcome.ok else None
        error = None if outcome.ok else outcome.traceback or outcome.error or outcome.status.value
        runs.append([list(ids[trial.config_id]), trial.budget, times, result, error])
    _write(root / CONFIGS, configs)
    _write(root / RESULTS, runs)
    return len(configs), len(runs)


def _ids(history: History) -> dict[int, Id]:
    """Return HpBandSter's id of every configuration, by ours."""
    count: dict[tuple[int, int], int] = {}
    ids: dict[int, Id] = {}
    for number, trial in history.trials.items():
        if trial.config_id == number:
            place = (trial.bracket, trial.rung)
            ids[number] = (*place, count.get(place, 0))
            count[place] = count.get(place, 0) + 1
    return ids


def _info(info: dict[str, Any], cost: float | None) -> dict[str, Any]:
    return info if cost is None else {**info, "cost": cost}


def _write(path: Path, lines: Sequence[Any]) -> None:
    text = "".join(json.dumps(jsonable(line), allow_nan=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def _lines(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield the entries of a log with their places; an incomplete last line, left by a crash, is skipped."""
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise InterchangeError(
            f"{path}: {what}; HpBandSter's logs are a directory with {CONFIGS} and {RESULTS}"
        ) from error
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
