"""A small version of every experiment runs, from the command line to the result files."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from benchmarks.data import directory
from benchmarks.paper.claims.evidence import Evidence
from benchmarks.paper.claims.page import page
from benchmarks.paper.figures import STEPS, index

from tests.sizes import long

needs_data = pytest.mark.skipif(not (directory() / "README.md").exists(), reason="the benchmark data is not here")


def run(module: str, out: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    arguments = ["--smoke", "--out", str(out), "--cache", str(out / "cache"), *options]
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    importlib.import_module(f"benchmarks.paper.{module}").main()


@pytest.mark.parametrize(
    "module",
    [
        "counting_ones",
        pytest.param("hyperparameters", marks=long),
        "compare",
        pytest.param("svm", marks=[needs_data, long]),
        pytest.param("lcbench", marks=needs_data),
        pytest.param("measured", marks=[needs_data, long]),
    ],
)
def test_an_experiment_writes_its_results(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(module, tmp_path, monkeypatch)
    body = json.loads((tmp_path / f"{module}.json").read_text())
    assert body["source"]["seeds"] == [0, 1]
    for entry in body["problems"].values():
        for method in entry["methods"].values():
            assert method["runs"] == 2
            assert len(method["final"]) == 2
            assert len(method["mean"]) == len(method["error"]) == len(entry["x"])
    csv = (tmp_path / f"{module}.csv").read_text()
    assert csv.startswith("# command: ")
    assert "± " in (tmp_path / f"{module}.md").read_text()
    assert (tmp_path / f"{module}.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip()


def test_claims_and_index_are_written_from_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("counting_ones", tmp_path, monkeypatch, "--problems", "counting_ones-8-8", "--evaluations", "2")
    assert (tmp_path / "counting_ones_8_8.png").exists()  # shown in README.md
    assert "counting_ones-8-8 at 1: BOHB" in page(Evidence(tmp_path))
    listed = index(tmp_path)
    assert "[md](counting_ones.md)" in listed
    assert listed.count("not run") == len(STEPS) - 1
