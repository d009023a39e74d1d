"""What all scripts share: provenance, verdicts, plain tables, and JSON and CSV files."""

from __future__ import annotations

import csv
import json
import math
import platform
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
Row = Mapping[str, Any]


def provenance(seeds: Sequence[int], packages: Sequence[str]) -> dict[str, Any]:
    """Return command, seeds, package versions, CPU model and date.

    seeds: the seeds that were run.
    packages: the distributions whose versions matter.
    """
    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),  # without the path of the interpreter on this machine
        "seeds": list(seeds),
        "versions": versions(packages),
        "cpu": cpu_model(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cpu_model() -> str:
    """Return the name of the processor from Linux, or else from Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} ({len(names)} cores)" if names else platform.processor() or platform.machine()


def table(rows: Sequence[Row]) -> str:
    """Return rows as aligned text; the keys of the first row are the columns."""
    if not rows:
        return "(no rows)"
    columns = list(rows[0])
    cells = [columns, *([_cell(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[j]) for line in cells) for j in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def write(out: Path, name: str, source: Mapping[str, Any], results: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write `name`.json with everything and `name`.csv with the rows, whose first lines repeat the source."""
    out.mkdir(parents=True, exist_ok=True)
    body = finite({"source": dict(source), **results})
    (out / f"{name}.json").write_text(json.dumps(body, indent=2, allow_nan=False) + "\n")
    with (out / f"{name}.csv").open("w", newline="") as file:
        for key, value in source.items():
            file.write(f"# {key}: {json.dumps(value)}\n")
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def finite(value: Any) -> Any:
    """Return the same value with None instead of NaN and infinities, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verdict(holds: bool | None, claim: str, detail: str) -> str:
    """Return one line that says whether a claim holds.

    holds: None if the results are inconclusive.
    """
    word = {True: "met", False: "not met", None: "inconclusive"}[holds]
    return f"{word:12}  {claim}: {detail}"


def opening(title: str, question: str, sentences: Sequence[str], figure: str | None = None) -> list[str]:
    """Return the first screen of a result page: the question, the figure if there is one, and what was found.

    sentences: what was found, in at most three or four sentences.
    figure: the file of the picture.
    """
    picture = [f"![{title}]({figure})", ""] if figure else []
    return [f"# {title}", "", *wrapped(f"**Question.** {question}"), "", *picture, *wrapped(" ".join(sentences)), ""]


def wrapped(text: str) -> list[str]:
    """Return a paragraph as lines that are not too long."""
    return textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)


def goal_table(lines: Sequence[str]) -> list[str]:
    """Return the lines of `verdict` as a table in Markdown."""
    rows = ["| goal | measured | verdict |", "|---|---|---|"]
    for line in lines:
        word, _, text = line.partition("  ")
        goal, _, measured = text.strip().rpartition(": ")
        rows.append(f"| {goal} | {measured} | {word} |")
    return rows


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
