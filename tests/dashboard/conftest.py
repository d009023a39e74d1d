from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from bohb.dashboard import create_app
from tests.dashboard.demo import HOSTILE_NAMES, build, build_hostile
from tests.dashboard.tabs import Tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

Opener = Callable[..., Tab]
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ordinary studies, one of them with trials still running, and those with hostile names."""
    path = tmp_path_factory.mktemp("dashboard") / "demo.db"
    build(path, "digits", trials=60, seed=3, now=time.time() - 30)
    build(path, "digits again", trials=30, seed=4, now=time.time() - 4000)
    for name in HOSTILE_NAMES:
        build_hostile(path, name)
    return path


@contextmanager
def serving(journal: Path, *arguments: str) -> Iterator[str]:
    """A server in a process of its own; its address."""
    call = f"from bohb.dashboard import serve; serve({str(journal)!r}, port=0, {', '.join(arguments)})"
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", call], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None, "the server did not start"
            yield found.group()
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def server(journal: Path) -> Iterator[str]:
    with serving(journal) as address:
        yield address.rstrip("/")


@contextmanager
def serving_here(journal: Path, token: str | None = None) -> Iterator[str]:
    """A server in a thread of this process, which starts sooner; its address."""
    app = create_app(journal, token)
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running.should_exit = running.force_exit = True
            thread.join()
            app.state.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def usual(browser: Browser) -> Iterator[BrowserContext]:
    """Most tests share this one, and with it the browser's cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def tab(browser: Browser, usual: BrowserContext, server: str) -> Iterator[Opener]:
    opened: list[BrowserContext | Page] = []

    def new(at: str = server, **options: Any) -> Tab:
        context = browser.new_context(**options) if options else usual
        page = context.new_page()
        page.set_default_timeout(90_000)  # the machine may be busy
        opened.append(context if options else page)
        return Tab(page, at)

    yield new
    for thing in opened:
        thing.close()
