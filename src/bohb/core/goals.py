"""Goals: what a study minimises or maximises, and the bounds that its results should keep.

Most studies have one loss and nothing else (`PLAIN`). Others name their values: `objectives=["error", "-accuracy"]`
minimises the error and maximises the accuracy, and `constraints={"latency": "<= 10ms"}` bounds a third value. Inside
the package everything is minimised: the loss of a maximised value is its negative. `Goals.shown` turns a loss back into
what the user knows.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from bohb.errors import InvalidArgument
from bohb.units import memory, seconds

Objectives = Sequence[str] | Mapping[str, str] | None  # names, or "minimize" and "maximize" by name
Direction = Literal["minimize", "maximize"]

MOST_OBJECTIVES = 8  # the hypervolume of more would take hours
LONGEST_NAME = 100
_RESERVED = ("losses", "info")  # keys of a result that hold other things
_SMALLEST = sys.float_info.min
_LARGEST = 1e308  # is still finite after rounding


@dataclass(frozen=True, slots=True)
class Objective:
    """A value to be minimised, or maximised."""

    name: str
    maximised: bool = False

    def __str__(self) -> str:
        """Return it as the user writes it: "error" or "-accuracy"."""
        return f"-{self.name}" if self.maximised else self.name

    def loss(self, value: float) -> float:
        """Return the loss of a value, and the value of a loss: negative if the value is maximised."""
        return 0.0 - value if self.maximised else value


@dataclass(frozen=True, slots=True)
class Constraint:
    """A bound that a value should keep."""

    name: str
    sense: Literal["<=", ">="]
    bound: float

    def __str__(self) -> str:
        """Return the bound as the user writes it: "<= 10"."""
        bound = int(self.bound) if self.bound.is_integer() else self.bound
        return f"{self.sense} {bound!r}"

    def violation(self, value: float) -> float:
        """Return how far a value lies beyond the bound, relative to the bound unless that is 0; 0 if it keeps it."""
        excess = value - self.bound if self.sense == "<=" else self.bound - value
        return 0.0 if excess <= 0 else min(max(excess / (abs(self.bound) or 1.0), _SMALLEST), _LARGEST)


@dataclass(frozen=True, slots=True)
class Goals:
    """The objectives and constraints of a study."""

    objectives: tuple[Objective, ...] = (Objective("loss"),)
    constraints: tuple[Constraint, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether there is only the unnamed loss, which is minimised."""
        return self == PLAIN

    @property
    def single(self) -> bool:
        """Whether one loss decides alone: one objective, no constraint."""
        return len(self.objectives) == 1 and not self.constraints

    @property
    def several(self) -> bool:
        """Whether there are at least two objectives."""
        return len(self.objectives) > 1

    @property
    def label(self) -> str:
        """The name of the first objective: "loss" unless the user named it, "score" with direction="maximize"."""
        return self.objectives[0].name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all values that a result must have, objectives first."""
        names = [objective.name for objective in self.objectives] + [goal.name for goal in self.constraints]
        return tuple(dict.fromkeys(names))

    @overload
    def shown(self, loss: float) -> float: ...
    @overload
    def shown(self, loss: float | None) -> float | None: ...
    def shown(self, loss: float | None) -> float | None:
        """Return what the user thinks of as the loss: the negative if the first objective is maximised."""
        return None if loss is None else self.objectives[0].loss(loss)

    def minimised(self, value: float) -> float:
        """Return the loss of a value that the user gave, such as a target; the inverse of `shown`."""
        return self.objectives[0].loss(value)

    def losses(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return the losses of all objectives, to be minimised."""
        return tuple(objective.loss(values[objective.name]) for objective in self.objectives)

    def violation(self, values: Mapping[str, float]) -> float:
        """Return the sum of the violations of all constraints; 0 if all are kept."""
        return min(sum(goal.violation(values[goal.name]) for goal in self.constraints), _LARGEST)

    def standing(self, loss: float | None, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return what a result is compared by: its violation and its losses; all +inf if it failed."""
        if loss is None:
            return (math.inf,) * (1 + len(self.objectives))
        return (0.0, loss) if self.single else (self.violation(values), *self.losses(values))

    def described(self, loss: float, values: Mapping[str, float]) -> str:
        """Return the values of a result with their names: "loss 0.1" or "error 0.1, latency 8.5"."""
        return ", ".join(f"{name} {values.get(name, loss):.6g}" for name in self.names)

    def to_json(self) -> dict[str, Any]:
        """Return what is stored, in the user's spelling; nothing for a plain study."""
        found: dict[str, Any] = {}
        if self.objectives != PLAIN.objectives:
            found["objectives"] = [str(objective) for objective in self.objectives]
        if self.constraints:
            found["constraints"] = {goal.name: str(goal) for goal in self.constraints}
        return found


PLAIN = Goals()


def goals_of(
    objectives: Objectives = None, constraints: Mapping[str, str] | None = None, direction: Direction = "minimize"
) -> Goals:
    """Return the goals that the arguments of `minimize` name. Raises InvalidArgument.

    direction: "maximize" is short for objectives=["-score"].
    """
    if direction not in ("minimize", "maximize"):
        raise InvalidArgument(f"direction={direction!r} must be 'minimize' or 'maximize'")
    if direction == "maximize":
        if objectives:
            raise InvalidArgument(
                f"direction='maximize' and objectives={objectives!r} exclude each other; "
                "put a minus in front of the name of each objective to maximise: objectives=['-accuracy']"
            )
        return Goals((Objective("score", maximised=True),), _constraints(constraints or {}))
    return Goals(_objectives(objectives) or PLAIN.objectives, _constraints(constraints or {}))


def _objectives(given: Objectives) -> tuple[Objective, ...]:
    if isinstance(given, Mapping):
        for name, direction in given.items():
            if direction not in ("minimize", "maximize"):
                raise InvalidArgument(f"objectives: {name!r} has {direction!r}, which must be 'minimize' or 'maximize'")
        found = [Objective(_checked("objectives", name), given[name] == "maximize") for name in given]
    elif isinstance(given, str) or not isinstance(given, Iterable | None):
        raise InvalidArgument(f"objectives={given!r} must be a list of names, such as ['error', '-accuracy']")
    else:
        found = [_objective(name) for name in given or ()]
    names = [objective.name for objective in found]
    if len(names) > MOST_OBJECTIVES:
        raise InvalidArgument(
            f"{len(names)} objectives are given, at most {MOST_OBJECTIVES} can be; combine some of them"
        )
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"objectives={given!r} names {name!r} twice; name each value once")
    return tuple(found)


def _objective(text: object) -> Objective:
    if not isinstance(text, str):
        raise InvalidArgument(f"objectives: {text!r} must be a name, with a minus in front of it to maximise")
    return Objective(_checked("objectives", text.removeprefix("-")), text.startswith("-"))


def _constraints(given: Mapping[str, str]) -> tuple[Constraint, ...]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"constraints={given!r} must be a table of bounds, such as {{'latency': '<= 10'}}")
    return tuple(_constraint(_checked("constraints", name), text) for name, text in given.items())


def _constraint(name: str, text: object) -> Constraint:
    found = re.fullmatch(r"\s*(<=|>=)\s*(.+?)\s*", text) if isinstance(text, str) else None
    bound = None if found is None else _bound(found[2])
    if found is None or bound is None:
        raise InvalidArgument(
            f"constraints: {name!r} has {text!r}, which must be text such as '<= 10', '>= 0.9', '<= 8GB' or '<= 10ms'"
        )
    return Constraint(name, "<=" if found[1] == "<=" else ">=", bound)


def _bound(text: str) -> float | None:
    """Return a number, a duration in seconds or a size in bytes; None for anything else."""
    for parse in (float, seconds, memory):
        try:
            bound = float(parse(text))
        except ValueError:
            continue
        return bound if math.isfinite(bound) else None
    return None


def _checked(what: str, name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgument(f"{what}: {name!r} must be the name of a value that the objective returns")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidArgument(
            f"{what}: the name {name!r:.80} must have at most {LONGEST_NAME} characters, all of them printable"
        )
    if name in _RESERVED or name.startswith("-"):
        raise InvalidArgument(f"{what}: {name!r} cannot be the name of a value; choose another name")
    return name
