"""A browser's tab that keeps what the browser complained about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Tab:
    """A page and whatever the browser complained about."""

    def __init__(self, page: Page, server: str) -> None:
        self.page = page
        self.server = server
        self.complaints: list[str] = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def open(self, address: str) -> Page:
        self.page.goto(self.server + address)
        return self.page

    def draw_all(self, which: str = "") -> None:
        """Scroll through all plots, or those within `which`, until they are drawn."""
        figures = self.page.locator(f"{which} [data-figure]:visible")
        for index in range(figures.count()):
            figures.nth(index).scroll_into_view_if_needed()
            figures.nth(index).locator("svg.main-svg").first.wait_for(timeout=120_000)


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False
