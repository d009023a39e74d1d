"""The pages in a real browser: they work, they follow a running study, and nothing in them can be made to run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

import pytest

from bohb.plots import write_report
from tests.analysis.studies import ordinary_plots, played
from tests.dashboard.conftest import Opener, serving_here
from tests.dashboard.demo import HOSTILE, HOSTILE_NAMES
from tests.dashboard.tabs import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent.parent
ADDRESSES = {
    "list": "/",
    "overview": "/study?study=digits",
    "trials": "/trials?study=digits",
    "trial": "/trial?study=digits&number=1",
    "plots": "/plots?study=digits",
    "selected": "/selected?study=digits&number=1&number=5&number=7",
    "compare": "/compare?study=digits&study=digits+again",
}


CONTROLS = "main :is(input:not([type=hidden]), select, button, a[href], table, progress)"
UNNAMED = f"""[...document.querySelectorAll("{CONTROLS}")].filter(e => !e.closest(".plot"))
    .filter(e => !((e.labels && e.labels.length) || e.textContent.trim() || e.ariaLabel || e.caption))
    .map(e => e.outerHTML)"""


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_page_comes_without_complaint_and_fits_any_width(tab: Opener, name: str) -> None:
    shown = tab()
    asked: list[str] = []
    shown.page.on("request", lambda request: asked.append(request.url))
    page = shown.open(ADDRESSES[name])
    shown.draw_all()
    assert asked
    assert all(url.startswith((shown.server, "blob:", "data:")) for url in asked), "nothing comes from another host"
    assert page.locator("h1").count() == 1
    if name == "plots":
        assert page.locator("[data-figure] svg.main-svg").count() >= len(ordinary_plots())
    assert page.evaluate(UNNAMED) == []
    ids = page.evaluate("[...document.querySelectorAll('main > *, main > * [id]')].map(e => e.id).filter(Boolean)")
    own = [name for name in ids if not re.search("clip|legend|topdefs|defs|xy|toolbar|modebar|tabulator", name)]
    assert len(own) == len(set(own)), "ids are unique"
    fits = "document.documentElement.scrollWidth <= innerWidth"
    for width in (320,) if name == "plots" else (768, 320):  # plots are drawn anew for each
        page.set_viewport_size({"width": width, "height": 700})
        assert eventually(lambda: bool(page.evaluate(fits))), f"the page scrolls sideways at {width} pixels"
    assert shown.complaints == []


def test_every_link_of_the_site_leads_to_a_page(tab: Opener, server: str) -> None:
    shown = tab()
    seen: set[str] = set()
    queue = ["/", ADDRESSES["compare"], ADDRESSES["selected"], "/study?study=" + quote_plus(HOSTILE)]
    kinds: dict[str, int] = {}
    while queue:
        address = queue.pop(0)
        kind = re.sub(r"=[^&]*", "=", address)  # a few of each kind of address are enough
        kinds[kind] = kinds.get(kind, 0) + 1
        if address in seen or kinds[kind] > 2:
            continue
        seen.add(address)
        answer = shown.page.request.get(server + address)
        assert answer.status == 200, address
        if "text/html" in answer.headers["content-type"]:
            found = re.findall(r'(?:href|src|data-figure|data-trials|data-version-url)="([^"]*)"', answer.text())
            queue += [link.replace("&amp;", "&") for link in found if link.startswith("/")]
    paths = {address.partition("?")[0] for address in seen}
    assert {"/study", "/trials", "/trial", "/plots", "/compare", "/selected", "/api/figure", "/api/trials"} <= paths


@pytest.mark.parametrize("page_name", ["plots", "trial", "trials", "selected"])
def test_a_study_and_a_choice_named_script_stay_text(tab: Opener, page_name: str) -> None:
    shown = tab()
    page = shown.open(f"/{page_name}?study={quote_plus(HOSTILE)}&number=3&select=1,3")
    if page_name == "trials":
        page.locator(".tabulator-cell", has_text=HOSTILE).first.wait_for()
        page.locator("summary", has_text="Columns").click()
        page.locator("#columns label", has_text=HOSTILE).first.wait_for()
    shown.draw_all(":is(#slice, #importance)" if page_name == "plots" else "")
    assert HOSTILE in page.inner_text("body")
    assert page.evaluate("[...document.scripts].every(s => s.src.startsWith(location.origin + '/static/'))")
    if page_name == "plots":
        drawn = page.locator("svg text").all_text_contents()
        assert any("<script>" in text for text in drawn), "plots show the name as it is"
    assert shown.complaints == []


def test_studies_of_any_name_can_be_reached_by_their_links(tab: Opener) -> None:
    shown = tab()
    for name in (HOSTILE, "a/b\\c?d#e&f=g%2F..;h"):
        assert name in HOSTILE_NAMES
        page = shown.open("/")
        page.locator("tbody th a", has_text=re.compile(f"^{re.escape(name)}$")).click()
        page.locator("h1", has_text=name).wait_for()
        page.get_by_role("link", name="Trials", exact=True).click()
        page.locator("#found", has_text=f"{15 if name == HOSTILE else 5} trials").wait_for()
    assert shown.complaints == []


def test_pages_follow_a_study_that_runs(tab: Opener, tmp_path: Path) -> None:
    journal = tmp_path / "live.db"
    with serving_here(journal) as address:
        shown = tab(address)
        page = shown.open("/")
        assert "cannot be read" in page.inner_text("h1")
        running = subprocess.Popen(
            [sys.executable, "-m", "tests.dashboard.slow_study", str(journal)], cwd=ROOT, env=os.environ
        )
        try:
            page.locator("tbody th a", has_text="live").click(timeout=120_000)  # the page has noticed by itself
            _follow_overview(page)
            _follow_table(page)
            page.locator(".tabulator-cell a", has_text=re.compile("^0$")).click()
            page.locator("pre.log", has_text="output of trial 0").wait_for()
        finally:
            running.terminate()
            running.wait()
    shown.complaints = [text for text in shown.complaints if "503" not in text]  # while there was no journal
    assert shown.complaints == []


def _follow_overview(page: Page) -> None:
    done = page.locator("dt", has_text="Trials finished").locator("xpath=following-sibling::dd")
    first = int(done.inner_text(timeout=60_000).split()[0])
    page.locator("[data-drawn]").first.wait_for(state="attached", timeout=120_000)
    page.locator("#brackets summary, .brackets a").first.focus()
    page.evaluate("document.body.dataset.mark = 'same page'; scrollTo(0, 120)")
    assert eventually(lambda: int(done.inner_text().split()[0]) > first + 2)
    assert page.evaluate("document.body.dataset.mark") == "same page", "it was not loaded again"
    assert page.evaluate("scrollY") == 120, "it stays where it was scrolled to"
    assert page.evaluate("document.activeElement.tagName") == "A", "the focus stays"


def _follow_table(page: Page) -> None:
    page.get_by_role("link", name="Trials", exact=True).click()
    page.locator("[data-built]").wait_for()
    page.locator(".tabulator-col", has_text="Trial").click()
    page.locator(".tabulator-col[aria-sort=ascending]", has_text="Trial").wait_for()
    page.fill("#q", "x < 0.5")
    found = page.locator("#found")
    assert eventually(lambda: " of " in found.inner_text())
    count = found.inner_text()
    assert eventually(lambda: found.inner_text() != count), "new trials appear by themselves"
    assert page.input_value("#q") == "x < 0.5"
    assert page.locator(".tabulator-col[aria-sort=ascending]", has_text="Trial").count() == 1
    page.fill("#q", "")
    assert eventually(lambda: "q=" not in page.evaluate("location.href"))


def test_tables_work_without_scripts(tab: Opener) -> None:
    page = tab(java_script_enabled=False).open(ADDRESSES["trials"])
    page.fill("#q", "activation = gelu")
    page.get_by_role("button", name="Show").click()
    assert " of 64 trials" in page.inner_text("#found")
    assert set(page.locator("td", has_text=re.compile("gelu|relu|tanh")).all_inner_texts()) == {"gelu"}
    assert page.input_value("#q") == "activation = gelu"
    page.fill("#q", "activations = gelu")
    page.get_by_role("button", name="Show").click()
    assert "did you mean 'activation'" in page.inner_text("#found")


def test_the_theme_is_remembered_and_a_menu_draws_another_plot(tab: Opener) -> None:
    shown = tab(color_scheme="light", viewport={"width": 1280, "height": 900})
    page = shown.open(ADDRESSES["plots"])
    ground = "getComputedStyle(document.body).backgroundColor"
    assert _luminance(page.evaluate(ground)) > 0.8
    for expected in ("Theme: light", "Theme: dark"):
        page.locator("#theme").click()
        assert page.inner_text("#theme") == expected
    assert _luminance(page.evaluate(ground)) < 0.2
    page.reload()
    assert _luminance(page.evaluate(ground)) < 0.2, "it is remembered"
    shown.draw_all("#contour")
    title = page.locator("#contour .xtitle")
    page.select_option("#contour-x", "units")
    assert eventually(lambda: title.text_content() == "units (log scale)")
    shown.draw_all("#trajectory")
    page.select_option("#trajectory-scale", "log")
    assert eventually(lambda: page.evaluate("document.querySelector('#trajectory .plot').layout.yaxis.type") == "log")
    plot = "getComputedStyle(document.querySelector('#contour svg.main-svg')).backgroundColor"
    assert _luminance(page.evaluate(plot)) < 0.2, "plots follow the theme"
    assert shown.complaints == []


def test_a_report_draws_all_plots_and_what_its_menus_choose_without_a_server(tab: Opener, tmp_path: Path) -> None:
    shown = tab(color_scheme="dark")
    page = shown.page
    page.goto(write_report(played("hostile"), tmp_path / "report.html", name=HOSTILE).as_uri())
    slice_of = page.locator("#slice [data-figure]")
    page.locator(f"html[data-drawn='{len(ordinary_plots())}']").wait_for()
    assert page.locator("svg.main-svg").count() >= len(ordinary_plots())
    assert slice_of.count() == 1
    slices = "document.querySelector('#slice .plot')"
    titles = f"{slices}.layout.annotations.map(a => a.text).join()"
    both = page.evaluate(titles)
    page.select_option("#slice-parameter", index=1)
    assert eventually(lambda: page.evaluate(titles) != both)
    page.select_option("#slice-budget", "3")
    assert eventually(lambda: page.evaluate(titles) == both)
    assert page.input_value("#slice-parameter") == "", "the file has no figure for two choices at once"
    page.select_option("#slice-scale", "log")
    assert eventually(lambda: page.evaluate(f"{slices}.layout.yaxis.type") == "log")
    page.locator("#theme").click()
    assert page.inner_text("#theme") == "Theme: light"
    ground = "getComputedStyle(document.querySelector('#slice svg.main-svg')).backgroundColor"
    assert eventually(lambda: _luminance(page.evaluate(ground)) > 0.8), "plots follow the theme"
    page.evaluate("bohbScale(document.getElementById('slice-scale'), {meta: {no_log: 'not for a maximised score'}})")
    log = page.locator("#slice-scale option[value=log]")
    assert (log.is_disabled(), log.text_content()) == (True, "log: not for a maximised score")
    assert page.input_value("#slice-scale") == ""
    assert shown.complaints == []


def test_no_button_lies_on_the_code_that_it_copies(tab: Opener, tmp_path: Path) -> None:
    page = tab(viewport={"width": 1400, "height": 900}).page
    page.goto(write_report(played("many parameters"), tmp_path / "report.html").as_uri())
    page.locator("button.copy").first.wait_for()
    covered = page.evaluate("""() => [...document.querySelectorAll(".code")].map((code) => {
      const button = code.querySelector("button").getBoundingClientRect(), text = document.createRange();
      text.selectNodeContents(code.querySelector("code"));
      return [...text.getClientRects()].some((line) => line.right > button.left && line.top < button.bottom);
    })""")
    assert len(covered) >= 3
    assert not any(covered)
    rows = page.evaluate("[...document.querySelectorAll('.config tr')].map((row) => row.offsetHeight)")
    assert max(rows) < 40, "the table is not stretched to the height of the code beside it"


def test_the_keyboard_reaches_everything(tab: Opener) -> None:
    page = tab().open(ADDRESSES["trials"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0, "it is seen when it has the focus"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("[data-built]").wait_for()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", reached[-1]
    assert reached[0] == "q"
    assert {"failed-only", "Columns", "Loss", "Budget"} <= set(reached)
    page.get_by_role("button", name="Loss", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator(".tabulator-col[aria-sort=ascending]", has_text="Loss").wait_for()
    assert eventually(lambda: "sort=loss" in page.evaluate("location.href"))
    page.locator("summary", has_text="Columns").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Move Status to the left").focus()
    page.keyboard.press("Enter")
    page.locator(".tabulator-col").nth(2).get_by_text("Status").wait_for()
    row = "document.activeElement.closest('.column')?.textContent"
    assert "Status" in page.evaluate(row), "the focus stays in its row"


def test_a_phone_shows_the_overview_in_light_and_dark(tab: Opener) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
    shown = tab(color_scheme="dark", **phone)
    page = shown.open(ADDRESSES["overview"])
    page.locator("[data-figure]").first.scroll_into_view_if_needed()
    page.locator("[data-drawn]").first.wait_for(state="attached", timeout=120_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    heights = page.evaluate("[...document.querySelectorAll('nav a, button')].map(e => e.offsetHeight)")
    assert min(height for height in heights if height) >= 24, "a finger can hit them"
    plot = "getComputedStyle(document.querySelector('svg.main-svg')).backgroundColor"
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        ground = _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert (ground < 0.2) == (scheme == "dark")
        for selector in ("body", "dt", "a[href]", ".badge", ".note", "thead th"):
            ink = _luminance(page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).color"))
            bright, dim = max(ink, ground), min(ink, ground)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, selector
        as_told = partial(lambda dark: (_luminance(page.evaluate(plot)) < 0.2) == dark, scheme == "dark")
        assert eventually(as_told), "plots follow the scheme"
    assert shown.complaints == []


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_token_opens_the_pages_once_and_leaves_the_address(tab: Opener, journal: Path) -> None:
    with serving_here(journal, "a-secret-for-the-test") as base:
        stranger = tab(base)
        answer = stranger.page.goto(base + "/?token=wrong-wrong")
        assert answer is not None
        assert answer.status == 401
        assert "token" in stranger.page.inner_text("h1")
        friend = tab(base)
        friend.open("/trials?study=digits&token=a-secret-for-the-test")
        assert "token" not in friend.page.url
        friend.page.locator("[data-built]").wait_for()
        assert friend.page.evaluate("document.cookie") == "", "scripts cannot read it"
        assert friend.complaints == []


def test_another_site_cannot_look_inside(tab: Opener, server: str) -> None:
    """For a browser, the same server under another of its names is another site."""
    shown = tab(server.replace("127.0.0.1", "localhost"))
    page = shown.open("/")
    blocked = page.evaluate(
        "address => fetch(address, {mode: 'no-cors'}).then(() => 'loaded', () => 'blocked')", server + "/api/version"
    )
    assert blocked == "blocked"
    stranger = tab().page
    stranger.goto("about:blank")
    stranger.set_content(f'<iframe src="{server}/"></iframe><script src="{server}/static/live.js"></script>')
    stranger.wait_for_timeout(300)
    assert all("Studies" not in frame.content() for frame in stranger.frames if frame != stranger.main_frame)
