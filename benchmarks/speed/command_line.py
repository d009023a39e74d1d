"""Measure the commands that people use while a study runs, on a journal with many trials.

    python -m benchmarks.speed.command_line                  # 10 000 trials

The results are medians over --repeats new processes: CPU time (user and system) and wall time. They are written to
command_line.json and command_line.csv.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import provenance, table, verdict, write
from benchmarks.speed.resume import build

COMMANDS = (["--help"], ["status"], ["best"], ["trials", "--limit", "20"])


def cost(words: list[str]) -> tuple[float, float]:
    """Return the CPU and wall seconds of one `bohb` command."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "bohb", *words], check=True, capture_output=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    args = parser.parse_args()
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "study.db"
        build(journal, args.trials, seed=0)
        for command in COMMANDS:
            words = command if command == ["--help"] else [*command, str(journal)]
            costs = [cost(words) for _ in range(args.repeats)]
            cpu, wall = (statistics.median(column) for column in zip(*costs, strict=True))
            rows.append({"command": " ".join(["bohb", *command]), "CPU s": round(cpu, 3), "wall s": round(wall, 3)})
    status = rows[1]["CPU s"]
    goal = verdict(float(status) < 0.5, f"bohb status of {args.trials} trials under 0.5 s", f"{status} s of CPU time")
    print(table(rows), "", goal, sep="\n")
    write(args.out, "command_line", provenance([0], ["bohb", "click"]), {"goals": [goal]}, rows)


if __name__ == "__main__":
    main()
