"""What problems and methods have in common; they meet only in the harness. Standard library alone."""

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
    """One hyperparameter, described so that every method can build its own space from it.

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
        """Refuse what no method could search."""
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
        """Whether its conditions hold in a configuration that has its parents already."""
        return all(config.get(parent) in values for parent, values in self.active_if)

    def to_json(self) -> dict[str, Any]:
        """As rivals receive it."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Parameter:
        """The parameter that `to_json` described."""
        active_if = tuple((parent, tuple(values)) for parent, values in stored.get("active_if", ()))
        return cls(**{**stored, "choices": tuple(stored.get("choices", ())), "active_if": active_if})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one evaluation gave.

    loss: None or NaN if it failed.
    cost: seconds or units of budget that it takes from scratch.
    """

    loss: float | None
    cost: float

    @property
    def ok(self) -> bool:
        """Whether there is a finite loss."""
        return self.loss is not None and math.isfinite(self.loss)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a method wants to have evaluated.

    number: names it when the result is told.
    previous: the budget that this same configuration has reached already, or None.
    """

    number: int
    config: dict[str, Any]
    budget: float
    previous: float | None = None


class Problem(Protocol):
    """Something to minimise, with budgets.

    name: the one by which `benchmarks.problems.problem_of` finds it again in another process.
    budgets: increasing, a factor 3 apart.
    """

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def budgets(self) -> tuple[float, ...]: ...

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        """The loss on a budget; whatever is random about it follows from the seed."""
        ...

    def regret(self, config: Config, loss: float) -> float:
        """Of an incumbent: the noise-free value on the largest budget less the best known one."""
        ...


class Method(Protocol):
    """A method that suggests and is told, one evaluation at a time."""

    def ask(self) -> Suggestion | None:
        """The next evaluation; None if there is none before something is told, or none at all."""
        ...

    def tell(self, number: int, evaluation: Evaluation) -> None:
        """How an evaluation ended."""
        ...

    def close(self) -> None:
        """Let go of processes and files."""
        ...


def geometric(low: float, high: float, eta: float = 3) -> tuple[float, ...]:
    """The budgets high/eta^k that are not below low, increasing: what Hyperband makes of the two."""
    budgets = [float(high)]
    while budgets[-1] / eta >= low * (1 - 1e-9):
        budgets.append(budgets[-1] / eta)
    return tuple(reversed(budgets))


def parents_first(parameters: Sequence[Parameter]) -> Iterator[Parameter]:
    """The parameters in an order that has every parent before its children."""
    left, done = list(parameters), set[str]()
    while left:
        ready = [p for p in left if all(parent in done for parent, _ in p.active_if)]
        if not ready:
            raise ValueError(f"the conditions of {[p.name for p in left]} form a circle or name unknown parents")
        yield from ready
        done |= {p.name for p in ready}
        left = [p for p in left if p.name not in done]


def uniform(rng: np.random.Generator, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """A random configuration."""
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
