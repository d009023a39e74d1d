"""The facts of a study are the same wherever they are shown, and rounded alike."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import bohb
from bohb import BOHB
from bohb.analysis.overview import Overview, Session, rate_text
from bohb.analysis.questions import answers, failing, settled, silence
from bohb.analysis.trials import columns, failure_kinds, fixed_columns, loss_column, sorted_trials
from bohb.core.history import History
from bohb.core.trial import jsonable
from bohb.dashboard import create_app
from bohb.journal import SqlJournal
from bohb.plots.report import report
from bohb.running.study import Study, heights, trajectory_svg
from tests.analysis.studies import KINDS, Results, play, played, tiny
from tests.cli.running import answer, call

LATENCY = "no result on budget 9 keeps the constraints; the nearest is trial 2 (latency 34.8125, not <= 12)"
EDGE = "batch = 16 is the smallest allowed: widen the range?"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose best result is on a small budget, and on the edge of a range; its learning rate has 12 digits."""
    path = tmp_path_factory.mktemp("overview") / "study.db"
    space = {"lr": (1e-5, 0.1, "log"), "batch": (16, 256)}
    with SqlJournal(path, "s") as stored:
        optimizer = BOHB(space, budgets=[1, 3, 9], seed=1, constraints={"latency": "<= 12"}, journal=stored)
        for at, (budget, loss, latency) in enumerate(((3, 1 / 7, 11.0), (9, 0.2, 42.0), (9, 0.3, 34.8125))):
            optimizer.enqueue({"lr": 0.000102200809917 * (at + 1), "batch": 16 + at}, budget)
            optimizer.tell(optimizer.ask(), {"loss": loss, "latency": latency})
    return path


def visible(page: str) -> str:
    """The text of a page, without tags."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)))


def everywhere(path: Path) -> dict[str, str]:
    """What each surface shows of a study."""
    study = bohb.load(path)
    site = create_app(path)
    overview = TestClient(site, base_url="http://127.0.0.1").get("/study?study=s").text
    site.state.close()
    html = study._repr_html_()
    return {
        "print": " ".join(str(study).split()),  # it is wrapped at 80 columns
        "notebook": visible(html),
        "status": call("status", path).stdout,
        "best": call("best", path).stdout,
        "dashboard": visible(overview),
        "report": visible(report(study.history)),
    }


def test_every_surface_says_what_is_wrong_with_the_best_result(journal: Path) -> None:
    for name, text in everywhere(journal).items():
        assert LATENCY in text, name
        assert EDGE in text, name
    for command in ("status", "best"):
        assert answer(command, journal)["remarks"] == [LATENCY, EDGE]
    assert LATENCY in call("front", journal).stdout


def test_every_surface_shows_six_digits(journal: Path) -> None:
    for name, text in everywhere(journal).items():
        shown = text.partition("As JSON")[0].partition("As a Python dict")[0]  # what is there to be copied is exact
        assert "0.000102201" in shown, name
        assert "0.142857" in shown, name
        assert "0.0001022008" not in shown, name
        assert "0.1428571" not in shown, name
    assert answer("best", journal)["loss"] == 1 / 7, "JSON is exact"


@pytest.mark.parametrize("kind", KINDS)
def test_an_overview_of_any_study_is_json_and_text(kind: str) -> None:
    history = played(kind)
    for now in (None, 2e9):
        seen = Overview(history, now, model=False)
        data = json.loads(json.dumps(jsonable(seen.data()), allow_nan=False))
        assert data["trials"]["started"] == len(history.trials)
        rows = dict(row for row in seen.rows(runner="me", stopped="limit") if row[0])
        assert rows["trials"].startswith(f"{len(history.outcomes)} finished ({history.n_failed} failed)")
        assert rows["stopped"] == "limit"
        assert (rows["best"] == "nothing has succeeded yet") == (history.incumbent is None)
        found = answers(seen)
        titles = [fact.title for fact in (*found.running, *found.result)]
        assert len(titles) == len(set(titles))
        assert {"State", "Trials finished", "Run time", "Budget spent"} <= set(titles)


def test_advice_says_what_to_do_about_silence_failures_and_a_settled_study() -> None:
    assert list(silence(4, 500.0, 10.0)) == []
    assert list(silence(4, 5000.0, 2000.0)) == [], "a trial takes as long"
    assert list(silence(0, 5000.0, 1.0)) == []
    (line,) = silence(2, 5000.0, 100.0)
    assert line.startswith("nothing has happened for 1 h 23 min, but 2 trials never ended")
    history = play(
        BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1), 20, lambda t: OSError("no GPU 7") if t.number % 3 else 1.0
    )
    (line,) = failing(history.history, failure_kinds(history.history))
    assert line == "13 of 20 trials failed, 13 of them with “OSError: no GPU 7”: mend this first, or narrow the space"
    assert list(failing(tiny().history, failure_kinds(tiny().history))) == [], "one of six is no pattern"
    still = play(BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1), 20, lambda t: 1.0 if t.number > 3 else 0.5).history
    assert list(settled(still)) == [
        "the last 19 of 20 full evaluations have improved nothing: stop, or widen the space"
    ]
    falling = play(BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1), 20, lambda t: 1.0 / (1 + t.number)).history
    assert list(settled(falling)) == []
    late = Overview(falling, 2e9, model=False)
    assert answers(late).advice == late.remarks


def _twenty(result: Results) -> History:
    return play(BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1), 20, result).history


def test_the_cost_is_the_budget_that_the_trajectory_has_spent() -> None:
    assert Overview(tiny().history).cost == pytest.approx(11 / 3)


def test_the_limits_of_a_session_are_what_progress_is_measured_against() -> None:
    session = Session(60.0, left=90.0, rate=0.5, max_trials=40, max_cost=50, max_seconds=7200)
    seen = Overview(tiny().history, 1e9, session)
    assert seen.trials == "6 of 40 finished (1 failed), 0 running"
    assert seen.spent == "3.667 of 50 full evaluations in 1 min of 2 h"
    assert seen.end is not None
    assert re.fullmatch(r"about 1 min 30 s, until [\d: -]+", seen.end)
    assert seen.rate == 0.5


def test_a_device_without_enough_memory_is_said_with_what_would_help() -> None:
    study = bohb.minimize(full_device, {"x": (0.0, 1.0)}, budgets=[1], max_trials=2, seed=1, progress=False)
    way_out = "smaller batches, a narrower space or a larger device would help"
    assert Overview(study.history).failed == [f"2 device memory: DeviceMemory: full; {way_out}"]


def full_device(trial: bohb.Trial) -> float:
    raise bohb.DeviceMemory("full")


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ({0: 0.1, 1: 0.1}, None),  # not worth a line
        ({0: 7.0, 1: 9.0}, "start-ups took 8.0 s per trial, 57% of the time: see preload, in docs/workers.md"),
    ],
)
def test_start_ups_that_take_long_are_said(waits: dict[int, float], said: str | None) -> None:
    history = tiny().history
    history.waits = waits
    overview = Overview(history)
    assert overview.start_ups == said
    assert (said in [text for _, text in overview.rows()]) == (said is not None)


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(1765 / 60, "29.4 per second"), (1, "1 per second"), (0.5, "30 per minute"), (1 / 7200, "0.5 per hour"),
     (12_345, "12 345 per second")],
)  # fmt: skip
def test_rates_are_numbers_that_one_can_read(per_second: float, text: str) -> None:
    assert rate_text(per_second) == text
    assert rate_text(per_second, "trials ") == text.replace("per", "trials per")


def test_a_maximised_value_is_a_column_of_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with SqlJournal(path, "s") as stored:
        optimizer = BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1, objectives=["-acc"], journal=stored)
        for value in (0.75, 0.25, 0.5):
            optimizer.tell(optimizer.ask(), {"acc": value})
    rows = answer("trials", path)
    assert [row["acc"] for row in rows] == [0.75, 0.25, 0.5]
    assert "loss" not in rows[0]
    assert call("trials", path, "--format", "csv").stdout.split("\n")[0].split(",")[:3] == ["number", "status", "acc"]
    for name in ("acc", "loss"):
        assert [row["number"] for row in answer("trials", path, "--sort", f"-{name}")] == [0, 2, 1]
    assert sorted_trials(optimizer.history, range(3), "acc") == [1, 2, 0]
    pytest.importorskip("pandas")
    assert bohb.load(path).to_dataframe()["acc"].tolist() == [0.75, 0.25, 0.5]


def test_a_maximised_value_takes_no_name_from_another_column() -> None:
    optimizer = BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1, objectives=["-cost"])
    optimizer.tell(optimizer.ask(), {"losses": {"cost": 3.0}, "cost": 7.0})
    row = {name: value(optimizer.history, 0) for name, value in columns(optimizer.history).items()}
    assert (row["values.cost"], row["cost"]) == (3.0, 7.0)
    assert loss_column(optimizer.history.goals) in fixed_columns(optimizer.history)


def test_a_minimised_value_stays_a_loss() -> None:
    history = BOHB({"x": (0.0, 1.0)}, budgets=[1], objectives=["error"]).history
    assert loss_column(history.goals) == "loss"


def test_an_improvement_that_the_numbers_do_not_show_is_no_cliff() -> None:
    assert heights([0.0370400001, 0.03704]) == pytest.approx([0, 0], abs=1e-6)
    assert heights([0.4, 0.2, 0.1]) == pytest.approx([1, 0.5, 0])
    assert heights([-4.0, -4.0]) == [0, 0]
    optimizer = BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1)
    for loss in (0.0370400001, 0.03704):
        optimizer.tell(optimizer.ask(), loss)
    path = re.search(r"d='M([^']*)'", trajectory_svg(optimizer.history.trajectory, 2))
    assert path is not None
    levels = {float(y) for y in re.findall(r"[,V]([\d.]+)", path[1])}
    assert max(levels) - min(levels) < 1


def test_the_best_configuration_after_a_confirmation_follows_its_headline(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = bohb.minimize(
        lambda trial: abs(trial.config["x"] - 0.4) + 0.01 * (trial.seed % 7),
        {"x": (0.0, 1.0)}, budgets=[1], max_trials=6, seed=1, journal=path, progress=False,
    )  # fmt: skip
    found = study.confirm(top=2, repeats=2, default={"x": 0.9}, progress=False)
    first, second, *rest = call("best", path).stdout.splitlines()
    assert first.startswith("confirmed: ")
    assert second == f"  x = {found.config['x']:.6g}"
    assert not any(line.startswith("  ") for line in rest), "no sentence is followed by the configuration"
    assert any("default" in line for line in rest)


def test_short_durations_are_milliseconds_everywhere() -> None:
    optimizer = BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=1, clock=lambda: 1000.0)
    trial = optimizer.ask()
    optimizer.tell(trial, bohb.Outcome(bohb.Status.OK, loss=0.5, started=1000.0, finished=1000.02))
    assert "20 ms" in visible(report(optimizer.history))
    assert "20 ms" in str(Study(optimizer.history))


def test_facts_need_no_table_of_a_plot() -> None:
    code = "import sys, bohb.analysis.overview; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {"bohb.analysis.importance", "bohb.analysis.densities", "numpy"}.isdisjoint(loaded.split())
    assert "bohb.analysis.verdicts" in loaded.split()
