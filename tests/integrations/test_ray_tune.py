"""Ray Tune on a real cluster, in a network namespace with loopback only."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.executors.test_ray import run_isolated
from tests.sizes import long

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra tune")


@pytest.mark.timeout(1000)
def test_a_tuner_works_with_our_search_and_scheduler() -> None:
    assert " failed" not in run_isolated(Path(__file__).with_name("ray_tune_inside.py"))


@long
@pytest.mark.timeout(1000)
def test_a_tuner_that_was_killed_is_restored() -> None:
    assert "2 passed" in run_isolated(Path(__file__).with_name("ray_restore_inside.py"), timeout=900)
