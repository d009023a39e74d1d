"""Hyperopt's TPE, the one that the paper compares with, on the largest budget.

A parameter that depends on a categorical one is nested in it, Hyperopt's own way; further conditions of the same
parameter, which no tree can express, are applied to what it suggests.
"""

from __future__ import annotations

import math
from typing import Any

import hyperopt  # type: ignore[import-not-found]
import numpy as np
from hyperopt import base, hp, tpe

from benchmarks.rivals.wire import BlackBox, Config, Parameter, Task, serve


class Parzen:
    """Hyperopt's `fmin` with `tpe.suggest`, turned inside out; keys are Hyperopt's ids of trials."""

    def __init__(self, task: Task) -> None:
        self._rng = np.random.default_rng(task.seed)
        self._categorical = {p.name for p in task.parameters if p.kind == "categorical"}
        self._domain = base.Domain(never, space(task))
        self._trials = hyperopt.Trials()

    def suggest(self) -> tuple[int, Config]:
        (number,) = self._trials.new_trial_ids(1)
        self._trials.refresh()
        seed = int(self._rng.integers(2**31 - 1))
        documents = tpe.suggest([number], self._domain, self._trials, seed, verbose=False)
        self._trials.insert_trial_docs(documents)
        self._trials.refresh()
        drawn = base.spec_from_misc(documents[0]["misc"])
        return number, {name: str(v) if name in self._categorical else float(v) for name, v in drawn.items()}

    def observe(self, key: int, loss: float | None, cost: float) -> None:  # noqa: ARG002 - a rival's signature
        (document,) = [trial for trial in self._trials.trials if trial["tid"] == key]
        document["state"] = hyperopt.JOB_STATE_DONE
        status = hyperopt.STATUS_FAIL if loss is None else hyperopt.STATUS_OK
        document["result"] = {"status": status} if loss is None else {"status": status, "loss": loss}
        self._trials.refresh()


def space(task: Task) -> dict[str, Any]:
    """The tree of all parameters."""
    categorical = {p.name for p in task.parameters if p.kind == "categorical"}
    nodes: dict[str, Any] = {}
    children: dict[str, list[tuple[Parameter, tuple[Any, ...]]]] = {}
    roots = []
    for parameter in reversed(task.parameters):  # children first, so that their parents can hold them
        nodes[parameter.name] = node(parameter, nodes, children.get(parameter.name, []))
        parents = [(parent, values) for parent, values in parameter.active_if if parent in categorical]
        if parents:
            children.setdefault(parents[0][0], []).append((parameter, parents[0][1]))
        else:
            roots.append(parameter.name)
    return {name: nodes[name] for name in roots}


def node(parameter: Parameter, nodes: dict[str, Any], children: list[tuple[Parameter, tuple[Any, ...]]]) -> Any:
    """One parameter; each choice of a categorical one holds the children that are active with it."""
    name, low, high = parameter.name, parameter.low, parameter.high
    if parameter.kind == "categorical":
        return hp.choice(
            name, [{c.name: nodes[c.name] for c, values in children if token in values} for token in parameter.choices]
        )
    if parameter.kind == "int":
        if parameter.log:
            return hp.qloguniform(name, math.log(low - 0.5), math.log(high + 0.5), 1)
        return hp.uniformint(name, low, high)
    return hp.loguniform(name, math.log(low), math.log(high)) if parameter.log else hp.uniform(name, low, high)


def never(config: Config) -> float:
    """What Hyperopt would call if it ran trials itself."""
    raise NotImplementedError


if __name__ == "__main__":
    serve(lambda task: BlackBox(task, Parzen(task)))
