"""Plots as JSON for the script of a page, drawn once per version of a study."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from bohb.core.history import History
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.dashboard.studies import Snapshot
from bohb.plots.budgets import draw_selected
from bohb.plots.model import draw_model
from bohb.plots.pareto import draw_volumes
from bohb.plots.registry import Plot
from bohb.plots.result import draw_comparison
from bohb.plots.theme import Figure

_KEPT = 40  # figures, each below a megabyte
_SAMPLERS = 4  # Gaussian processes, one per study


class Figures:
    """Draws figures one at a time and caches the last few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, bytes] = OrderedDict()
        self._samplers: OrderedDict[str, tuple[History, GaussianSampler]] = OrderedDict()

    def plot(self, view: Snapshot, plot: Plot, given: Mapping[str, str]) -> bytes:
        """Return a plot as JSON.

        given: what the reader has chosen.
        """
        with view.lock:
            options = plot.chosen(view.history, given)
        if plot.key == "model" and not options:
            return self.model(view)
        return self._once(view, (plot.key, repr(options)), lambda: plot(view.history, **options))

    def model(self, view: Snapshot, number: int | None = None) -> bytes:
        """Return what the model believes; with a trial, what the Gaussian process expects around it."""

        def draw() -> Figure:
            return draw_model(view.history, number=number, sampler=self._sampler(view))

        return self._once(view, ("model", number), draw)

    def selected(self, view: Snapshot, numbers: Sequence[int]) -> bytes:
        """Return the results and learning curves of some trials over each other."""
        return self._once(view, ("selected", *numbers), lambda: draw_selected(view.history, numbers))

    def comparison(self, views: Sequence[Snapshot], over: str) -> bytes:
        """Return the best results of several studies, or with "volume" their dominated volumes."""
        histories = {view.name: view.history for view in views}
        if over == "volume":
            return self._cached(_key(views, over), lambda: draw_volumes(histories))
        return self._cached(_key(views, over), lambda: draw_comparison(histories, over=over))

    def _once(self, view: Snapshot, what: tuple[Any, ...], draw: Callable[[], Figure]) -> bytes:
        def alone() -> Figure:
            with view.lock:
                return draw()

        return self._cached(_key([view], *what), alone)

    def _cached(self, key: Hashable, draw: Callable[[], Figure]) -> bytes:
        """Return the figure of this key as JSON; draw it if it is not cached."""
        with self._lock:
            found = self._drawn.pop(key, None)
            self._drawn[key] = found = draw().to_json().encode() if found is None else found
            while len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
            return found

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


def _key(views: Sequence[Snapshot], *what: Hashable) -> Hashable:
    return (*what, *((view.name, view.version) for view in views))
