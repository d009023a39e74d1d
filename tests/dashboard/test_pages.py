"""The contents of the pages; names that users choose are always shown as text."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from starlette.testclient import TestClient

import bohb
from bohb import BOHB, load
from bohb.analysis.trials import failure_kinds
from bohb.dashboard import create_app
from bohb.dashboard.files import checkpoint_files, log_tail
from bohb.errors import InvalidArgument
from bohb.journal import SqlJournal
from bohb.journal.location import files_directory
from bohb.plots import PLOTS
from tests.analysis.studies import ordinary_plots
from tests.dashboard.demo import HOSTILE_NAMES


@pytest.fixture(scope="module")
def client(journal: Path) -> Iterator[TestClient]:
    app = create_app(journal)
    yield TestClient(app, base_url="http://127.0.0.1:8321", follow_redirects=False)
    app.state.close()


class Elements(HTMLParser):
    """The tags and the attributes of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def addresses(name: str) -> list[str]:
    study = quote_plus(name)
    pages = [f"/{page}?study={study}" for page in ("study", "trials", "plots", "selected")]
    pages.append(f"/selected?study={study}&number=1&number=3&number=4")
    pages += [f"/trial?study={study}&number={n}" for n in (0, 3, 4)]
    return [
        *pages,
        f"/compare?study={study}&study=digits",
        "/",
        f"/trials?study={study}&q={study}&sort=config.{study}&columns={study}",
    ]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_and_messages_stay_text_on_every_page(client: TestClient, name: str) -> None:
    for address in addresses(name):
        answer = client.get(address)
        assert answer.status_code == 200, address
        found = Elements(answer.text)
        own = [value for key, value in found.attributes if key == "src"]
        assert all((value or "").startswith("/static/") for value in own), "only our own scripts"
        assert found.tags.count("script") == len(own)
        assert not {"img", "b", "iframe", "object", "style"} & set(found.tags)
        assert not [key for key, _ in found.attributes if key.startswith("on") or key == "style"]
        links = [value or "" for key, value in found.attributes if key in ("href", "action")]
        assert all(link.startswith(("/", "#")) or link == "" for link in links), links
        assert not any(link.startswith("//") for link in links)


@pytest.mark.parametrize("name", HOSTILE_NAMES[:2])
def test_figures_of_hostile_studies_are_json_whose_labels_are_escaped(client: TestClient, name: str) -> None:
    study = quote_plus(name)
    for key in PLOTS:
        answer = client.get(f"/api/figure?study={study}&plot={key}")
        assert answer.status_code == 200, key
        assert answer.headers["content-type"] == "application/json"
        figure = json.loads(answer.text)
        assert "<script" not in json.dumps(figure), key
    for address in (
        f"/api/selected?study={study}&number=1&number=2",
        f"/api/compare?study={study}&study=digits&over=cost",
    ):
        assert "<script" not in json.dumps(client.get(address).json()), address


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2Fapp.py",
        "/static/%2e%2e/%2e%2e/errors.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/",
        "/static/style.css/",
        "/etc/passwd",
        "/study/../../etc/passwd",
    ],
)
def test_no_path_leads_out(client: TestClient, path: str) -> None:
    assert client.get(f"http://127.0.0.1:8321{path}").status_code == 404


@pytest.mark.parametrize("number", ["-1", "../1", "1.0", "1e3", "999999", "", " 1", "0x1", "٣", "1\0", "9" * 400])
def test_trials_are_looked_up_never_computed_with(client: TestClient, number: str) -> None:
    for path in ("/trial", "/selected", "/api/selected", "/api/process"):
        assert client.get(path, params={"study": "digits", "number": number}).status_code == 404


@pytest.mark.parametrize("name", ["", "nobody", "digits\0", "DIGITS", "%2e%2e", "x" * 50_000])
def test_an_unknown_study_is_a_clear_404(client: TestClient, name: str) -> None:
    for path in ("/study", "/trials", "/trial", "/plots", "/api/version", "/api/figure?plot=losses"):
        answer = client.get(path, params={"study": name, "plot": "losses"})
        assert answer.status_code == 404
        assert len(answer.text) < 5000
    assert "no study named" in client.get("/study", params={"study": name}).text


def test_unknown_plots_and_comparisons_are_404(client: TestClient) -> None:
    assert client.get("/api/figure?study=digits&plot=__class__").status_code == 404
    assert client.get("/api/compare?study=digits&study=digits&over=bytes").status_code == 404


def test_any_number_of_studies_is_compared(client: TestClient) -> None:
    names = ["digits", "digits again", *HOSTILE_NAMES]
    page = client.get("/compare", params={"study": names}).text
    assert page.count(" checked") == len(names)
    found = client.get("/api/compare", params={"study": names, "over": "cost"}).json()
    assert len({trace["name"] for trace in found["data"]}) == len(names)
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in found["data"]}) == len(names)
    version = re.search(r'data-version="([^"]*)"', page)
    assert version is not None
    assert client.get("/api/version", params={"study": names}).json()["version"] == version[1]


def test_studies_of_several_journals_are_told_apart_by_name(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "study.db", tmp_path / "b" / "study.db", tmp_path / "other.db"]
    for index, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        with SqlJournal(path, "same name") as journal:
            optimizer = bohb.BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, journal=journal)
            for _ in range(index + 1):
                optimizer.tell(optimizer.ask(), 0.5)
    app = create_app([*paths, tmp_path / "missing.db"])
    client = TestClient(app, base_url="http://127.0.0.1")
    names = [f"same name in {name}" for name in ("a/study.db", "b/study.db", "other.db")]
    listed = client.get("/").text
    assert all(f">{name}</a>" in listed for name in names)
    assert "there is no journal" in listed, "a journal that cannot be read does not hide the others"
    for index, name in enumerate(names):
        assert f"{index + 1} of {index + 1} started" in client.get("/study", params={"study": name}).text
    found = client.get("/api/compare", params={"study": names, "over": "cost"}).json()
    assert [trace["name"] for trace in found["data"]] == names
    app.state.close()
    with pytest.raises(InvalidArgument, match="names one journal twice"):
        create_app([paths[0], paths[0]])


def test_notes_and_tags_are_text_on_the_pages_of_the_study_and_of_the_trial(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "study.db", "noted") as journal:
        optimizer = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1, journal=journal)
        optimizer.tell(optimizer.ask(), 0.5)
        app = create_app(tmp_path / "study.db")
        client = TestClient(app, base_url="http://127.0.0.1")
        before = client.get("/api/version?study=noted&trial=0").json()
        optimizer.note("the first <b>study</b>", tags=["<i>"])
        optimizer.note("a good trial", trial=0, tags=["keep"])
    overview, trial = client.get("/study?study=noted").text, client.get("/trial?study=noted&number=0").text
    assert "the first &lt;b&gt;study&lt;/b&gt;" in overview
    assert ">&lt;i&gt;</span>" in overview
    assert "a good trial" not in overview
    assert "a good trial" in trial
    assert ">keep</span>" in trial
    assert client.get("/api/version?study=noted&trial=0").json() != before, "the page of the trial is loaded again"
    app.state.close()


def test_menus_choose_what_a_plot_shows_and_nonsense_is_ignored(client: TestClient) -> None:
    page = client.get("/plots?study=digits").text
    assert 'data-option="x"' in page
    assert "data-option" in page
    address = "/api/figure?study=digits&plot=contour"
    chosen = client.get(f"{address}&x=units&y=dropout&budget=1").json()["layout"]
    assert chosen["xaxis"]["title"]["text"].startswith("units")
    assert chosen["yaxis"]["title"]["text"] == "dropout"
    assert "trials on budget 1" in chosen["annotations"][-1]["text"]
    for nonsense in ("&x=nothing", "&budget=2", "&x=__class__&y=../..", "&metric=loss", "&dark=1"):
        assert client.get(address + nonsense).json() == client.get(address).json(), nonsense
    same = client.get(f"{address}&x=units&y=units").json()["layout"]
    assert same["yaxis"]["title"]["text"] != same["xaxis"]["title"]["text"]
    one = client.get("/api/figure?study=digits&plot=slice&parameter=layers").json()["layout"]
    assert one["annotations"][0]["text"] == "layers"


def test_the_trials_of_a_query_can_be_downloaded_as_csv(client: TestClient) -> None:
    answer = client.get("/trials.csv?study=digits&q=status+%3D+failed")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(answer.text.splitlines()))
    assert rows
    assert not {row["status"] for row in rows} & {"ok", "running"}
    assert client.get("/trials.csv", params={"study": HOSTILE_NAMES[0]}).status_code == 200
    every = list(csv.DictReader(client.get("/trials.csv?study=digits").text.splitlines()))
    assert len(every) == 64
    assert {"loss", "config.units", "info.accuracy"} <= set(every[0])
    assert 'href="/trials.csv?study=digits"' in client.get("/trials?study=digits").text


def test_pages_of_a_study_with_objectives_show_values_as_the_user_knows_them(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with SqlJournal(path, "two") as journal:
        optimizer = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1, objectives=["-accuracy", "latency"],
                              constraints={"memory": "<= 3"}, journal=journal)  # fmt: skip
        for accuracy, latency, memory in ((0.75, 7.0, 1.0), (0.625, 5.0, 2.0), (0.5, 9.0, 1.0), (0.875, 4.0, 4.5)):
            optimizer.tell(optimizer.ask(), {"accuracy": accuracy, "latency": latency, "memory": memory})
    app = create_app(path)
    client = TestClient(app, base_url="http://127.0.0.1")
    overview = client.get("/study?study=two").text
    assert "accuracy 0.75, latency 7, memory 1" in overview
    assert "2 results that no other dominates" in overview
    assert "-0.75" not in overview + client.get("/trials?study=two").text + client.get("/").text
    first, last = (client.get(f"/trial?study=two&number={n}").text for n in (0, 3))
    assert "on the front of its rung" in first
    assert "violates the constraints: memory 4.5, not &lt;= 3" in last
    assert "plot=front" in client.get("/plots?study=two").text
    latency = client.get("/api/figure?study=two&plot=losses&metric=latency").json()
    assert latency["layout"]["yaxis"]["title"]["text"] == "latency"
    assert client.get("/api/figure?study=two&plot=front").status_code == 200
    app.state.close()


def test_the_list_says_how_each_study_stands(client: TestClient) -> None:
    text = client.get("/").text
    assert "digits again" in text
    assert "4 running" in text
    assert text.count("<tr>") == 1 + 2 + len(HOSTILE_NAMES)


def test_the_overview_labels_its_numbers(client: TestClient) -> None:
    text = client.get("/study?study=digits").text
    for label in ("Best loss", "Trials finished", "60 of 64 started", "full evaluations", "Last activity", "Bracket 0"):
        assert label in text, label
    assert text.count("data-since") == 4, "running trials show how long they have been running"
    assert "&#34;learning_rate&#34;" in text, "the best configuration can be copied"
    for question in ("Is it running well?", "How good is it?", "What should I do?"):
        assert f"<h2>{question}</h2>" in text


def test_the_overview_counts_failures_by_kind_and_shows_their_messages(client: TestClient, journal: Path) -> None:
    kinds = failure_kinds(load(journal, "digits").history)
    assert kinds
    text = client.get("/study?study=digits").text
    assert f": {', '.join(f'{kind.n} {kind.status.value}' for kind in kinds)}</a>" in text
    assert all(escape(kind.message) in text for kind in kinds)


def test_a_trial_tells_what_why_and_what_became_of_it(client: TestClient) -> None:
    text = client.get("/trial?study=digits&number=0").text
    for part in ("Configuration", "learning_rate", "Seed", "drawn at random", "Learning curve", "Output", "Checkpoint"):
        assert part in text, part
    failed = client.get("/trials?study=digits&q=status+%3D+failed").text
    found = re.search(r'<th scope="row"><a href="(/trial\?[^"]*)"', failed)
    assert found is not None
    assert "What went wrong" in client.get(found.group(1).replace("&amp;", "&")).text


def test_versions_change_only_with_the_study(client: TestClient) -> None:
    for address in ("/study", "/plots"):
        page = client.get(f"{address}?study=digits").text
        found = re.search(r'data-version-url="([^"]+)" data-version="([^"]+)"', page)
        assert found is not None
        for _ in range(2):
            assert client.get(unescape(found[1])).json()["version"] == unescape(found[2])
    trial = client.get("/trial?study=digits&number=1").text
    own = client.get("/api/version?study=digits&trial=1").json()["version"]
    assert f'data-version="{own}"' in trial


def test_the_overview_names_the_runner_and_changes_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    site = create_app(path)
    client = TestClient(site, base_url="http://127.0.0.1")
    versions = []
    with SqlJournal(path) as journal:
        BOHB({"x": (0.0, 1.0)}, budgets=[1], journal=journal).ask()
        for _ in range(2):
            page = " ".join(re.sub(r"<[^>]+>", " ", client.get("/study?study=study").text).split())
            assert f"Runner process {os.getpid()} on " in page
            versions.append(client.get("/api/version?study=study&runner=1").json()["version"])
    page = " ".join(re.sub(r"<[^>]+>", " ", client.get("/study?study=study").text).split())
    assert "Runner none" in page
    versions.append(client.get("/api/version?study=study&runner=1").json()["version"])
    assert versions[0] == versions[1] != versions[2]
    with SqlJournal(path) as journal:  # as a file that somebody sends may have it
        journal.renew_lease("</dd><script>\x1b" + "A" * 200, 1e6)
    page = client.get("/study?study=study").text
    assert "&lt;script&gt;\N{REPLACEMENT CHARACTER}AAA" in page
    assert "A" * 100 not in page
    site.state.close()


def test_plotly_comes_from_the_installed_package_and_is_kept(client: TestClient) -> None:
    found = re.search(r'data-plotly="([^"]+)"', client.get("/plots?study=digits").text)
    assert found is not None
    answer = client.get(found.group(1))
    assert "immutable" in answer.headers["cache-control"]
    assert answer.text.lstrip().startswith("/**\n* plotly.js")
    assert "v=" in found.group(1)


def test_nothing_is_loaded_from_elsewhere(client: TestClient) -> None:
    for address in addresses("digits"):
        assert not re.search(r"(https?:)?//[a-z]", client.get(address).text), address


def test_links_within_a_page_lead_to_what_they_name(client: TestClient) -> None:
    found = Elements(client.get("/plots?study=digits").text)
    targets = [value[1:] for key, value in found.attributes if key == "href" and value and value.startswith("#")]
    ids = [value for key, value in found.attributes if key == "id"]
    assert len(targets) == 1 + len(ordinary_plots())
    assert all(ids.count(target) == 1 for target in targets)


def test_a_missing_journal_is_a_page_that_gets_better(tmp_path: Path) -> None:
    app = create_app(tmp_path / "later.db")
    client = TestClient(app, base_url="http://127.0.0.1")
    answer = client.get("/")
    assert answer.status_code == 503
    assert "there is no journal" in answer.text.lower()
    assert "data-reload" in answer.text
    assert client.get("/api/version").json()["detail"]
    with SqlJournal(tmp_path / "later.db", "first") as journal:
        assert client.get("/").status_code == 200
        bohb.BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, journal=journal)
        assert "not started" in client.get("/").text
        empty = client.get("/study?study=first").text
        assert "No trial has finished" in empty
        for key in PLOTS:
            assert client.get(f"/api/figure?study=first&plot={key}").status_code == 200, key
        assert "No trial has been started yet" in client.get("/trials?study=first").text
    app.state.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"", b"short"])
def test_what_is_no_journal_is_a_clear_page(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(content)
    app = create_app(path)
    answer = TestClient(app, base_url="http://127.0.0.1").get("/")
    app.state.close()
    assert answer.status_code == 503
    assert "study.db" in answer.text


def test_a_damaged_study_does_not_hide_the_others(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "study.db"
    for name in ("good", "bad"):
        with SqlJournal(path, name) as journal:
            bohb.BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, journal=journal).ask()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE event SET body = replace(body, '0', '1') WHERE study = 'bad' AND position = 1")
    connection.close()
    app = create_app(path)
    client = TestClient(app, base_url="http://127.0.0.1")
    assert "checksum" in client.get("/").text
    assert client.get("/study?study=good").status_code == 200
    answer = client.get("/study?study=bad")
    assert answer.status_code == 503
    assert "damaged at position 1" in answer.text
    app.state.close()


def loud(trial: bohb.Trial) -> float:
    print(f"</pre><script>alert({trial.number})</script>")  # noqa: T201 - it is what the page shall show
    assert trial.checkpoint_dir is not None
    (trial.checkpoint_dir / "weights <b>.bin").write_bytes(b"x" * 1234)
    return float(trial.config["x"])


def test_output_and_checkpoints_are_found_where_the_runner_puts_them(tmp_path: Path) -> None:
    path, name = tmp_path / "study.db", "../a <b> study"
    bohb.minimize(
        loud, {"x": (0.0, 1.0)}, min_budget=1, max_budget=1, max_trials=1, workers=1, journal=path, study=name, seed=1
    )
    app = create_app(path)
    text = TestClient(app, base_url="http://127.0.0.1").get("/trial", params={"study": name, "number": 0}).text
    app.state.close()
    assert "&lt;script&gt;alert(0)&lt;/script&gt;" in text
    assert "weights &lt;b&gt;.bin" in text
    assert "1.21 KiB" in text


def test_links_in_a_studys_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    root = files_directory(tmp_path / "study.db", "..")
    assert root is not None
    assert root.parent == tmp_path / "study.db.files", "any name is one component"
    (root / "logs").mkdir(parents=True)
    (root / "checkpoints").mkdir()
    (root / "logs" / "0.log").symlink_to(secret)
    (root / "checkpoints" / "0").symlink_to(tmp_path)
    trial = bohb.BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=1).ask()
    assert log_tail(root, 0) is None
    assert log_tail(root, 1) is None
    assert checkpoint_files(root, trial) == ([], False)
