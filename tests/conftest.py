"""Settings of all tests."""

from __future__ import annotations

import os

# One thread for linear algebra, here and in child processes: with the small matrices of the tests, more threads cost
# several times the CPU time and gain nothing. The libraries read these when they are imported, so this comes first.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def pytest_xdist_auto_num_workers() -> int:
    """With `-n auto`, use one worker more than there are cores, because many tests wait for processes."""
    return (os.cpu_count() or 1) + 1
