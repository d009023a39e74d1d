"""A small version of the benchmark of the Gaussian process runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks.speed import gp_speed


def test_it_measures_every_size_and_says_what_was_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in ("OPENBLAS", "OMP", "MKL"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")  # the benchmark sets it; monkeypatch restores it
    monkeypatch.setattr(gp_speed, "DIMENSIONS", (3,))
    monkeypatch.setattr(sys, "argv", ["gp_speed", "--sizes", "20,40", "--repeats", "1", "--out", str(tmp_path)])
    gp_speed.main()
    body = json.loads((tmp_path / "gp_speed.json").read_text())
    assert [(row["hyperparameters"], row["results"]) for row in body["results"]] == [(3, 20), (3, 40)]
    assert all(row[name] > 0 for row in body["results"] for name in ("proposal ms", "beside 15 ms", "fit ms"))
    assert len(body["goals"]) == 2
    assert (tmp_path / "gp_speed.md").read_text() == gp_speed.page(body)
    assert "proposal ms" in capsys.readouterr().out
