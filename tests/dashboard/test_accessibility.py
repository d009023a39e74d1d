"""axe-core finds nothing wrong with any page, in light and dark, on a screen and on a phone.

axe-core comes from npm once, into `.cache/`; without npm or a network these tests are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from bohb.plots import write_report
from tests.analysis.studies import played
from tests.dashboard.conftest import Opener
from tests.dashboard.test_browser import ADDRESSES, ROOT

PACKAGE = "axe-core@4.14.0"
CHECKSUM = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .map(found => `${found.impact} ${found.id}: ${found.nodes.map(node => node.target.join(" ")).join(", ")}`)"""


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core; a cached archive is used again if it is the known one."""
    folder = ROOT / ".cache" / "npm"
    archive = folder / "axe-core-4.14.0.tgz"
    npm = shutil.which("npm")
    if not archive.exists() and npm is not None:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, timeout=120, check=False)
    if not archive.exists():
        pytest.skip(f"no {PACKAGE}: npm or its registry is missing; put {archive.name} into .cache/npm")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == CHECKSUM, f"{archive} is not the published one"
    with tarfile.open(archive) as tar:
        member = tar.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*ADDRESSES, "report"])
def test_axe_finds_no_violation(
    tab: Opener, axe: str, tmp_path: Path, name: str, scheme: Literal["light", "dark"]
) -> None:
    width = 400 if scheme == "dark" else 1400
    shown = tab(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = shown.page
    if name == "report":
        page.goto(write_report(played("two objectives"), tmp_path / "report.html").as_uri())
        page.locator("html[data-drawn]").wait_for()
    else:
        shown.open(ADDRESSES[name] + ("&select=1,5" if "?" in ADDRESSES[name] else ""))
        if name == "trials":
            page.locator("[data-built]").wait_for()
            page.locator("summary", has_text="Columns").click()
        shown.draw_all()
    page.evaluate("text => { const script = document.createElement('script'); script.textContent = text;"
                  " document.head.append(script); }", axe)  # fmt: skip
    assert page.evaluate(RUN) == []
