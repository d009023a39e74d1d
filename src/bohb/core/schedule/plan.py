"""The table of what will run, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bohb.core.schedule.brackets import Bracket
from bohb.errors import InvalidArgument


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
