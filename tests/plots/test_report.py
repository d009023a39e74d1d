from __future__ import annotations

import ast
import html.parser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import bohb
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots import write_report
from bohb.plots.drawing import get_plotlyjs
from bohb.plots.markup import code, element, embedded, table
from bohb.plots.registry import GROUPS
from bohb.plots.report import report
from bohb.plots.sections import command_line
from tests.analysis.studies import HOSTILE, ordinary_plots, played

SECTIONS = ["Summary", "Best configuration", "Plots", "Failures", "Plan", "Settings and versions"]
PLOTLY = "/* plotly.js */"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Page(html.parser.HTMLParser):
    """What a browser would see: elements, their attributes, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text.replace(get_plotlyjs(), PLOTLY))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._open.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.text[tag][-1] += data

    def scripts(self) -> list[str]:
        return [data for data in self.text["script"] if not data.startswith("{")]


@pytest.fixture(scope="module")
def hostile() -> str:
    return report(played("hostile"), name=HOSTILE)


def test_a_report_is_one_file_with_every_section(tmp_path: Path) -> None:
    path = write_report(played("mixed"), tmp_path / "report.html", name="My study")
    page = Page(path.read_text(encoding="utf-8"))
    assert list(tmp_path.iterdir()) == [path]
    assert page.text["h1"] == ["My study"]
    assert page.text["h2"] == SECTIONS
    assert page.text["h3"] == list(GROUPS.values())
    assert page.text["h4"] == [plot.title for plot in ordinary_plots()]
    assert page.text["figcaption"] == [plot.explanation for plot in ordinary_plots()]
    assert page.text["title"] == ["My study – bohb report"]
    assert path.stat().st_size < 8_000_000


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
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/=]+'", policy)) == 2
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert page.scripts()[0] == PLOTLY
    assert len(page.scripts()) == 2


def test_hostile_names_and_messages_stay_text(hostile: str) -> None:
    page = Page(hostile)
    assert page.text["h1"] == [HOSTILE]
    assert len(page.text["script"]) == hostile.replace(get_plotlyjs(), PLOTLY).count("<script") == 3
    assert "<script>alert(#)</script>" in "".join(page.text["summary"])  # the error message
    assert any(HOSTILE in cell for cell in page.text["th"])  # the hyperparameter
    assert any(HOSTILE in trace for trace in page.text["pre"])
    data = next(text for text in page.text["script"] if text.startswith("{"))
    assert not re.search(r"[<>&]", data)
    assert set(json.loads(data)["figures"]) == {plot.key for plot in ordinary_plots()}


def test_our_script_never_writes_html() -> None:
    script = (Path(bohb.__file__).parent / "plots" / "report.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|fetch\(", script)


def test_the_best_configuration_can_be_copied() -> None:
    history = played("mixed")
    page = Page(report(history))
    best = history.incumbent
    assert best is not None
    blocks = page.text["code"]
    assert ast.literal_eval(blocks[0]) == best.config
    words = shlex.split(blocks[1])
    assert words[::2] == [f"--{name}" for name in best.config]
    assert page.text["button"].count("Copy") == len(page.text["button"]) >= 3


def test_options_are_quoted_for_a_shell() -> None:
    config = {"a b": "x; rm -rf /", "lr": 0.1, "t": (1, 2), "n": None}
    assert shlex.split(command_line(config)) == ["--a b", "x; rm -rf /", "--lr", "0.1", "--t", "(1, 2)", "--n", "None"]


def test_the_study_can_be_run_again_from_its_report() -> None:
    history = played("conditional")
    blocks = Page(report(history)).text["code"]
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


def test_failures_are_grouped_with_a_traceback_to_unfold() -> None:
    page = Page(report(played("mixed")))
    causes = [text for text in page.text["summary"] if " × " in text]
    assert len(causes) == 3
    assert any("Traceback" in text or "RuntimeError" in text for text in page.text["pre"])


@pytest.mark.parametrize(
    "kind", ["empty", "one failure", "all failed", "running", "conditional", "constrained", "large"]
)
def test_every_study_can_be_reported(kind: str) -> None:
    page = Page(report(played(kind), name=kind))
    assert page.text["h2"] == SECTIONS
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_an_empty_history_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no study to report on"):
        write_report(History(), tmp_path / "report.html")


def test_markup_escapes_all_but_markup() -> None:
    assert element("p", "<b>", title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;</p>'
    assert element("p", element("b", "&")) == "<p><b>&amp;</b></p>"
    assert "&lt;i&gt;" in table(["<i>"], [["<i>", "<i>"]], "<i>")
    assert "<i>" not in table(["<i>"], [["<i>", "<i>"]], "<i>")
    assert "<i>" not in code("<i>", "<i>")
    assert embedded({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u2028"}'


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_draws_all_plots_without_complaint(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    path = write_report(played("hostile"), tmp_path / "report.html", name=HOSTILE)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=20000"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [CHROMIUM, *flags, profile, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f'data-drawn="{len(ordinary_plots())}"' in done.stdout
    assert done.stdout.count('class="main-svg"') >= len(ordinary_plots())
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
