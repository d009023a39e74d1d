"""The documentation is correct: its code runs, and the names, files and links it mentions exist.

Each page is run as one script: its `python` and `sh` blocks in order. A `sh` block that begins with `# not run here:`
and a reason is skipped, and so are lines that set up an environment.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bohb.core.settings import PRESETS
from bohb.core.space.shorthand import read_space
from bohb.plots import PLOTS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "reference").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])
NOT_RUN = "# not run here:"
SET_UP = re.compile(r"^(?:pip install|make|git clone|cd|python3? -m venv|\. \S+/activate)\b.*$", flags=re.MULTILINE)
# Pages with shell lines that need a server or a cluster, and the tests that start one and do the same.
ELSEWHERE = {"cluster.md": "tests/executors", "runners.md": "tests/running", "trackers.md": "tests/integrations"}
# Other kinds of block: run by tests/cli/test_session.py, parsed below, or only shown.
OTHER_KINDS = {"console", "toml", "text"}

_FENCE = re.compile(r"^```(\{?[\w-]+\}?)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
_RUN = "import subprocess as _sh; _sh.run(['bash', '-euo', 'pipefail', '-c', {block!r}], check=True)\n"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the blocks of a page as (kind, contents)."""
    return [(kind, text) for kind, text in _FENCE.findall(page.read_text()) if not kind.startswith("{")]


def script_of(page: Path) -> str:
    """Return the code that a reader runs who follows a page from top to bottom."""
    parts = []
    for kind, text in blocks(page):
        if kind == "python":
            parts.append(text)
        elif kind == "sh" and not text.startswith(NOT_RUN) and page.name not in ELSEWHERE:
            lines = SET_UP.sub("", text)
            parts += [_RUN.format(block=lines)] if lines.strip() else []
    return "\n".join(parts)


@pytest.mark.parametrize("page", [page for page in PAGES if script_of(page)], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(script_of(page))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout


def test_no_block_is_of_a_kind_that_nobody_checks() -> None:
    kinds = {(page.name, kind) for page in PAGES for kind, _ in blocks(page)}
    assert {kind for _, kind in kinds} <= {"python", "sh", *OTHER_KINDS}
    assert {name for name, kind in kinds if kind == "console"} == {"cli.md"}


def test_a_block_that_is_not_run_says_why_and_there_are_few() -> None:
    skipped = [text for page in PAGES for kind, text in blocks(page) if kind == "sh" and text.startswith(NOT_RUN)]
    assert all(len(text.splitlines()[0]) > len(NOT_RUN) + 10 for text in skipped)
    assert len(skipped) <= 8
    for tests in ELSEWHERE.values():
        assert (ROOT / tests).is_dir()


def test_the_study_files_of_a_page_can_be_read() -> None:
    for page in PAGES:
        for kind, text in blocks(page):
            if kind == "toml":
                table = tomllib.loads(text)
                if "space" in table:  # a page may show a part of a file
                    assert len(read_space(table["space"], toml=True)) > 0


def test_every_name_of_the_package_that_a_page_mentions_exists() -> None:
    for page in PAGES:
        for dotted in set(re.findall(r"`(bohb(?:\.\w+)+)`", page.read_text())):
            assert _exists(dotted), f"{page.name} mentions {dotted}, which does not exist"


def test_every_link_and_file_that_a_page_mentions_exists() -> None:
    for page in PAGES:
        prose = _FENCE.sub("", page.read_text())
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"`[^`\n]*\]\([^`\n]*`", "", prose)):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"
        for target in re.findall(r"`((?:src|tests|docs|examples|benchmarks|tools)/[\w./-]*)`", prose):
            assert (ROOT / target).exists(), f"{page.name} mentions {target}, which does not exist"


def test_every_test_that_the_promises_name_exists_and_every_promise_names_one() -> None:
    page = (DOCS / "promises.md").read_text()
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(?:\w+::)?(\w+)`", page):
        assert Path(file).name.startswith("test_"), f"{file} is not collected by pytest"
        contracts = [*(ROOT / "src" / "bohb" / "testing").glob("*.py"), ROOT / "tests" / "journal" / "contract.py"]
        sources = [ROOT / file, *contracts]  # or in the contract it inherits
        assert any(f"def {name}(" in source.read_text() for source in sources), f"{file} has no {name}"
    promised, tested = (re.findall(r"^\| (\d+) \|", part, flags=re.MULTILINE) for part in page.split("## The tests"))
    assert promised == tested == [str(n + 1) for n in range(len(promised))]


def test_every_make_target_and_extra_that_a_page_mentions_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for page in PAGES:
        text = page.read_text()
        assert set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, flags=re.MULTILINE)) <= targets, page.name
        named = {name for names in re.findall(r"(?:bohb|\.)\[([\w,]+)\]", text) for name in names.split(",")}
        assert named <= extras, page.name


def test_every_page_is_in_the_navigation() -> None:
    listed = {
        (index.parent / entry).relative_to(DOCS).as_posix()
        for index in (DOCS / "index.md", DOCS / "reference" / "index.md")
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", index.read_text(), flags=re.DOTALL | re.MULTILINE)
        for entry in re.findall(r"^[a-z][\w/-]*$", tree, flags=re.MULTILINE)
    }
    shown = [*(page for page in PAGES if DOCS in page.parents), *(DOCS / "notebooks").glob("*.ipynb")]
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in shown}
    assert listed == pages - {"index"}


def test_the_page_about_plots_has_a_section_with_a_figure_for_each_plot() -> None:
    page = " ".join((DOCS / "plots.md").read_text().split())
    for key, plot in PLOTS.items():
        assert f"## {plot.title} ![{plot.title}](images/plot-{key}.png) `{key}`: " in page


def test_the_tables_of_measurements_say_what_the_result_files_say() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "measured.py"), "--check"], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr


def test_the_tables_of_the_study_come_from_its_files_or_name_the_command_that_makes_them(tmp_path: Path) -> None:
    block = runpy.run_path(str(ROOT / "tools" / "measured.py"))["block"]
    block.__globals__["ROOT"] = tmp_path
    assert "`python -m benchmarks.better.study --part one_budget`" in block("better_one_budget")
    row = {"name": "BOHB", "half": "confirming", "ratio": 2.345, "low": 1.5, "high": 3.25}
    source = {"runs": {"there": 4, "wanted": 5}, "seeds by method": {"best": "2", "bohb": "1 to 2"}}
    body = {"source": source, "rows": [{**row, "point": point} for point in (6.0, 60.0)]}
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "better_one_budget.json").write_text(json.dumps(body))
    made = block("better_one_budget")
    assert " | 2.35 [1.50, 3.25] | 2.35 [1.50, 3.25] |\n" in made
    assert "4 of 5 runs; seeds per problem: BEST 2, BOHB as published 1 to 2." in made
    assert "(results/better_one_budget.md)" in made


def test_the_pages_about_the_preset_have_the_numbers_of_the_code() -> None:
    page = (DOCS / "better.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]* \| [^|]*) \|", page, flags=re.MULTILINE))
    differing = {name for name, value in PRESETS["best"].to_json().items() if value != PRESETS["paper"].to_json()[name]}
    assert differing <= set(rows)
    for name, cells in rows.items():
        assert cells.split(" | ") == [_in_a_table(getattr(PRESETS[key], name)) for key in ("paper", "best")], name
    process = (DOCS / "process.md").read_text()
    constants = re.findall(r"^\| `(bohb[\w.]*)\.([A-Z_]+)` \| ([^|]*) \|", process, flags=re.MULTILINE)
    assert len(constants) > 10
    for module, name, value in constants:
        assert getattr(importlib.import_module(module), name) == ast.literal_eval(value), name


def test_a_broken_link_anchor_or_image_fails_the_site_and_so_does_what_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    problems = runpy.run_path(str(ROOT / "tools" / "check_site.py"))["problems"]
    (tmp_path / "other.html").write_text('<h1 id="here">there</h1>')
    page = tmp_path / "index.html"
    page.write_text('<a href="other.html#here">x</a><a href="https://example.org">x</a><a href="#top" id="top">x</a>')
    assert problems(tmp_path) == []
    broken = ("<a href='gone.html'>", "<a href='other.html#gone'>", "<img src='gone.png'>", "<script src='//cdn/x.js'>")
    for markup in broken:
        page.write_text(markup)
        assert len(problems(tmp_path)) == 1, markup


def test_docstrings_become_fields_examples_and_plain_text() -> None:
    as_rst = runpy.run_path(str(ROOT / "tools" / "docstrings.py"))["as_rst"]
    lines = [
        "A sentence.",
        "",
        "one, two: what they",
        "    mean, with |bars|.",
        "**more: `code_` stays.",
        "",
        "    an = example",
    ]
    assert as_rst(lines) == [
        "A sentence.", "", "", ":one, two: what they mean, with \\|bars\\|.", ":\\*\\*more: `code_` stays.", "",
        "::", "", "    an = example",
    ]  # fmt: skip


def _in_a_table(value: object) -> str:
    return f'`"{value}"`' if isinstance(value, str) else "1/3" if value == 1 / 3 else str(value)


def _exists(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found is not None
    return False
