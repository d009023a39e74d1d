"""`bohb extrapolate`: the best configuration at a size that was never trained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bohb.cli.text import emit, json_option
from bohb.errors import InvalidArgument


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="JOURNAL[:NAME=VALUE,…]|TABLE.csv...")
@click.option("--at", required=True, metavar="NAME=VALUE,…", help="The scale variables of the target.")
@click.option("--config", metavar="NAME,…", help="Columns of a table that are hyperparameters.")
@click.option("--loss", default="loss", show_default=True, help="Column of a table with the loss.")
@click.option("--cost", help="Column of a table with the cost of a run.")
@click.option(
    "--moves", metavar="NAME,…", help="Hyperparameters that follow the size; default: numbers on a log scale."
)
@click.option(
    "--plot", "out", type=click.Path(dir_okay=False, path_type=Path), help="Draw the valleys to this HTML file."
)
@json_option
def extrapolate(
    runs: Sequence[str], at: str, config: str | None, moves: str | None, out: Path | None, as_json: bool, **given: Any
) -> None:
    """Recommend a configuration for a larger size.

    The size was never trained; the runs had smaller ones. They are journals with their scale variables, or tables.
    Without them, the scale variables of a study are looked for in the `info` of its trials, among the constants of its
    space, and as its budget.

    \b
    Examples:
      bohb extrapolate small.db:params=1e7 medium.db:params=5e7 large.db:params=2e8 --at params=1e9
      bohb extrapolate width*.db --at width=4096 --plot valleys.html
      bohb extrapolate runs.csv --at params=1e9,tokens=2e10 --config lr,batch_size
    """
    from bohb.running.extrapolate import extrapolate as extrapolated

    names = None if config is None else config.split(",")
    sources = [_source(text) for text in runs]
    following = None if moves is None else moves.split(",")
    found = extrapolated(sources, _numbers(at), config=names, moves=following, **given)
    if out is not None:
        from bohb.plots.valleys import draw_valleys

        draw_valleys(found).write_html(out, include_plotlyjs=True)
    emit(as_json, found.to_json(), str(found) if out is None else f"{found}\n{out} written")


def _source(text: str) -> str | tuple[str, Mapping[str, float]]:
    """Split a journal from its scale variables."""
    matched = re.fullmatch(r"(.+):([^:/\\]+=[^:/\\]+)", text)
    return text if matched is None else (matched[1], _numbers(matched[2]))


def _numbers(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise InvalidArgument(f"{part!r} must be a name and a number, such as params=1e9") from None
    return found


COMMANDS = (extrapolate,)
