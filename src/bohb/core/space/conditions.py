"""Which hyperparameters are active, for many configurations at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Columns = Mapping[str, NDArray[np.float64]]  # values of numeric, indices of other hyperparameters
Test = Callable[[NDArray[np.float64]], Mask]


@dataclass(frozen=True, slots=True)
class Is:
    """A parent is active and its value passes a test."""

    parent: str
    test: Test


@dataclass(frozen=True, slots=True)
class All:
    """All parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one part holds."""

    parts: tuple[Condition, ...]


Condition = Is | All | Any


def parents(condition: Condition) -> set[str]:
    """Return the names that a condition depends on."""
    match condition:
        case Is(parent=parent):
            return {parent}
        case All(parts=parts) | Any(parts=parts):
            return set().union(*(parents(part) for part in parts))


def holds(condition: Condition, columns: Columns, active: Mapping[str, Mask]) -> Mask:
    """Return where a condition holds; an inactive parent satisfies no condition."""
    match condition:
        case Is(parent=parent, test=test):
            return active[parent] & test(columns[parent])
        case All(parts=parts):
            return _combine(np.logical_and, [holds(part, columns, active) for part in parts])
        case Any(parts=parts):
            return _combine(np.logical_or, [holds(part, columns, active) for part in parts])


def _combine(operation: np.ufunc, masks: list[Mask]) -> Mask:
    combined: Mask = operation.reduce(masks)
    return combined


def activity(order: Sequence[str], conditions: Mapping[str, Condition], columns: Columns, n: int) -> dict[str, Mask]:
    """Return whether each hyperparameter is active in each of n configurations; `order` has parents first."""
    active: dict[str, Mask] = {}
    for name in order:
        condition = conditions.get(name)
        active[name] = np.ones(n, dtype=bool) if condition is None else holds(condition, columns, active)
    return active
