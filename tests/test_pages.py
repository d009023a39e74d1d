"""The pages can be read: one screen first, few lines, words of the present, and numbers of the result files."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from pathlib import Path

import pytest
from benchmarks import pages
from benchmarks.report import RESULTS, goal_table, opening

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
RESULT_PAGES = [path for path in sorted(RESULTS.glob("*.md")) if path.name != "README.md"]
MOST_LINES = {"CHANGELOG.md": 60}  # of a page; all others 300
FIRST_SCREEN = 30  # lines of a result page before its first table
# Words that nobody understands who has not read the code or its history.
BANNED = (
    r"choosing problems?", r"confirming (?:problems?|ones)", r"earlier versions? of (?:BEST|`BEST`|the preset|it)",
    r"(?:the|an) earlier version", r"of its kind", r"changed during development", r"the present (?:preset|one|rule)",
    r"version \W?(?:informed|hyperband_order|equal_neighbours|fewer_random|mixture)", r"seventeen",
    r"[Nn]o difference is shown", r"Better than the paper",
)  # fmt: skip


def text_of(page: Path) -> str:
    """Return a page as one line."""
    return " ".join(page.read_text().split())


@pytest.mark.parametrize("page", [page for page in PROSE if page.parent != RESULTS], ids=lambda page: page.stem)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= MOST_LINES.get(page.name, 300)


@pytest.mark.parametrize("page", RESULT_PAGES, ids=lambda page: page.stem)
def test_a_result_page_opens_with_a_question_a_figure_and_what_was_found(page: Path) -> None:
    lines = page.read_text().splitlines()
    before = list(takewhile(lambda line: not line.startswith("|"), lines))
    assert len(before) <= FIRST_SCREEN
    assert lines[0].startswith("# ")
    paragraphs = [part.strip() for part in "\n".join(before).split("\n\n")[1:] if not part.startswith("#")]
    assert paragraphs[0].startswith("**Question.** ")
    assert paragraphs[0].endswith("?")
    figure = re.fullmatch(r"!\[[^]]+\]\((\w+\.png)\)", paragraphs[1])
    assert (figure is not None) or not (RESULTS / f"{page.stem}.png").exists(), "the figure belongs after the question"
    found = paragraphs[2 if figure else 1]
    assert found.endswith(".")
    assert len(found) < 600


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_speaks_of_the_present_in_common_words(page: Path) -> None:
    for words in BANNED:
        assert not re.search(words, text_of(page)), words


def test_every_heading_that_a_page_links_to_exists() -> None:
    for page in PROSE:
        for file, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text()):
            target = page.parent / file if file else page
            assert anchor in anchors(target), f"{page.name} links to #{anchor} of {target.name}, which does not exist"


def anchors(page: Path) -> set[str]:
    """Return the names by which links find the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_docstrings_speak_of_the_present_in_common_words() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
        text = " ".join(" ".join((ast.get_docstring(node) or "").split()) for node in nodes)
        for words in BANNED:
            assert not re.search(words, text), f"{path}: {words}"


@pytest.mark.parametrize("name", [*pages.PAGES, "claims"])
def test_a_result_page_has_the_numbers_of_its_result_file(name: str) -> None:
    assert (RESULTS / f"{name}.md").read_text() == pages.made(name), f"run python -m benchmarks.pages {name}"


def test_a_page_opens_with_its_question_its_figure_and_its_sentences() -> None:
    assert opening("Title", "Is it?", ["It is.", "It was."], "it.png") == [
        "# Title", "", "**Question.** Is it?", "", "![Title](it.png)", "", "It is. It was.", "",
    ]  # fmt: skip
    assert opening("Title", "Is it?", ["It is."])[3:] == ["", "It is.", ""]


def test_goals_become_a_table_with_what_was_measured_after_the_last_colon() -> None:
    lines = ["met           a: at most 8: 6.5", "not met       b: 3", "inconclusive  c: 4"]
    assert goal_table(lines)[2:] == ["| a: at most 8 | 6.5 | met |", "| b | 3 | not met |", "| c | 4 | inconclusive |"]
