"""All plots by name, each with a title and an explanation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bohb.core.history import History
from bohb.plots import agreement, budgets, contours, model, parallel, progress, slices, workers
from bohb.plots.drawing import Figure


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    explanation: how to read it.
    draw: the function, `draw(history, dark=False, …)`.
    wide: whether it needs so much width that a phone has to scroll it sideways.
    """

    key: str
    title: str
    explanation: str
    draw: Callable[..., Figure]
    wide: bool = False

    def __call__(self, history: History, dark: bool = False, **options: Any) -> Figure:
        """Draw the plot."""
        return self.draw(history, dark=dark, **options)


_ALL = (
    Plot(
        "trajectory",
        "Best loss over time",
        "The thick line is the loss of the incumbent; the colour of a dot is the budget. The incumbent is the best "
        "result on the largest budget so far, so the line can rise when the first result on a larger budget arrives. "
        "The thin lines are the best losses on each budget and only fall.",
        progress.draw_trajectory,
    ),
    Plot(
        "budget_trajectory",
        "Best loss over spent budget",
        "The loss of the incumbent against the budget spent so far, in full evaluations. Solid: promoted "
        "configurations continue from their checkpoints. Dotted: every trial starts from scratch. Failed trials "
        "count, too.",
        progress.draw_budget_trajectory,
    ),
    Plot(
        "losses",
        "All losses over time",
        "Each mark is a finished trial. Larger marks have a larger budget; colours show the budget. Hollow marks were "
        "first sampled at random, diamonds were given by the user. Failed trials are in the strip at the top.",
        progress.draw_losses,
    ),
    Plot(
        "correlation",
        "Rank correlation between budgets",
        "Near 1, small budgets rank configurations as large ones do; near 0, results on the smaller budget say little "
        "about the larger one. Mostly promoted configurations have both results, which makes the correlation smaller "
        "than it would be among all configurations.",
        budgets.draw_correlation,
    ),
    Plot(
        "agreement",
        "Agreement of neighbouring budgets",
        "The estimated correlation of neighbouring budgets among all configurations, with its 90 % interval. For an "
        "adaptive study, the lower panel shows the first budget of each bracket, which was chosen from these "
        "correlations.",
        agreement.draw_agreement,
    ),
    Plot(
        "survival",
        "Configurations from rung to rung",
        "Each line is a configuration on its way to larger budgets; the colour is the largest budget it reached. "
        "Lines that cross show where the smaller budget was misleading.",
        budgets.draw_survival,
    ),
    Plot(
        "curves",
        "Learning curves",
        "The losses that objectives reported with trial.report(step, loss), coloured by budget. Only the preset BEST "
        "uses them.",
        budgets.draw_curves,
    ),
    Plot(
        "timeline",
        "Workers over time",
        "Each bar is a trial on its worker. Gaps are idle time. Green bars are still running, blue bars have "
        "succeeded, and bars of any other colour have failed.",
        workers.draw_timeline,
    ),
    Plot(
        "parallel",
        "Configurations as parallel lines",
        "Each line is a configuration: it crosses each axis at the value of that hyperparameter and ends at its loss "
        "on the right. The best configurations are drawn on top. Dotted lines cross hyperparameters that are "
        "inactive.",
        parallel.draw_parallel,
        wide=True,
    ),
    Plot(
        "slice",
        "Each hyperparameter against the loss",
        "One panel per hyperparameter and one mark per trial, coloured by budget. Compare marks of the same colour "
        "and look where the lowest ones are.",
        slices.draw_slice,
        wide=True,
    ),
    Plot(
        "contour",
        "Two hyperparameters against the loss",
        "The surface is the mean loss of nearby trials, and blank where there are none. Dots are trials, and crosses "
        "are failed trials.",
        contours.draw_contour,
    ),
    Plot(
        "densities",
        "Densities of the model",
        "The density of good configurations (l, blue) and of bad ones (g, orange). The model samples candidates from "
        "l and proposes the one with the largest ratio l/g.",
        model.draw_densities,
        wide=True,
    ),
    Plot(
        "picks",
        "Model-based and random configurations",
        "The losses of new configurations on each budget, grouped by how they were chosen. If the box of the model is "
        "not lower than the box of random sampling, the model has not helped so far.",
        model.draw_picks,
    ),
    Plot(
        "importance",
        "Importance of hyperparameters",
        "How much each hyperparameter decides whether a configuration is among the best (PED-ANOVA). A bar that ends "
        "before its orange tick may be due to chance.",
        model.draw_importance,
    ),
)
PLOTS: dict[str, Plot] = {plot.key: plot for plot in _ALL}
