from __future__ import annotations

import math

import numpy as np
import pytest

from bohb.analysis.axes import LossRange, loss_range, settled_range

USUAL = np.linspace(1, 2, 40).tolist()


def found(losses: list[float]) -> LossRange:
    result = loss_range(losses)
    assert result is not None
    return result


@pytest.mark.parametrize("diverged", [[1e54], [1e9] * 10, [1e300, -1e308], [10.0**k for k in range(10, 30)]])
def test_diverged_losses_are_outside_even_if_they_are_many(diverged: list[float]) -> None:
    usual = found(USUAL + diverged)
    assert (usual.low, usual.high) == (1, 2)
    assert usual.outside([*USUAL, *diverged, math.inf, math.nan]).sum() == len(diverged)
    assert usual.clip([1.5, diverged[0]]).tolist() == [1.5, 2]


def test_three_losses_are_enough_to_recognise_an_outlier() -> None:
    assert (found([0.5, 0.2, 1e54]).low, found([0.5, 0.2, 1e54]).high) == (0.2, 0.5)


@pytest.mark.parametrize(
    "losses",
    [[1.0] * 30, [1.0] * 30 + [0.3], [0.0] * 30 + [1e-3], [0.5], [-0.99, -0.98, -0.1], [*USUAL, 0.1, 4.0]],
)
def test_losses_that_are_not_far_out_are_all_inside(losses: list[float]) -> None:
    usual = found(losses)
    assert (usual.low, usual.high) == (min(losses), max(losses))


def test_losses_over_many_powers_of_ten_suit_a_logarithmic_axis() -> None:
    powers = (10.0 ** np.linspace(-4, 4, 40)).tolist()
    for losses in (powers, [*powers, 1e54]):
        usual = found(losses)
        assert usual.log
        assert usual.high == pytest.approx(1e4)
    assert not found(USUAL).log
    assert not found([-1.0, *powers]).log


def test_without_a_finite_loss_there_is_no_range() -> None:
    assert loss_range([]) is None
    assert loss_range([math.nan, math.inf]) is None


@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_the_ends_of_lines_can_be_told_apart_however_high_they_begin(shift: float) -> None:
    beginnings, settled = np.array([2.8, 2.5, 0.9]) + shift, np.array([0.11, 0.0405, 0.0569]) + shift
    usual = settled_range(settled.tolist(), [*beginnings, *settled])
    assert usual is not None
    assert usual.low == settled.min()
    scale = np.log if usual.log else np.asarray
    height = scale(usual.high) - scale(usual.low)
    assert (scale(settled[2]) - scale(settled[1])) / height > 0.1


def test_an_axis_that_shows_everything_is_kept_if_the_ends_are_far_apart() -> None:
    usual = settled_range([0.2, 0.8], [0.2, 0.8, 1.0])
    assert usual == LossRange(0.2, 1.0, positive=True, log=True)
    assert settled_range([0.5], [0.5, 0.9]) == LossRange(0.5, 0.9, positive=True, log=False)
    assert settled_range([], [math.nan]) is None
