"""The Gaussian process decides on one BLAS thread, and leaves the number of threads as it was."""

from __future__ import annotations

from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import bohb
from bohb.core.samplers.gaussian import GaussianSampler


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_proposals_of_the_process_use_one_blas_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    original = GaussianSampler.propose

    def propose(self: GaussianSampler, *args: Any) -> Any:
        seen.append(blas_threads())
        return original(self, *args)

    monkeypatch.setattr(GaussianSampler, "propose", propose)
    with threadpool_limits(2, user_api="blas"):
        study = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1.0], seed=0, preset="best")
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, trial.config["x"])
        assert blas_threads() == {2}
    assert seen
    assert all(threads == {1} for threads in seen)
