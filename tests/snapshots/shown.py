"""What the command line, the report and the dashboard show of recorded studies, as text."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch

from starlette.testclient import TestClient

from bohb.core.events import Event, TrialFinished, TrialStarted
from bohb.dashboard import create_app
from bohb.journal import SqlJournal
from bohb.plots import write_report
from bohb.running.study import load
from tests.cli.running import call
from tests.replays.stored import events_of

TEXTS = Path(__file__).parent / "texts"
# The studies that are shown: the number of events that have happened (None: all), and the trials that are explained.
SHOWN: dict[str, tuple[int | None, tuple[int, int, int]]] = {
    "paper-failures": (None, (0, 17, 60)),
    "paper-confirmed": (None, (1, 12, 25)),
    "paper-sessions": (60, (2, 14, 20)),
    "best-objectives": (None, (3, 20, 44)),
    "best-constraints": (None, (3, 20, 44)),
    "best-deadline": (None, (30, 81, 115)),
}
_BLOCKS = {"p", "div", "section", "header", "nav", "main", "footer", "h1", "h2", "h3", "h4", "table", "caption"}
_BLOCKS |= {"tr", "li", "ul", "ol", "dl", "dt", "dd", "details", "summary", "figure", "figcaption", "pre", "form"}
_HIDDEN = {"script", "style", "head", "template", "svg"}
_MACHINE = re.compile(r"^(Python|numpy|scipy|ConfigSpace|SQLAlchemy|bohb \(.*\)) \|.*$", re.MULTILINE)


class _Visible(HTMLParser):
    """The text of a page: a line per block, and a bar between the cells of a table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in _HIDDEN
        if tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in _HIDDEN
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def visible(page: str) -> str:
    """Return what a reader sees of an HTML page."""
    lines = (re.sub(r" +", " ", line).strip(" |") for line in "".join(_Visible(page).parts).split("\n"))
    return "\n".join(line for line in lines if line)


def texts(name: str, directory: Path) -> dict[str, str]:
    """Return everything that is shown of a study, by the name of the file that keeps it."""
    until, numbers = SHOWN[name]
    events = events_of(name)[:until]
    journal = directory / "study.db"
    with SqlJournal(journal) as stored:
        stored.append(events, 0)
    with _at(_last(events) + 90):
        found = dict(_commands(journal, numbers))
        study = load(journal)
        found["print.txt"], found["notebook.txt"] = str(study), visible(study._repr_html_())
        page = write_report(study.history, directory / "report.html")
        found["report.txt"] = _MACHINE.sub(r"\1 | …", visible(page.read_text(encoding="utf-8")))
        found |= _pages(journal, numbers)
    return {file: text.replace(str(directory), "").rstrip() + "\n" for file, text in found.items()}


def _commands(journal: Path, numbers: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for command in (["status"], ["best"], *(["why", str(number)] for number in numbers)):
        for end, option in (("txt", []), ("json", ["--json"])):
            yield f"{'-'.join(command)}.{end}", call(*command, journal, *option).stdout
    yield "best-args.txt", call("best", journal, "--format", "args").stdout
    yield "trials.txt", call("trials", journal).stdout
    for form in ("json", "csv"):
        yield f"trials.{form}", call("trials", journal, "--format", form, "--limit", "8").stdout


def _pages(journal: Path, numbers: tuple[int, ...]) -> dict[str, str]:
    """Return the pages of the dashboard."""
    app = create_app(journal)
    addresses = {"page-studies.txt": "/", "page-overview.txt": "/study?study=study"}
    addresses |= {f"page-trial-{number}.txt": f"/trial?study=study&number={number}" for number in numbers}
    try:
        client = TestClient(app, base_url="http://127.0.0.1:8321")
        return {file: visible(client.get(address).text) for file, address in addresses.items()}
    finally:
        app.state.close()


def _last(events: list[Event]) -> float:
    """Return the time of the last event."""
    starts = [event.time for event in events if isinstance(event, TrialStarted)]
    ends = [event.outcome.finished for event in events if isinstance(event, TrialFinished)]
    return max(moment for moment in (*starts, *ends) if moment is not None)


@contextmanager
def _at(now: float) -> Iterator[None]:
    """Stop the clock, in UTC, and use terminals of 80 columns."""
    try:
        with patch.dict(os.environ, {"TZ": "UTC", "COLUMNS": "80"}), patch("time.time", lambda: now):
            time.tzset()
            yield
    finally:
        time.tzset()
