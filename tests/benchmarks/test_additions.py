"""`--add` replaces the results of the methods and problems that were run, and keeps everything else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.additions import SPEEDUPS, added
from benchmarks.paper import counting_ones


def body(command: str, **problems: dict[str, Any]) -> dict[str, Any]:
    source = {"command": command, "date": "today"}
    return {"source": source, "problems": {name: {"x": [1, 2, 3], "methods": m} for name, m in problems.items()}}


def curve(*mean: float | None, reached: float | None = None) -> dict[str, Any]:
    return {"mean": list(mean), "final": {"0": mean[-1]}, "bohb_reaches": reached}


def test_an_addition_replaces_what_was_run_and_keeps_everything_else() -> None:
    old = body("first", p={"bohb": curve(9, 5, 2), "smac": curve(9, 9, 9)}, q={"smac": curve(8, 8, 8)})
    new = body("second", p={"smac": curve(None, 6, 5)})
    both = added(old, new)
    assert both["problems"]["q"] == old["problems"]["q"]
    assert both["problems"]["p"]["methods"] == {"bohb": curve(9, 5, 2), "smac": curve(None, 6, 5, reached=2)}
    assert both["source"] == {**old["source"], "added": [{**new["source"], "results": {"p": ["smac"]}}]}
    third = added(both, body("third", p={"bohb": curve(9, 9, 4, reached=3)}, r={"bohb": curve(1, 1, 1)}))
    assert third["problems"]["p"]["methods"]["smac"]["bohb_reaches"] == 3  # by the new BOHB
    assert third["problems"]["p"]["methods"]["bohb"]["bohb_reaches"] == 3  # as it was computed from all runs
    assert [(part["command"], part["results"]) for part in third["source"]["added"]] == [
        ("second", {"p": ["smac"]}),
        ("third", {"p": ["bohb"], "r": ["bohb"]}),
    ]


def test_an_addition_replaces_the_speed_ups_that_were_computed_again() -> None:
    old = body("first", p={"bohb": curve(9, 5, 2)}) | {SPEEDUPS: [speedup("p", "smac", 1), speedup("q", "smac", 2)]}
    new = body("second", p={"bohb": curve(9, 5, 2)}) | {SPEEDUPS: [speedup("p", "smac", 3), speedup("p", "tpe", 4)]}
    assert added(old, new)[SPEEDUPS] == [speedup("p", "smac", 3), speedup("q", "smac", 2), speedup("p", "tpe", 4)]


def speedup(problem: str, than: str, value: float) -> dict[str, Any]:
    return {"problem": problem, "than": than, "at 8": value}


def run(out: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, Any]:
    arguments = ["--smoke", "--evaluations", "2", "--out", str(out), "--cache", str(out / "cache"), *options]
    monkeypatch.setattr(sys, "argv", ["counting_ones", *arguments])
    counting_ones.main()
    found: dict[str, Any] = json.loads((out / "counting_ones.json").read_text())
    return found


def test_runs_are_added_on_the_axis_of_the_page_which_names_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(tmp_path, monkeypatch, "--methods", "bohb")["problems"]["counting_ones-4-4"]
    again = run(tmp_path, monkeypatch, "--methods", "random", "--runs", "3", "--add")
    both = again["problems"]["counting_ones-4-4"]
    assert both["x"] == first["x"]
    assert both["methods"]["bohb"] == first["methods"]["bohb"]
    assert len(both["methods"]["random"]["mean"]) == len(both["x"])
    assert len(both["methods"]["random"]["final"]) == 3
    text = (tmp_path / "counting_ones.md").read_text()
    assert "| counting_ones-4-4 |" in text
    assert "(counting_ones-4-4: random)" in text
    assert text.count("- command: ") == 2
    with pytest.raises(SystemExit):
        run(tmp_path, monkeypatch, "--methods", "random", "--evaluations", "3", "--add")
    assert "full_evaluations=2.0, the new runs 3.0" in capsys.readouterr().err
    assert json.loads((tmp_path / "counting_ones.json").read_text()) == again
