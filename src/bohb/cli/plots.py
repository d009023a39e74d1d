"""`bohb plot`, `bohb report`, `bohb dashboard`: pictures of a study."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path

import click

from bohb.cli.ask import external
from bohb.cli.shared import DEFAULT, WithNegativeNumbers, command, emit, find, pairs, target_options, together
from bohb.errors import InvalidArgument
from bohb.journal.location import shown_journal
from bohb.plots.choices import CHOICES
from bohb.studyfile.load import load

choice_options = together(  # one for each choice that plots offer
    *(
        click.option(f"--{each.name}", type=click.Choice(each.values) if each.values else str, help=each.help)
        for each in CHOICES.values()
    )
)


@command()
@click.argument("names", nargs=-1, metavar="[NAME]... [JOURNAL|STUDYFILE]")
@click.option("--study", help="Name of the study, if the journal holds several.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="A .html or .json file, or a directory for several plots."
)
@choice_options
def plot(names: Sequence[str], study: str | None, out: Path | None, as_json: bool, **given: str | None) -> None:
    """Draw plots as HTML files. Without a name, list all plots.

    The files work offline. A .json file holds the figure as plotly's JSON.

    \b
    Examples:
      bohb plot                                   list the names of all plots
      bohb plot trajectory study.db               write trajectory.html
      bohb plot slice study.db --budget all --out slice.html
      bohb plot trajectory study.db --over cost
      bohb plot trajectory importance study.db --out figures/
    """
    from bohb.plots import PLOTS, write_plot

    wanted = [name for name in names if name in PLOTS]
    rest = [name for name in names if name not in PLOTS]
    if any("." not in name and "/" not in name for name in rest) or len(rest) > 1:
        raise InvalidArgument(f"there is no plot {rest[0]!r}; there are {', '.join(PLOTS)}")
    if not wanted:
        titles = [(key, each.title) for key, each in PLOTS.items()]
        emit(as_json, dict(titles), pairs(titles))
        return
    if len(wanted) > 1 and out is not None and out.suffix:
        raise InvalidArgument(f"--out={out} must be a directory for {len(wanted)} plots")
    place = find(rest[0] if rest else None, study)
    study_history = place.history()
    chosen = {name: text for name, text in given.items() if text is not None}
    options = {name: PLOTS[name].required(study_history, chosen) for name in wanted}
    written = [
        str(write_plot(PLOTS[name], study_history, _path(name, out), name=place.study, **options[name]))
        for name in wanted
    ]
    emit(as_json, {"files": written}, "\n".join(f"{path} written" for path in written))


def _path(name: str, out: Path | None) -> Path:
    if out is None:
        return Path(f"{name}.html")
    if out.suffix:
        return out
    out.mkdir(parents=True, exist_ok=True)
    return out / f"{name}.html"


@command(cls=WithNegativeNumbers)  # a loss may begin with a minus
@target_options
@click.argument("number", required=False, type=click.IntRange(0), metavar="[NUMBER]")
@click.argument("loss", required=False, type=float, metavar="[LOSS]")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="report.html",
    show_default=True,
    help="File to write.",
)
@click.option("--step", type=float, help="Store LOSS at this step of trial NUMBER, and write no file.")
@click.option("--attempt", type=click.IntRange(1), help="Of trial NUMBER, as `bohb ask` printed it.")
@click.option("--directory", help="As for `bohb ask`; default: <journal>.files.")
def report(
    target: str | None,
    study: str | None,
    number: int | None,
    loss: float | None,
    step: float | None,
    attempt: int | None,
    directory: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Write a report as one HTML file that works offline.

    It has a summary, the best configuration, plots, failures by cause, settings and versions.

    With NUMBER, LOSS and --step, store a point of the learning curve of a trial that `bohb ask` has handed out. The
    curve becomes part of the result when the trial is told.

    \b
    Examples:
      bohb report study.db
      bohb report study.toml --out mnist.html
      bohb report study.db 12 0.5 --step 3
    """
    if number is not None or step is not None:
        if target is None or number is None or loss is None or step is None:
            raise click.UsageError("a point of a learning curve needs NUMBER, LOSS and --step")
        external(target, study, directory=directory).report(number, step, loss, attempt)
        emit(
            as_json,
            {"number": number, "step": step, "loss": str(loss)},
            f"trial {number}: loss {loss:g} at step {step:g}",
        )
        return
    from bohb.plots.report import write_report

    place = find(target, study)
    write_report(place.history(), out, name=place.study)
    emit(as_json, {"file": str(out)}, f"{out} written")


@command()
@click.argument("targets", nargs=-1, metavar="[JOURNAL|STUDYFILE]...")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any other than 127.0.0.1 needs a token.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 chooses a free one.  [default: 8321]")
@click.option(
    "--token",
    envvar="BOHB_TOKEN",
    help="Token that browsers must present. Better set $BOHB_TOKEN: other users can see the options of a command.",
)
@click.option("--open", "browse", is_flag=True, help="Open the dashboard in a browser.")
def dashboard(
    targets: Sequence[str], host: str, port: int | None, token: str | None, browse: bool, as_json: bool
) -> None:
    """Serve live pages about one or several journals.

    \b
    Examples:
      bohb dashboard study.db
      bohb dashboard study.toml --port 9000
      bohb dashboard study.db other.db            compare studies of both
      export BOHB_TOKEN=a-long-secret; bohb dashboard study.db --host 0.0.0.0
    """
    from bohb.dashboard import serve
    from bohb.dashboard.server import PORT

    # journals need not exist yet
    journals = [load(target).journal if target.endswith(".toml") else target for target in targets or (DEFAULT,)]
    port = PORT if port is None else port
    if as_json:
        emit(True, {"journals": [shown_journal(journal) for journal in journals], "host": host, "port": port}, "")
    with redirect_stdout(sys.stderr) if as_json else nullcontext(), suppress(KeyboardInterrupt):
        serve(journals, host=host, port=port, token=token, open_browser=browse)
