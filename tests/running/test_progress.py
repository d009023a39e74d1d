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
from bohb import BOHB, Limits, Outcome, Status
from bohb.core.limits import given_limits
from bohb.running.progress import Progress, sparkline
from tests import objectives
from tests.objectives import SPACE


def study(max_trials: int = 30, objective: Any = objectives.half_nan) -> bohb.Study:
    return bohb.minimize(objective, SPACE, min_budget=1, max_budget=9, seed=0, max_trials=max_trials, progress=False)


def shown(
    limits: Limits,
    history: bohb.History,
    seconds: float,
    final: bool = False,
    width: int = 100,
    now: float | None = None,
) -> str:
    stream = io.StringIO()
    with Progress(limits, Console(file=stream, force_terminal=True, width=width)) as progress:
        progress.update(history, seconds, final, now)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def plain(limits: Limits, *states: tuple[bohb.History, float, bool]) -> list[str]:
    stream = io.StringIO()
    with Progress(limits, Console(file=stream)) as progress:
        for history, seconds, final in states:
            progress.update(history, seconds, final)
    assert "\x1b" not in stream.getvalue()
    return stream.getvalue().splitlines()


def running_study() -> BOHB:
    optimizer = BOHB({**SPACE, "act": ["[red]", "b"]}, min_budget=1, max_budget=9, seed=0)
    optimizer.session.begin("here", limits={"max_trials": 100, "max_seconds": 7200})
    for _ in range(14):  # the first bracket is done, the second has begun
        trial = optimizer.ask()
        optimizer.tell(trial, trial.config["x"])
    optimizer.ask_many(6)
    return optimizer


def test_the_panel_shows_trials_rungs_incumbent_cost_and_time() -> None:
    history = running_study().history
    text = shown(Limits(max_trials=100, max_seconds=7200, max_cost=50), history, 60.0)
    assert "14 of 100 finished (0 failed), 6 running" in text
    assert re.search(r"trial 1\d on budget 3 for \d[^:]*: act=", text)
    assert "and 2 more" in text
    assert re.search(r"#1 +3 ━+ 1/5 +9 ━ 0/1", text)
    assert re.search(r"best +loss \S+ on budget \d \(trial \d+, \w+\)", text)
    assert re.search(r"spent +[\d.]+ of 50 full evaluations in 1 min of 2 h", text)
    assert re.search(r"left +about .*, until \d", text)


def test_names_and_values_of_the_user_are_no_markup() -> None:
    optimizer = BOHB({"act": ["[red]x", "[/]y"], "z": (0.0, 1.0)}, min_budget=1, max_budget=3, seed=0)
    optimizer.ask_many(3)
    text = shown(Limits(), optimizer.history, 1.0)
    assert "[red]x" in text or "[/]y" in text


@pytest.mark.parametrize(
    ("limits", "least", "most"),
    [
        (Limits(max_trials=18), 38, 46),  # one runs, and three follow
        (Limits(max_seconds=170), 30, 30),
        (Limits(max_trials=18, max_seconds=150), 10, 10),
        (Limits(max_trials=18, patience=1), 38, 46),  # limits on losses are not foreseen
        (Limits(patience=1), None, None),
    ],
)
def test_the_time_left_is_that_to_the_first_limit(limits: Limits, least: int | None, most: int | None) -> None:
    """Trials take 10 s each; 14 have ended one after the other, and another one begins."""
    now = [1e9]
    optimizer = BOHB(SPACE, budgets=[1], seed=0, preset="paper", clock=lambda: now[0])
    optimizer.session.begin("here", limits=given_limits(limits))
    for n in range(14):
        now[0] += 10
        optimizer.tell(optimizer.ask(), Outcome(Status.OK, loss=n, started=now[0] - 10, finished=now[0]))
    optimizer.ask()
    found = re.search(r"left +about (\d+) s", shown(limits, optimizer.history, 140.0, now=now[0]))
    if least is None or most is None:
        assert found is None
    else:
        assert found is not None
        assert least <= int(found[1]) <= most


def test_while_nothing_runs_the_last_estimate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    optimizer.session.begin("here", limits={"max_seconds": 100})
    stream = io.StringIO()
    with Progress(Limits(max_seconds=100), Console(file=stream, force_terminal=True, width=100)) as progress:
        trial = optimizer.ask()
        progress.update(optimizer.history, 10.0)
        optimizer.tell(trial, 0.5)
        now[0] += 20.0
        progress.update(optimizer.history, 30.0)
    assert stream.getvalue().index("about 1 min 30 s") < stream.getvalue().index("about 1 min 10 s")


def test_at_the_end_nothing_is_left() -> None:
    assert "about" not in shown(Limits(max_trials=60), study().history, 30.0, final=True)


def test_a_narrow_terminal_cuts_lines_instead_of_wrapping_them() -> None:
    text = shown(Limits(), running_study().history, 1.0, width=40)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 40


def test_the_sparkline_fits_beside_the_best_result_or_is_left_out() -> None:
    options: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "max_trials": 20, "progress": False}
    history = bohb.minimize(objectives.quadratic, SPACE, **options).history

    def best(width: int) -> str:
        return next(line for line in shown(Limits(), history, 1.0, width=width).splitlines() if "best" in line)

    alone = len(best(200)) - 2 - 20  # without the two spaces and the sparkline
    assert [len(best(alone + more)) - alone for more in (0, 5, 6, 10, 22, 60)] == [0, 0, 6, 10, 22, 22]
    assert not any("…" in best(alone + more) for more in (0, 5, 6, 10, 22))


def new() -> bohb.History:
    return BOHB(SPACE, min_budget=1, max_budget=9, seed=0).history


def test_in_a_log_file_there_is_a_line_at_the_end() -> None:
    history = study().history
    (line,) = plain(Limits(max_trials=30), (new(), 0.0, False), (history, 1.5, True))
    last = len(history.brackets) - len(history.schedule.open) - 1
    assert re.fullmatch(
        rf"\[ +1\.5 s\] brackets 0 to {last} finished; trials: 30 of 30 finished \(\d+ failed\), 0 running; "
        r"best: loss \S+ on budget 9 \(trial \d+, \w+\)",
        line,
    )


def test_in_a_log_file_there_is_a_line_per_bracket_or_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    with Progress(Limits(), Console(file=stream)) as progress:
        for _ in range(22):  # the three brackets of a round
            progress.update(optimizer.history, now[0] - 1000)
            optimizer.tell(optimizer.ask(), 0.5)
            now[0] += 2.0
        for _ in range(200):
            progress.update(optimizer.history, now[0] - 1000)
            now[0] += 1.0
    lines = stream.getvalue().splitlines()
    assert [re.search(r"bracket \d finished", line) is not None for line in lines] == [True] * 3 + [False] * 3
    assert all("22 finished (0 failed), 0 running; best: loss 0.5 on budget 9" in line for line in lines[3:])


def test_many_brackets_in_a_second_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    stream = io.StringIO()
    with Progress(Limits(), Console(file=stream)) as progress:
        for _ in range(44):
            progress.update(optimizer.history, 0.0)
            optimizer.tell(optimizer.ask(), 0.5)
        progress.update(optimizer.history, 0.0, final=True)
    assert "brackets 0 to 5 finished" in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1


def test_brackets_of_an_earlier_session_are_not_shown_again() -> None:
    history = study().history
    (line,) = plain(Limits(), (history, 1.0, False), (history, 2.0, True))
    assert "bracket" not in line


def test_progress_is_shown_in_a_log_file_unless_it_is_switched_off(capfd: pytest.CaptureFixture[str]) -> None:
    for progress in (None, False):
        bohb.minimize(objectives.quadratic, SPACE, min_budget=1, max_budget=9, max_trials=5, progress=progress)
        shown = capfd.readouterr()
        assert shown.out == ""
        assert shown.err.count("5 of 5 finished") == (progress is None)


@pytest.mark.parametrize("width", [80, 160])
def test_labels_are_whole_and_the_last_line_leaves_room_for_ctrl_c(width: int) -> None:
    space = {f"hyperparameter_{i}": (0.0, 1.0) for i in range(9)}
    optimizer = BOHB(space, min_budget=1, max_budget=9, seed=0)
    optimizer.session.begin("here", limits={"max_seconds": 9})
    optimizer.tell(optimizer.ask(), 0.5)
    optimizer.ask_many(3)
    lines = shown(Limits(max_seconds=9), optimizer.history, 5.0, width=width).splitlines()[:8]
    assert [line[:10].strip() for line in lines] == ["trials", "running", "", "", "brackets", "best", "spent", "left"]
    assert len(lines[1]) == width
    assert lines[1].endswith("…")
    assert len(lines[7]) < width - 2


def results(*pairs: tuple[float, float]) -> list[bohb.Result]:
    trial = study(1, objectives.quadratic).history.trials[0]
    return [bohb.Result(trial, bohb.Outcome(bohb.Status.OK, loss, started=t, finished=t)) for t, loss in pairs]


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
    pages: list[dict[str, str]] = []

    class Handle:
        def update(self, page: dict[str, str], raw: bool) -> None:
            assert raw
            pages.append(page)

    def display(page: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        pages.append(page)
        return Handle()

    fake: Any = types.ModuleType("IPython.display")
    fake.display = display
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    history = running_study().history
    with Progress(Limits(), Console(file=io.StringIO(), force_jupyter=True)) as progress:
        progress.update(history, 1.0)
        progress.update(history, 2.0, final=True)
    assert len(pages) == 2
    for page in pages:
        assert "14 finished" in page["text/html"]
        assert page["text/html"].startswith('<pre style="font-family:monospace')
        assert "<script" not in page["text/html"]
        assert page["text/plain"].startswith("trials    14 finished"), "a notebook without HTML shows the same"
        assert "\x1b" not in page["text/html"] + page["text/plain"]
