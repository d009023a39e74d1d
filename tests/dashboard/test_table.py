"""The table of trials and the selection in a browser: columns, filters, linked plots, and what the address keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from bohb import BOHB, Outcome, Status
from bohb.journal import SqlJournal
from tests.dashboard.conftest import Opener, serving_here
from tests.dashboard.tabs import Tab, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

TRIALS = "/trials?study=digits"
SELECTED = "[...bohbSelection.numbers()].sort((a, b) => a - b)"


def built(shown: Tab, address: str = TRIALS) -> Page:
    page = shown.open(address)
    page.locator("[data-built]").wait_for()
    return page


def titles(page: Page) -> list[str]:
    return [text for text in page.locator(".tabulator-col-title").all_inner_texts() if text.strip() != "Selected"]


def asked(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.evaluate("location.href")).query)


def test_columns_are_chosen_moved_and_hidden_and_the_address_keeps_that(tab: Opener) -> None:
    shown = tab()
    page = built(shown)
    usual = titles(page)
    assert usual[:3] == ["Trial", "Loss", "Status"]
    assert "Seed" not in usual
    page.locator("summary", has_text="Columns").click()
    page.get_by_label("Seed", exact=True).check()
    page.get_by_label("dropout", exact=True).uncheck()
    page.get_by_role("button", name="Move Status to the left").click()
    expected = ["Trial", "Status", "Loss", *(name for name in usual[3:] if name != "dropout"), "Seed"]
    assert eventually(lambda: titles(page) == expected)
    page.reload()
    page.locator("[data-built]").wait_for()
    assert eventually(lambda: titles(page) == expected), "another reader of the address sees the same"
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("button", name="Usual columns").click()
    assert eventually(lambda: titles(page) == usual)
    assert "columns" not in asked(page)
    assert shown.complaints == []


def test_a_filter_shows_what_it_says_as_one_types_and_names_what_it_does_not_know(tab: Opener) -> None:
    shown = tab()
    page = built(shown)
    page.fill("#q", "learning_rate < 1e-3 budget = 9")
    page.locator("#found", has_text=" of 64 trials").wait_for()
    assert asked(page)["q"] == ["learning_rate < 1e-3 budget = 9"]
    page.locator("#failed-only").check()
    assert eventually(lambda: asked(page)["q"] == ["learning_rate < 1e-3 budget = 9 status = failed"])
    page.locator("#failed-only").uncheck()
    page.locator(".tabulator-col", has_text="Loss").click()
    assert eventually(lambda: asked(page).get("sort") == ["loss"])
    page.reload()
    page.locator("[data-built]").wait_for()
    assert page.input_value("#q") == "learning_rate < 1e-3 budget = 9"
    page.locator(".tabulator-col[aria-sort=ascending]", has_text="Loss").wait_for()
    link = urlsplit(page.get_attribute("#download", "href") or "")
    assert parse_qs(link.query)["q"] == ["learning_rate < 1e-3 budget = 9"]
    page.fill("#q", "learning_rat < 1")
    page.locator("#found.trouble", has_text="did you mean 'learning_rate'?").wait_for()
    shown.complaints = [text for text in shown.complaints if "400" not in text]  # the browser notes the refusal
    assert shown.complaints == []


def test_trials_selected_in_the_table_are_selected_everywhere_and_compared(tab: Opener) -> None:
    shown = tab()
    page = built(shown)
    numbers = [int(text) for text in page.locator(".tabulator-cell a").all_inner_texts()[4:7]]
    for number in numbers:
        page.get_by_label(f"Select trial {number}", exact=True).check()
    assert page.evaluate(SELECTED) == sorted(numbers)
    assert sorted(map(int, asked(page)["select"][0].split(","))) == sorted(numbers)
    assert page.locator(".tabulator-row.chosen").count() == 3
    page.locator("#selected-count", has_text="3 trials selected").wait_for()
    shown.draw_all("#selected-plot")
    assert eventually(lambda: page.locator("#selected .textpoint").count() >= 1), "marks have their budgets"
    page.get_by_role("link", name="Plots", exact=True).click()
    assert page.evaluate(SELECTED) == sorted(numbers), "the tab remembers them"
    shown.draw_all(":is(#losses)")
    points = "document.querySelector('#losses .plot').data.flatMap(t => t.selectedpoints ?? []).length"
    assert eventually(lambda: page.evaluate(points) > 0)
    page.get_by_role("link", name="Compare them").click()
    page.locator("h1", has_text="3 selected trials").wait_for()
    names = page.locator("caption", has_text="that differ").locator("xpath=..").locator("thead th").all_inner_texts()
    assert sorted(map(int, names[1:])) == sorted(numbers)
    page.get_by_role("button", name="Select none").click()
    assert page.evaluate(SELECTED) == []
    assert page.locator("#selection").is_hidden()
    assert shown.complaints == []


@pytest.mark.parametrize("plot", ["parallel", "slice", "importance"])
def test_a_box_or_a_bar_of_a_plot_selects_trials_in_the_table(tab: Opener, plot: str) -> None:
    shown = tab()
    page = built(shown)
    shown.draw_all(f"#{plot}")
    if plot == "importance":
        best = page.evaluate("document.querySelector('#importance .plot').layout.meta.best")
        bar = page.locator("#importance .bars path").last.bounding_box()
        assert bar is not None
        page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
        assert eventually(lambda: page.evaluate(SELECTED) == sorted(best))
    else:
        area = page.locator(f"#{plot} .nsewdrag").first
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 0.05 * box["width"], box["y"] + 0.4 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 0.99 * box["height"], steps=8)
        page.mouse.up()
        assert eventually(lambda: len(page.evaluate(SELECTED)) > 0)
    chosen = page.evaluate(SELECTED)
    page.locator("#selected-only").check()
    page.locator("#found", has_text=f"{len(chosen)} of 64 trials").wait_for()
    rows = page.locator(".tabulator-cell a").all_inner_texts()
    assert rows
    assert set(map(int, rows)) <= set(chosen)
    assert page.locator(".tabulator-row.chosen").count() == len(rows)
    assert shown.complaints == []


@pytest.fixture(scope="module")
def ten_thousand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("large") / "large.db"
    with SqlJournal(path, "large") as journal:
        optimizer = BOHB({"x": (0.0, 1.0), "c": ["a", "b"]}, budgets=[1], seed=1, preset="paper", random_fraction=1.0,
                         journal=journal, duplicates=True)  # fmt: skip
        for _ in range(10):
            trials = optimizer.ask_many(1000)
            optimizer.tell_many((t, Outcome(Status.OK, loss=t.config["x"], worker=f"w{t.number % 7}")) for t in trials)
    with serving_here(path) as address:
        yield address


def test_ten_thousand_trials_are_one_table_of_which_only_the_visible_rows_are_drawn(
    tab: Opener, ten_thousand: str
) -> None:
    shown = tab(ten_thousand)
    page = built(shown, "/trials?study=large")
    page.locator("#found", has_text="10 000 trials").wait_for()
    holder = page.locator(".tabulator-tableholder")
    assert page.locator(".tabulator-row").count() < 200
    holder.evaluate("e => { e.scrollTop = e.scrollHeight; }")
    page.locator(".tabulator-cell a", has_text=re.compile("^0$")).wait_for()
    page.locator(".tabulator-col", has_text="Loss").click()
    page.locator(".tabulator-col[aria-sort=ascending]", has_text="Loss").wait_for()
    holder.evaluate("e => { e.scrollTop = 0; }")
    losses = page.locator('.tabulator-cell[tabulator-field="c1"]')
    assert eventually(lambda: float(losses.first.inner_text()) < 0.01)
    assert shown.complaints == []


def test_a_folder_stands_for_all_journals_in_it(tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    from bohb.dashboard import create_app
    from bohb.errors import InvalidArgument

    with pytest.raises(InvalidArgument, match=r"no file in it ends in .db"):
        create_app(tmp_path)
    for name in ("one", "two"):
        with SqlJournal(tmp_path / f"{name}.db", "study") as journal:
            BOHB({"x": (0.0, 1.0)}, budgets=[1], journal=journal)
    app = create_app(tmp_path)
    text = TestClient(app, base_url="http://127.0.0.1").get("/").text
    app.state.close()
    assert ">study in one.db</a>" in text
    assert ">study in two.db</a>" in text
