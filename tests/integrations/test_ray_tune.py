"""Ray Tune on a real cluster, in a network namespace with loopback only."""

from __future__ import annotations

from pathlib import Path

from tests.executors.test_ray import run_isolated


def test_a_tuner_works_with_our_search_and_scheduler() -> None:
    assert "4 passed" in run_isolated(Path(__file__).with_name("ray_tune_inside.py"))
