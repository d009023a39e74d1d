"""What a running study shows."""

from __future__ import annotations

import io
import re
import sys
import time
import types
from typing import Any

import pytest
from rich.console import Console

import bohb
from bohb import BOHB, Limits
from bohb.core.history import Result
from bohb.running.progress import Progress, sparkline, wanted
from tests import objectives
from tests.objectives import SPACE


def study(max_trials: int = 30, objective: Any = objectives.half_nan) -> bohb.Study:
    return bohb.minimize(objective, SPACE, min_budget=1, max_budget=9, seed=0, max_trials=max_trials, progress=False)


def shown(limits: Limits, history: bohb.History, seconds: float, final: bool = False, width: int = 100) -> str:
    stream = io.StringIO()
    with Progress(limits, Console(file=stream, force_terminal=True, width=width)) as progress:
        progress.update(history, seconds, final)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def plain(limits: Limits, *states: tuple[bohb.History, float]) -> list[str]:
    stream = io.StringIO()
    with Progress(limits, Console(file=stream)) as progress:
        for history, seconds in states:
            progress.update(history, seconds)
    assert "\x1b" not in stream.getvalue()
    return stream.getvalue().splitlines()


def running_study() -> BOHB:
    optimizer = BOHB({**SPACE, "act": ["[red]", "b"]}, min_budget=1, max_budget=9, seed=0)
    optimizer.begin_session("here")
    for _ in range(14):  # the first bracket is done, the second has begun
        trial = optimizer.ask()
        optimizer.tell(trial, trial.config["x"])
    optimizer.ask_many(6)
    return optimizer


def test_the_panel_shows_trials_rungs_incumbent_cost_and_time() -> None:
    history = running_study().history
    text = shown(Limits(max_trials=100, max_seconds=7200, max_cost=50), history, 60.0)
    assert "14 done of 100, 6 running" in text
    assert re.search(r"trial 1\d on budget 3 for \d+ s: act=", text)
    assert "and 2 more" in text
    assert re.search(r"#1 +3 ━+ 1/5 +9 ━ 0/1", text)
    assert re.search(r"best +\S+ on budget \d \(trial \d+, \w+\)", text)
    assert re.search(r"spent +[\d.]+ of 50 full evaluations", text)
    assert "60 s of 2 h, about" in text


def test_names_and_values_of_the_user_are_no_markup() -> None:
    optimizer = BOHB({"act": ["[red]x", "[/]y"], "z": (0.0, 1.0)}, min_budget=1, max_budget=3, seed=0)
    optimizer.ask_many(3)
    text = shown(Limits(), optimizer.history, 1.0)
    assert "[red]x" in text or "[/]y" in text


@pytest.mark.parametrize(
    ("limits", "seconds", "left"),
    [
        (Limits(max_trials=60), 30.0, "30 s"),
        (Limits(max_seconds=100), 30.0, "70 s"),
        (Limits(max_trials=60, max_seconds=40), 30.0, "10 s"),
        (Limits(max_trials=10), 30.0, "0 s"),
    ],
)
def test_the_time_left_is_that_to_the_first_limit(limits: Limits, seconds: float, left: str) -> None:
    history = study(30).history
    assert f"about {left} left" in shown(limits, history, seconds)


def test_without_a_limit_the_time_left_is_that_of_one_round() -> None:
    history = study(11).history
    done = history.budget_spent / (bohb.BOHB(SPACE, min_budget=1, max_budget=9).plan().continued_cost * 9)
    match = re.search(r"about (\d+) s left", shown(Limits(), history, 10.0))
    assert match is not None
    assert int(match[1]) == round(10 / done - 10)


def test_at_the_end_nothing_is_left() -> None:
    assert "left" not in shown(Limits(max_trials=60), study().history, 30.0, final=True)


def test_a_narrow_terminal_cuts_lines_instead_of_wrapping_them() -> None:
    text = shown(Limits(), running_study().history, 1.0, width=40)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 40


def test_in_a_pipe_there_is_a_line_per_incumbent_and_per_finished_bracket() -> None:
    history = study().history
    lines = plain(Limits(max_trials=30), (history, 1.5))
    finished = [line for line in lines if "bracket" in line]
    assert len(finished) == len(history.brackets) - len(history.open_brackets) > 1
    assert re.fullmatch(
        r"\[ +1\.5 s\] bracket 0 finished; 30 done of 30, 0 running, \d+ failed, about 0 s left", finished[0]
    )
    assert len(lines) == len(finished) + len(history.trajectory)


def test_nothing_is_said_twice_and_a_quiet_study_gives_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    history = study().history
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Progress(Limits(), Console(file=stream)) as progress:
        progress.update(history, 1.0)
        first = len(stream.getvalue().splitlines())
        for _ in range(100):
            now[0] += 1.0
            progress.update(history, now[0] - 1000)
    lines = stream.getvalue().splitlines()[first:]
    assert len(lines) == 3
    assert all("30 done, 0 running" in line for line in lines)


def test_what_an_earlier_session_told_is_not_told_again(tmp_path: Any) -> None:
    arguments: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "journal": tmp_path / "a.db"}
    bohb.minimize(objectives.quadratic, SPACE, **arguments, max_trials=20, progress=False)
    resumed = bohb.minimize(objectives.quadratic, SPACE, **arguments, max_trials=60, progress=False)
    began = resumed.history.sessions[-1].time
    new = [best for best in resumed.trajectory if (best.outcome.finished or 0) >= began]
    lines = plain(Limits(), (resumed.history, 1.0))
    assert len([line for line in lines if " trial " in line]) == len(new) < len(resumed.trajectory)


def results(*pairs: tuple[float, float]) -> list[Result]:
    trial = study(1, objectives.quadratic).history.trials[0]
    return [Result(trial, bohb.Outcome(bohb.Status.OK, loss, started=t, finished=t)) for t, loss in pairs]


def test_the_sparkline_falls_with_the_loss_and_holds_until_now() -> None:
    bars = sparkline(results((0, 8.0), (5, 4.0), (10, 1.0)), now=20, width=8)
    assert len(bars) == 8
    assert list(bars) == sorted(bars, reverse=True)
    assert (bars[0], bars[-1]) == ("█", "▁")
    assert bars[4:] == "▁▁▁▁"
    assert sparkline(results((0, 1.0)), now=5) == ""
    assert sparkline(results((0, 2.0), (1, 2.0)), now=2, width=3) == "▁▁▁"
    assert sparkline(results((0, -2.0), (0, -4.0)), now=0, width=2) in ("▁▁", "█▁")


def test_a_notebook_is_updated_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    class Handle:
        def update(self, page: str) -> None:
            pages.append(page)

    def display(page: str, display_id: bool) -> Handle:
        pages.append(page)
        return Handle()

    fake: Any = types.ModuleType("IPython.display")
    fake.HTML, fake.display = str, display
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    history = running_study().history
    with Progress(Limits(), Console(file=io.StringIO(), force_jupyter=True)) as progress:
        progress.update(history, 1.0)
        progress.update(history, 2.0, final=True)
    assert len(pages) == 2
    assert all("14 done" in page and page.startswith("<pre") and "\x1b" not in page for page in pages)
    assert "<script" not in pages[0]


def test_progress_is_shown_in_a_terminal_or_a_notebook_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(True)
    assert not wanted(False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not wanted(None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert wanted(None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    fake: Any = types.ModuleType("IPython")
    fake.get_ipython = type("ZMQInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert wanted(None)
