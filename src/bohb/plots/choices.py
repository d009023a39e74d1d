"""What a reader can choose about plots, for Python, the command line, the dashboard and reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice. Its name is an argument of the functions that draw, and an option of `bohb plot`.

    label: above its menu on a page.
    help: on the command line.
    values: the possible ones, the default first; none if they depend on the study.
    usual: what a menu calls the default.
    """

    name: str
    label: str
    help: str
    values: tuple[str, ...] = ()
    usual: str = "automatic"

    @property
    def default(self) -> str:
        """What a menu shows before a reader has chosen."""
        return self.values[0] if self.values else self.usual


CHOICES: dict[str, Choice] = {
    choice.name: choice
    for choice in (
        Choice("metric", "Value", "The objective or constraint to show instead of the first objective."),
        Choice("budget", "Budget", "Show the results on this budget; for slice also 'all'."),
        Choice("over", "Over", "What trajectory shows the best loss over.", ("time", "cost")),
        Choice("parameter", "Hyperparameter", "The only hyperparameter of slice.", usual="all"),
        Choice("x", "Across", "The first hyperparameter of contour."),
        Choice("y", "Upwards", "The second hyperparameter of contour."),
        Choice("model", "Model", "The model to draw, if a study has both.", ("process", "density")),
        Choice("pairs", "Budgets", "What correlation shows: pairs, or what brackets expected.", ("all", "brackets")),
        Choice("along", "Along", "What curves follows: budgets, or steps within a trial.", ("budgets", "steps")),
    )
}
PAIR = Choice("pair", "Hyperparameters", "")  # both of contour, in a file, which has a figure for each pair
