"""All plots by name, each with a title and an explanation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bohb.analysis.axes import axes
from bohb.analysis.beliefs import uses_process
from bohb.analysis.front import has_front, metrics, seen_by
from bohb.core.history import History
from bohb.plots import agreement, beliefs, budgets, contours, fronts, model, parallel, progress, slices, workers
from bohb.plots.drawing import Figure

GROUPS = {
    "result": "The result",
    "hyperparameters": "Hyperparameters and the model",
    "budgets": "Budgets",
    "machinery": "Machinery",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    title, explanation: what it shows and how to read it; pages have `texts`, which speak of a score if it is one.
    draw: the function, `draw(history, dark=False, …)`.
    group: what it is about, one of `GROUPS`.
    scaled: whether it has an axis of losses, which may be logarithmic.
    wide: whether it needs so much width that a phone has to scroll it sideways.
    suits: whether a study can have such a plot at all; pages leave out the others.
    options: what a reader can choose: "budget", "x", "y", "parameter" or "metric", the value that is shown as the loss.
    """

    key: str
    title: str
    explanation: str
    draw: Callable[..., Figure]
    group: str
    scaled: bool = False
    wide: bool = False
    suits: Callable[[History], bool] = lambda _: True
    options: tuple[str, ...] = ()

    def __call__(self, history: History, dark: bool = False, **options: Any) -> Figure:
        """Draw the plot.

        options: of the function, and `metric`: the objective or constraint that is shown as the loss.
        """
        metric = options.pop("metric", None)
        return self.draw(history if metric is None else seen_by(history, metric), dark=dark, **options)

    def texts(self, history: History) -> tuple[str, str]:
        """Return title and explanation in the words of a study: with the name of what it optimises for "loss"."""
        name = "value" if metrics(history) else history.goals.label
        title, explanation = (re.sub(r"\bloss\b", lambda _: name, text) for text in (self.title, self.explanation))
        return title, explanation

    def choices(self, history: History) -> dict[str, list[str]]:
        """Return the values that each option can have in a study; options without a choice are left out."""
        budgets = sorted({history.trials[n].budget for n in history.outcomes})
        names = [axis.name for axis in axes(history.space)]
        known = {
            "budget": [f"{budget:g}" for budget in budgets],
            "metric": list(metrics(history)),
            **dict.fromkeys(("x", "y", "parameter"), names),
        }
        return {option: known[option] for option in self.options if len(known[option]) > 1}

    def chosen(self, history: History, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of the function for what a reader has chosen; what is not a choice is ignored."""
        choices = self.choices(history)
        options: dict[str, Any] = {name: text for name, text in given.items() if text in choices.get(name, ())}
        if "budget" in options:
            numbers = {f"{trial.budget:g}": trial.budget for trial in history.trials.values()}
            options["budget"] = numbers[options["budget"]]
        if "parameter" in options:
            options["parameters"] = [options.pop("parameter")]
        if "x" in options and options.get("y") == options["x"]:
            del options["y"]  # two menus can show the same name
        return options


_ALL = (
    Plot(
        "front",
        "The front",
        "Each mark is a result on one budget. Diamonds are on the front: no other result is better in one objective "
        "and at least as good in all others. Circles are dominated, and crosses violate the constraints. Bounds are "
        "dashed lines. Three objectives are drawn in space, and more of them in pairs.",
        fronts.draw_front,
        "result",
        wide=True,
        suits=has_front,
        options=("budget",),
    ),
    Plot(
        "hypervolume",
        "Dominated volume over spent budget",
        "The share of the space of objectives that the front dominates, against the budget spent so far. If the line "
        "still rises at the end, continue the study. The space ends a little beyond the worst result, so that two "
        "studies cannot be compared by it.",
        fronts.draw_hypervolume,
        "result",
        suits=lambda history: history.goals.several,
    ),
    Plot(
        "trajectory",
        "Best loss over time",
        "The thick line is the loss of the incumbent; the colour of a dot is the budget. The incumbent is the best "
        "result on the largest budget so far, so the line can get worse when the first result on a larger budget "
        "arrives. The thin lines are the best results on each budget and only improve.",
        progress.draw_trajectory,
        "result",
        scaled=True,
        options=("metric",),
    ),
    Plot(
        "budget_trajectory",
        "Best loss over spent budget",
        "The loss of the incumbent against the budget spent so far, in full evaluations. Solid: promoted "
        "configurations continue from their checkpoints. Dotted: every trial starts from scratch. Failed trials "
        "count, too.",
        progress.draw_budget_trajectory,
        "result",
        scaled=True,
        options=("metric",),
    ),
    Plot(
        "losses",
        "All results over time",
        "Each mark is a finished trial. Larger marks have a larger budget; colours show the budget. Hollow marks were "
        "first sampled at random, diamonds were given by the user. Failed trials are in the strip at the top.",
        progress.draw_losses,
        "result",
        scaled=True,
        options=("metric",),
    ),
    Plot(
        "importance",
        "Importance of hyperparameters",
        "How much each hyperparameter decides whether a configuration is among the best (PED-ANOVA). A bar that ends "
        "before its orange tick may be due to chance.",
        model.draw_importance,
        "hyperparameters",
        options=("metric", "budget"),
    ),
    Plot(
        "slice",
        "Each hyperparameter against the loss",
        "One panel per hyperparameter and one mark per trial, coloured by budget. Compare marks of the same colour "
        "and look where the best ones are.",
        slices.draw_slice,
        "hyperparameters",
        scaled=True,
        wide=True,
        options=("metric", "budget", "parameter"),
    ),
    Plot(
        "contour",
        "Two hyperparameters against the loss",
        "The surface is the mean loss of nearby trials, and blank where there are none. Dots are trials, and crosses "
        "are failed trials.",
        contours.draw_contour,
        "hyperparameters",
        options=("metric", "x", "y", "budget"),
    ),
    Plot(
        "parallel",
        "Configurations as parallel lines",
        "Each line is a configuration: it crosses each axis at the value of that hyperparameter and ends at its loss "
        "on the right. The best configurations are drawn on top. Dotted lines cross hyperparameters that are "
        "inactive. Draw a box on an axis to keep only the lines that pass through it; hold Shift to add a box, and "
        "click beside it to show all lines again.",
        parallel.draw_parallel,
        "hyperparameters",
        wide=True,
        options=("metric", "budget"),
    ),
    Plot(
        "densities",
        "Densities of the model",
        "The density of good configurations (l, blue) and of bad ones (g, orange). The model samples candidates from "
        "l and proposes the one with the largest ratio l/g.",
        model.draw_densities,
        "hyperparameters",
        wide=True,
    ),
    Plot(
        "process",
        "What the Gaussian process expects",
        "The expected loss on the largest budget along each hyperparameter, if all others stay as in the best "
        "configuration, with a band of two standard deviations. Panels with the largest differences come first. An "
        "orange diamond is what the process expected when it proposed the configuration, and a green star is the loss "
        "that was measured.",
        beliefs.draw_process,
        "hyperparameters",
        scaled=True,
        wide=True,
        suits=uses_process,
    ),
    Plot(
        "correlation",
        "Rank correlation between budgets",
        "Near 1, small budgets rank configurations as large ones do; near 0, results on the smaller budget say little "
        "about the larger one. Mostly promoted configurations have both results, which makes the correlation smaller "
        "than it would be among all configurations.",
        budgets.draw_correlation,
        "budgets",
        options=("metric",),
    ),
    Plot(
        "agreement",
        "Agreement of neighbouring budgets",
        "The estimated correlation of neighbouring budgets among all configurations, with its 90 % interval. For an "
        "adaptive study, the lower panel shows the first budget of each bracket, which was chosen from these "
        'correlations; the last values are the current ones. With the preset "best", the upper panel shows '
        "how well the process expected a result on each smaller budget to agree with one on the largest, for the most "
        "promising configurations; brackets leave out the smaller budgets once these no longer pay.",
        agreement.draw_agreement,
        "budgets",
    ),
    Plot(
        "survival",
        "Configurations from rung to rung",
        "Each line is a configuration on its way to larger budgets; the colour is the largest budget it reached. "
        "Lines that cross show where the smaller budget was misleading.",
        budgets.draw_survival,
        "budgets",
        scaled=True,
        options=("metric",),
    ),
    Plot(
        "curves",
        "Learning curves",
        "The values that objectives reported with trial.report(step, loss), coloured by budget. They do not influence "
        "any decision.",
        budgets.draw_curves,
        "budgets",
        scaled=True,
    ),
    Plot(
        "picks",
        "Model-based and random configurations",
        "The results of new configurations on each budget, grouped by how they were chosen. If the box of the model is "
        "not better than the box of random sampling, the model has not helped so far.",
        model.draw_picks,
        "machinery",
        scaled=True,
        options=("metric",),
    ),
    Plot(
        "timeline",
        "Workers over time",
        "Each bar is a trial on its worker, coloured by budget. Gaps are idle time. Hatched bars have failed, and pale "
        "bars are still running.",
        workers.draw_timeline,
        "machinery",
    ),
)
PLOTS: dict[str, Plot] = {plot.key: plot for plot in _ALL}


def suitable(history: History) -> dict[str, list[Plot]]:
    """Return the plots that a study can have, by the titles of their groups."""
    return {
        title: [plot for plot in _ALL if plot.group == group and plot.suits(history)] for group, title in GROUPS.items()
    }
