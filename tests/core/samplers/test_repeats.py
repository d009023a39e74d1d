"""Repeated evaluations of one configuration are averaged, and show how large the noise is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bohb import BOHB, History, Outcome, Status, replay
from bohb.core.confirm import promising
from bohb.core.events import ConfirmationStarted, Event, RepeatFinished
from bohb.core.samplers.process import Data, Kernel, Process, fit, negative_log_likelihood, prior
from bohb.core.samplers.targets import Results, joined
from bohb.journal import MemoryJournal


def losses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    points, n = rng.random((12, 2)), np.arange(12) % 4 + 1
    rows = np.repeat(np.arange(12), n)
    return points, rows, np.sin(5 * points[rows, 0]) + 0.4 * rng.standard_normal(len(rows))


def averaged(rows: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = np.bincount(rows).astype(float)
    means = np.bincount(rows, y) / counts
    return means, counts, np.bincount(rows, (y - means[rows]) ** 2)


def kernel() -> Kernel:
    return replace(prior(2, 1)[0], noises=np.array([math.log(0.2)]))


def test_averaging_is_the_same_as_observing_every_evaluation() -> None:
    points, rows, y = losses()
    means, counts, squares = averaged(rows, y)
    owner, zeros = np.arange(2), np.zeros(len(y), dtype=np.intp)
    every = Process(kernel(), Data(owner, points[rows], zeros, y))
    mean = Process(kernel(), Data(owner, points, zeros[:12], means, counts))
    there = np.random.default_rng(1).random((5, 2))
    for one, other in zip(every.predict(every.similarity(there)), mean.predict(mean.similarity(there)), strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    likelihoods = []
    for noise in (0.1, 0.4):
        changed = replace(kernel(), noises=np.array([math.log(noise)]))
        whole = negative_log_likelihood(changed, Data(owner, points[rows], zeros, y))[0]
        likelihoods.append(
            whole - negative_log_likelihood(changed, Data(owner, points, zeros[:12], means, counts, squares))[0]
        )
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-4), "they differ by a constant"


def test_the_gradient_of_the_noise_includes_the_deviations_of_repetitions() -> None:
    points, rows, y = losses()
    means, counts, squares = averaged(rows, y)
    group = np.zeros(12, dtype=np.intp)
    theta, data = kernel().vector(), Data(np.arange(2), points, group, means, counts, squares)
    _, gradient = negative_log_likelihood(kernel(), data)
    for i in range(len(theta)):
        step = np.eye(len(theta))[i] * 1e-5
        ends = [negative_log_likelihood(Kernel.of(theta + s, 1), data)[0] for s in (step, -step)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-4)


def test_the_noise_is_learnt_from_repetitions() -> None:
    """Two neighbours with different means say little about the noise; their repetitions say it all."""
    rng = np.random.default_rng(0)
    points, group = rng.random((8, 1)), np.zeros(8, dtype=np.intp)
    y = rng.standard_normal(8)
    counts = np.full(8, 20.0)
    quiet, loud = (
        fit(prior(1, 1)[0], Data(np.arange(1), points, group, y, counts, 19 * variance * np.ones(8)), 20).noises[0]
        for variance in (0.01, 0.25)
    )
    assert math.exp(quiet) == pytest.approx(0.01, rel=0.3)
    assert math.exp(loud) == pytest.approx(0.25, rel=0.3)


def study(n: int = 40) -> BOHB:
    optimizer = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, seed=3, preset="best")
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.config["x"] - 0.4) ** 2)
    return optimizer


def with_confirmation(events: list[Event], history: History) -> list[Event]:
    numbers = tuple(promising(history.results, 2))
    repeats = [RepeatFinished(0, i % 2, i // 2, Outcome(Status.OK, loss=0.3 + i / 10)) for i in range(4)]
    return [*events, ConfirmationStarted(0, numbers, 9.0, 2, None), *repeats]


def test_evaluations_of_a_confirmation_are_averaged_with_the_first_one() -> None:
    optimizer = study()
    events = with_confirmation(list(optimizer.events), optimizer.history)
    history = History().extend(events)
    results = Results(1)
    results.catch_up(history)
    found = joined(results, len(results), history.budgets, 200)
    assert sorted(found.counts.tolist()) == [1.0] * (len(found.counts) - 2) + [3.0, 3.0]
    first = history.trials[promising(history.results, 1)[0]]
    rows, table, _ = results.table(len(results), history.budgets)
    row = np.flatnonzero((results.vectors(rows) == history.space.encode(first.config)).all(axis=1))
    loss = history.outcomes[first.number].ranking_loss
    assert table[row, 0] == pytest.approx(np.mean([loss, 0.3, 0.5]))
    assert found.squares.max() > 0
    plain = Results(1)
    plain.catch_up(optimizer.history)
    assert not joined(plain, len(plain), history.budgets, 200).squares.any()


def test_results_have_one_order_whenever_they_are_read() -> None:
    optimizer = study()
    events = with_confirmation(list(optimizer.events), optimizer.history)
    resumed = BOHB.from_journal(MemoryJournal(events))
    step_by_step = Results(1)
    step_by_step.catch_up(resumed.history)
    for _ in range(5):
        trial = resumed.ask()
        resumed.tell(trial, trial.config["x"])
        step_by_step.catch_up(resumed.history)
    at_once = Results(1)
    at_once.catch_up(resumed.history)
    for n in range(30, len(at_once) + 1):
        for one, other in zip(*(r.table(n, resumed.history.budgets)[:2] for r in (at_once, step_by_step)), strict=True):
            np.testing.assert_array_equal(one, other)
    report = replay(resumed.events)
    assert [line for line in report.differences if "confirm" not in line] == []
