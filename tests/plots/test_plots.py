from __future__ import annotations

import copy
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bohb import BOHB, History, Space, Trial
from bohb.analysis.axes import axes, round_values
from bohb.analysis.models import beliefs, densities
from bohb.analysis.objectives import front, volumes
from bohb.core.goals import Goals
from bohb.core.trial import Status, outcome_of
from bohb.errors import InvalidArgument
from bohb.plots import PLOTS, template
from bohb.plots.axis import LossAxis, panel_axis
from bohb.plots.budgets import draw_selected
from bohb.plots.choices import CHOICES
from bohb.plots.pareto import draw_volumes
from bohb.plots.registry import GROUPS, suitable
from bohb.plots.result import draw_comparison
from bohb.plots.theme import budget_colours, label, thinned
from tests.analysis.studies import HOSTILE, KINDS, XY, play, played, smooth, tiny


def texts(value: Any) -> list[str]:
    """Return all text in a figure, without the template and encoded arrays."""
    if isinstance(value, dict):
        return [word for key, item in value.items() if key not in ("template", "bdata") for word in texts(item)]
    if isinstance(value, list):
        return [word for item in value for word in texts(item)]
    return [value] if isinstance(value, str) else []


def annotation(figure: Any) -> str:
    return " ".join(note.text for note in figure.layout.annotations)


def test_the_plots_have_names_titles_and_explanations() -> None:
    assert set(suitable(played("two objectives"))) == set(GROUPS.values())
    for key, plot in PLOTS.items():
        assert plot.key == key
        assert plot.title
        assert plot.explanation.endswith(".")
        assert plot.group in GROUPS
        assert set(plot.options) <= set(CHOICES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_plot_of_every_study_is_small_and_valid(kind: str) -> None:
    for key, plot in PLOTS.items():
        figure = plot(played(kind))
        body = figure.to_json()
        assert len(body) < 2_000_000, key
        assert not re.search(r"\bNaN\b|Infinity", body), key
        for trace in figure.data:
            # WebGL needs eval, which a strict content security policy forbids.
            assert not trace.type.endswith("gl"), key
            assert trace.type != "parcoords", key
            assert trace.type != "contour", "the colour bar of plotly.js 4.1 can loop for ever beside markers"


@pytest.mark.parametrize("kind", ["empty", "one failure"])
def test_a_figure_without_data_says_why(kind: str) -> None:
    for key, plot in PLOTS.items():
        figure = plot(played(kind))
        if key in ("losses", "timeline", "slice") and kind == "one failure":
            assert {trace.name for trace in figure.data} <= {
                "failed",
                "budget 1",
                "budget 1, failed",
            }
            continue
        assert len(figure.data) == 0, key
        assert len(annotation(figure)) > 10, key


def test_light_and_dark_differ_in_the_template_alone() -> None:
    from plotly.io.json import to_json_plotly

    history = played("mixed")
    templates = [json.loads(to_json_plotly(template(dark))) for dark in (False, True)]
    for key, plot in PLOTS.items():
        light, dark = (json.loads(plot(history, dark=mode).to_json()) for mode in (False, True))
        assert [light["layout"].pop("template"), dark["layout"].pop("template")] == templates, key
        assert light == dark, key


def test_text_of_users_is_never_interpreted() -> None:
    named = ("front", "hypervolume", "trajectory", "contour", "parallel")  # objectives have names, too
    drawn = [(key, plot, "hostile") for key, plot in PLOTS.items()]
    drawn += [(key, PLOTS[key], "two objectives") for key in named]
    for key, plot, kind in drawn:
        words = texts(json.loads(plot(played(kind)).to_json()))
        assert not [word for word in words if "<script" in word or "</script" in word], key
        assert not [word for word in words if "%{y}" in word and "<extra>" not in word], key
        if key in ("slice", "parallel", "timeline", "importance", *(named[:1] if kind != "hostile" else ())):
            assert any("&lt;script&gt;" in word for word in words), key


def test_every_choice_of_every_plot_can_be_drawn_and_is_refused_where_it_is_unknown() -> None:
    for kind in ("mixed", "best", "two objectives"):
        for plot in [each for group in suitable(played(kind)).values() for each in group]:
            default = plot(played(kind)).to_json()
            for option, values in plot.choices(played(kind)).items():
                drawn = [plot(played(kind), **plot.required(played(kind), {option: text})).to_json() for text in values]
                assert len(set(drawn)) > 1 or kind == "two objectives", (plot.key, option)
                if option in CHOICES and CHOICES[option].values:
                    assert drawn[0] == default, f"{values[0]} is the default of {plot.key}"
    with pytest.raises(InvalidArgument, match="--over is not an option of the plot 'slice'; its options: --metric"):
        PLOTS["slice"].required(played("mixed"), {"over": "cost"})
    with pytest.raises(
        InvalidArgument, match="--budget='2' is not possible for the plot 'slice'; possible: all, 1, 3, 9"
    ):
        PLOTS["slice"].required(played("mixed"), {"budget": "2"})
    with pytest.raises(InvalidArgument, match="over='bytes' must be one of 'time', 'cost'"):
        PLOTS["trajectory"](played("mixed"), over="bytes")
    with pytest.raises(InvalidArgument, match="metric='accuracy' cannot be shown with pairs='brackets'"):
        PLOTS["correlation"](played("two objectives"), metric="accuracy", pairs="brackets")
    assert PLOTS["correlation"].chosen(played("two objectives"), {"metric": "accuracy", "pairs": "brackets"}) == {
        "pairs": "brackets"
    }


def test_the_options_can_be_listed_without_plotly() -> None:
    code = "import sys; sys.modules['plotly'] = None\nfrom bohb.plots.choices import CHOICES\nprint(len(CHOICES))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(CHOICES)


def test_the_agreement_of_an_informed_study_shows_what_each_budget_was_worth() -> None:
    from tests.core.schedule.test_informed import misleading, study

    history = study(misleading, 80).history
    figure = PLOTS["correlation"](history, pairs="brackets")
    planned = [event.reason["to_top"] for event in history.schedule.planned.values()]
    assert [list(figure.data[i].y) for i in range(2)] == [list(column) for column in zip(*planned, strict=True)]
    assert "without lower rungs" in {trace.name for trace in figure.data}


def test_the_trajectory_is_drawn_from_its_table() -> None:
    figure = PLOTS["trajectory"](tiny().history)
    incumbent = figure.data[-1]
    assert incumbent.name == "incumbent"
    assert list(incumbent.x) == [1, 11, 33, 53, 53]
    assert list(incumbent.y) == [0.5, 0.2, 0.1, 0.05, 0.05]
    assert incumbent.line.shape == "hv"
    assert figure.layout.xaxis.title.text == "run time (seconds)"
    assert PLOTS["trajectory"](tiny(times=False).history).layout.xaxis.title.text.startswith("run time")
    assert PLOTS["trajectory"](played("untimed")).layout.xaxis.title.text == "finished trials"


def test_spent_budget_counts_full_evaluations() -> None:
    figure = PLOTS["trajectory"](tiny().history, over="cost")
    fresh, continued = figure.data[-2:]
    assert (fresh.line.dash, continued.name) == ("dot", "incumbent")
    assert figure.layout.xaxis.title.text == "budget spent (full evaluations of 3)"
    assert list(fresh.x) == pytest.approx([1 / 3, 2 / 3, 2, 4, 4])
    assert list(continued.x) == pytest.approx([1 / 3, 2 / 3, 5 / 3, 11 / 3, 11 / 3])


def test_failed_trials_stand_in_their_own_strip() -> None:
    figure = PLOTS["losses"](tiny().history)
    failed = figure.data[-1]
    assert (failed.name, list(failed.x), list(failed.text)) == ("failed", [21], [Status.CRASHED.value])
    assert sorted(y for trace in figure.data[:-1] for y in trace.y) == [0.05, 0.1, 0.2, 0.3, 0.5]


def test_the_timeline_has_a_bar_per_trial_and_merges_only_where_it_must() -> None:
    drawn = PLOTS["timeline"](tiny().history).data
    bars = [trace for trace in drawn if not trace.showlegend and trace.base is not None]
    assert {trace.name: len(trace.x) for trace in bars} == {"budget 1": 2, "budget 1, failed": 1, "budget 3": 3}
    assert sorted(base for trace in bars for base in trace.base) == [0, 10, 20, 30, 40, 50]
    assert [trace.name for trace in drawn if trace.base is None] == ["budget 1", "budget 3", "failed"]
    large = PLOTS["timeline"](played("large"))
    assert sum(len(trace.x) for trace in large.data) <= 2000 + 6
    assert "merged" in annotation(large)


def test_the_timeline_tells_failures_by_a_pattern_and_budgets_by_colour() -> None:
    bars = {trace.name: trace.marker for trace in PLOTS["timeline"](tiny().history).data if trace.base is not None}
    assert bars["budget 1"].color == bars["budget 1, failed"].color != bars["budget 3"].color
    assert bars["budget 1, failed"].pattern.shape
    assert not bars["budget 1"].pattern.shape


@pytest.mark.parametrize(
    "values",
    [
        (0.0, 0.3),
        (1e-6, 1e-2, "log"),
        (0, 20000),
        ["adam", "sgd", "rmsprop_with_a_long_name"],
        ["none", "flip", "flip+crop", "randaugment"],
        [*"abcdefghij"],
    ],
)
def test_tick_labels_of_a_narrow_panel_do_not_touch(values: Any) -> None:
    (axis,) = axes(Space({"x": values}))
    shown = panel_axis(axis)
    places, widths = shown["tickvals"], [7 * len(text) / 165 for text in shown["ticktext"]]
    assert shown["tickangle"] or all(
        right - left >= (a + b) / 2 for left, right, a, b in zip(places, places[1:], widths, widths[1:], strict=False)
    )
    assert len(places) >= 2
    height = 9 * max(map(len, shown["ticktext"])) * abs(math.sin(math.radians(shown["tickangle"])))
    assert height < 50, "nor do tilted ones touch the title of the panel below"


def test_a_comparison_shows_how_studies_end_not_how_they_begin() -> None:
    figure = draw_comparison({"a": played("mixed"), "b": played("outlier"), "none": played("empty")})
    assert [trace.name for trace in figure.data] == ["a", "b"]
    assert draw_comparison({"none": played("empty")}).layout.annotations[0].text == "No study has a result yet"
    with pytest.raises(InvalidArgument, match="over='bytes'"):
        draw_comparison({}, over="bytes")


def test_correlations_are_written_with_their_sample_size() -> None:
    (heatmap,) = PLOTS["correlation"](played("large")).data
    written = [cell for row in heatmap.text for cell in row if cell]
    assert len(written) == 6  # four budgets have six pairs
    assert all(re.fullmatch(r"-?\d\.\d\d<br>n = \d+", cell) for cell in written)


def test_the_process_is_drawn_through_the_configuration_that_it_proposed() -> None:
    history = played("best")
    proposed = [n for n, trial in history.trials.items() if trial.explains == "process"]
    number = min(proposed, key=lambda n: history.trials[n].reason["expected_loss"])  # marks of others may be cut off
    expected = history.trials[number].reason["expected_loss"]
    table = beliefs(history, number)
    assert table is not None
    assert table.trial.number == number
    active = {each.axis.name: each for each in table.slices}
    assert set(active) <= set(history.trials[number].config)
    for each in active.values():
        assert 0 <= each.place <= 1
        assert (each.deviation > 0).all()
    figure = PLOTS["model"](history, number=number)
    (mark, *_) = [trace for trace in figure.data if "was proposed" in (trace.name or "")]
    assert list(mark.customdata) == [expected]
    assert mark.y[0] == pytest.approx(expected), "it lies within the axis"
    assert f"through trial {number}" in annotation(figure)
    assert PLOTS["model"].choices(played("two objectives")) == {}, "densities are of no single objective"
    assert "no Gaussian process" in annotation(PLOTS["model"](played("mixed"), model="process"))


def test_a_process_of_several_objectives_is_drawn_for_each_of_them() -> None:
    def values(trial: Trial) -> dict[str, float]:
        return {"error": trial.config["x"], "accuracy": 1 - trial.config["x"] ** 2}

    options: dict[str, Any] = {
        "objectives": ["error", "-accuracy"],
        "constraints": {"error": "<= 0.9"},
        "preset": "best",
    }
    history = play(BOHB(XY, budgets=[1, 3, 9], seed=1, **options), 30, values).history
    assert any("expected" in trial.reason for trial in history.trials.values())
    titles = [PLOTS["model"](history, metric=name).layout.yaxis.title.text for name in ("error", "accuracy")]
    assert titles == ["expected error", "expected accuracy"]
    number = next(n for n, trial in history.trials.items() if "expected" in trial.reason)
    figure = PLOTS["model"](history, number=number, metric="accuracy")
    mark = next(trace for trace in figure.data if "was proposed" in (trace.name or ""))
    assert mark.customdata == [history.trials[number].reason["expected"]["accuracy"]]
    assert PLOTS["model"](history).data, "without a metric, it is the first objective"


def test_a_maximised_score_is_shown_as_the_user_knows_it() -> None:
    history = played("maximised")
    assert history.incumbent is not None
    best = history.incumbent.values["score"]
    for key in WITH_LOSS_AXIS:
        figure = PLOTS[key](history)
        shown = [y for trace in figure.data if trace.yaxis in (None, "y") for y in np.asarray(trace.y, dtype=float)]
        assert 0 < np.nanmin(shown) <= np.nanmax(shown) <= best + 1e-9, key
        assert "score" in figure.layout.yaxis.title.text, key
        assert "loss" not in " ".join(trace.hovertemplate or "" for trace in figure.data), key
        assert not figure.layout.updatemenus, "a score has no logarithmic axis"
    incumbent = PLOTS["trajectory"](history).data[-1]
    assert incumbent.y[-1] == pytest.approx(best)
    colours = PLOTS["contour"](history).layout.coloraxis
    assert colours.colorbar.title.text == "score"
    assert [float(text) for text in colours.colorbar.ticktext] == sorted(map(float, colours.colorbar.ticktext))
    assert colours.reversescale, "the best score has the colour of the lowest loss"
    parallel = PLOTS["parallel"](history)
    assert "score" in parallel.layout.xaxis.ticktext[-1]
    best_lines = next(trace for trace in parallel.data if trace.name == "best 10 %" and trace.mode != "lines")
    assert max(y for x, y in zip(best_lines.x, best_lines.y, strict=True) if x == 2) == 1, "the best score is on top"


def test_a_reported_score_is_shown_as_it_was_reported() -> None:
    optimizer = BOHB(XY, budgets=[1], seed=0, direction="maximize")
    for score in (0.5, 0.7, 0.6):
        curve = tuple((float(step), score - 1 / step) for step in range(1, 4))
        optimizer.tell(optimizer.ask(), replace(outcome_of({"score": score}, optimizer.history.goals), curve=curve))
    figure = PLOTS["curves"](optimizer.history, along="steps")
    assert figure.layout.yaxis.title.text == "reported score"
    assert np.nanmax(figure.data[0].y) == pytest.approx(0.7 - 1 / 3)
    assert "no_log" in figure.layout.meta


def test_titles_and_explanations_name_what_is_optimised() -> None:
    for plots in suitable(played("maximised")).values():
        for plot in plots:
            assert "loss" not in " ".join(plot.texts(played("maximised"))), plot.key
    assert PLOTS["trajectory"].texts(played("maximised"))[0] == "Best score over time"
    assert PLOTS["trajectory"].texts(played("mixed")) == (PLOTS["trajectory"].title, PLOTS["trajectory"].explanation)
    assert PLOTS["trajectory"].texts(played("two objectives"))[0] == "Best value over time"


def test_a_figure_without_a_logarithmic_scale_has_the_reason() -> None:
    assert PLOTS["trajectory"](played("maximised")).layout.meta["no_log"] == "not for a maximised score"
    assert "positive" in LossAxis(Goals(), [-1.0, 2.0]).no_log
    assert LossAxis(Goals(), [1.0, 2.0]).no_log == ""


def test_studies_that_maximise_and_studies_that_minimise_have_different_panels() -> None:
    figure = draw_comparison({"up": played("maximised"), "down": played("mixed")})
    drawn = {trace.name: trace for trace in figure.data}
    best = played("maximised").incumbent
    assert best is not None
    assert drawn["up"].yaxis == "y2"
    assert drawn["up"].y[-1] == pytest.approx(best.values["score"])
    assert (drawn["down"].yaxis, figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text) == (
        "y",
        "loss",
        "score",
    )


def test_a_front_tells_its_results_from_dominated_and_infeasible_ones_by_shape() -> None:
    history = played("two objectives")
    table = front(history)
    assert table is not None
    assert set(table.numbers[table.best].tolist()) == {result.trial.number for result in history.front}
    figure = PLOTS["front"](history)
    named = {trace.name: trace for trace in figure.data if trace.name}
    assert set(named) == {"violates the constraints", "dominated", "on the front"}
    assert len({trace.marker.symbol for trace in named.values()}) == 3
    assert sum(len(trace.x) for trace in named.values()) == len(table.numbers)
    assert "larger is better" in figure.layout.yaxis.title.text
    assert {trace.type for trace in PLOTS["front"](played("three objectives")).data} == {"scatter3d"}
    bounded = PLOTS["front"](played("one constraint"))
    assert [shape.y0 for shape in bounded.layout.shapes] == [0.5], "the bound is drawn"
    assert not PLOTS["front"].suits(played("mixed"))
    assert not PLOTS["hypervolume"].suits(played("one constraint"))


def test_a_diverged_objective_flattens_neither_the_front_nor_the_volume() -> None:
    def values(trial: Trial) -> object:
        x, y = trial.config["x"], trial.config["y"]
        error = 1e8 if trial.number in (5, 9) else 0.1 + x
        return {"error": error, "score": (-1e9 if trial.number == 7 else x) + y, "memory": y}

    for objectives in (["error", "-score"], ["error", "-score", "memory"]):
        history = play(BOHB(XY, budgets=[1], seed=2, objectives=objectives), 40, values).history
        figure = PLOTS["front"](history)
        drawn = np.array([(x, y) for trace in figure.data if trace.name for x, y in zip(trace.x, trace.y, strict=True)])
        assert len(drawn) == 40
        assert abs(drawn).max() < 3
        assert "3 outliers at the edge" in annotation(figure)
        assert any(1e8 in np.asarray(trace.customdata) for trace in figure.data if trace.name), "its value is not lost"
        shares = [volume.share for volume in volumes(history)[0]]
        assert shares[0] < 0.9, "the first result does not dominate everything, as it would seem beside 1e8"


def test_the_dominated_volume_only_grows_and_reaches_that_of_the_front() -> None:
    history = played("two objectives")
    (found,) = volumes(history)
    shares = [volume.share for volume in found]
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1
    assert list(PLOTS["hypervolume"](history).data[0].y) == pytest.approx([100 * share for share in shares])


def test_the_volumes_of_studies_are_shares_of_one_space() -> None:
    whole, half = (
        played("two objectives"),
        play(BOHB(XY, budgets=[1], seed=8, objectives=["a", "b"]), 5, _worse).history,
    )
    other = play(BOHB(XY, budgets=[1], seed=9, objectives=["a", "b"]), 5, _better).history
    worse, better = volumes(half, other)
    assert worse[-1].share < 0.2 < 0.9 < better[-1].share
    assert volumes(half)[0][-1].share > 0.9, "alone, it has a space of its own"
    assert volumes(played("mixed"), half) == [[], volumes(half)[0]]
    figure = draw_volumes({"half": half, "other": other})
    assert [trace.name for trace in figure.data] == ["half", "other"]
    assert draw_volumes({"": whole}).data[0].y[-1] == PLOTS["hypervolume"](whole).data[0].y[-1]


def _worse(trial: Trial) -> dict[str, float]:
    return {"a": 10.0 + trial.number / 100, "b": 10.0}


def _better(trial: Trial) -> dict[str, float]:
    return {"a": 0.0, "b": trial.number / 100}


def test_selected_trials_are_drawn_over_each_other_with_their_budgets() -> None:
    history = played("mixed")
    reported = [n for n, outcome in history.outcomes.items() if outcome.curve][:3]
    figure = draw_selected(history, reported)
    assert figure.layout.xaxis.title.text == "reported step"
    ends = [trace for trace in figure.data if trace.mode == "markers+text"]
    assert {n for trace in ends for n in trace.customdata} >= set(reported)
    assert {text for trace in ends for text in trace.text} <= {"1", "3", "9"}
    colours = {trace.line.color for trace in figure.data if trace.mode == "lines+markers"}
    assert len(colours) == len({history.trials[n].config_id for n in reported})
    assert [trace.name.split(",")[0] for trace in figure.data if trace.name and trace.showlegend is not False] == [
        f"trial {n}" for n in reported
    ], "other budgets of their configurations have no entry in the legend"
    without = draw_selected(played("tiny"), [1, 4])
    assert without.layout.xaxis.title.text == "budget"
    assert [list(trace.x[:-1]) for trace in without.data if trace.mode == "lines+markers"] == [[1, 3], [3]]
    assert "nothing to show" in annotation(draw_selected(played("tiny"), [1, 2]))
    assert "No trial is selected" in annotation(draw_selected(history, []))


def test_marks_of_trials_can_be_selected_and_a_bar_of_the_importance_selects_the_best() -> None:
    history = played("mixed")
    for key in ("losses", "slice", "contour"):
        marks = [trace for trace in PLOTS[key](history).data if trace.meta == "trials"]
        numbers = {int(row[0] if isinstance(row, tuple | list) else row) for trace in marks for row in trace.customdata}
        assert numbers, key
        assert numbers <= set(history.trials), key
    lines = [trace for trace in PLOTS["parallel"](history).data if trace.mode == "lines+markers"]
    axes_of = PLOTS["parallel"](history).layout.meta["brush"]
    assert [len(trace.meta) * (axes_of + 1) for trace in lines] == [len(trace.y) for trace in lines]
    figure = PLOTS["importance"](history)
    assert set(figure.layout.meta["best"]) <= set(history.outcomes)
    names = [axis.name for axis in axes(history.space)]
    shown = [text.partition("  ")[0] for text in figure.layout.yaxis.ticktext]
    assert [names[index] for index in figure.data[0].customdata] == shown


def test_inactive_hyperparameters_are_bridged_with_dots() -> None:
    traces = PLOTS["parallel"](played("conditional")).data
    dotted = [trace for trace in traces if trace.line.dash == "dot"]
    assert dotted
    assert any(None in trace.y for trace in traces if trace.line.dash != "dot")


def test_densities_that_reach_zero_can_be_compared() -> None:
    history = play(BOHB({f"p{j}": [*range(5)] for j in range(14)}, budgets=[1], seed=3), 40, smooth).history
    table = densities(history)
    assert table is not None
    first = table.marginals[0]
    apart = replace(first, good=np.array([1.0, 0, 0, 0, 0]), bad=np.array([0, 0, 0, 0.5, 0.5]))
    assert (apart.distance, replace(apart, bad=apart.good).distance) == (1.0, 0.0)
    assert "12 of 14 hyperparameters shown" in annotation(PLOTS["model"](history, model="density"))


def test_each_hyperparameter_is_shown_on_the_largest_budget_with_enough_results() -> None:
    history = played("mixed")
    budgets = {trace.name for trace in PLOTS["slice"](history).data if trace.name.startswith("budget")}
    assert len(budgets) == 1
    assert "trials on budget" in annotation(PLOTS["slice"](history))
    every = PLOTS["slice"](history, budget="all")
    assert {trace.name for trace in every.data} >= {"budget 1", "budget 3", "budget 9"}
    assert "trials on all budgets" in annotation(every)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("losses", [(1e308, -1e308, 1.7e308, 0.0), (1e308, 5e-324, 1e-308), (0.0, 5e-324, 1e-323)])
def test_no_loss_is_too_large_or_too_small_for_a_plot(losses: tuple[float, ...]) -> None:
    history = play(BOHB(XY, budgets=[1, 3], seed=2), 40, lambda trial: losses[trial.number % len(losses)]).history
    assert PLOTS["model"](history, model="density").data
    for key, plot in PLOTS.items():
        figure = plot(history)
        assert not re.search(r"\bNaN\b|Infinity", figure.to_json()), key
        axis = json.loads(figure.to_json())["layout"].get("yaxis", {})
        assert all(abs(end) < 1e300 for end in axis.get("range", ())), key
    assert round_values(0.0, 1e-323) == [0.0, 1e-323]
    assert round_values(-1.7e308, 1.7e308) == [-1.7e308, 1.7e308]
    assert round_values(0.0, 3e-13)[:2] == [0.0, 5e-14]


def test_a_figure_of_many_hyperparameters_shows_the_most_important_ones() -> None:
    figure = PLOTS["slice"](played("many parameters"))
    assert "12 of 20 hyperparameters shown" in annotation(figure)
    assert len([note for note in figure.layout.annotations if note.text.startswith("p")]) == 12
    chosen = PLOTS["slice"](played("many parameters"), parameters=["p3", "p4"])
    assert [note.text for note in chosen.layout.annotations[:2]] == ["p3", "p4"]
    assert "hyperparameters shown" not in annotation(chosen)


def test_notes_leave_room_for_the_tool_bar_above_them() -> None:
    for key, plot in PLOTS.items():
        layout = plot(played("mixed")).layout
        notes = [note for note in layout.annotations if note.yref == "paper" and note.y == 1 and note.yshift]
        if notes and layout.height > 220:
            lines = notes[-1].text.count("<br>") + 1
            assert layout.margin.t - notes[-1].yshift - 17 * lines >= 30, key


def test_options_reach_the_plots() -> None:
    history = played("mixed")
    figure = PLOTS["contour"](history, x="log", y="cat", budget=1)
    assert figure.layout.xaxis.title.text == "log (log scale)"
    assert list(figure.layout.yaxis.ticktext) == ["a", "b", "c"]
    assert "on budget 1" in annotation(PLOTS["parallel"](history, budget=1))


def test_thinning_keeps_what_matters_and_stays_within_its_limit() -> None:
    assert thinned(5, 10).tolist() == [0, 1, 2, 3, 4]
    kept = thinned(1000, 50, np.array([7, 999, 7], dtype=np.intp))
    assert len(kept) == 50
    assert len(set(kept.tolist())) == 50
    assert {7, 999} <= set(kept.tolist())
    assert len(thinned(1000, 3, np.arange(10))) == 3


def test_labels_escape_markup_templates_and_mathematics() -> None:
    assert label(HOSTILE) == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert label("%{x} $y$") == "&#37;{x} &#36;y&#36;"
    assert label("a" * 100) == "a" * 39 + "…"
    assert label("two\nlines") == "two lines"


def test_budgets_have_different_colours() -> None:
    assert len(set(budget_colours([1, 3, 9, 27, 81]).values())) == 5
    assert list(budget_colours([9, 1, 1])) == [1, 9]


WITH_LOSS_AXIS = ("trajectory", "losses", "curves", "slice", "picks")


def test_the_axis_of_losses_is_logarithmic_if_they_span_powers_of_ten() -> None:
    assert LossAxis(Goals(), [0.001, 1.0]).layout()["type"] == "log"
    assert "type" not in LossAxis(Goals(), [-1.0, 1.0]).layout()
    assert "type" not in LossAxis(Goals(), [0.5, 1.0, 0.7, 1e54]).layout()
    assert LossAxis(Goals(), [float("inf")]).layout().keys() == {"title", "tickformat"}


def test_an_outlier_is_drawn_at_the_edge_with_its_true_loss() -> None:
    axis = LossAxis(Goals(), [*np.linspace(1, 2, 50), 1e54, -1e54])
    low, high = axis.layout()["range"]
    assert low < axis.bottom < 1 < 2 < axis.top < high < 3
    assert axis.place([1.5, 1e54, -1e54, math.nan, math.inf]).tolist()[:3] == [1.5, axis.top, axis.bottom]
    marks = axis.triangles([0, 1, 2], [1.5, 1e54, -1e54], [7, 8, 9])
    assert list(marks.customdata) == [[8, 1e54], [9, -1e54]]
    assert list(marks.marker.symbol) == ["triangle-up", "triangle-down"]
    assert "2 outliers" in axis.note


def test_one_diverged_loss_flattens_no_plot() -> None:
    for key in WITH_LOSS_AXIS:
        options: dict[str, Any] = {"budget": "all"} if key == "slice" else {}
        figure = PLOTS[key](reported("outlier"), **options)
        losses = [y for trace in figure.data if trace.yaxis in (None, "y") for y in np.asarray(trace.y, dtype=float)]
        assert np.nanmax(losses) < 10, key
        if key not in ("trajectory", "picks"):
            assert any(1e54 in np.asarray(t.customdata) for t in figure.data if t.name == "outlier"), key
            assert "1 outlier" in annotation(figure), key
    contour = PLOTS["contour"](played("outlier"))
    assert contour.layout.coloraxis.cmax < 10
    assert np.nanmax(np.asarray(contour.data[0].z, dtype=float)) < 10
    last = PLOTS["parallel"](played("outlier"), budget=1).layout.annotations
    assert any(note.text.startswith("≥") for note in last)


def test_buttons_switch_positive_losses_between_linear_and_logarithmic() -> None:
    for key in WITH_LOSS_AXIS:
        figure = PLOTS[key](reported("outlier"))
        (menu,) = figure.layout.updatemenus
        assert [button.label for button in menu.buttons] == ["linear", "log"], key
        changes = menu.buttons[1].args[0]
        axes = {f"{name}.type" for name in figure.layout.to_plotly_json() if re.fullmatch(r"yaxis\d*", name)}
        assert changes.keys() >= (axes if key == "slice" else {"yaxis.type"}), key
        assert changes["yaxis.type"] == "log", key
    assert not PLOTS["losses"](played("mixed")).layout.updatemenus  # some losses are negative


def reported(kind: str) -> History:
    """The same study with a learning curve for each loss."""
    history = played(kind)
    outcomes = {
        number: replace(outcome, curve=((1.0, 2.0), (2.0, outcome.ranking_loss)))
        for number, outcome in history.outcomes.items()
    }
    copied = copy.copy(history)
    copied.outcomes = outcomes
    return copied


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        if colour.startswith("#"):
            channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        else:
            channels = [int(part) / 255 for part in re.findall(r"\d+", colour)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, faint = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (faint + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_seen_on_their_ground(dark: bool) -> None:
    layout = template(dark).layout
    assert contrast(layout.font.color, layout.paper_bgcolor) > 10
    for colour in (*layout.colorway, *budget_colours([1, 3, 9, 27, 81]).values()):
        assert contrast(colour, layout.paper_bgcolor) > 2.6, colour


def test_without_plotly_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "import bohb.analysis\n"
        "from bohb.errors import MissingExtra\n"
        "try:\n    from bohb.plots import PLOTS\nexcept MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install ".[plot]"' in done.stdout
