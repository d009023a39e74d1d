"""Make the pictures in docs/images from a demo study: python -m tests.dashboard.make_screenshots"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from bohb.journal import SqlJournal
from tests.dashboard.conftest import CHROMIUM_FLAGS, serving_here
from tests.dashboard.demo import build

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
SIZE = {"width": 1200, "height": 750}
LARGEST = 150_000  # bytes


def main() -> None:
    """The overview of a running study, light and dark, and its trials with a selection."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        journal = Path(scratch) / "study.db"
        build(journal, "digits-mlp", trials=220, seed=3, now=time.time() - 8)
        with SqlJournal(journal, "digits-mlp") as shared:
            shared.renew_lease("node-7:4711:9f2c41d0", 3600)
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_FLAGS)
        with serving_here(journal) as address:
            for scheme in ("light", "dark"):
                picture(chromium, f"{address}/study?study=digits-mlp", scheme, f"dashboard-{scheme}")
            best = "number,loss,status,budget,config.learning_rate,config.units,config.optimizer,info.accuracy"
            query = f"sort=loss&order=asc&select=181,182,184&columns={best}"
            picture(chromium, f"{address}/trials?study=digits-mlp&{query}", "light", "dashboard-trials")
        chromium.close()


def picture(browser: Browser, address: str, scheme: Literal["light", "dark"], name: str) -> None:
    """One picture, with as few colours as it needs to stay small."""
    path = IMAGES / f"{name}.png"
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]  # a TypedDict by shape
    page = context.new_page()
    page.set_default_timeout(120_000)  # the machine may be busy
    page.goto(address)
    page.locator("[data-drawn]").first.wait_for(state="attached")
    if name == "dashboard-trials":
        page.locator("[data-built]").wait_for()
        page.locator(".tabulator-row").first.wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=path)
    context.close()
    with Image.open(path) as shot:
        shot.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < LARGEST, f"{path} has {path.stat().st_size} bytes"


if __name__ == "__main__":
    main()
