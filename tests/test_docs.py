"""The pages in docs/ are true: their code runs as it stands, and what they name exists."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"])
WITH_CODE = ["checkpoints.md", "getting-started.md", "resume.md", "workers.md"]


def blocks(page: Path) -> list[str]:
    """The Python of a page, block by block; each may build on those before it."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_page_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(ROOT / "docs" / name)))
    ran = subprocess.run(
        [sys.executable, "-W", "error", script.name], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout


def test_no_page_with_code_is_left_out() -> None:
    assert [page.name for page in PAGES if blocks(page)] == WITH_CODE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_of_the_package_that_a_page_mentions_exists(page: Path) -> None:
    for dotted in set(re.findall(r"`(bohb(?:\.\w+)+)`", page.read_text())):
        assert _exists(dotted), f"{page.name} mentions {dotted}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_file_that_a_page_mentions_exists(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"
    for target in re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]*)`", text):
        assert (ROOT / target).exists(), f"{page.name} mentions {target}, which does not exist"


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
