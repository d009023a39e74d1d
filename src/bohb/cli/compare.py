"""`bohb compare`: any number of studies beside each other, also of several journals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.cli.target import Target, find_journal, history
from bohb.cli.text import emit, json_option, table, value_text
from bohb.errors import InvalidArgument
from bohb.journal import study_names
from bohb.journal.location import shown_journal, study_of
from bohb.units import DASH, duration, grouped, number, printable, short

if TYPE_CHECKING:
    from bohb.analysis.comparison import Comparison
    from bohb.core.history import History

_COLUMNS = 80  # of a terminal, in which all tables fit
_LABEL = 20  # characters of the name of a hyperparameter
_VALUE = 12  # characters of the value of a hyperparameter
_BESIDE = 4  # configurations beside each other


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="JOURNAL[::STUDY]...")
@json_option
def compare(targets: tuple[str, ...], as_json: bool) -> None:
    """Compare studies, also of several journals.

    A journal stands for all of its studies, unless '::' and the name of one follow. Shows their best losses, also at
    equal cost, and their best configurations.

    \b
    Examples:
      bohb compare study.db                       all studies in it
      bohb compare monday.db tuesday.db::resnet
      bohb compare study.toml other.toml --json
    """
    from bohb.analysis.comparison import comparison

    places = [place for target in targets for place in _places(target)]
    if len(places) < 2:
        raise InvalidArgument(f"there is only {places[0].name}; name at least two studies to compare")
    seen = [history(place) for place in places]
    found = comparison(seen)
    data = [_data(place, h, found, n) for n, (place, h) in enumerate(zip(places, seen, strict=True))]
    emit(as_json, {"budget": found.budget, "costs": found.costs, "studies": data}, _text(places, seen, found))


def _places(target: str) -> list[Target]:
    """Return the studies that an argument names."""
    given, study = study_of(target)
    journal, named = find_journal(given)
    study = study or named
    return [Target(journal, name) for name in ([study] if study else study_names(journal))]


def _data(place: Target, seen: History, found: Comparison, n: int) -> dict[str, Any]:
    row, shown = found.summaries[n], seen.goals.shown
    best = row.incumbent
    return {
        "journal": shown_journal(place.journal),
        "study": place.study,
        "finished": row.finished,
        "failed": row.failed,
        "full_evaluations": row.spent_continued,
        "seconds": row.seconds,
        "loss": None if best is None else shown(best.loss),
        "budget": None if best is None else best.budget,
        "config": None if best is None else best.config,
        "losses": [shown(loss) for loss in found.losses[n]] if found.losses else [],
    }


def _text(places: Sequence[Target], seen: Sequence[History], found: Comparison) -> str:
    labels = _labels(places)
    parts = [_results(labels, seen, found)]
    tops = {h.budgets[-1] for h in seen}
    if len(tops) > 1:
        listed = ", ".join(number(top) for top in sorted(tops))
        parts.append(f"The largest budgets differ ({listed}): losses on different budgets are not comparable.")
    if found.budget is not None:
        head = ["#", *(number(cost, 3) for cost in found.costs)]
        rows = [
            [str(n), *(number(h.goals.shown(loss)) for loss in losses)]
            for n, (h, losses) in enumerate(zip(seen, found.losses, strict=True), 1)
        ]
        title = f"Best loss on budget {number(found.budget)} after so many full evaluations:"
        parts.append(f"{title}\n{table(head, rows)}")
    for first in range(0, len(seen), _BESIDE):
        parts.append(_configurations(seen, range(first, min(first + _BESIDE, len(seen)))))
    return "\n\n".join(part for part in parts if part)


def _labels(places: Sequence[Target]) -> list[str]:
    """Return a name for each study: that of its file, with the study where that is not clear."""
    files = [shown_journal(p.journal) if "://" in p.journal else Path(p.journal).name for p in places]
    return [f"{file}::{p.study}" if files.count(file) > 1 else file for file, p in zip(files, places, strict=True)]


def _results(labels: Sequence[str], seen: Sequence[History], found: Comparison) -> str:
    head = ["#", "study", "best loss", "budget", "finished", "failed", "cost", "time"]
    rows = []
    for n, (h, row) in enumerate(zip(seen, found.summaries, strict=True), 1):
        best = row.incumbent
        loss, budget = (DASH, DASH) if best is None else (number(h.goals.shown(best.loss)), number(best.budget, 4))
        counts = grouped(row.finished), grouped(row.failed), number(row.spent_continued, 4), duration(row.seconds)
        rows.append([str(n), loss, budget, *counts])
    widths = [max(map(len, column)) for column in zip(head[:1] + head[2:], *rows, strict=True)]
    left = max(8, _COLUMNS - sum(widths) - 2 * len(widths))
    named = [[row[0], short(printable(label), left), *row[1:]] for label, row in zip(labels, rows, strict=True)]
    return table(head, named, left=["study"]) + "\ncost: in full evaluations"


def _configurations(seen: Sequence[History], which: Sequence[int]) -> str:
    """Return the best configurations of some studies, beside each other."""
    best = {n: seen[n].incumbent for n in which}
    configs = {n: {} if result is None else result.config for n, result in best.items()}
    names = list(dict.fromkeys(name for config in configs.values() for name in config))
    rows = [
        [
            short(name, _LABEL),
            *(short(value_text(config[name]), _VALUE) if name in config else DASH for config in configs.values()),
        ]
        for name in names
    ]
    return (
        table(["best configuration", *(f"#{n + 1}" for n in which)], rows, left=["best configuration"]) if rows else ""
    )


COMMANDS = (compare,)
