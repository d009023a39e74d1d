"""The schedule: which configurations get which budgets (Algorithms 1 and 3), by exact arithmetic.

`floor(log(b_max / b_min) / log(eta))` loses a rung for 1 → 243 with eta = 3, because log is inexact. Everything here
multiplies fractions instead.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from bohb.errors import InvalidArgument

# A float such as 1/243 is rounded before it is passed in; this tolerance keeps its rung.
_SLACK = Fraction(1, 10**9)
LARGEST_BRACKET = 10**7  # configurations in one rung; a study of more would never end
MOST_BUDGETS = 1000
PUBLISHED_EVERY = 3  # at least every third bracket of an informed study is Hyperband's

BracketRule = Literal["hyperband", "repeat", "skip", "given", "promote", "deadline"]
"""By which rule a bracket has its rungs.

hyperband: it is the next one in Hyperband's order.
repeat: it is Hyperband's last one again, because none with these rungs has finished.
skip: it leaves out the rungs below the largest budget, because they do not pay.
given: it consists of a configuration that the user wants on its budget.
promote: it continues the best configurations on larger budgets, because the largest budget has grown.
deadline: it reaches the largest budget before the deadline.
"""


@dataclass(frozen=True, slots=True)
class Rung:
    """One stage of successive halving: `size` configurations, each evaluated on `budget`."""

    budget: float
    size: int


@dataclass(frozen=True, slots=True)
class Bracket:
    """One run of successive halving (Alg. 3): rungs of growing budget and shrinking size."""

    rungs: tuple[Rung, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, int]]) -> Bracket:
        """Return the bracket whose rungs have these budgets and sizes."""
        return cls(tuple(Rung(budget, size) for budget, size in pairs))

    @property
    def pairs(self) -> tuple[tuple[float, int], ...]:
        """Budget and size of each rung, as events store them."""
        return tuple((rung.budget, rung.size) for rung in self.rungs)

    @property
    def cost(self) -> float:
        """The sum of all budgets if every evaluation starts from scratch."""
        return sum(rung.size * rung.budget for rung in self.rungs)

    @property
    def continued_cost(self) -> float:
        """The sum of all budgets if a promoted configuration continues from its checkpoint."""
        reached = (0.0, *(rung.budget for rung in self.rungs))
        return sum(r.size * (r.budget - before) for r, before in zip(self.rungs, reached, strict=False))

    @property
    def trials(self) -> int:
        """The number of evaluations."""
        return sum(rung.size for rung in self.rungs)


def geometric_budgets(min_budget: float, max_budget: float, eta: float = 3, integer: bool = False) -> tuple[float, ...]:
    """Return the budgets b_max·η^−s for s = s_max … 0 (Alg. 1, line 1), smallest first.

    min_budget: no budget is smaller; the smallest is this or up to η times larger.
    max_budget: the largest budget.
    eta: the ratio of two neighbouring budgets.
    integer: round each budget to the nearest whole number.
    """
    low, high, factor = _positive("min_budget", min_budget), _positive("max_budget", max_budget), _eta(eta)
    if low > high:
        raise InvalidArgument(f"min_budget={min_budget!r} must not exceed max_budget={max_budget!r}")
    s_max = 0
    while low * factor ** (s_max + 1) <= high * (1 + _SLACK):
        s_max += 1
        if s_max == MOST_BUDGETS:
            raise _too_large(s_max + 1, factor)
    exact = [high / factor**s for s in range(s_max, -1, -1)]
    if not integer:
        return check_budgets([float(budget) for budget in exact])
    rounded = [math.floor(budget + Fraction(1, 2)) for budget in exact]
    if rounded[0] < 1 or len(set(rounded)) < len(rounded):
        raise InvalidArgument(
            f"min_budget={min_budget!r}, max_budget={max_budget!r} and eta={eta!r} give the whole budgets {rounded}, "
            "which must be different and at least 1; raise min_budget or eta"
        )
    return check_budgets(rounded)


def check_budgets(budgets: Iterable[float]) -> tuple[float, ...]:
    """Return budgets as a tuple; raise InvalidArgument unless they are positive and strictly increasing."""
    checked = tuple(budgets)
    if not checked:
        raise InvalidArgument("budgets=() is empty; give at least one budget")
    for budget in checked:
        _positive("each budget", budget)
    for left, right in itertools.pairwise(checked):
        if not left < right:
            raise InvalidArgument(f"budgets={checked!r} must increase strictly, but {left!r} is followed by {right!r}")
    # Whole numbers given as int stay int, so that `range(trial.budget)` works; numpy's become Python's.
    return tuple(int(b) if isinstance(b, numbers.Integral) else float(b) for b in checked)


def hyperband(budgets: Sequence[float], eta: float = 3, sizes: str = "paper") -> tuple[Bracket, ...]:
    """Return one round of Hyperband (Alg. 1): the brackets s = s_max … 0, the most aggressive first.

    budgets: smallest first, as `geometric_budgets` or the user gives them.
    sizes: "paper" for n = ⌈(s_max+1)/(s+1)·η^s⌉; "hpbandster" for ⌊(s_max+1)/(s+1)⌋·η^s, rounded down.
    """
    factor = _eta(eta)
    n_budgets = len(budgets)
    if n_budgets > MOST_BUDGETS or (n_budgets - 1) * math.log(factor) > math.log(LARGEST_BRACKET) + 1e-9:
        raise _too_large(n_budgets, factor)
    brackets = []
    for s in range(n_budgets - 1, -1, -1):
        if sizes == "paper":
            n = math.ceil(Fraction(n_budgets, s + 1) * factor**s)
        elif sizes == "hpbandster":
            n = math.floor(n_budgets // (s + 1) * factor**s)
        else:
            raise InvalidArgument(f"sizes={sizes!r} must be 'paper' or 'hpbandster'")
        brackets.append(halving(n, budgets[n_budgets - 1 - s :], eta))
    return tuple(brackets)


def halving(n: int, budgets: Sequence[float], eta: float = 3) -> Bracket:
    """Return one run of successive halving (Alg. 3): n configurations, then the best ⌊n·η^−i⌋ on each next budget.

    For whole η this is the repeated ⌊|C|/η⌋ of Alg. 3, line 4. For others the repetition can reach zero before b_max
    (η=2.5: 7, 2, 0); the form used here, of Li et al. (2017), cannot, since n ≥ η^s.
    """
    factor = _eta(eta)
    return Bracket(tuple(Rung(budget, max(1, math.floor(n / factor**i))) for i, budget in enumerate(budgets)))


def _too_large(n_budgets: int, factor: Fraction) -> InvalidArgument:
    return InvalidArgument(
        f"{n_budgets} or more budgets with eta={float(factor):g} need a bracket of more than {LARGEST_BRACKET:,} "
        f"configurations or {MOST_BUDGETS:,} rungs; raise min_budget, or give fewer budgets as a list"
    )


def _eta(eta: float) -> Fraction:
    factor = _positive("eta", eta)
    if factor <= 1:
        raise InvalidArgument(
            f"eta={eta!r} must be larger than 1: each rung keeps the best 1/eta of its configurations"
        )
    return factor


def _positive(name: str, value: object) -> Fraction:
    """Return a positive finite number as the fraction of its decimal form: 0.1 is 1/10."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InvalidArgument(f"{name}={value!r} must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError as error:
        raise InvalidArgument(f"{name} is larger than all floats; it must be at most 1.8e308") from error
    if not math.isfinite(number) or value <= 0:
        raise InvalidArgument(f"{name}={value!r} must be positive and finite")
    return Fraction(value) if isinstance(value, numbers.Rational) else Fraction(repr(float(value)))


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One rung of one bracket."""

    bracket: int
    rung: int
    budget: float
    configurations: int
    cost: float
    continued_cost: float


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Some brackets in the order in which they open, with their costs.

    Costs are in full evaluations, that is, in units of the largest budget. `continued_cost` counts only what a
    promoted configuration adds to its previous budget.
    """

    brackets: tuple[Bracket, ...]

    @property
    def max_budget(self) -> float:
        """The largest budget."""
        return max(bracket.rungs[-1].budget for bracket in self.brackets)

    @property
    def configurations(self) -> int:
        """How many different configurations are tried."""
        return sum(bracket.rungs[0].size for bracket in self.brackets)

    @property
    def trials(self) -> int:
        """How many evaluations there are."""
        return sum(bracket.trials for bracket in self.brackets)

    @property
    def cost(self) -> float:
        """Their cost in full evaluations, if each starts from scratch."""
        return sum(bracket.cost for bracket in self.brackets) / self.max_budget

    @property
    def continued_cost(self) -> float:
        """Their cost in full evaluations, if training continues from checkpoints."""
        return sum(bracket.continued_cost for bracket in self.brackets) / self.max_budget

    def rows(self) -> Iterator[PlanRow]:
        """Yield the table, one row per rung."""
        for index, bracket in enumerate(self.brackets):
            reached = 0.0
            for rung_index, rung in enumerate(bracket.rungs):
                yield PlanRow(
                    bracket=index,
                    rung=rung_index,
                    budget=rung.budget,
                    configurations=rung.size,
                    cost=rung.size * rung.budget / self.max_budget,
                    continued_cost=rung.size * (rung.budget - reached) / self.max_budget,
                )
                reached = rung.budget

    def __str__(self) -> str:
        """Return the table with brackets as columns and budgets as rows, as Hyperband's is usually printed."""
        table = self._table()
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([*lines, self._summary()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *body = ("".join(f"<td>{cell}</td>" for cell in row) for row in self._table())
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{self._summary()}</p>"

    def _table(self) -> list[list[str]]:
        budgets = sorted({rung.budget for bracket in self.brackets for rung in bracket.rungs})
        sizes = [{rung.budget: rung.size for rung in bracket.rungs} for bracket in self.brackets]
        head = ["budget", *(f"bracket {i}" for i in range(len(sizes)))]
        body = [[f"{budget:g}", *(str(column.get(budget, "·")) for column in sizes)] for budget in budgets]
        return [head, *body, ["cost", *(f"{bracket.cost / self.max_budget:.2f}" for bracket in self.brackets)]]

    def _summary(self) -> str:
        return (
            f"{self.configurations} configurations, {self.trials} evaluations, cost of {self.cost:.2f} "
            f"full evaluations ({self.continued_cost:.2f} when training continues from checkpoints)"
        )


def plan(round_of_brackets: tuple[Bracket, ...], brackets: int | None = None) -> Plan:
    """Return the plan of the first `brackets` brackets; by default one round of Hyperband."""
    n = len(round_of_brackets) if brackets is None else brackets
    if n < 1:
        raise InvalidArgument(f"brackets={n!r} must be at least 1")
    return Plan(tuple(round_of_brackets[i % len(round_of_brackets)] for i in range(n)))
