"""Draw the figures of docs/algorithm.md and docs/plots.md from studies that are run for them.

python tools/figures.py [directory]

Needs matplotlib, plotly, playwright and a Chromium.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import bohb
from bohb.analysis import timeline
from bohb.core.brackets import geometric_budgets, hyperband
from bohb.core.observations import Observations
from bohb.core.sampler import fit_model
from bohb.executors.simulated import SimulatedExecutor
from bohb.plots import PLOTS

BLUE, ORANGE, GREEN, GREY = "#2a80c2", "#d9730d", "#0f9d74", "#b5b9c0"
BUDGET_COLOURS = ["#3d7abe", "#8665c4", "#c65494", "#de6434", "#d4920a"]
SPACE = {
    "lr": (1e-4, 1.0, "log"),
    "units": (8, 512, "log"),
    "dropout": (0.0, 0.9),
    "optimizer": ["adam", "sgd", "rmsprop"],
}


def curve(config: dict[str, Any], epoch: float, seed: int) -> float:
    """A learning curve that has what real ones have: a limit, a pace, noise, and divergence."""
    limit = 0.05 + 0.03 * (math.log10(config["lr"]) + 2) ** 2 + 0.2 * (config["dropout"] - 0.2) ** 2
    limit += (
        0.04 * abs(math.log2(config["units"] / 96)) / 3
        + {"adam": 0.0, "rmsprop": 0.02, "sgd": 0.05}[config["optimizer"]]
    )
    pace = 0.35 + 0.2 * math.log10(config["lr"] / 1e-4)
    noise = float(np.random.default_rng([seed, int(epoch)]).normal())
    return float(limit + 0.8 * epoch**-pace * (1 + 0.1 * noise))


def objective(trial: bohb.Trial) -> dict[str, Any]:
    """The loss after so many epochs, in simulated time."""
    if trial.config["lr"] > 0.5:
        raise ArithmeticError("diverged")
    for epoch in range(int(trial.previous_budget or 0), int(trial.budget)):
        trial.report(epoch + 1, curve(trial.config, epoch + 1, trial.seed))
    return {"loss": curve(trial.config, trial.budget, trial.seed)}


def simulated(workers: int, max_budget: int, max_brackets: int) -> bohb.Study:
    """A study on a simulated clock; a unit of budget takes ten seconds, more or less."""
    executor = SimulatedExecutor(
        objective,
        workers,
        duration=lambda trial, _: 10 * (trial.budget - (trial.previous_budget or 0)),
        straggling=0.2,
    )
    clocks: dict[str, Any] = {"clock": executor.clock, "stopwatch": executor.clock}
    optimizer = bohb.BOHB(SPACE, min_budget=1, max_budget=max_budget, seed=4, max_brackets=max_brackets, **clocks)
    return bohb.run(optimizer, executor, bohb.Limits(max_brackets=max_brackets))


def draw_brackets(path: Path) -> None:
    """The schedule: a dot per configuration, a column per rung, a panel per bracket."""
    brackets = hyperband(geometric_budgets(1, 27))
    figure, panels = plt.subplots(1, len(brackets), figsize=(9, 3.2), sharey=True, constrained_layout=True)
    budgets = [rung.budget for rung in brackets[0].rungs]
    for number, (axes, bracket) in enumerate(zip(panels, brackets, strict=True)):
        for i, rung in enumerate(bracket.rungs):
            on = bracket.rungs[i + 1].size if i + 1 < len(bracket.rungs) else 0
            x = budgets.index(rung.budget)
            axes.scatter([x] * on, range(on), s=22, color=BLUE, zorder=3)
            axes.scatter([x] * (rung.size - on), range(on, rung.size), s=22, color=ORANGE if not on else GREY)
            if on:
                axes.plot([x, x + 1], [on - 0.5, on - 0.5], color=BLUE, lw=0.8, alpha=0.6)
        axes.set(title=f"bracket {number}: cost {bracket.cost / budgets[-1]:.2f}", xlabel="budget")
        axes.set_xticks(range(len(budgets)), [f"{budget:g}" for budget in budgets])
        axes.set_xlim(-0.5, len(budgets) - 0.5)
    panels[0].set_ylabel("configurations")
    save(figure, path)


def draw_promotion(study: bohb.Study, path: Path) -> None:
    """The first bracket: learning curves, as far as each configuration came."""
    figure, axes = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
    budgets = study.history.budgets
    entered = [trial for trial, _ in study.trials if trial.bracket == 0]
    reached = {trial.config_id: trial.budget for trial in entered}
    for trial in (trial for trial in entered if trial.rung == 0):
        last = reached[trial.config_id]
        steps = np.arange(1, last + 1)
        losses = [curve(trial.config, step, trial.seed) for step in steps]
        colour = BUDGET_COLOURS[budgets.index(last)]
        axes.plot(steps, losses, color=colour, lw=2 if last == budgets[-1] else 1, alpha=0.9)
        axes.scatter([last], losses[-1:], color=colour, s=14, zorder=3)
    for budget in budgets:
        axes.axvline(budget, color=GREY, lw=0.8, ls=":", zorder=0)
    axes.set(xscale="log", xlabel="epochs (the budget)", ylabel="loss")
    axes.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    axes.minorticks_off()
    save(figure, path)


def draw_densities(path: Path) -> None:
    """Eqs. 2 and 3 in one dimension: the split, l and g, l′ with its candidates, and the choice."""
    space, rng = bohb.Space({"x": (0.0, 1.0)}), np.random.default_rng(3)
    observations = Observations(space.d)
    for x in rng.uniform(size=40):
        observations.add(np.array([x]), 0.4 * (x - 0.35) ** 2 + 0.03 * math.sin(18 * x) + rng.normal(0, 0.01))
    model = fit_model(space, 1.0, observations, bohb.PAPER)
    n_good = max(space.d + 1, int(bohb.PAPER.good_fraction * len(observations)))
    candidates = model.good.sample(rng, 64, widen=bohb.PAPER.bandwidth_factor)
    best = candidates[np.argmax(model.log_ratio(candidates))]

    figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(7, 6.4), sharex=True, constrained_layout=True)
    xs = observations.ranked(0, len(observations))[:, 0]
    top.scatter(xs[n_good:], observations.losses[n_good:], s=18, color=ORANGE, label="bad: the others")
    top.scatter(xs[:n_good], observations.losses[:n_good], s=18, color=BLUE, label="good: the best 15 %")
    top.set(ylabel="loss", title="the observations of one budget, split")
    grid = np.linspace(0, 1, 400)[:, None]
    middle.plot(grid, np.exp(model.good.log_density(grid)), color=BLUE, label="l, of the good")
    middle.plot(grid, np.exp(model.bad.log_density(grid)), color=ORANGE, label="g, of the bad")
    middle.set(ylabel="density", title="a density for each")
    bottom.plot(grid, model.log_ratio(grid), color=GREEN, label="log l/g")
    bottom.scatter(candidates, model.log_ratio(candidates), s=14, color=GREY, label="64 candidates from l′", zorder=2)
    bottom.scatter(best, model.log_ratio(best[None]), s=60, color=GREEN, label="the proposal", zorder=3)
    bottom.set(ylabel="log l/g", xlabel="hyperparameter x", title="where good is likeliest compared to bad")
    bottom.set_ylim(bottom=-4)  # l is next to nothing beyond
    for axes in (top, middle, bottom):
        axes.legend(frameon=False, fontsize=8)
    save(figure, path)


def draw_workers(study: bohb.Study, path: Path) -> None:
    """§4.2 at work: a row per worker, a bar per trial, coloured by its budget."""
    figure, axes = plt.subplots(figsize=(9, 2.6), constrained_layout=True)
    spans = timeline(study.history)
    budgets = study.history.budgets
    lanes = sorted({span.worker for span in spans})
    for span in spans:
        assert span.end is not None
        colour = BUDGET_COLOURS[budgets.index(span.budget)]
        axes.barh(lanes.index(span.worker), span.end - span.start, left=span.start, color=colour, ec="white", lw=0.6)
    for budget, colour in zip(budgets, BUDGET_COLOURS, strict=False):
        axes.barh(0, 0, color=colour, label=f"budget {budget:g}")
    axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    axes.set(xlabel="seconds", yticks=range(len(lanes)), yticklabels=[f"worker {i + 1}" for i in range(len(lanes))])
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """As a PNG, without what would change from run to run."""
    for axes in figure.axes:
        assert isinstance(axes, Axes)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def draw_plots(study: bohb.Study, directory: Path) -> None:
    """Every plot of `bohb.plots` as a browser shows it; learning curves are not simulated, so they have their own."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium on this machine: apt-get install chromium")
    reporting = bohb.minimize(objective, SPACE, min_budget=1, max_budget=27, seed=4, max_brackets=4)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 860, "height": 440})
        for key, plot in PLOTS.items():
            drawn = plot((reporting if key == "curves" else study).history)
            height = int(drawn.layout.height or 420)
            page.set_viewport_size({"width": 860, "height": height})
            content = drawn.to_html(include_plotlyjs=True, config={"displayModeBar": False}, default_height=height)
            page.set_content(content)
            page.wait_for_selector(".main-svg")
            page.locator(".plotly-graph-div").screenshot(path=str(directory / f"plot-{key}.png"))
        browser.close()


def main(directory: Path) -> None:
    """Draw everything."""
    directory.mkdir(parents=True, exist_ok=True)
    study = simulated(workers=4, max_budget=27, max_brackets=12)
    draw_brackets(directory / "brackets.png")
    draw_promotion(study, directory / "promotion.png")
    draw_densities(directory / "densities.png")
    draw_workers(simulated(workers=4, max_budget=27, max_brackets=4), directory / "workers.png")
    draw_plots(study, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "images"))
