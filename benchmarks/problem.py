"""Protocols of problems and methods, which meet only in the harness. Uses the standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One hyperparameter, described so that every method can build its own space.

    kind: "float", "int", "ordinal" or "categorical".
    low, high, log: the range of a float or an int, and whether its scale is logarithmic.
    choices: the values of an ordinal (in order) or a categorical one; plain JSON scalars.
    active_if: pairs of a parent's name and its values for which this one is active; all pairs must hold.
    """

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()
    active_if: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Refuse parameters that no method can search."""
        match self.kind:
            case "float" | "int":
                if self.low is None or self.high is None or not self.low < self.high:
                    raise ValueError(f"{self.name}: low={self.low!r} must lie below high={self.high!r}")
                if self.log and self.low <= 0:
                    raise ValueError(f"{self.name}: low={self.low!r} must be positive on a logarithmic scale")
            case "ordinal" | "categorical":
                if len(self.choices) < 2:
                    raise ValueError(f"{self.name}: choices={self.choices!r} must be at least two")
            case _:
                raise ValueError(f"{self.name}: kind={self.kind!r} must be float, int, ordinal or categorical")

    def active(self, config: Config) -> bool:
        """Whether its conditions hold in a configuration that includes its parents."""
        return all(config.get(parent) in values for parent, values in self.active_if)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that rivals receive."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Parameter:
        """Return the parameter from its JSON form."""
        active_if = tuple((parent, tuple(values)) for parent, values in stored.get("active_if", ()))
        return cls(**{**stored, "choices": tuple(stored.get("choices", ())), "active_if": active_if})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of one evaluation.

    loss: None or NaN if it failed.
    cost: seconds or units of budget from scratch.
    """

    loss: float | None
    cost: float

    @property
    def ok(self) -> bool:
        """Whether there is a finite loss."""
        return self.loss is not None and math.isfinite(self.loss)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An evaluation that a method asks for.

    number: identifies it in `tell`.
    previous: the budget that the same configuration has already reached, or None.
    """

    number: int
    config: dict[str, Any]
    budget: float
    previous: float | None = None


class Problem(Protocol):
    """An objective with budgets.

    name: the name by which `benchmarks.problems.problem_of` finds it in another process.
    budgets: increasing, a factor 3 apart.
    """

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def budgets(self) -> tuple[float, ...]: ...

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        """Return the loss on a budget; all randomness follows from the seed."""
        ...

    def regret(self, config: Config, loss: float) -> float:
        """Return the noise-free loss of an incumbent on the largest budget minus the best known loss."""
        ...


class Method(Protocol):
    """A method that is used by ask and tell."""

    def ask(self) -> Suggestion | None:
        """Return the next evaluation; None if there is none, or none until a result is told."""
        ...

    def tell(self, number: int, evaluation: Evaluation) -> None:
        """Receive the result of an evaluation."""
        ...

    def close(self) -> None:
        """Close processes and files."""
        ...


def geometric(low: float, high: float, eta: float = 3) -> tuple[float, ...]:
    """Return Hyperband's budgets: high/eta^k for all k that do not go below low, increasing."""
    budgets = [float(high)]
    while budgets[-1] / eta >= low * (1 - 1e-9):
        budgets.append(budgets[-1] / eta)
    return tuple(reversed(budgets))


def parents_first(parameters: Sequence[Parameter]) -> Iterator[Parameter]:
    """Yield the parameters with every parent before its children."""
    left, done = list(parameters), set[str]()
    while left:
        ready = [p for p in left if all(parent in done for parent, _ in p.active_if)]
        if not ready:
            raise ValueError(f"the conditions of {[p.name for p in left]} form a circle or name unknown parents")
        yield from ready
        done |= {p.name for p in ready}
        left = [p for p in left if p.name not in done]


def uniform(rng: np.random.Generator, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return a random configuration."""
    config: dict[str, Any] = {}
    for p in parents_first(parameters):
        if not p.active(config):
            continue
        if p.choices:
            config[p.name] = p.choices[int(rng.integers(len(p.choices)))]
            continue
        assert p.low is not None
        assert p.high is not None
        low, high = (p.low - 0.5, p.high + 0.5) if p.kind == "int" else (p.low, p.high)
        value = math.exp(rng.uniform(math.log(low), math.log(high))) if p.log else rng.uniform(low, high)
        value = min(max(value, p.low), p.high)
        config[p.name] = round(value) if p.kind == "int" else value
    return config
