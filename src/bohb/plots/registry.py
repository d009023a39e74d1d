"""All plots by name, each with a title and how to read it."""

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

    explanation: one sentence on how to read it.
    draw: the function, `draw(history, dark=False, …)`.
    wide: needs a certain width to be read; pages let a phone scroll it sideways.
    """

    key: str
    title: str
    explanation: str
    draw: Callable[..., Figure]
    wide: bool = False

    def __call__(self, history: History, dark: bool = False, **options: Any) -> Figure:
        """Draw it."""
        return self.draw(history, dark=dark, **options)


_ALL = (
    Plot(
        "trajectory",
        "Best loss over time",
        "The thick line is the incumbent, its dots coloured by budget; it can rise when the first result on a larger "
        "budget arrives, because the largest budget counts first, while the best loss on a single budget only falls.",
        progress.draw_trajectory,
    ),
    Plot(
        "budget_trajectory",
        "Best loss over spent budget",
        "How good the incumbent was after so many full evaluations: solid if promoted configurations continue from "
        "their checkpoints, dotted if every trial starts afresh; trials that failed are counted, too.",
        progress.draw_budget_trajectory,
    ),
    Plot(
        "losses",
        "All losses over time",
        "Each mark is a trial when it finished: larger and warmer ones had a larger budget, hollow ones were first "
        "drawn at random, diamonds were given by you, and failed trials stand in the strip on top.",
        progress.draw_losses,
    ),
    Plot(
        "correlation",
        "Rank correlation between budgets",
        "Near 1, cheap evaluations rank configurations as expensive ones do; near 0, the smaller budget says little, "
        "though mostly promoted configurations are seen on both, which alone makes the number smaller.",
        budgets.draw_correlation,
    ),
    Plot(
        "agreement",
        "Agreement of neighbouring budgets",
        "The correlation of neighbouring budgets as it would be among all configurations, with the interval that holds "
        "it nine times in ten; below, where brackets start, if the study is adaptive and chose them by it.",
        agreement.draw_agreement,
    ),
    Plot(
        "survival",
        "Configurations from rung to rung",
        "Each line is a configuration on its way to larger budgets, coloured by how far it got; lines that cross show "
        "where a cheap evaluation was misleading.",
        budgets.draw_survival,
    ),
    Plot(
        "curves",
        "Learning curves",
        "What objectives reported with trial.report(step, loss) while they ran, coloured by budget; nothing is decided "
        "from it.",
        budgets.draw_curves,
    ),
    Plot(
        "timeline",
        "Workers over time",
        "Each bar is a trial on the worker that ran it; gaps are idle time, green bars still run, and all others "
        "but the blue ones failed.",
        workers.draw_timeline,
    ),
    Plot(
        "parallel",
        "Configurations as parallel lines",
        "Each line is a configuration, from axis to axis through its values to its loss at the right; the best are "
        "drawn last and brightest, and dotted lines bridge hyperparameters that are inactive.",
        parallel.draw_parallel,
        wide=True,
    ),
    Plot(
        "slice",
        "Each hyperparameter against the loss",
        "A panel per hyperparameter, a mark per trial, coloured by budget: compare marks of one colour and look where "
        "the lowest ones lie.",
        slices.draw_slice,
        wide=True,
    ),
    Plot(
        "contour",
        "Two hyperparameters against the loss",
        "The surface is the mean loss nearby, the dots are the trials it was smoothed from and crosses failed; where "
        "no trial is near it stays blank.",
        contours.draw_contour,
    ),
    Plot(
        "densities",
        "What the model believes",
        "Where good configurations lie (l, blue) and bad ones (g, orange): proposals are drawn where l is high and "
        "chosen where l is high compared to g.",
        model.draw_densities,
        wide=True,
    ),
    Plot(
        "picks",
        "Model-based against random picks",
        "New configurations on each budget by who picked them: if the model's box does not lie lower than the random "
        "one, the model has not helped yet.",
        model.draw_picks,
    ),
    Plot(
        "importance",
        "Importance of hyperparameters",
        "How much each hyperparameter decides whether a configuration is among the best (PED-ANOVA); a bar that ends "
        "before its orange tick could be chance.",
        model.draw_importance,
    ),
)
PLOTS: dict[str, Plot] = {plot.key: plot for plot in _ALL}
