"""Measure what it gains if trials share one GPU: trials per hour, the best loss at equal cost, and lost trials.

    python -m benchmarks.speed.gpu_sharing                          # one GPU: 20 minutes; needs nvidia-ml-py
    python -m benchmarks.speed.gpu_sharing --parts throughput --networks cnn    # some of it; the rest is kept
    python -m benchmarks.speed.gpu_sharing --smoke --out /tmp/sharing           # without a GPU, seconds

throughput: networks of eight widths, the same for every row, with 1, 2, 4 and 8 trials on the device
    (`resources={"gpu": 1 / k}`) and with as many as fit (`"shared"`). The rate counts from the start of the first trial
    to the end of the last; the start-up of workers, which have `preload=["torch"]`, is given apart.
studies: BEST looks for the width and the learning rate, alone and with "shared"; the time has all start-ups.
mixed: trials that hold 1 to 100 GB of the device at their peak; each would fit alone.

Writes gpu_sharing.json after each row, then the figure and the page.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bohb
from benchmarks.report import RESULTS, finite, goal_table, opening, provenance, verdict
from benchmarks.speed.gpu_networks import KINDS, train

PACKAGES = ["bohb", "torch", "nvidia-ml-py", "numpy"]
PARTS = ("throughput", "studies", "mixed")
MOST = 8  # workers where as many trials share the device as fit
ROUNDS: dict[int | str, int] = {1: 2, 2: 3, 4: 4, 8: 6, "shared": 6}  # trials per width, by the share
WIDTHS = (32, 64, 96, 128, 192, 256, 384, 512)
STEPS = {"mlp": 2500, "cnn": 2000, "transformer": 500}  # of training per trial
UNIT = {"mlp": 200, "cnn": 200, "transformer": 50}  # of training per unit of budget, in studies
SPACE = {"width": (16, 512, "log"), "lr": (1e-5, 1e-1, "log")}
COST = 12  # full evaluations per study
FASTER, WORSE = 2.5, 1.05  # what "shared" must gain, and may lose, against one trial at a time


class Bench:
    """What all parts share: where to train, and the results so far.

    body: what gpu_sharing.json holds; each part is a list of rows.
    """

    def __init__(self, out: Path, smoke: bool, short: bool) -> None:
        self.out, self.smoke, self.short = out, smoke, short
        self.device, self.rows = ("cpu", 200) if smoke else ("cuda", 50_000)
        path = out / "gpu_sharing.json"
        self.body: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def keep(self, part: str, row: Mapping[str, Any]) -> None:
        """Add a row in place of an earlier one of the same network, share and seed, and store all."""
        same = [key for key in ("network", "share", "seed") if key in row]
        kept = [old for old in self.body.get(part, []) if any(old[key] != row[key] for key in same)]
        self.body[part] = [*kept, dict(row)]
        seeds = sorted({old["seed"] for old in self.body.get("studies", [])}) or [0]
        self.body["source"] = {**provenance(seeds, PACKAGES), "device": device_name(), "smoke": self.smoke}
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "gpu_sharing.json").write_text(json.dumps(finite(self.body), indent=1, allow_nan=False) + "\n")
        print(json.dumps(row), flush=True)

    def study(self, objective: Callable[[bohb.Trial], Any], space: Any, share: int | str, **options: Any) -> bohb.Study:
        """Run a study on one device that so many trials share."""
        resources = None if self.smoke else {"gpu": share if share == "shared" else 1 / int(share)}
        workers = MOST if share == "shared" else int(share)
        options = {"workers": workers, "resources": resources, "preload": ["torch"], "progress": False, **options}
        return bohb.minimize(objective, space, **options)

    def throughput(self, kind: str, share: int | str) -> None:
        """Train networks of all widths, each the same number of times; keep the rate."""
        steps, device, rows = 2 if self.smoke else STEPS[kind], self.device, self.rows

        def objective(trial: bohb.Trial) -> float:
            width = WIDTHS[trial.number % len(WIDTHS)]
            return train(kind, width, 1e-3, steps, trial.number, device, rows)

        rounds = ROUNDS[share] // 2 if self.short else ROUNDS[share]
        trials = 2 if self.smoke else rounds * len(WIDTHS)
        began = time.time()
        study = self.study(objective, {"x": (0.0, 1.0)}, share, budgets=[1], preset="paper", max_trials=trials, seed=0)
        times = [(o.started or 0.0, o.finished or 0.0) for _, o in study.trials if o is not None]
        first, last = min(start for start, _ in times), max(end for _, end in times)
        row = {
            "network": kind,
            "share": share,
            "trials_per_hour": 3600 * len(times) / (last - first),
            "start_seconds": first - began,
            **outcome_of(study),
        }
        self.keep("throughput", row)

    def studies(self, kind: str, seed: int) -> None:
        """Let BEST tune a network, alone on the device and beside others; keep the time and the best loss."""
        unit, device, rows = 2 if self.smoke else UNIT[kind], self.device, self.rows

        def objective(trial: bohb.Trial) -> float:
            steps = int(unit * trial.budget)
            return train(kind, trial.config["width"], trial.config["lr"], steps, trial.seed, device, rows)

        for share in (1, "shared"):
            limits = {"max_cost": 1 if self.smoke else COST, "preset": "best", "seed": seed}
            began = time.time()
            study = self.study(objective, SPACE, share, min_budget=1, max_budget=9, **limits)
            seconds = time.time() - began
            row = {"network": kind, "share": share, "seed": seed, "seconds": seconds, "trials": len(study.trials)}
            self.keep("studies", {**row, "best": study.trajectory[-1].loss, **outcome_of(study)})

    def mixed(self, share: int | str) -> None:
        """Run trials that hold very different parts of the device's memory."""
        import torch

        def objective(trial: bohb.Trial) -> dict[str, float]:
            size = int(trial.config["gigabytes"] * 2**30 / 4)
            held: Any = torch.empty(size, device="cuda")
            for part in held.split(2**28):  # takes a while, and touches all of it
                part.normal_()
            time.sleep(1)
            torch.cuda.synchronize()
            return {"loss": float(held[:1000].std()), "device_memory": 4 * size}

        space = {"gigabytes": (1.0, 100.0)}
        study = self.study(
            objective, space, share, budgets=[1], preset="paper", max_trials=16 if self.short else 48, seed=0
        )
        sizes = [trial.config["gigabytes"] for trial, _ in study.trials]
        times = [(o.started or 0.0, o.finished or 0.0) for _, o in study.trials if o is not None]
        rate = 3600 * len(times) / (max(end for _, end in times) - min(start for start, _ in times))
        row = {"share": share, "trials_per_hour": rate, "largest_gigabytes": max(sizes), "sum_gigabytes": sum(sizes)}
        self.keep("mixed", {**row, **outcome_of(study)})


def outcome_of(study: bohb.Study) -> dict[str, int]:
    """Return how many trials there were, how many failed, and how often one ran out of memory beside others."""
    again = sum(trial.attempt - 1 for trial, _ in study.trials)
    return {"trials": len(study.trials), "failed": len(study.failures), "run_again": again}


def device_name() -> str:
    """Return the name of the first GPU without starting CUDA in this process."""
    try:
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "none"


def gains(body: Mapping[str, Any]) -> dict[str, float]:
    """Return the rate of the best share over that of one trial at a time, for each network."""
    found = {}
    for kind in KINDS:
        rates = {row["share"]: row["trials_per_hour"] for row in body.get("throughput", ()) if row["network"] == kind}
        if {1, "shared"} <= rates.keys():
            found[kind] = rates["shared"] / rates[1]
    return found


def pairs(body: Mapping[str, Any], kind: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the studies of a network, alone and shared, seed by seed."""
    rows = {(row["share"], row["seed"]): row for row in body.get("studies", ()) if row["network"] == kind}
    return [(rows[1, seed], row) for (share, seed), row in rows.items() if share == "shared" and (1, seed) in rows]


def goals(body: Mapping[str, Any]) -> list[str]:
    """Return the verdict on each claim."""
    lines = []
    for kind, gain in gains(body).items():
        claim = f"{kind}: at least {FASTER} times as many trials per hour with `shared` as with one at a time"
        lines.append(verdict(gain >= FASTER, claim, f"{gain:.2f}"))
    for kind in KINDS:
        if both := pairs(body, kind):
            faster = math.exp(
                statistics.fmean(math.log(alone["seconds"] / shared["seconds"]) for alone, shared in both)
            )
            ratio = statistics.fmean(s["best"] for _, s in both) / statistics.fmean(a["best"] for a, _ in both)
            claim = f"{kind}: a whole study, start-up included, is faster by {FASTER} times ({len(both)} seeds)"
            lines.append(verdict(faster >= FASTER, claim, f"{faster:.2f}"))
            claim = f"{kind}: its mean best error is at most {WORSE} times that of one trial at a time, at equal cost"
            lines.append(verdict(ratio <= WORSE, claim, f"{ratio:.3f}"))
    rows = [row for part in PARTS for row in body.get(part, ())]
    failed = sum(row["failed"] for row in rows)
    lines.append(verdict(failed == 0, "no trial fails, in any part", f"{failed} of {sum(r['trials'] for r in rows)}"))
    return lines


def page(body: Mapping[str, Any]) -> str:
    """Return the page of these results."""
    found = gains(body)
    gained = ", ".join(f"{gain:.1f} times (`{kind}`)" for kind, gain in found.items())
    sentences = [
        f'With `resources={{"gpu": "shared"}}`, {MOST} workers and one GPU ({body["source"]["device"]}), the rate of '
        f"trials was {gained} that of one trial at a time."
        if gained
        else "How many more trials per hour sharing gives was not measured: the time on the GPU ended before.",
    ]
    for row in body.get("mixed", ()):
        if row["share"] == "shared":
            sentences.append(
                f"Of {row['trials']} trials that hold 1 to {row['largest_gigabytes']:.0f} GB, {row['failed']} failed "
                f"and {row['run_again']} ran again alone."
            )
    lines = opening(
        "Several trials on one GPU",
        "How many more trials per hour finish if they share one GPU, and is anything lost?",
        sentences,
        "gpu_sharing.png" if found else None,
    )
    lines += ["## Claims", "", *goal_table(goals(body)), ""]
    headers = {
        "throughput": ("Trials per hour", ("network", "share", "trials", "trials_per_hour", "start_seconds", "failed")),
        "studies": ("Whole studies", ("network", "seed", "share", "trials", "seconds", "best", "failed")),
        "mixed": (
            "Large and small",
            ("share", "trials", "trials_per_hour", "largest_gigabytes", "failed", "run_again"),
        ),
    }
    for part, (title, columns) in headers.items():
        if rows := body.get(part):
            lines += [f"## {title}", "", f"| {' | '.join(name.replace('_', ' ') for name in columns)} |"]
            lines += ["|" + "---|" * len(columns)]
            lines += [f"| {' | '.join(_cell(row[name]) for name in columns)} |" for row in rows]
            lines += [""]
    source = body["source"]
    versions = ", ".join(f"{name} {version}" for name, version in source["versions"].items())
    lines += [
        f"{source['device']}, {source['cpu']}; {versions}. `python -m benchmarks.speed.gpu_sharing` runs it again."
    ]
    return "\n".join(lines) + "\n"


def draw(body: Mapping[str, Any], path: Path) -> None:
    """Draw the rate over the number of trials on the device, relative to one."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
    names = [str(share) for share in ROUNDS]
    for kind in KINDS:
        rates = {str(r["share"]): r["trials_per_hour"] for r in body.get("throughput", ()) if r["network"] == kind}
        if "1" in rates:
            shown = [name for name in names if name in rates]
            axis.plot([names.index(n) for n in shown], [rates[n] / rates["1"] for n in shown], "o-", label=kind)
    axis.axhline(FASTER, color="0.7", linestyle="--", linewidth=1)
    axis.set_xticks(range(len(names)), [f"gpu: 1/{n}" if n.isdecimal() and n != "1" else f"gpu: {n}" for n in names])
    axis.set(xlabel="resources", ylabel="trials per hour, over one at a time", ylim=(0, None))
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help="none: only draw what is stored")
    parser.add_argument("--networks", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument(
        "--shares", nargs="+", choices=[str(share) for share in ROUNDS], help="of throughput and mixed; default: all"
    )
    parser.add_argument("--seeds", type=int, default=5, help="studies of each network")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--short", action="store_true", help="half of the trials in throughput, a third in mixed")
    parser.add_argument("--smoke", action="store_true", help="without a GPU: one network, few trials, few steps")
    args = parser.parse_args(arguments)
    if args.smoke:
        args.networks, args.shares, args.seeds, args.parts = ["mlp"], ["1", "2"], 1, ("throughput", "studies")
    bench = Bench(args.out, args.smoke, args.short)
    for kind in args.networks:
        if "throughput" in args.parts:
            for share in ROUNDS if args.shares is None else [s for s in ROUNDS if str(s) in args.shares]:
                bench.throughput(kind, share)
        if "studies" in args.parts:
            for seed in range(args.seeds):
                bench.studies(kind, seed)
    if "mixed" in args.parts:
        for share in (4, "shared"):
            if args.shares is None or str(share) in args.shares:
                bench.mixed(share)
    (args.out / "gpu_sharing.md").write_text(page(bench.body))
    if gains(bench.body) and find_spec(
        "matplotlib"
    ):  # else draw where it is installed, with --parts and nothing behind it
        draw(bench.body, args.out / "gpu_sharing.png")


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
