"""Settings of all tests."""

from __future__ import annotations

import logging
import os
import sys

# One thread for linear algebra, here and in child processes: with the small matrices of the tests, more threads cost
# several times the CPU time and gain nothing. The libraries read these when they are imported, so this comes first.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# Hundreds of child processes import the package; where bytecode is not cached, each of them would compile it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import pytest  # noqa: E402 - after the settings above
from hypothesis import HealthCheck, settings  # noqa: E402

# No test depends on the speed of the machine.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With `-n auto`, use one worker more than there are cores, because many tests wait for processes."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def _logger_of_the_package() -> None:
    """Give our logger its usual state: libraries that configure logging disable it, and benchmarks silence it."""
    logging.disable(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)
    logger = logging.getLogger("bohb")
    logger.disabled, logger.propagate = False, True
    logger.setLevel(logging.NOTSET)
