"""Settings of all benchmark tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Use one thread: with small matrices on busy cores, more threads take ten times the CPU time."""
    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch:
        for library in ("OPENBLAS", "OMP", "MKL"):  # for child processes
            patch.setenv(f"{library}_NUM_THREADS", "1")
        yield
