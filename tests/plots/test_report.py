from __future__ import annotations

import ast
import base64
import functools
import gzip
import hashlib
import html.parser
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

import bohb
from bohb.core.goals import goals_of
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots import PLOTS, write_plot, write_report
from bohb.plots.registry import GROUPS
from bohb.plots.report import environment, report
from bohb.plots.theme import get_plotlyjs
from bohb.units import command_line
from tests.analysis.studies import HOSTILE, Watch, mostly, ordinary_plots, play, played

QUESTIONS = ["Is it running well?", "How good is it?", "What should I do?"]
SECTIONS = ["Summary", "Best configuration", "Plots", "Failures", "Plan", "Settings and versions"]


class Page(html.parser.HTMLParser):
    """What a browser would see: elements, their attributes, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self._open.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.text[tag][-1] += data

    def scripts(self) -> list[str]:
        """The scripts that run."""
        kinds = [attributes.get("type") for tag, attributes in self.tags if tag == "script"]
        return [text for text, kind in zip(self.text["script"], kinds, strict=True) if kind is None]

    def unpacked(self, key: str) -> str:
        """What the script of the page makes of the compressed data."""
        ids = [attributes.get("id") for tag, attributes in self.tags if tag == "script"]
        return gzip.decompress(base64.b64decode(self.text["script"][ids.index(key)])).decode()

    def figures(self) -> Any:
        return json.loads(self.unpacked("data"))["figures"]


@functools.cache
def reported(kind: str, name: str = "study") -> str:
    """A report costs a second, so that tests share it."""
    return report(played(kind), name=name)


@pytest.fixture(scope="module")
def hostile() -> str:
    return reported("hostile", HOSTILE)


def test_a_report_is_one_file_with_every_section(tmp_path: Path) -> None:
    path = write_report(played("mixed"), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text(encoding="utf-8") == reported("mixed")
    page = Page(reported("mixed"))
    assert page.text["h1"] == ["study"]
    assert [title for title in page.text["h2"] if title not in QUESTIONS] == SECTIONS
    assert [title for title in page.text["h2"] if title not in SECTIONS] == QUESTIONS
    assert page.text["h3"] == list(GROUPS.values())
    assert page.text["h4"] == [plot.title for plot in ordinary_plots()]
    assert {plot.explanation for plot in ordinary_plots()} <= set(page.text["p"])
    assert page.text["title"] == ["study – bohb report"]
    assert page.unpacked("plotly") == get_plotlyjs()


def test_a_report_of_a_thousand_trials_has_at_most_three_megabytes() -> None:
    space: dict[str, object] = {f"p{j}": (0.0, 1.0) for j in range(8)}
    space |= {"lr": (1e-5, 1e-1, "log"), "act": ["relu", "tanh"], "layers": (1, 9)}
    watch = Watch()
    optimizer = bohb.BOHB(space, budgets=[1, 3, 9, 27], seed=1, clock=watch, random_fraction=1.0, preset="paper")
    play(optimizer, 1000, mostly, watch)
    assert len(report(optimizer.history)) < 3_000_000


def test_nothing_is_loaded_from_anywhere(hostile: str) -> None:
    page = Page(hostile)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base", "form")
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, name, value)
        assert not [name for name in attributes if name.startswith("on")]
    assert "@import" not in "".join(page.text["style"])
    assert "url(" not in "".join(page.text["style"])


def test_only_our_scripts_may_run(hostile: str) -> None:
    page = Page(hostile)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/=]+'", policy)) == 3
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert len(page.scripts()) == 2
    known = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in page.scripts()]
    known.append(f"'sha256-{base64.b64encode(hashlib.sha256(get_plotlyjs().encode()).digest()).decode()}'")
    assert set(re.findall(r"'sha256-[A-Za-z0-9+/=]+'", policy)) == set(known)


def test_hostile_names_and_messages_stay_text(hostile: str) -> None:
    page = Page(hostile)
    assert page.text["h1"] == [HOSTILE]
    assert len(page.text["script"]) == hostile.count("<script") == 4
    assert "<script>alert(#)</script>" in "".join(page.text["summary"])  # the error message
    assert any(HOSTILE in cell for cell in page.text["th"])  # the hyperparameter
    assert any(HOSTILE in trace for trace in page.text["pre"])
    assert set(page.figures()) == {plot.key for plot in ordinary_plots()}


def test_our_script_never_writes_html() -> None:
    package = Path(bohb.__file__).parent
    scripts = [p for p in package.rglob("static/*.js") if p.name != "tabulator.min.js"]
    assert {"scale.js", "table.js"} <= {path.name for path in scripts}
    for path in scripts:
        script = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script), (
            path
        )
        assert path.parent.parent.name == "dashboard" or "fetch(" not in script


def test_the_best_configuration_can_be_copied() -> None:
    history = played("mixed")
    page = Page(reported("mixed"))
    best = history.incumbent
    assert best is not None
    blocks = page.text["code"]
    assert json.loads(blocks[0]) == json.loads(json.dumps(best.config))
    assert ast.literal_eval(blocks[1]) == best.config
    words = shlex.split(blocks[2])
    assert words[::2] == [f"--{name}" for name in best.config]
    assert page.text["button"] == ["Theme"] + ["Copy"] * (len(page.text["button"]) - 1)
    assert len(page.text["button"]) >= 4


def test_options_are_quoted_for_a_shell() -> None:
    config = {"a b": "x; rm -rf /", "lr": 0.1, "t": (1, 2), "n": None}
    assert shlex.split(command_line(config)) == ["--a b", "x; rm -rf /", "--lr", "0.1", "--t", "[1, 2]", "--n", "null"]


def test_the_study_can_be_run_again_from_its_report() -> None:
    history = played("conditional")
    blocks = Page(reported("conditional")).text["code"]
    source = next(block for block in blocks if "bohb.minimize(" in block)
    calls: list[dict[str, object]] = []
    scope: dict[str, object] = {"objective": lambda trial: 0.0}
    fake = source.replace("bohb.minimize(", "record(")
    scope["record"] = lambda objective, space, **options: calls.append({"space": space, **options})
    exec(fake, scope)
    (call,) = calls
    space = call["space"]
    assert isinstance(space, bohb.Space)
    assert space.to_json() == history.space.to_json()
    assert history.created is not None
    assert (call["seed"], call["budgets"]) == (history.created.seed, list(history.budgets))


@pytest.mark.parametrize("kind", ["maximised", "two objectives"])
def test_what_a_study_optimises_is_part_of_how_to_run_it_again(kind: str) -> None:
    goals = played(kind).goals
    source = next(block for block in Page(reported(kind)).text["code"] if "minimize(" in block)
    given = re.findall(r"^    (direction|objectives|constraints)=(.*),$", source, flags=re.MULTILINE)
    assert goals_of(**{name: ast.literal_eval(value) for name, value in given}) == goals


def test_failures_are_grouped_with_a_traceback_to_unfold() -> None:
    page = Page(reported("mixed"))
    causes = [text for text in page.text["summary"] if " × " in text]
    assert len(causes) == 3
    assert any("Traceback" in text or "RuntimeError" in text for text in page.text["pre"])


@pytest.mark.parametrize(
    "kind", ["empty", "one failure", "all failed", "running", "conditional", "constrained", "large"]
)
def test_every_study_can_be_reported(kind: str) -> None:
    page = Page(reported(kind))
    assert [title for title in page.text["h2"] if title not in QUESTIONS] == SECTIONS
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_a_report_survives_a_plot_that_fails_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(history: History, dark: bool = False) -> None:
        raise KeyError("<expected>")

    monkeypatch.setitem(PLOTS, "losses", replace(PLOTS["losses"], draw=broken, options=()))
    figures = Page(report(played("tiny"))).figures()
    message = figures["losses"]["layout"]["annotations"][0]["text"]
    assert "This plot failed" in message
    assert "KeyError: '&lt;expected&gt;'" in message.replace("<br>", " ")
    assert figures["trajectory"]["data"]


def test_a_report_survives_sentences_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(history: History, number: int) -> None:
        raise ValueError("<no sentence>")

    monkeypatch.setattr("bohb.plots.report.why", broken)
    text = report(played("tiny"))
    assert "These sentences failed, which is a bug of bohb. ValueError: &lt;no sentence&gt;" in text


def test_a_page_of_one_plot_has_a_title_and_its_menu_for_the_scale(tmp_path: Path) -> None:
    path = write_plot(PLOTS["slice"], played("far apart"), tmp_path / "slice.html", name=HOSTILE, budget=1)
    page = Page(path.read_text(encoding="utf-8"))
    title = PLOTS["slice"].title
    assert (page.text["title"], page.text["h1"]) == ([f"{title} – {HOSTILE}"], [title])
    assert PLOTS["slice"].texts(played("far apart"))[1] in page.text["p"]
    assert [attributes["id"] for tag, attributes in page.tags if tag == "select"] == ["slice-scale"]
    assert list(page.figures()) == ["slice"]
    assert path.stat().st_size < 2_200_000
    plain = write_plot(PLOTS["slice"], played("far apart"), tmp_path / "slice.json", budget=1)
    assert json.loads(plain.read_text())["layout"]["annotations"]


def test_an_empty_history_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no study to report on"):
        write_report(History(), tmp_path / "report.html")


def test_templates_escape_every_value_and_know_every_name() -> None:
    engine = environment()
    parts = engine.from_string("""{% import "parts.html" as parts %}
        {{ parts.plain_table(["<i>"], [["<i>", "<i>"]], "<i>") }}{{ parts.code("<i>", "<i>") }}
        {{ parts.configuration([("<i>", "<i>")], []) }}{{ parts.figure("<i>", "<i>", "<i>") }}""").render()
    assert parts.count("&lt;i&gt;") > 10
    assert "<i>" not in parts
    with pytest.raises(UndefinedError):
        engine.from_string("{{ unknown }}").render()
    for name in engine.list_templates():
        source, *_ = engine.loader.get_source(engine, name) if engine.loader else ("",)
        assert "safe" not in source, "nothing is taken for HTML"
        assert "<script>" not in source.replace("<script>{{", ""), name
