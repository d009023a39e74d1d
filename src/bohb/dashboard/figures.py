"""The page with all plots, and the plots as JSON for its script, drawn once per version of a study."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from bohb.core.history import History
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.trial import Trial
from bohb.dashboard.layout import Page, link_to, study_page
from bohb.dashboard.layout import figure as placeholder
from bohb.dashboard.studies import Snapshot
from bohb.plots.axis import LossAxis, empty, figure
from bohb.plots.markup import Markup, element, joined
from bohb.plots.menus import menus
from bohb.plots.model import draw_model
from bohb.plots.registry import Plot, suitable
from bohb.plots.theme import Figure, budget_colours, go

_KEPT = 40  # figures, each below a megabyte
_SAMPLERS = 4  # Gaussian processes, one per study


class Figures:
    """Draws figures one at a time and caches the last few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, bytes] = OrderedDict()
        self._samplers: OrderedDict[str, tuple[History, GaussianSampler]] = OrderedDict()

    def once(self, key: Hashable, draw: Callable[[], Figure]) -> bytes:
        """Return the figure of this key as JSON; draw it if it is not cached."""
        with self._lock:
            found = self._drawn.pop(key, None)
            self._drawn[key] = found = draw().to_json().encode() if found is None else found
            while len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
            return found

    def model(self, view: Snapshot, number: int | None = None) -> bytes:
        """Return what the model believes; with a trial, what the Gaussian process expects around it."""

        def draw() -> Figure:
            return draw_model(view.history, number=number, sampler=self._sampler(view))

        return self.once((view.name, view.version, "model", number), draw)

    def _sampler(self, view: Snapshot) -> GaussianSampler:
        """Return the sampler of a study, which keeps its fits while the study grows."""
        history = view.history
        before, sampler = self._samplers.pop(view.name, (history, None))
        grown = before.n_events <= history.n_events and len(before.forgotten) == len(history.forgotten)
        if sampler is None or not grown:
            sampler = GaussianSampler(history.space)
        self._samplers[view.name] = history, sampler
        while len(self._samplers) > _SAMPLERS:
            self._samplers.popitem(last=False)
        return sampler


def curve_figure(view: Snapshot, trial: Trial) -> Figure:
    """Draw reported losses over steps, for each budget of the configuration."""
    history = view.history
    numbers = [n for n in view.lineage[trial.config_id] if n in history.outcomes and history.outcomes[n].curve]
    if not numbers:
        return empty("No loss was reported during training")
    colours = budget_colours([history.trials[n].budget for n in numbers])
    goals = history.goals  # a reported score counts as its negative, like all losses
    axis = LossAxis(goals, [goals.minimised(y) for n in numbers for _, y in history.outcomes[n].curve], "reported {}")
    traces: list[Any] = []
    for n in numbers:
        steps, reported = zip(*history.outcomes[n].curve, strict=True)
        losses = [goals.minimised(value) for value in reported]
        budget, own = history.trials[n].budget, n == trial.number
        line = {"color": colours[budget], "width": 3 if own else 1.5, "dash": "solid" if own else "dot"}
        name = f"trial {n}, budget {budget:g}" + (" (this one)" if own else "")
        mode = "lines+markers" if len(steps) < 60 else "lines"
        traces.append(go.Scatter(x=steps, y=axis.place(losses), mode=mode, name=name, line=line))
        traces.append(axis.triangles(steps, losses, [n] * len(steps)))
    return figure(traces, losses=axis, xaxis={"title": {"text": "step"}}, showlegend=True)


def plots_page(view: Snapshot) -> Page:
    """Return the page with all plots of a study, in groups."""
    groups = suitable(view.history)
    links = [
        element("li", element("strong", title), " ", [joined(_link(view, plot), " ") for plot in plots])
        for title, plots in groups.items()
    ]
    contents = element("nav", element("ul", links), aria_label="Plots on this page", class_="contents")
    return study_page(view, "Plots", joined(contents, [_group(view, *group) for group in groups.items()]), figures=True)


def _link(view: Snapshot, plot: Plot) -> Markup:
    return element("a", plot.texts(view.history)[0], href=f"#{plot.key}")


def _group(view: Snapshot, title: str, plots: list[Plot]) -> Markup:
    figures = [
        placeholder(
            link_to("/api/figure", study=view.name, plot=plot.key),
            *plot.texts(view.history),
            menus=menus(plot, plot.choices(view.history)),
            id=plot.key,
            class_="wide" if plot.wide else None,
        )
        for plot in plots
    ]
    return joined(element("h2", title, class_="group"), element("div", figures, class_="figures"))
