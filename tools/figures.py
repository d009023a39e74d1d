"""Draw the figures of docs/algorithm.md, docs/better.md and docs/plots.md from small studies.

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
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import bohb
from bohb.analysis.trajectory import timeline
from bohb.core.samplers import process as gp
from bohb.core.samplers import targets
from bohb.core.samplers.density import fit_model
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.samplers.observations import Observations
from bohb.core.schedule.brackets import geometric_budgets, hyperband
from bohb.executors.evaluate import SimulatedExecutor
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
    """Return a point of a realistic learning curve: with a limit, a rate, noise and divergence."""
    limit = 0.05 + 0.03 * (math.log10(config["lr"]) + 2) ** 2 + 0.2 * (config["dropout"] - 0.2) ** 2
    limit += (
        0.04 * abs(math.log2(config["units"] / 96)) / 3
        + {"adam": 0.0, "rmsprop": 0.02, "sgd": 0.05}[config["optimizer"]]
    )
    pace = 0.35 + 0.2 * math.log10(config["lr"] / 1e-4)
    noise = float(np.random.default_rng([seed, int(epoch)]).normal())
    return float(limit + 0.8 * epoch**-pace * (1 + 0.1 * noise))


def objective(trial: bohb.Trial) -> dict[str, Any]:
    """Return the loss after `trial.budget` epochs, in simulated time."""
    if trial.config["lr"] > 0.5:
        raise ArithmeticError("diverged")
    for epoch in range(int(trial.previous_budget or 0), int(trial.budget)):
        trial.report(epoch + 1, curve(trial.config, epoch + 1, trial.seed))
    return {"loss": curve(trial.config, trial.budget, trial.seed)}


def measured(trial: bohb.Trial) -> dict[str, float]:
    """Return an error and the latency of a network of this size."""
    return {"error": curve(trial.config, trial.budget, trial.seed), "latency": trial.config["units"] / 40}


def simulated(workers: int, max_budget: int, max_brackets: int, min_budget: int = 1, **changes: Any) -> bohb.Study:
    """Return a study on a simulated clock; a unit of budget takes about ten seconds."""
    executor = SimulatedExecutor(
        objective,
        workers,
        duration=lambda trial, _: 10 * (trial.budget - (trial.previous_budget or 0)),
        straggling=0.2,
    )
    changes = {"preset": "paper"} | changes | {"clock": executor.clock, "stopwatch": executor.clock}
    changes["max_brackets"] = max_brackets
    optimizer = bohb.BOHB(SPACE, min_budget=min_budget, max_budget=max_budget, seed=4, **changes)
    return bohb.run(optimizer, executor, bohb.Limits(max_brackets=max_brackets))


def draw_brackets(path: Path) -> None:
    """Draw the schedule: a dot per configuration, a column per rung, a panel per bracket."""
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
    """Draw the learning curves of the first bracket, as far as each configuration was trained."""
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
    """Draw Eqs. 2 and 3 in one dimension: the split, l and g, l′ with its candidates, and the choice."""
    space, rng = bohb.Space({"x": (0.0, 1.0)}), np.random.default_rng(3)
    observations = Observations(space.d)
    for x in rng.uniform(size=40):
        observations.add(np.array([x]), 0.4 * (x - 0.35) ** 2 + 0.03 * math.sin(18 * x) + rng.normal(0, 0.01))
    paper = bohb.Settings()
    model = fit_model(space, 1.0, observations, paper)
    n_good = max(space.d + 1, int(paper.good_fraction * len(observations)))
    candidates = model.good.sample(rng, 64, widen=paper.bandwidth_factor)
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
    """Draw §4.2: a row per worker, a bar per trial, coloured by its budget."""
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


def draw_targets(study: bohb.Study, path: Path) -> None:
    """Draw how each rung is shifted to the next, and the targets that follow."""
    history, results = study.history, targets.Results(study.history.space.d)
    results.catch_up(history)
    table = results.table(len(results), history.budgets)
    losses = table.losses
    figure, panels = plt.subplots(1, 4, figsize=(11, 3), constrained_layout=True)
    for axes, column in zip(panels, range(losses.shape[1] - 1, 0, -1), strict=False):
        below, above = losses[:, column], losses[:, column - 1]
        shift = targets.shift(below, above)
        low, high = history.budgets[-1 - column], history.budgets[-column]
        shared = np.isfinite(below) & np.isfinite(above)
        axes.scatter(below[shared], above[shared], s=14, color=BLUE)
        ends = np.array([below[shared].min(), below[shared].max()])
        axes.plot(ends, ends + shift, color=ORANGE, lw=1.5)
        axes.set(xlabel=f"loss on budget {low:g}", ylabel=f"on {high:g}", title=f"shifted by {shift:.2f}")
    found = targets.targets(table)
    place = {row: i for i, row in enumerate(table.rows.tolist())}
    seen = losses[[place[row] for row in found.rows.tolist()], found.below]
    for column in range(losses.shape[1] - 1, -1, -1):
        here = (found.below == column) & np.isfinite(seen)
        budget = history.budgets[-1 - column]
        y = found.y[here] * found.spread + found.centre
        panels[3].scatter(seen[here], y, s=12, color=BUDGET_COLOURS[-2 - column], label=f"on {budget:g}")
    panels[3].set(xlabel="loss", ylabel="shifted to 27 and cut", title="the targets")
    panels[3].legend(frameon=False, fontsize=7)
    save(figure, path)


def draw_arc(path: Path) -> None:
    """Draw the embedding of a conditional momentum, and the kernel that follows."""
    space = ConfigurationSpace(seed=0)
    optimizer, momentum = Categorical("optimizer", ["adam", "sgd"]), Float("momentum", (0.0, 1.0))
    space.add(optimizer, momentum, EqualsCondition(momentum, optimizer, "sgd"))
    compiled = bohb.Space(space)
    embedding, j = gp.Embedding(compiled), [name.name for name in compiled.dimensions].index("momentum")
    X = np.zeros((102, compiled.d))
    X[:, j] = [*np.linspace(0, 1, 101), np.nan]
    points = embedding(X)[:, embedding.owner == j]

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    left.plot(*points[:-1].T, color=BLUE, lw=2)
    for place, label in ((0, "0"), (50, "0.5"), (100, "1")):
        left.plot(*points[[place, -1]].T, color=GREY, lw=0.8, ls=":")
        left.annotate(label, points[place], textcoords="offset points", xytext=(6, 2))
    left.plot(*points[[0, 100]].T, color=GREY, lw=0.8, ls=":")
    left.scatter(*points[[0, 50, 100]].T, color=BLUE, s=26, zorder=3)
    left.scatter(*points[-1], color=ORANGE, s=40, zorder=3)
    left.annotate("inactive", points[-1], textcoords="offset points", xytext=(-14, -16), color=ORANGE)
    left.set(title="φ of a momentum; dotted lines are 1 long", aspect="equal", xlim=(-0.25, 1.25), ylim=(-0.25, 1.0))
    left.axis("off")
    alike = gp.matern(points / 0.5, points / 0.5)
    x = X[:-1, j]
    right.plot(x, alike[:-1, 0], color=BLUE, label="the value 0")
    right.plot(x, alike[:-1, 50], color=GREEN, label="the value 0.5")
    right.plot(x, alike[:-1, -1], color=ORANGE, label="none")
    right.set(xlabel="momentum", ylabel="Matérn kernel", title="how alike a momentum is to …", ylim=(0, 1.05))
    right.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 0.14))
    save(figure, path)


def wavy(config: dict[str, Any], budget: float) -> float:
    """Return a loss with two valleys in one hyperparameter, and a bias that training removes."""
    x = config["x"]
    return float(0.5 * (x - 0.65) ** 2 + 0.05 * math.cos(14 * x) + (0.2 + 0.1 * x) / budget)


def draw_process(path: Path) -> None:
    """Draw the process in one dimension, the observations of each rung, and log EI with a running trial."""
    optimizer = bohb.BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, seed=3, preset="best")
    sampler = GaussianSampler(optimizer.history.space)
    while True:
        before = sampler.surrogate(optimizer.history)
        trial = optimizer.ask()
        if len(optimizer.history.outcomes) >= 15 and trial.explains == "process":
            break
        optimizer.tell(trial, wavy(trial.config, trial.budget))
    after = sampler.surrogate(optimizer.history)
    assert before is not None
    assert after is not None
    grid = np.linspace(0, 1, 500)[:, None]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5.4), sharex=True, constrained_layout=True)
    found, vectors = before.targets, _vectors(optimizer)
    mean, deviation = (
        part * found.spread for part in after.process.predict(after.process.similarity(after.embedding(grid)))
    )
    mean += found.centre
    top.fill_between(grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.15, lw=0)
    top.plot(grid, mean, color=BLUE, label="expected on the largest budget, ± 2 deviations")
    top.plot(grid, [wavy({"x": x}, 9) for x in grid[:, 0]], color=GREY, lw=1, ls="--", label="the truth there")
    for below, budget in enumerate(reversed(optimizer.history.budgets)):
        here = found.below == below
        y = found.y[here] * found.spread + found.centre
        colour = BUDGET_COLOURS[2 - below]
        top.scatter(vectors[found.rows[here]], y, s=22, color=colour, zorder=3, label=f"seen on {budget:g}, shifted")
    top.set(ylabel="loss", title="the process given what was seen on all budgets", ylim=(-0.12, 0.42))
    bottom.plot(grid, before.log_improvement(grid), color=GREY, label="before a trial was started")
    bottom.plot(grid, after.log_improvement(grid), color=GREEN, label="while it runs")
    bottom.axvline(trial.config["x"], color=ORANGE, lw=1, ls=":", label="that trial")
    bottom.set(xlabel="hyperparameter x", ylabel="log EI", title="the expected improvement", ylim=(-12, 1))
    for axes in (top, bottom):
        axes.legend(frameon=False, fontsize=8)
    save(figure, path)


def _vectors(optimizer: bohb.BOHB) -> np.ndarray:
    """Return the vectors of all configurations in the order of `Results`."""
    results = targets.Results(optimizer.history.space.d)
    results.catch_up(optimizer.history)
    return results.vectors(np.arange(len({trial.config_id for trial in optimizer.history.trials.values()})))


def save(figure: Any, path: Path) -> None:
    """Save a figure as a PNG without metadata that changes from run to run."""
    for axes in figure.axes:
        assert isinstance(axes, Axes)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def draw_plots(study: bohb.Study, directory: Path) -> None:
    """Draw every plot of `bohb.plots` in a browser; learning curves have a study of their own."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium on this machine: apt-get install chromium")
    goals: dict[str, Any] = {"objectives": ["error", "latency"], "constraints": {"latency": "<= 6"}}
    several = bohb.minimize(
        measured, SPACE, min_budget=1, max_budget=27, seed=4, preset="paper", max_brackets=8, progress=False, **goals
    )
    informed = simulated(4, 27, 24, preset="best")
    reporting = bohb.minimize(objective, SPACE, min_budget=1, max_budget=27, seed=4, preset="paper", max_brackets=4)
    studies = {"front": several, "hypervolume": several, "model": simulated(4, 27, 6, preset="best")}
    pictures: dict[str, tuple[str, bohb.Study, dict[str, Any]]] = {
        **{key: (key, studies.get(key, study), {}) for key in PLOTS},
        "trajectory-cost": ("trajectory", study, {"over": "cost"}),
        "correlation-brackets": ("correlation", informed, {"pairs": "brackets"}),
        "curves-steps": ("curves", reporting, {"along": "steps"}),
        "model-density": ("model", study, {"model": "density"}),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 860, "height": 440})
        for name, (key, shown, options) in pictures.items():
            drawn = PLOTS[key](shown.history, **options)
            height = int(drawn.layout.height or 420)
            page.set_viewport_size({"width": 860, "height": height})
            content = drawn.to_html(include_plotlyjs=True, config={"displayModeBar": False}, default_height=height)
            page.set_content(content)
            page.wait_for_selector(".main-svg")
            page.locator(".plotly-graph-div").screenshot(path=str(directory / f"plot-{name}.png"))
        browser.close()


def main(directory: Path) -> None:
    """Draw everything."""
    directory.mkdir(parents=True, exist_ok=True)
    study = simulated(workers=4, max_budget=27, max_brackets=12)
    draw_brackets(directory / "brackets.png")
    draw_promotion(study, directory / "promotion.png")
    draw_densities(directory / "densities.png")
    draw_workers(simulated(workers=4, max_budget=27, max_brackets=4), directory / "workers.png")
    draw_targets(study, directory / "targets.png")
    draw_arc(directory / "arc.png")
    draw_process(directory / "process.png")
    draw_plots(study, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "images"))
