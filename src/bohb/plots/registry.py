"""All plots by name, each with a title, an explanation and what a reader can choose."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bohb.analysis.axes import axes
from bohb.analysis.models import uses_process
from bohb.analysis.objectives import has_front, metrics, seen_by
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots import budgets, hyperparameters, model, pareto, result
from bohb.plots.choices import CHOICES
from bohb.plots.theme import Figure, template

GROUPS = {
    "result": "The result",
    "hyperparameters": "Hyperparameters and the model",
    "budgets": "Budgets",
    "machinery": "Machinery",
}
# Options whose value shows the study's own loss, or what its objective reported, but no other metric.
_WITHOUT_METRIC = {"pairs": "brackets", "along": "steps", "model": "density"}


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    title, explanation: what it shows and how to read it; pages have `texts`, which speak of a score if it is one.
    draw: the function, `draw(history, …)`.
    group: what it is about, one of `GROUPS`.
    scaled: whether it has an axis of losses, which may be logarithmic.
    wide: whether it needs so much width that a phone has to scroll it sideways.
    suits: whether a study can have such a plot at all; pages leave out the others.
    joint: whether it can show all budgets together.
    options: what a reader can choose, names of `CHOICES`.
    """

    key: str
    title: str
    explanation: str
    draw: Callable[..., Figure]
    group: str
    scaled: bool = False
    wide: bool = False
    joint: bool = False
    suits: Callable[[History], bool] = lambda _: True
    options: tuple[str, ...] = ()

    def __call__(self, history: History, dark: bool = False, **options: Any) -> Figure:
        """Draw the plot.

        dark: whether it is for a dark page.
        options: of the function, and `metric`: the objective or constraint that is shown as the loss.
        """
        for name, value in options.items():
            allowed = CHOICES[name].values if name in CHOICES else ()
            if allowed and value not in allowed:
                raise InvalidArgument(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")
        metric = options.pop("metric", None)
        for name, value in _WITHOUT_METRIC.items():
            if metric is not None and options.get(name) == value:
                raise InvalidArgument(f"metric={metric!r} cannot be shown with {name}={value!r}; leave one of them out")
        figure = self.draw(history if metric is None else seen_by(history, metric), **options)
        if dark:
            figure.layout.template = template(dark)
        return figure

    def texts(self, history: History) -> tuple[str, str]:
        """Return title and explanation in the words of a study: with the name of what it optimises for "loss"."""
        name = "value" if metrics(history) else history.goals.label
        title, explanation = (re.sub(r"\bloss\b", lambda _: name, text) for text in (self.title, self.explanation))
        return title, explanation

    def values(self, history: History) -> dict[str, list[str]]:
        """Return the values that each option can have in a study."""
        budgets = [f"{budget:g}" for budget in sorted({history.trials[n].budget for n in history.outcomes})]
        process = uses_process(history)
        reported = any(outcome.curve for outcome in history.outcomes.values())
        known = {
            **{name: list(choice.values) for name, choice in CHOICES.items()},
            **{name: [axis.name for axis in axes(history.space)] for name in ("x", "y", "parameter")},
            "budget": ["all", *budgets] if self.joint and len(budgets) > 1 else budgets,
            "metric": [] if "model" in self.options and not process else list(metrics(history)),
            "model": ["process", "density"] if process else ["density"],
            "along": ["budgets", "steps"] if reported else ["budgets"],
        }
        return {option: known[option] for option in self.options}

    def choices(self, history: History) -> dict[str, list[str]]:
        """Return the values of the options that leave a choice in a study."""
        return {option: values for option, values in self.values(history).items() if len(values) > 1}

    def chosen(self, history: History, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of the function for what a reader has chosen; what is not a choice is ignored."""
        values = self.values(history)
        options: dict[str, Any] = {name: text for name, text in given.items() if text in values.get(name, ())}
        if options.get("budget", "all") != "all":
            numbers = {f"{trial.budget:g}": trial.budget for trial in history.trials.values()}
            options["budget"] = numbers[options["budget"]]
        if "parameter" in options:
            options["parameters"] = [options.pop("parameter")]
        if "x" in options and options.get("y") == options["x"]:
            del options["y"]  # two menus can show the same name
        if any(options.get(name) == value for name, value in _WITHOUT_METRIC.items()):
            options.pop("metric", None)
        return options

    def required(self, history: History, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of the function for what a command was given; refuse what is not a choice."""
        values = self.values(history)
        for name, text in given.items():
            if name not in values:
                offered = ", ".join(f"--{option}" for option in self.options) or "none"
                raise InvalidArgument(f"--{name} is not an option of the plot {self.key!r}; its options: {offered}")
            if text not in values[name]:
                known = ", ".join(values[name]) or "none in this study"
                raise InvalidArgument(f"--{name}={text!r} is not possible for the plot {self.key!r}; possible: {known}")
        return self.chosen(history, given)


_ALL = (
    Plot(
        "front",
        "The front",
        "Each mark is a result on one budget. Diamonds are on the front: no other result is better in one objective "
        "and at least as good in all others. Circles are dominated, and crosses violate the constraints. Bounds are "
        "dashed lines. Three objectives are drawn in space, and more of them in pairs.",
        pareto.draw_front,
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
        pareto.draw_hypervolume,
        "result",
        suits=lambda history: history.goals.several,
    ),
    Plot(
        "trajectory",
        "Best loss over time",
        "The thick line is the loss of the incumbent; the colour of a dot is the budget. The incumbent is the best "
        "result on the largest budget so far, so the line can get worse when the first result on a larger budget "
        "arrives. The thin lines are the best results on each budget and only improve. Over the cost, promoted "
        "configurations continue from their checkpoints; on the dotted line every trial starts from scratch.",
        result.draw_trajectory,
        "result",
        scaled=True,
        options=("metric", "over"),
    ),
    Plot(
        "losses",
        "All results over time",
        "Each mark is a finished trial. Larger marks have a larger budget; colours show the budget. Hollow marks were "
        "first sampled at random, diamonds were given by the user. Failed trials are in the strip at the top.",
        result.draw_losses,
        "result",
        scaled=True,
        options=("metric",),
    ),
    Plot(
        "importance",
        "Importance of hyperparameters",
        "How much each hyperparameter decides whether a configuration is among the best (PED-ANOVA). A bar that ends "
        "before its orange tick may be due to chance.",
        hyperparameters.draw_importance,
        "hyperparameters",
        options=("metric", "budget"),
    ),
    Plot(
        "slice",
        "Each hyperparameter against the loss",
        "One panel per hyperparameter and one mark per trial, on the largest budget with enough results. With all "
        "budgets, marks are coloured by budget: compare those of the same colour. Look where the best ones are.",
        hyperparameters.draw_slice,
        "hyperparameters",
        scaled=True,
        wide=True,
        joint=True,
        options=("metric", "budget", "parameter"),
    ),
    Plot(
        "contour",
        "Two hyperparameters against the loss",
        "The surface is the mean loss of nearby trials, and blank where there are none. Dots are trials, and crosses "
        "are failed trials.",
        hyperparameters.draw_contour,
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
        hyperparameters.draw_parallel,
        "hyperparameters",
        wide=True,
        options=("metric", "budget"),
    ),
    Plot(
        "model",
        "What the model believes",
        "With a Gaussian process: the expected loss on the largest budget along each hyperparameter, if all others "
        "stay as in the best configuration, with a band of two standard deviations. Panels with the largest "
        "differences come first. An orange diamond is what the process expected when it proposed the configuration, "
        "and a green star is the loss that was measured. With densities: those of good configurations (l, blue) and "
        "of bad ones (g, orange). The model samples candidates from l and proposes the one with the largest ratio l/g.",
        model.draw_model,
        "hyperparameters",
        scaled=True,
        wide=True,
        options=("metric", "model"),
    ),
    Plot(
        "correlation",
        "Correlation of budgets",
        "Near 1, small budgets rank configurations as large ones do; near 0, results on the smaller budget say little "
        "about the larger one. Mostly promoted configurations have both results, which makes the correlation smaller "
        "than it would be among all configurations. For brackets, with the preset best, the upper panel shows how well "
        "the process expected each smaller budget to agree with the largest one, for the most promising "
        "configurations; brackets leave out smaller budgets that no longer pay. The lower panel shows the first budget "
        "of each bracket.",
        budgets.draw_correlation,
        "budgets",
        options=("metric", "pairs"),
    ),
    Plot(
        "curves",
        "From budget to budget",
        "Each line is a configuration on its way to larger budgets; the colour is the largest budget it reached. "
        "Lines that cross show where the smaller budget was misleading. Along steps, each line is a trial with the "
        "values that its objective reported with trial.report(step, loss). They do not influence any decision.",
        budgets.draw_curves,
        "budgets",
        scaled=True,
        options=("metric", "along"),
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
        result.draw_timeline,
        "machinery",
    ),
)
PLOTS: dict[str, Plot] = {plot.key: plot for plot in _ALL}


def suitable(history: History) -> dict[str, list[Plot]]:
    """Return the plots that a study can have, by the titles of their groups."""
    plots = [plot for plot in PLOTS.values() if plot.suits(history)]
    return {title: [plot for plot in plots if plot.group == group] for group, title in GROUPS.items()}
