from __future__ import annotations

import numpy as np
import pytest

from bohb import BOHB, Space
from bohb.analysis.axes import axes, configurations, places
from bohb.analysis.models import contour, densities
from bohb.errors import InvalidArgument
from tests.analysis.studies import KINDS, XY, play, played, tiny
from tests.core import spaces


def test_ticks_are_round_numbers_decades_and_names() -> None:
    table = {axis.name: axis for axis in axes(Space(spaces.mixed()))}
    assert table["float"].labels == ("-1", "0", "1", "2")
    assert table["log"].labels == ("1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1")
    assert table["log"].ticks[0] == 0
    assert table["log"].ticks[-1] == pytest.approx(1)
    assert table["int"].labels == ("1", "2", "3")
    assert table["int"].ticks == pytest.approx((1 / 6, 1 / 2, 5 / 6))
    assert table["cat"].labels == ("a", "b", "c")
    assert table["tuple"].labels == ("(1, 2)", "(3,)")
    assert table["bool"].labels == ("True", "False")
    assert table["ordinal"].ticks == pytest.approx((1 / 6, 1 / 2, 5 / 6))


@pytest.mark.parametrize(
    "bounds", [(0.0, 1e-9), (-1e6, 1e6), (0.999, 1.001), (3, 4), (0, 1000), (2.0, 9.0, "log"), (1, 2, "log"), (5, 5000)]
)
def test_every_axis_has_ticks_inside_it(bounds: tuple[float, ...]) -> None:
    (axis,) = axes(Space({"x": bounds}))
    assert 2 <= len(axis.ticks) <= 8
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert all(0 <= tick <= 1 for tick in axis.ticks)


def test_a_category_lies_where_its_tick_is() -> None:
    space = Space({"c": ["a", "b", "c"], "x": (0.0, 2.0)})
    assert places(space, [{"c": "b", "x": 0.5}]).tolist() == [[axes(space)[0].ticks[1], 0.25]]


def test_configurations_have_gaps_where_a_hyperparameter_is_inactive() -> None:
    history = played("conditional")
    table = configurations(history, 1)
    names = [axis.name for axis in table.axes]
    for row, number in enumerate(table.numbers.tolist()):
        active = {name for name, place in zip(names, table.places[row], strict=True) if not np.isnan(place)}
        assert active == set(history.trials[number].config) & set(names)
    assert np.nanmin(table.places) >= 0
    assert np.nanmax(table.places) <= 1


def test_configurations_are_the_finished_trials_of_one_or_all_budgets() -> None:
    history = played("conditional")
    table = configurations(history)
    assert table.numbers.tolist() == list(history.outcomes)
    assert table.budgets.tolist() == [history.trials[n].budget for n in history.outcomes]
    assert configurations(tiny().history, 3).losses.tolist() == [0.1, 0.3, 0.05]
    with pytest.raises(InvalidArgument, match=r"budget=2 has no finished trial; there are some on \[1"):
        configurations(tiny().history, 2)


def test_the_surface_follows_the_losses_and_stays_blank_far_away() -> None:
    optimizer = BOHB(XY, budgets=[1, 3], seed=0, random_fraction=1.0, max_brackets=1000)
    play(optimizer, 300, lambda trial: trial.config["x"] + 0.1 * trial.config["y"])
    table = contour(optimizer.history, "x", "y", budget=1)
    assert table is not None
    assert (table.x.name, table.y.name) == ("x", "y")
    middle = len(table.grid_y) // 2
    known = table.surface[middle][~np.isnan(table.surface[middle])]
    assert len(known) > 30
    assert np.all(np.diff(known) > -0.02)
    assert known[0] < 0.3 < 0.7 < known[-1]
    lonely = contour(tiny().history, "x", "y", budget=1)
    assert lonely is not None
    assert np.isnan(lonely.surface).any()
    inside = lonely.surface[~np.isnan(lonely.surface)]
    assert inside.min() >= 0.2 - 1e-9
    assert inside.max() <= 0.5 + 1e-9


def test_losses_far_apart_are_smoothed_on_a_log_scale() -> None:
    table = contour(played("far apart"))
    assert table is not None
    assert table.log
    assert np.nanmin(table.surface) > 0


def test_a_contour_takes_two_different_hyperparameters_that_exist() -> None:
    with pytest.raises(InvalidArgument, match="'z' is not a hyperparameter that varies"):
        contour(tiny().history, "z")
    with pytest.raises(InvalidArgument, match="must be two different"):
        contour(tiny().history, "x", "x")
    assert contour(played("one parameter")) is None


def test_there_are_no_densities_without_a_model() -> None:
    assert densities(played("empty")) is None
    assert densities(played("one observation")) is None
    assert densities(played("all failed")) is None


@pytest.mark.parametrize("kind", ["mixed", "conditional", "constrained", "finite", "hostile", "large"])
def test_marginals_are_densities(kind: str) -> None:
    table = densities(played(kind))
    assert table is not None
    assert table.good + table.bad >= table.n
    for marginal in table.marginals:
        for density in (marginal.good, marginal.bad):
            total = density.sum() if marginal.axis.kind == "categorical" else np.trapezoid(density, marginal.places)
            assert total == pytest.approx(1, abs=0.03)
        assert len(marginal.good_points) + marginal.good_inactive == table.good
        assert len(marginal.bad_points) + marginal.bad_inactive == table.bad


def test_the_marginals_of_independent_coordinates_multiply_to_the_model() -> None:
    """With a single good point the product kernel is the product of its marginals."""
    optimizer = BOHB({"x": (0.0, 1.0), "c": ["a", "b", "c"]}, budgets=[1], seed=0, min_points=1)
    play(optimizer, 4, lambda trial: trial.config["x"])
    table, model = densities(optimizer.history), optimizer.model()
    assert table is not None
    assert model is not None
    assert table.good == 1
    by_name = {marginal.axis.name: marginal for marginal in table.marginals}
    order = [scale.name for scale in optimizer.space.dimensions]
    for i in (0, 40, 200):
        for choice in range(3):
            at = {"x": by_name["x"].places[i], "c": float(choice)}
            expected = by_name["x"].good[i] * by_name["c"].good[choice]
            actual = np.exp(model.good.log_density(np.array([[at[name] for name in order]])))[0]
            assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_no_study_breaks_a_table(kind: str) -> None:
    history = played(kind)
    for table in (configurations, contour):
        assert repr(table(history)) == repr(table(history)), "a table is a pure function of the history"
    densities(history)
