"""`bohb confirm`: evaluate the most promising configurations again, and say which is best."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from bohb.cli.run import INTERRUPTED, warnings_shown
from bohb.cli.target import find, history
from bohb.cli.text import emit, json_option, table, wrapped


@click.command()
@click.argument("studyfile", type=click.Path(path_type=Path), default="study.toml")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Configurations to evaluate again.")
@click.option(
    "--repeats", type=click.IntRange(2), default=5, show_default=True, help="New evaluations of each, on average."
)
@click.option("--default", help="Compare with this configuration (JSON), or with that of the space: 'space'.")
@click.option("--workers", type=click.IntRange(0), help="Trials at once; 0 runs them in this process.")
@click.option("--executor", help="Where trials run: dask://host:8786, ray://auto, or module:name.")
@click.option("--journal", help="A file or a database URL.")
@click.option("--study", help="The name of the study in the journal.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@json_option
def confirm(
    studyfile: Path, top: int, repeats: int, default: str | None, quiet: bool, as_json: bool, **given: Any
) -> None:
    """Evaluate the best configurations again to find the winner.

    They run on the largest budget with new seeds and without checkpoints. Better ones get more evaluations. The answer
    follows from the new evaluations alone and is stored in the journal. After an interruption the same command goes on.
    Exit code: 0 when done, 130 after Ctrl-C, 1 if every evaluation failed.

    \b
    Examples:
      bohb confirm study.toml
      bohb confirm study.toml --top 3 --repeats 10 --workers 8
      bohb confirm study.toml --default '{"lr": 0.001, "units": 64}'
    """
    from bohb.analysis.verdicts import columns, confirmation_data, rows, verdict
    from bohb.running.confirm import confirm as run
    from bohb.studyfile.load import load

    file = load(studyfile)
    chosen = {name: value for name, value in given.items() if value is not None}
    if "journal" not in chosen:
        history(find(str(studyfile), given["study"]))  # explains a study that does not exist
    if "workers" in chosen:
        chosen["workers"] = chosen["workers"] or None
    with warnings_shown(), file.named_in_errors():
        setup = file.setup(file.objective(file.space().names), **chosen)
        found = run(setup, top, repeats, _default(default), quiet)
    listed = table(columns(found), rows(found), left=("candidate",))
    emit(as_json, confirmation_data(found), "\n".join([*map(wrapped, verdict(found)), "", listed]))
    if found.chosen is None:
        sys.exit(1 if found.finished else INTERRUPTED)


def _default(text: str | None) -> Any:
    """Return the configuration that `--default` names."""
    if text is None or text == "space":
        return text
    try:
        values = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r:.200} is not JSON ({error})", param_hint="--default") from error
    if not isinstance(values, dict):
        raise click.BadParameter(f"{text!r:.200} must be a JSON object, or 'space'", param_hint="--default")
    return values


COMMANDS = (confirm,)
