"""Notes and tags can be added on the dashboard, by those who have its token, from its own pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import bohb
from bohb.dashboard import create_app
from bohb.journal import SqlJournal
from bohb.optimizer.creation import LONGEST_TEXT
from tests.dashboard.conftest import Opener, serving_here

TOKEN = "a-token-of-sufficient-length"
BASE = "http://127.0.0.1:8321"
OWN = {"Origin": BASE}
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqlJournal(tmp_path / "study.db", "noted") as journal:
        optimizer = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1, journal=journal)
        optimizer.tell(optimizer.ask(), 0.5)
    return tmp_path / "study.db"


@pytest.fixture
def client(path: Path) -> Iterator[TestClient]:
    """A browser that has opened the address with the token."""
    app = create_app(path, TOKEN)
    found = TestClient(app, base_url=BASE, follow_redirects=False)
    assert found.get(f"/?token={TOKEN}").status_code == 303
    yield found
    app.state.close()


def stored(path: Path) -> list[tuple[int | None, str, tuple[str, ...]]]:
    return [(note.number, note.text, note.tags) for note in bohb.load(path).history.notes]


def test_a_note_is_stored_and_shown_as_text_on_its_page(client: TestClient, path: Path) -> None:
    answer = client.post("/note", data={"study": "noted", "text": HOSTILE, "tags": " a, b ,"}, headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/study?study=noted")
    answer = client.post("/note", data={"study": "noted", "trial": "0", "text": "two\r\nlines"}, headers=OWN)
    assert answer.headers["location"] == "/trial?study=noted&number=0"
    assert stored(path) == [(None, HOSTILE, ("a", "b")), (0, "two\nlines", ())]
    overview = client.get("/study?study=noted").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in overview
    assert HOSTILE not in overview
    assert "two\nlines" in client.get("/trial?study=noted&number=0").text


def test_a_study_goes_on_after_a_note_from_the_dashboard(client: TestClient, path: Path) -> None:
    with SqlJournal(path, "noted") as journal:
        running = bohb.BOHB.from_journal(journal)
        trial = running.ask()
        assert client.post("/note", data={"study": "noted", "text": "meanwhile"}, headers=OWN).status_code == 303
        running.tell(trial, 0.25)
        assert running.ask().number == trial.number + 1
    assert stored(path) == [(None, "meanwhile", ())]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
    ],
    ids=["no origin", "null", "another site", "another port", "cross-site", "same-site"],
)
def test_a_note_of_another_site_is_refused_even_with_the_cookie(
    client: TestClient, path: Path, headers: dict[str, str]
) -> None:
    assert client.post("/note", data={"study": "noted", "text": "forged"}, headers=headers).status_code == 403
    assert stored(path) == []


def test_without_the_token_there_is_no_form_and_no_note(path: Path) -> None:
    open_app, guarded = create_app(path), create_app(path, TOKEN)
    note = {"study": "noted", "text": "anybody"}
    with TestClient(open_app, base_url=BASE) as reader:
        assert reader.post("/note", data=note, headers=OWN).status_code == 405
        assert 'method="post"' not in reader.get("/study?study=noted").text
    with TestClient(guarded, base_url=BASE) as stranger:
        assert stranger.post("/note", data=note, headers=OWN).status_code == 401
        stranger.cookies.set("bohb-0", TOKEN)
        assert stranger.post("/note", data=note, headers={**OWN, "Authorization": "Bearer wrong"}).status_code == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}  # which no other site can send
        assert stranger.post("/note", data=note, headers=bearer, follow_redirects=False).status_code == 303
        assert stranger.post("/study", data=note, headers=bearer).status_code == 405, "nothing else can be changed"
    assert stored(path) == [(None, "anybody", ())]
    open_app.state.close()
    guarded.state.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"study": "noted", "text": " "}, 400),
        ({"study": "noted", "tags": "t" * 51}, 400),
        ({"study": "noted", "text": "x" * (LONGEST_TEXT + 1)}, 400),
        ({"study": "noted", "text": "x" * 20 * LONGEST_TEXT}, 413),
        ({"study": "noted", "text": "x", **{f"field{i}": "" for i in range(9)}}, 400),
        ({"study": "noted", "text": "x", "trial": "7"}, 404),
        ({"study": "noted", "text": "x", "trial": "-1"}, 404),
        ({"study": "other", "text": "x"}, 404),
        ({}, 404),
    ],
)
def test_a_note_that_cannot_be_stored_is_refused(
    client: TestClient, path: Path, sent: dict[str, str], status: int
) -> None:
    assert client.post("/note", data=sent, headers=OWN).status_code == status
    assert stored(path) == []


def test_a_reader_adds_a_note_in_a_browser(tab: Opener, path: Path) -> None:
    with serving_here(path, TOKEN) as address:
        shown = tab(address)
        page = shown.open(f"/trial?study=noted&number=0&token={TOKEN}")
        page.fill("#note", f"seen {HOSTILE}")
        page.fill("#tags", "odd, check again")
        page.get_by_role("button", name="Add", exact=True).click()
        page.locator("li", has_text=f"seen {HOSTILE}").wait_for()
        assert page.url.endswith("/trial?study=noted&number=0")
        assert page.locator("li .badge").all_text_contents() == ["odd", "check again"]
        assert shown.complaints == []
    assert stored(path) == [(0, f"seen {HOSTILE}", ("odd", "check again"))]
