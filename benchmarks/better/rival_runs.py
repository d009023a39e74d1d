"""The runs of rivals on the 12 problems of the part "rivals", kept in git.

    python -m benchmarks.better.rival_runs     # keep the stored runs of rivals, and those that were kept before

They take hours and need seven environments, but a change of the preset does not change them. So the part compares the
present preset with kept runs, and performs only those that are missing. A kept run counts as long as its problem and
the harness are the same.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.better.analysis import Results
from benchmarks.better.protocol import ALL_RIVALS, RIVAL_PROBLEMS, Plan, main_runs
from benchmarks.command import available
from benchmarks.harness import Point
from benchmarks.rivals import version
from benchmarks.runs import CACHE, Result, Run, kept, problem_digest

KEPT = Path(__file__).with_name("rival_runs.jsonl.xz")
MOST_SEEDS = 20
_DIGITS = 6


def read(problems: Collection[str] = RIVAL_PROBLEMS, path: Path = KEPT) -> tuple[dict[str, str], Results]:
    """Return the kept runs on problems that are unchanged, and the versions of their rivals."""
    versions: dict[str, str] = {}
    results: dict[Run, Result] = {}
    if not path.exists():
        return versions, results
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        stored = json.loads(line)
        run = Run(**stored["run"])
        if run.problem in problems and stored["problem"] == problem_digest(run.problem):
            results[run] = Result.from_json(stored["result"])
            versions[run.method] = stored["version"]
    return versions, results


def keep(results: Results, versions: Mapping[str, str], path: Path = KEPT) -> None:
    """Write runs with what the tables need: the incumbents on the largest budget, and CPU times."""
    lines = [
        json.dumps(
            {
                "run": asdict(run),
                "problem": problem_digest(run.problem),
                "version": versions[run.method],
                "result": _shortened(result),
            }
        )
        for run, result in sorted(results.items(), key=lambda item: (item[0].problem, item[0].method, item[0].seed))
    ]
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9))


def _shortened(result: Result) -> dict[str, Any]:
    stored = result.to_json()
    for kind in ("trajectories", "whole"):
        points: list[Point] = getattr(result, kind).get("largest", [])
        rows = [[float(f"{number:.{_DIGITS}g}") for number in asdict(point).values()] for point in points]
        stored[kind] = {"largest": rows}
    return stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are stored")
    args = parser.parse_args()
    versions, before = read()
    here = available(ALL_RIVALS)
    plan = Plan(runs=MOST_SEEDS, long=0, dehb=MOST_SEEDS, slow=MOST_SEEDS)
    now = kept(main_runs(here, RIVAL_PROBLEMS, plan), args.cache)
    versions |= {method: version(method) for method in here if any(run.method == method for run in now)}
    current = {run: result for run, result in before.items() if run not in now}
    keep({**current, **now}, versions)
    print(f"{len(now)} runs of this machine and {len(current)} kept before")


if __name__ == "__main__":
    main()
