"""BOHB's own hyperparameters (Appendix G): N_s, ρ, η and b_w scanned one at a time, the others as in the paper.

    python -m benchmarks.paper.hyperparameters --runs 20 --jobs 2
    python -m benchmarks.paper.hyperparameters --problems counting_ones-8-8,networks-letter --runs 20

The paper shows the scans without naming the values; ours are in GRIDS. Another η keeps the smallest and the largest
budget, and makes new ones between.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import drawing
from benchmarks.command import run_experiment
from benchmarks.experiment import Experiment, Measured
from benchmarks.results import AXES, mean_error, publish, shown

# By setting: its symbol, its value in the paper, and the values that are tried.
GRIDS: dict[str, tuple[str, float, tuple[float, ...]]] = {
    "num_samples": ("N_s", 64, (4, 16, 64, 256)),
    "random_fraction": ("ρ", 1 / 3, (0, 0.1, 1 / 3, 2 / 3, 1)),
    "eta": ("η", 3, (2, 3, 4, 6)),
    "bandwidth_factor": ("b_w", 3, (1, 2, 3, 5, 10)),
}


def method_of(setting: str, value: float) -> str:
    """The method with this setting; `bohb` itself for the paper's value."""
    return "bohb" if value == GRIDS[setting][1] else f"bohb:{setting}={value!r}"


EXPERIMENT = Experiment(
    name="hyperparameters",
    question="How much does BOHB depend on its own hyperparameters (App. G)?",
    title="BOHB's own hyperparameters",
    problems=("counting_ones-8-8",),
    methods=tuple(dict.fromkeys(method_of(s, value) for s, (*_, values) in GRIDS.items() for value in values)),
    full_evaluations=128,
    runs=20,
    floor=1e-3,
    smoke=(("counting_ones-4-4",), ("bohb", "bohb:num_samples=4", "bohb:eta=2", "bohb:bandwidth_factor=1")),
)


def scans(problems: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """By problem and setting: the mean final regret and its standard error for each value."""
    found: dict[str, Any] = {}
    for problem, entry in problems.items():
        for setting, (*_, values) in GRIDS.items():
            methods = {f"{value:.3g}": method_of(setting, value) for value in values}
            finals = {value: entry["methods"][m]["final"] for value, m in methods.items() if m in entry["methods"]}
            found.setdefault(problem, {})[setting] = {v: mean_error(f.values()) for v, f in finals.items()}
    return {"scans": found}


def panels(problems: Mapping[str, Mapping[str, Any]]) -> list[drawing.Panel]:
    """One panel per problem and setting."""
    drawn = []
    for problem, entry in problems.items():
        for setting, (symbol, _, values) in GRIDS.items():
            methods = {f"{symbol} = {value:.3g}": entry["methods"].get(method_of(setting, value)) for value in values}
            curves = {label: (entry["x"], m["mean"], m["error"]) for label, m in methods.items() if m is not None}
            drawn.append(drawing.Panel(f"{problem}: {setting}", curves))
    return drawn


def sentences(body: Mapping[str, Any]) -> list[str]:
    """Return by how much the mean final regret varies over the values of each setting."""
    ranges = {
        setting: [
            max(means) / min(means)
            for scan in body["scans"].values()
            if len(means := [mean for mean, _ in scan[setting].values() if mean > 0]) > 1
        ]
        for setting in GRIDS
    }
    texts = [f"{GRIDS[name][0]} {min(found):.1f} to {max(found):.1f} times" for name, found in ranges.items() if found]
    return [
        f"The highest mean regret of a setting's values divided by the lowest, over the problems: {', '.join(texts)}.",
        "The paper's values are N_s = 64, ρ = 1/3, η = 3 and b_w = 3; each row changes one of them.",
    ]


def report(measured: Measured, out: Path) -> None:
    body = publish(measured, out, scans, sentences)
    path, floor = out / "hyperparameters.png", measured.experiment.floor
    drawing.draw(panels(body["problems"]), path, AXES["spent"], "mean regret", floor, own_legends=True)
    for problem, entry in body["problems"].items():
        for method, result in entry["methods"].items():
            print(f"{problem}  {method:40s} {shown(result['final'].values())}")


def main() -> None:
    run_experiment(EXPERIMENT, __doc__, report)


if __name__ == "__main__":
    main()
