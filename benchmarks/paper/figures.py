"""Run all experiments, then write the table of claims and an index: `make figures`.

    python -m benchmarks.paper.figures --jobs 2                    # an evening on two cores; can be interrupted
    python -m benchmarks.paper.figures --edition hour --jobs 2       # an hour of CPU time: fewer runs, shorter ones
    python -m benchmarks.paper.figures --edition smoke --out /tmp/figures

An experiment without its data or environment is left out with a message; the index lists it as missing. The pages of
the Bayesian neural network and of reinforcement learning, whose many seeds need a GPU, are written from the evaluations
in batched_evaluations; nothing is run for them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import VARIABLE
from benchmarks.report import RESULTS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Step:
    """One experiment: its module, what it is about, and its options in each edition.

    stored: whether its page is written from the evaluations in batched_evaluations.
    """

    module: str
    about: str
    evening: str = ""
    hour: str = ""
    stored: bool = False

    @property
    def name(self) -> str:
        """The name of its files."""
        return self.module.removesuffix(".experiment").rpartition(".")[2]


STEPS = (
    Step(
        "benchmarks.paper.counting_ones",
        "counting ones in 8 to 64 dimensions (§5.1, App. H)",
        evening="--runs 20 --slow-runs 3",
        hour="--runs 6 --slow-runs 2 --problems counting_ones-4-4,counting_ones-8-8,counting_ones-32-32"
        " --methods bohb,hyperband,random,tpe,smac",
    ),
    Step(
        "benchmarks.paper.svm",
        "a support vector machine on MNIST (§5.2.1)",
        evening="--runs 30",
        hour="--runs 20 --evaluations 12 --methods bohb,hyperband,random,tpe,bracket-models,gp-budget",
    ),
    Step(
        "benchmarks.paper.networks.experiment",
        "feed-forward networks on six data sets (§5.2.2, App. E and I)",
        evening="--runs 20",
        hour="--runs 10",
    ),
    Step("benchmarks.paper.bnn", "a Bayesian neural network (§5.3, App. J)", stored=True),
    Step("benchmarks.paper.cartpole", "reinforcement learning (§5.4, App. K)", stored=True),
    Step(
        "benchmarks.paper.parallel",
        "1 to 256 parallel workers (Fig. 3, App. F)",
        evening="--runs 30",
        hour="--runs 3 --problems counting_ones-8-8 --workers 1,2,4,8,32 --variant-workers 1,8 --variant-runs 2",
    ),
    Step(
        "benchmarks.paper.hyperparameters",
        "BOHB's own hyperparameters (App. G)",
        evening="--runs 20",
        hour="--runs 10 --evaluations 64",
    ),
    Step(
        "benchmarks.paper.lcbench",
        "17 surrogates of networks on tabular data",
        evening="--runs 20 --slow-runs 3",
        hour="--runs 10 --evaluations 50 --methods bohb,hyperband,random",
    ),
    Step(
        "benchmarks.paper.measured",
        "measured learning curves, tables and conditional surrogates",
        evening="--runs 20 --slow-runs 3",
        hour="--runs 10 --evaluations 40 --methods bohb,hyperband,random",
    ),
    Step(
        "benchmarks.paper.compare",
        "our BOHB compared with HpBandSter's, with a test per problem",
        evening="--runs 20",
        hour="--runs 20 --evaluations 12",
    ),
)


def command_of(step: Step, args: argparse.Namespace) -> list[str]:
    """Return the options of Python that run one experiment."""
    # The default folder is not named, so the stored command has no path of this machine in it.
    out = [] if args.out == RESULTS else ["--pages" if step.stored else "--out", str(args.out)]
    if step.stored:
        return ["-m", "benchmarks.paper.batched", "report", step.name, *out]
    options = {"evening": step.evening, "hour": step.hour, "smoke": "--smoke"}[args.edition].split()
    return ["-m", step.module, "--jobs", str(args.jobs), *out, *options]


def perform(step: Step, args: argparse.Namespace) -> int:
    """Run one experiment and return its exit status."""
    command = command_of(step, args)
    print(f"## {' '.join(command[1:])}", flush=True)
    environment = None if args.data is None else os.environ | {VARIABLE: str(args.data)}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=False).returncode


def index(out: Path) -> str:
    """Return the page that lists all results."""
    lines = [
        "# Results",
        "",
        "`make figures` runs all experiments and writes this page. It writes the pages of the Bayesian neural network",
        "and of reinforcement learning from stored evaluations, which were computed on a GPU.",
        "",
    ]
    lines += [
        "Stored runs are reused, so a page may contain runs of several machines and versions of numpy. This affects",
        "CPU seconds, but hardly affects losses.",
        "",
        "[All claims of the paper, one by one](claims.md)",
        "",
        "| experiment | results | seeds | date |",
        "|---|---|---|---|",
    ]
    for step in STEPS:
        path = out / f"{step.name}.json"
        if not path.exists():
            lines.append(f"| {step.about} | not run | | |")
            continue
        source = json.loads(path.read_text())["source"]
        files = [f"[{file.suffix[1:]}]({file.name})" for file in sorted(out.glob(f"{step.name}*")) if file != path]
        lines.append(f"| {step.about} | {' '.join(files)} | {len(source['seeds'])} | {source['date'][:10]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edition", choices=("evening", "hour", "smoke"), default="evening")
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {','.join(s.name for s in STEPS)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path, help="the data directory")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    chosen = [step for step in STEPS if args.only is None or step.name in args.only]
    failed = [step.name for step in chosen if perform(step, args) != 0]
    subprocess.run([sys.executable, "-m", "benchmarks.paper.claims", "--out", str(args.out)], cwd=ROOT, check=True)
    (args.out / "README.md").write_text(index(args.out))
    if failed:
        print(f"left out: {', '.join(failed)}; see their messages above", file=sys.stderr)


if __name__ == "__main__":
    main()
