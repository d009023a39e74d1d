"""A search space as people read it."""

from __future__ import annotations

from typing import Any

from ConfigSpace.conditions import (
    AndConjunction,
    EqualsCondition,
    GreaterThanCondition,
    InCondition,
    LessThanCondition,
    NotEqualsCondition,
    OrConjunction,
)

from bohb.core.space.compiled import Space
from bohb.core.space.scales import Categorical, Numeric, Ordinal, Scale

_SIGNS = {EqualsCondition: "==", NotEqualsCondition: "!=", LessThanCondition: "<", GreaterThanCondition: ">"}


def describe(space: Space) -> list[str]:
    """Return one line per hyperparameter: its name, kind, values and condition."""
    width = max(len(name) for name in space.names)
    return [
        f"{name:{width}}  {kind:8}  {values}{f', if {active}' if active else ''}"
        for name, kind, values, active in space_table(space)
    ]


def space_table(space: Space) -> list[tuple[str, str, str, str]]:
    """Return name, kind, values and condition of every hyperparameter."""
    scales = {scale.name: scale for scale in space.dimensions}
    conditions = space.configspace.parent_conditions_of
    rows = []
    for name in space.names:
        constant = ("constant", repr(space.configspace[name].default_value))
        kind, values = _values(scales[name]) if name in scales else constant
        active = " and ".join(_condition(part) for part in conditions[name])
        rows.append((name, kind, values, active))
    return rows


def _values(scale: Scale) -> tuple[str, str]:
    match scale:
        case Numeric():
            text = f"{scale.lower:.12g} to {scale.upper:.12g}{', log scale' if scale.log else ''}"
            prior = "" if scale.prior is None else ", with a prior"
            return "integer" if scale.integer else "float", text + prior
        case Categorical():
            n = len(scale.values)
            even = all(abs(edge - (i + 1) / n) < 1e-9 for i, edge in enumerate(scale.cumulative))
            return "choice", _listed(scale.values) + ("" if even else ", weighted")
        case Ordinal():
            return "ordinal", " < ".join(repr(value) for value in scale.values)


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(repr(value) for value in values)


def _condition(condition: Any) -> str:
    match condition:
        case AndConjunction():
            return " and ".join(_condition(part) for part in condition.components)
        case OrConjunction():
            return "(" + " or ".join(_condition(part) for part in condition.components) + ")"
        case InCondition():
            return f"{condition.parent.name} in [{_listed(tuple(condition.values))}]"
        case _:
            return f"{condition.parent.name} {_SIGNS[type(condition)]} {condition.value!r}"
