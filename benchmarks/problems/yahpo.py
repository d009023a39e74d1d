"""Surrogates of real tuning tasks: neural networks fitted to recorded runs (YAHPO Gym; Pfisterer et al. 2022)."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import Missing, find
from benchmarks.problem import Config, Evaluation, Parameter, geometric


@dataclass(frozen=True, slots=True)
class Scenario:
    """A family of tasks that share one model.

    folder: its folder in yahpo/.
    budget: the input that is the budget; `low` and `high` are its range, rounded to whole numbers if `whole`.
    fixed: other inputs that are not hyperparameters.
    unit: divides the objective, to give a share.
    """

    folder: str
    budget: str
    low: float
    high: float
    whole: bool = False
    fixed: tuple[tuple[str, str], ...] = ()
    unit: float = 1.0


SCENARIOS = {
    "lcbench": Scenario("lcbench", "epoch", 1, 52, whole=True, unit=100.0),
    "rbv2_ranger": Scenario("rbv2_ranger_v2", "trainsize", 0.03, 1.0, fixed=(("repl", "10"),)),
    "iaml_super": Scenario("iaml_super_v0", "trainsize", 0.05, 1.0),
    "iaml_glmnet": Scenario("iaml_glmnet", "trainsize", 0.03, 1.0),
}


def instances(scenario: str) -> list[str]:
    """Return the names of a scenario's tasks."""
    return list(_json(scenario, "reference.json")["instances"])


class Targets(NamedTuple):
    """The loss and the seconds of an evaluation, and another value that the scenario predicts."""

    loss: float
    seconds: float
    other: float


class Yahpo:
    """One task of a scenario, for instance lcbench-3945; the loss is an error rate, the cost is in seconds."""

    def __init__(self, scenario: str, instance: str) -> None:
        self._scenario = SCENARIOS[scenario]
        self._model = _model(scenario)
        reference = _json(scenario, "reference.json")["instances"]
        if instance not in reference:
            raise ValueError(f"{scenario}-{instance} is unknown; {scenario} has {sorted(reference)}")
        self.name = f"{scenario}-{instance}"
        self.parameters = self._model.parameters
        self.budgets = geometric(self._scenario.low, self._scenario.high)
        self._fixed = {self._model.instance_key: instance, **dict(self._scenario.fixed)}
        self._best = self._loss(reference[instance]["best_found"])
        self._full: dict[str, float] = {}

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:  # noqa: ARG002 - deterministic
        level = round(budget) if self._scenario.whole else budget
        row = self._model.row({**config, **self._fixed, self._scenario.budget: level})
        loss, seconds = self._loss(row[self._model.objective]), row[self._model.seconds]
        return Evaluation(loss, max(seconds, 1e-3))  # the network may predict a negative time

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        """Return the distance to the best value that random and local search found; it may be negative."""
        key = json.dumps(dict(config), sort_keys=True)
        if key not in self._full:
            full = self.evaluate(config, self.budgets[-1], 0).loss
            assert full is not None
            self._full[key] = full
        return self._full[key] - self._best

    def targets(self, config: Config, budget: float, other: str) -> Targets:
        """Return the loss, the seconds and another target of the scenario on a budget."""
        level = round(budget) if self._scenario.whole else budget
        row = self._model.row({**config, **self._fixed, self._scenario.budget: level})
        return Targets(self._loss(row[self._model.objective]), row[self._model.seconds], row[other])

    def _loss(self, objective: float) -> float:
        share = objective / self._scenario.unit
        return 1 - share if self._model.maximise else share


class Model:
    """The network of a scenario. It predicts one row at a time, because batches change the last digits."""

    def __init__(self, scenario: str) -> None:
        try:
            import onnxruntime  # type: ignore[import-untyped,unused-ignore]
        except ModuleNotFoundError as error:
            raise Missing("the surrogates in yahpo/ need onnxruntime: pip install onnxruntime") from error
        meta = _json(scenario, "scenario.json")
        self._encoding = _json(scenario, "encoding.json")
        self._categorical, self._numeric = meta["categorical_inputs"], meta["numeric_inputs"]
        self._targets: list[str] = meta["targets"]
        self.objective: str = meta["objective"]
        self.seconds: str = meta["runtime_target"]
        self.maximise = meta["direction"] == "max"
        self.instance_key: str = meta["instance_key"]
        fixed = {self.instance_key, SCENARIOS[scenario].budget, *dict(SCENARIOS[scenario].fixed)}
        self.parameters = tuple(_parameters(_json(scenario, "config_space.json"), fixed))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        path = str(find("yahpo", SCENARIOS[scenario].folder, "model.onnx"))
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._output = [self._session.get_outputs()[0].name]

    def row(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return all targets by name; the values have no inactive hyperparameters."""
        codes = [self._encoding[name][str(values.get(name, "#na#"))] for name in self._categorical]
        numbers = [values.get(name, 0) for name in self._numeric]
        rows = (np.array([codes], dtype=np.int32), np.array([numbers], dtype=np.float32))
        row = self._session.run(self._output, dict(zip(self._inputs, rows, strict=True)))[0][0]
        return dict(zip(self._targets, row.tolist(), strict=True))


@functools.cache
def _model(scenario: str) -> Model:
    return Model(scenario)


def _json(scenario: str, file: str) -> Any:
    return json.loads(find("yahpo", SCENARIOS[scenario].folder, file).read_text())


def _parameters(space: Mapping[str, Any], fixed: Iterable[str]) -> Iterable[Parameter]:
    """Return the hyperparameters of the search space, with their conditions."""
    conditions: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
    for condition in space["conditions"]:
        parts = condition["conditions"] if condition["type"] == "AND" else [condition]
        for part in parts:
            values = part["values"] if part["type"] == "IN" else [part["value"]]
            conditions.setdefault(condition["child"], []).append((part["parent"], tuple(values)))
    for entry in space["hyperparameters"]:
        name = entry["name"]
        if name in fixed:
            continue
        active_if = tuple(conditions.get(name, ()))
        if entry["type"] == "categorical":
            yield Parameter(name, "categorical", choices=tuple(entry["choices"]), active_if=active_if)
        else:
            kind = {"uniform_int": "int", "uniform_float": "float"}[entry["type"]]
            low, high = entry["lower"], entry["upper"]
            if kind == "float":
                low, high = float(low), float(high)
            yield Parameter(name, kind, low, high, bool(entry["log"]), active_if=active_if)
