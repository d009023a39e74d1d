"""Measure one ask and one tell by number of observations, compared with HpBandSter 0.7.4 and Optuna.

    python -m benchmarks.speed.overhead                       # everything, about half an hour
    python -m benchmarks.speed.overhead --sizes 100,1000 --growth 1000 --out /tmp/overhead

The figures are CPU times: medians of --repeats calls, with one BLAS thread. Each package is measured in a new process,
HpBandSter in the environment that `make hpbandster-env` creates. The table notes packages slower than --limit.
Writes overhead.json and overhead.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import provenance, table, verdict, write

ROOT = Path(__file__).parents[2]
PACKAGES = ("bohb", "hpbandster", "optuna", "optuna-univariate")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}


def run(python: Path, arguments: list[str], limit: float) -> dict[str, Any]:
    """Return the JSON that `overhead_one` prints, or {"skipped": reason}."""
    if not python.exists():
        return {"skipped": f"no {python}"}
    command = [str(python), "-m", "benchmarks.speed.overhead_one", *arguments]
    environment = {**os.environ, **ONE_THREAD}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"over {limit:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"skipped": f"failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"}
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def measure_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one result per space, number of observations and package; small ones first."""
    results = []
    too_slow: set[tuple[str, str]] = set()
    for space in args.spaces:
        for n in args.sizes:
            for package in args.packages:
                python = args.hpbandster_python if package == "hpbandster" else Path(sys.executable)
                arguments = ["--package", package, "--space", space, "--observations", str(n)]
                arguments += ["--repeats", str(args.repeats), "--seed", str(args.seed)]
                if (package, space) in too_slow:
                    body: dict[str, Any] = {"skipped": "slower already with fewer"}
                else:
                    body = run(python, arguments, args.limit)
                if body.get("skipped", "").startswith("over "):
                    too_slow.add((package, space))
                results.append({"space": space, "n": n, "package": package, **body})
                print(f"# {space} {n} {package}: {body.get('skipped', 'done')}", file=sys.stderr, flush=True)
    return results


def rows_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table: milliseconds, and the ratio to ours."""
    ours = {(r["space"], r["n"]): total(r) for r in results if r["package"] == "bohb"}
    rows = []
    for r in results:
        median, base, here = r.get("median", {}), ours.get((r["space"], r["n"])), total(r)
        rows.append(
            {
                "space": r["space"],
                "observations": r["n"],
                "package": r["package"],
                "ask ms": ms(median.get("ask")),
                "cached ask ms": ms(median.get("ask_cached")),
                "tell ms": ms(median.get("tell")),
                "ask+tell ms": ms(here),
                "times ours": None if here is None or base is None else here / base,
                "note": r.get("skipped", ""),
            }
        )
    return rows


def total(result: dict[str, Any]) -> float | None:
    """Return the seconds of one ask and one tell."""
    median = result.get("median")
    return None if median is None else float(median["ask"] + median["tell"])


def ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def goals(results: list[dict[str, Any]], growth: dict[str, Any]) -> list[str]:
    """Compare the measurements with the documented limits."""
    cost = {(r["space"], r["n"], r["package"]): total(r) for r in results}
    lines = []
    for space in ("cont6", "mixed16"):
        for package, factor in (("hpbandster", 100), ("optuna", 20), ("optuna-univariate", 20)):
            ours, theirs = cost.get((space, 1000, "bohb")), cost.get((space, 1000, package))
            known = ours is not None and theirs is not None
            ratio = theirs / ours if ours is not None and theirs is not None else None
            detail = f"{ratio:.1f} times" if ratio is not None else "not measured"
            holds = ratio >= factor if known and ratio is not None else None
            lines.append(
                verdict(holds, f"{space}, 1000: ask+tell at least {factor} times faster than {package}", detail)
            )
    for n, limit in ((1000, 1.0), (10_000, 5.0)):
        here = next((r for r in results if (r["space"], r["n"], r["package"]) == ("mixed16", n, "bohb")), {})
        asked = ms(here.get("median", {}).get("ask"))
        holds = None if asked is None else asked < limit
        detail = "not measured" if asked is None else f"{asked:.2f} ms"
        lines.append(verdict(holds, f"mixed16, {n}: ask with refit under {limit:g} ms", detail))
    seconds, n = growth.get("bohb"), growth["evaluations"]
    holds = None if seconds is None or n != 10_000 else sum(seconds) < 60
    detail = f"{sum(seconds):.1f} s for {n}" if seconds else "not measured"
    lines.append(verdict(holds, "10000 serial no-op evaluations under 60 s of CPU time", detail))
    return lines


def grow_all(args: argparse.Namespace) -> dict[str, Any]:
    """Return CPU seconds per tenth of the evaluations, with the density and without."""
    growth: dict[str, Any] = {"evaluations": args.growth}
    for name, extra in (("bohb", []), ("random_fraction=1", ["--random-fraction", "1"])):
        arguments = ["--package", "bohb", "--grow", str(args.growth), "--seed", str(args.seed), *extra]
        growth[name] = run(Path(sys.executable), arguments, 20 * args.limit).get("chunks")
    return growth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=lambda text: text.split(","), default=["cont6", "mixed16"])
    parser.add_argument(
        "--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[100, 1000, 10**4, 10**5]
    )
    parser.add_argument("--packages", type=lambda text: text.split(","), default=list(PACKAGES))
    parser.add_argument("--repeats", type=int, default=11, help="calls per figure; the median is shown")
    parser.add_argument("--growth", type=int, default=10_000, help="serial no-op evaluations")
    parser.add_argument("--limit", type=float, default=180, help="time limit of a figure in seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hpbandster-python", type=Path, default=ROOT / ".venvs/hpbandster/bin/python")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    args = parser.parse_args()
    results = measure_all(args)
    growth = grow_all(args)
    rows = rows_of(results)
    chunks = [
        {"tenth": i + 1, **{name: growth[name][i] for name in ("bohb", "random_fraction=1") if growth[name]}}
        for i in range(10)
    ]
    lines = goals(results, growth)
    print(table(rows), f"\nCPU seconds per tenth of {args.growth} evaluations", table(chunks), sep="\n")
    print("", *lines, sep="\n")
    source = provenance([args.seed], ["bohb", "ConfigSpace", "numpy", "optuna", "scipy"])
    write(args.out, "overhead", source, {"results": results, "growth": growth, "goals": lines}, rows)


if __name__ == "__main__":
    main()
