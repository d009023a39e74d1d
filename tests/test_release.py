"""The metadata of a release: links of the README lead somewhere, and one place has the address."""

from __future__ import annotations

import re
import runpy
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bohb

ROOT = Path(__file__).parent.parent
HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def metadata(address: str) -> dict[str, Any]:
    """Return what the hook adds to the metadata for some address."""
    found: dict[str, Any] = {"version": "1.2.3"}
    HOOK["ProjectMetadata"](str(ROOT), {"address": address}).update(found)
    return found


def test_all_links_of_the_readme_are_absolute_once_the_address_is_known() -> None:
    text = metadata("https://example.org/owner/bohb/")["readme"]["text"]
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 40
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "![" in text
    assert "](https://example.org/owner/bohb/raw/v1.2.3/docs/results/demo.png)" in text
    assert "](https://example.org/owner/bohb/blob/v1.2.3/docs/getting-started.md)" in text


def test_links_within_links_and_anchors_are_understood() -> None:
    absolute = HOOK["absolute"]
    assert absolute("[![a](b.png)](c.md)", "https://h", "1") == "[![a](https://h/raw/v1/b.png)](https://h/blob/v1/c.md)"
    assert absolute("[a](#b) [c](https://d)", "https://h", "1") == "[a](#b) [c](https://d)"


def test_without_an_address_the_readme_stays_as_it_is_and_no_link_is_made_up() -> None:
    found = metadata("")
    assert found["readme"]["text"] == (ROOT / "README.md").read_text()
    assert found["urls"] == {}


def test_with_an_address_the_project_has_links() -> None:
    assert metadata("https://h/bohb")["urls"]["Issues"] == "https://h/bohb/issues"


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert version == bohb.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_only_the_address_may_be_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """The owner writes it; everything else is checked here before a release is."""
    with suppress(SystemExit):
        runpy.run_path(str(ROOT / "tools" / "release.py"))["missing"]()
    missing = capsys.readouterr().out.splitlines()
    assert [line for line in missing if "the project's address" not in line] == []


def test_a_release_is_small_and_has_the_same_bytes_whenever_it_is_built(tmp_path: Path) -> None:
    release = runpy.run_path(str(ROOT / "tools" / "release.py"))
    first, again = release["built"](tmp_path / "first"), release["built"](tmp_path / "again")
    assert [path.name for path in first] == [
        f"bohb-{bohb.__version__}-py3-none-any.whl",
        f"bohb-{bohb.__version__}.tar.gz",
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert max(path.stat().st_size for path in first) <= release["MOST_BYTES"] == 3_000_000


def test_everything_installs_no_pytorch() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    named = set(re.findall(r"[a-z]+", extras["all"][0].partition("[")[2]))
    assert named == set(extras) - {"all", "huggingface"}
