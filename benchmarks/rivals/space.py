"""The search space as a ConfigSpace, for the rivals that take one (0.6 and 1.x)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ConfigSpace
from ConfigSpace import hyperparameters

from benchmarks.rivals.wire import Config, Parameter, Task


def configspace(task: Task) -> Any:
    """All parameters, with their conditions."""
    space: Any = ConfigSpace.ConfigurationSpace(seed=task.seed)
    made = {parameter.name: hyperparameter(parameter) for parameter in task.parameters}
    conditions = []
    for parameter in task.parameters:
        each = [ConfigSpace.InCondition(made[parameter.name], made[p], list(v)) for p, v in parameter.active_if]
        if each:
            conditions.append(each[0] if len(each) == 1 else ConfigSpace.AndConjunction(*each))
    if hasattr(space, "add"):
        space.add(*made.values(), *conditions)
    else:
        space.add_hyperparameters(made.values())
        space.add_conditions(conditions)
    return space


def hyperparameter(parameter: Parameter) -> Any:
    """One parameter, with ConfigSpace's own default."""
    if parameter.kind == "categorical":
        return hyperparameters.CategoricalHyperparameter(parameter.name, list(parameter.choices))
    if parameter.kind == "int":
        return hyperparameters.UniformIntegerHyperparameter(
            parameter.name, int(parameter.low), int(parameter.high), log=parameter.log
        )
    return hyperparameters.UniformFloatHyperparameter(parameter.name, parameter.low, parameter.high, log=parameter.log)


def plain(config: Mapping[str, Any]) -> Config:
    """A configuration as a dictionary; 0.6 gives an inactive parameter the value None."""
    return {name: config[name] for name in config if config[name] is not None}
