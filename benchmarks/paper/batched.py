"""§5.3 and §5.4 with many seeds: all studies at once, with their chains or agents batched on a GPU.

    python -m benchmarks.paper.batched report bnn
    python -m benchmarks.paper.batched run cartpole --runs 150 --evaluations 32 --seconds 500
    python -m benchmarks.paper.batched report cartpole --out .cache/benchmarks/batched
    python -m benchmarks.paper.batched keep cartpole

`report` writes the same pages as `benchmarks.paper.bnn` and `benchmarks.paper.cartpole`, from the evaluations in
batched_evaluations, or from those in a folder that is given with `--out`. `run` appends finished evaluations to
bnn.jsonl or cartpole.jsonl in its folder, and ends in time; the next call goes on where this one ended. A new file
begins with the evaluations in batched_evaluations; with `--fresh` it is empty. `keep` replaces these by those in the
folder. The algorithms are those of the two experiments; random numbers differ, because batches share a generator.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command import words
from benchmarks.experiment import Experiment, Measured
from benchmarks.harness import Record, incumbents, trajectory
from benchmarks.paper import bnn, cartpole
from benchmarks.paper.lockstep import Evaluator, Row, Study, compress, read, run, text_of
from benchmarks.problem import Config, Problem
from benchmarks.problems import problem_of
from benchmarks.problems.bnn import DATASETS, WORST, chain_of, split
from benchmarks.problems.cartpole import CartPole, settings_of
from benchmarks.report import RESULTS
from benchmarks.results import final_table, mean_error, publish
from benchmarks.runs import PROTOCOLS, Result

if TYPE_CHECKING:
    import torch

EXPERIMENTS = {"bnn": bnn.EXPERIMENT, "cartpole": cartpole.EXPERIMENT}
# How the committed pages were made. A comparison has the means and standard errors of equal evaluations, GPU and numpy.
GPU = "one GPU (NVIDIA H200, torch 2.11)"
GPU_SECONDS = {"bnn": 492 + 331 + 196, "cartpole": 182 + 193 + 541 + 90}
OPTIONS = {"bnn": "--runs 50 --evaluations 20", "cartpole": "--runs 100 --evaluations 32"}
AGAINST_NUMPY = {
    "bnn": (
        "losses of 64 chains of 3333 steps each on Boston housing",
        {
            "16 and 16 units, ε = 0.01, burn-in 0.3, decay 0.05": ("5.57 ± 0.12", "5.70 ± 0.10"),
            "40 and 20 units, ε = 0.002, burn-in 0.6, decay 0.3": ("102.3 ± 3.4", "110.4 ± 3.4"),
            "24 and 30 units, ε = 0.03, burn-in 0.1, decay 0.8": ("8.13 ± 0.20", "8.34 ± 0.18"),
        },
    ),
    "cartpole": (
        "episodes of 72 agents",
        {
            "32 and 32 units, batches of 16, rate 0.002, discount 0.99, clipping 0.2, entropy 0.01": (
                "469 ± 24",
                "464 ± 23",
            )
        },
    ),
}
WORST_LOSSES = (
    f"Losses above {WORST:g} count as {WORST:g}. The paper clips the axis of its figure there and does not say whether "
    "it clips the values. Without this rule the means before the end are larger (after one full evaluation on Boston "
    "housing 7 ± 0.8 for Hyperband and 440 ± 80 for TPE), and the verdicts on all claims of §5.3 are the same."
)
FIRST_SEEDS = 30  # of `cartpole`; the others were run after the results of these had been seen
RUNNING = Path(__file__).parents[2] / ".cache" / "benchmarks" / "batched"
KEPT = Path(__file__).parent / "batched_evaluations"


class BatchedChains:
    """Evaluations of `bnn-boston` and `bnn-protein`."""

    def __init__(self, studies: int, device: torch.device, compiled: bool) -> None:
        from benchmarks.problems.batched_sghmc import Chains

        self._chains = Chains({name: split(name) for name in DATASETS}, studies, device, compiled)

    def __len__(self) -> int:
        return len(self._chains)

    def add(self, study: Study, config: Config, budget: float) -> None:
        self._chains.add(study, chain_of(config, budget), study.problem.partition("-")[2])

    def advance(self) -> Mapping[Study, Row]:
        return self._chains.advance()


class BatchedAgents:
    """Evaluations of `cartpole`."""

    def __init__(self, studies: int, device: torch.device, compiled: bool) -> None:
        from benchmarks.problems.batched_ppo import Agents

        self._agents = Agents(round(CartPole.budgets[-1]) * studies, device, compiled)

    def __len__(self) -> int:
        return len(self._agents)

    def add(self, study: Study, config: Config, budget: float) -> None:
        self._agents.add(study, settings_of(config), round(budget))

    def advance(self) -> Mapping[Study, Row]:
        done = self._agents.advance()
        return {key: {"loss": statistics.fmean(episodes), "episodes": episodes} for key, episodes in done.items()}


def evaluator(name: str, studies: int, eager: bool) -> Evaluator:
    """Return the evaluator of an experiment, on a GPU if there is one.

    studies: the largest number of evaluations at the same time.
    eager: whether to compile nothing.
    """
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(
        f"# torch {torch.__version__} on {torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}", flush=True
    )
    compiled = device.type == "cuda" and not eager
    return BatchedChains(studies, device, compiled) if name == "bnn" else BatchedAgents(studies, device, compiled)


def measured_from(path: Path, experiment: Experiment, full_evaluations: float | None) -> Measured:
    """Return the results of stored studies as those of an experiment.

    full_evaluations: the length of a study; by default the largest that all studies have reached. Longer ones are cut.
    """
    rows = {study: [row for row in found if "budget" in row] for study, found in read(path).items()}
    spent = {study: sum(row["budget"] for row in found) for study, found in rows.items()}
    most = problem_of(experiment.problems[0]).budgets[-1]
    if full_evaluations is None:
        full_evaluations = min(spent.values()) / most
    results: dict[str, dict[str, dict[int, Result]]] = {problem: {} for problem in experiment.problems}
    for study in sorted(rows, key=lambda study: (experiment.methods.index(study.method), study.seed)):
        result = result_of(problem_of(study.problem), rows[study], full_evaluations)
        results[study.problem].setdefault(study.method, {})[study.seed] = result
    methods = tuple(method for method in experiment.methods if any(method in found for found in results.values()))
    runs = 1 + max(study.seed for study in rows)
    return Measured(replace(experiment, methods=methods, runs=runs, full_evaluations=full_evaluations), results)


def test_losses(path: Path) -> dict[str, dict[float | None, float | None]]:
    """Return the test losses of the stored evaluations of `bnn`, by problem and validation loss."""
    found: dict[str, dict[float | None, float | None]] = {}
    for study, rows in read(path).items():
        found.setdefault(study.problem, {}).update({row["loss"]: row["test"] for row in rows if "budget" in row})
    return found


def result_of(problem: Problem, rows: Iterable[Row], full_evaluations: float) -> Result:
    """Return the result of a run with these evaluations, in their order, of a given length.

    A chain that diverges has an infinite loss: until the first success it counts as the worst loss that is shown.
    """
    records: list[Record] = []
    spent, limit = 0.0, full_evaluations * problem.budgets[-1] * (1 + 1e-9)
    for number, row in enumerate(rows):
        spent += row["budget"]
        if spent > limit:
            break
        records.append(Record(spent, spent, number, row["config"], row["budget"], row["loss"], row["budget"]))
    first = next((k for k, record in enumerate(records) if record.loss is not None), len(records))
    seen = [replace(record, loss=WORST) for record in records[:first]] + records[first:]
    return Result(
        trajectories={name: trajectory(problem, incumbents(seen, name)) for name in PROTOCOLS},
        evaluations=len(records),
        failures=sum(record.loss is None for record in records),
        time=records[-1].time if records else 0.0,
        spent=records[-1].spent / problem.budgets[-1] if records else 0.0,
        seconds=0.0,
    )


def added_seeds(measured: Measured) -> str:
    """Return how far BOHB ends below Hyperband on the cart and pole, for the first seeds, the added ones and all."""
    finals = [measured.finals("cartpole", method) for method in ("bohb", "hyperband")]

    def gap(first: int, end: int) -> float:
        means = [mean_error(loss for seed, loss in runs.items() if first <= seed < end) for runs in finals]
        return (means[1][0] - means[0][0]) / math.hypot(*(error or math.inf for _, error in means))

    runs = measured.experiment.runs
    return (
        f"The first {FIRST_SEEDS} seeds did not decide whether BOHB ends below Hyperband, so {runs - FIRST_SEEDS} more "
        f"were run. BOHB's mean is lower by {gap(0, FIRST_SEEDS):.1f} standard errors in the first, by "
        f"{gap(FIRST_SEEDS, runs):.1f} in the added ones and by {gap(0, runs):.1f} in all {runs}. The last number is "
        f"somewhat optimistic, because the results of the first seeds decided that there are more."
    )


def notes_of(name: str, path: Path, measured: Measured) -> list[str]:
    """Return the sentences on the page that say how its results were obtained."""
    rows = [row for found in read(path).values() for row in found if "budget" in row]
    what, pairs = AGAINST_NUMPY[name]
    compared = "; ".join(f"{gpu} and {numpy} ({settings})" for settings, (gpu, numpy) in pairs.items())
    notes = [
        f"All evaluations of all runs were batched on {GPU}, in lock-step: {len(rows):,} evaluations in "
        f"{GPU_SECONDS[name] / 60:.0f} GPU minutes. A batch shares one generator of random numbers, so a repetition "
        "gives other numbers.",
        f"The same evaluations on the GPU and with numpy on a CPU have these mean {what}: {compared}.",
        "The command below reads the evaluations from benchmarks/paper/batched_evaluations. To run them again: `python "
        f"-m benchmarks.paper.batched run {name} --fresh {OPTIONS[name]} --methods bohb,hyperband,tpe --out DIR`, then "
        "the command below with `--out DIR`.",
    ]
    if name == "bnn":
        failed = sum(row["loss"] is None for row in rows)
        diverged = f"A chain that diverges before a run's first success counts as {WORST:g}; {failed} chains diverged."
        return [*notes, WORST_LOSSES, diverged]
    return [*notes, added_seeds(measured)] if measured.experiment.runs > FIRST_SEEDS else notes


def kept(name: str) -> Path:
    """Return the file with the evaluations of an experiment that belong to the repository."""
    return KEPT / f"{name}.jsonl.xz"


def perform(name: str, args: argparse.Namespace, path: Path) -> None:
    """Run the studies of an experiment, and say how far they came.

    path: the file of finished evaluations.
    """
    experiment = EXPERIMENTS[name].shrunk() if args.smoke else EXPERIMENTS[name]
    runs, evaluations = args.runs or experiment.runs, args.evaluations or experiment.full_evaluations
    methods, problems = args.methods or experiment.methods, experiment.problems
    studies = [Study(p, m, seed) for seed in range(runs) for p in problems for m in methods]
    path.parent.mkdir(parents=True, exist_ok=True)
    if not (path.exists() or args.fresh or args.smoke):
        path.write_text(text_of(kept(name)))
    began = time.monotonic()
    for problem in problems:
        problem_of(problem)  # loads the data once, before there are processes
    left = run(studies, evaluations, lambda: evaluator(name, len(studies), args.eager), path, args.seconds)
    rows = read(path)
    print(f"{len(studies) - len(left)} of {len(studies)} studies have ended after {time.monotonic() - began:.0f} s")
    for method in methods:
        mine = [
            sum(row.get("budget", 0.0) for row in rows.get(study, ())) / problem_of(study.problem).budgets[-1]
            for study in studies
            if study.method == method
        ]
        print(f"{method}: {min(mine):.1f} to {max(mine):.1f} full evaluations, mean {statistics.fmean(mine):.1f}")


def write_page(name: str, path: Path, full_evaluations: float | None, pages: Path) -> None:
    """Write the page of an experiment from stored evaluations; cut runs after `full_evaluations`."""
    measured = measured_from(path, EXPERIMENTS[name], full_evaluations)
    notes = notes_of(name, path, measured)
    if name == "bnn":
        bnn.report(measured, pages, test_losses(path), notes)
    else:
        print(final_table(publish(measured, pages, lambda _: {"notes": notes})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("act", choices=("run", "report", "keep"))
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--runs", type=int, help="number of seeds, from 0")
    parser.add_argument("--evaluations", type=float, help="full evaluations per run; when reporting, cut runs there")
    parser.add_argument("--methods", type=words, help="default: all of the experiment")
    parser.add_argument("--seconds", type=float, default=3600.0, help="end after this time, and keep what is finished")
    parser.add_argument("--smoke", action="store_true", help="a version that takes seconds on a CPU")
    parser.add_argument("--fresh", action="store_true", help="begin a new file without evaluations")
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    parser.add_argument("--out", type=Path, help="the folder of evaluations")
    parser.add_argument("--pages", type=Path, default=RESULTS, help="the folder of result pages")
    args = parser.parse_args()
    path = (args.out or RUNNING) / f"{args.experiment}.jsonl"
    if args.act == "report" and args.out is None:
        path = kept(args.experiment)
    if args.act == "run":
        perform(args.experiment, args, path)
    elif not path.exists():
        parser.error(f"{path} does not exist: name the folder of a run with --out")
    elif args.act == "keep":
        compress(path, kept(args.experiment), without="episodes")
    else:
        write_page(args.experiment, path, args.evaluations, args.pages)


if __name__ == "__main__":
    main()
