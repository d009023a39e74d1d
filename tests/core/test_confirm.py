"""Confirmations: which evaluations are due, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bohb import BOHB, History, Outcome, Status
from bohb.analysis.verdicts import last_verdict, rows, verdict
from bohb.core.confirm import Confirmation, continued, promising, stages
from bohb.core.confirm_estimate import conclusion, planned, posterior
from bohb.core.encoding import from_json, to_json
from bohb.core.events import ConfirmationStarted, RepeatFinished
from bohb.errors import InvalidArgument, InvalidConfiguration, NoResult
from tests.sizes import size

Draw = Callable[[int, int], float]  # candidate, repetition -> loss; inf: it fails


def history(n: int = 60) -> History:
    optimizer = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, seed=3)
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.config["x"])
    return optimizer.history


HISTORY = history()


def started(top: int = 5, repeats: int = 5, default: dict[str, Any] | None = None) -> Confirmation:
    seen = history()
    seen.apply(planned(seen, top, repeats, default))
    return seen.confirmations[-1]


def raced(confirmation: Confirmation, draw: Draw, order: int = 1) -> Confirmation:
    """Run a confirmation to its end; `order` is -1 if results arrive backwards."""
    while due := confirmation.due():
        for candidate, repeat in due[::order]:
            loss = draw(candidate, repeat)
            outcome = Outcome(Status.OK, loss=loss) if math.isfinite(loss) else Outcome(Status.CRASHED, error="boom")
            confirmation = continued(confirmation, RepeatFinished(0, candidate, repeat, outcome))
    return continued(confirmation, conclusion(confirmation, seed=1))


def noisy(*means: float, deviation: float = 1.0, seed: int = 0) -> Draw:
    return lambda candidate, repeat: (
        means[candidate] + deviation * float(np.random.default_rng([seed, candidate, repeat]).standard_normal())
    )


@pytest.mark.parametrize(
    ("n", "repeats", "expected"),
    [(1, 5, [5]), (2, 5, [5, 5]), (5, 5, [3, 4, 4, 6, 8]), (5, 2, [2, 2, 2, 2, 2]), (3, 10, [8, 11, 11])],
)
def test_the_stages_spend_what_was_asked_for(n: int, repeats: int, expected: list[int]) -> None:
    assert stages(n, repeats) == expected
    assert sum(expected) == n * repeats


def test_no_stage_shrinks_and_all_of_them_cost_the_same_in_total() -> None:
    for n in range(1, 30):
        for repeats in range(2, 12):
            sizes = stages(n, repeats)
            assert sizes == sorted(sizes)
            assert sizes[0] >= 2
            assert sum(sizes) == n * repeats


def test_the_most_promising_have_the_largest_budget_and_then_the_lowest_loss() -> None:
    chosen = [HISTORY.trials[n] for n in promising(HISTORY.results, 50)]
    assert len({trial.config_id for trial in chosen}) == len(chosen)
    places = [(-trial.budget, trial.config["x"]) for trial in chosen]
    assert places == sorted(places)
    best = HISTORY.incumbent
    assert best is not None
    assert chosen[0] == best.trial


def test_repetitions_go_where_candidates_are_hard_to_tell_apart() -> None:
    found = raced(started(), noisy(0, 0.2, 5, 6, 7))
    counts = [len(found.losses(candidate)) for candidate in range(5)]
    assert counts[2:] == [2, 2, 2], "clearly worse after two evaluations"
    assert min(counts[:2]) >= 6
    assert found.chosen in (0, 1)
    equal = raced(started(), noisy(0, 0, 0, 0, 0))
    assert len(equal.outcomes) == 25


def test_nothing_more_is_spent_once_one_candidate_is_clearly_best() -> None:
    found = raced(started(), noisy(30, 0, 40, 50, 60))
    assert [len(found.losses(candidate)) for candidate in range(5)] == [2, 5, 2, 2, 2]
    assert found.probability > 0.99


def test_the_order_in_which_results_arrive_changes_nothing() -> None:
    one, other = (raced(started(default={"x": 0.5}), noisy(0, 0, 0, 0, 0, 1), order) for order in (1, -1))
    assert one.outcomes == other.outcomes
    assert one.estimates == other.estimates


def test_a_deterministic_objective_is_evaluated_twice() -> None:
    found = raced(started(), lambda candidate, repeat: float(candidate == 0))
    assert len(found.outcomes) == 10
    assert (found.chosen, found.loss, found.interval, found.noise) == (1, 0.0, (0.0, 0.0), 0.0)
    assert "new seeds change nothing" in " ".join(verdict(found))


def test_a_candidate_that_fails_is_rejected_first_and_never_wins_against_one_that_does_not() -> None:
    draw = noisy(-9, 0, 1, 2, 3)
    found = raced(
        started(), lambda candidate, repeat: math.inf if (candidate, repeat) == (0, 1) else draw(candidate, repeat)
    )
    assert found.chosen != 0
    assert len(found.losses(0)) == 2
    assert any("(1 failed)" in row[1] for row in rows(found))


def test_if_everything_fails_there_is_no_winner() -> None:
    found = raced(started(), lambda candidate, repeat: math.inf)
    assert found.finished
    assert found.chosen is None
    assert "failed" in verdict(found)[0]
    with pytest.raises(NoResult, match="every candidate failed"):
        found.winner  # noqa: B018


def test_the_default_is_never_rejected_and_can_win() -> None:
    worse = raced(started(default={"x": 0.9}), noisy(0, 1, 2, 3, 4, 40))
    assert len(worse.losses(5)) == 5
    assert worse.gain is not None
    assert worse.gain[1] > 0
    assert "better than the default by" in verdict(worse)[-1]
    better = raced(started(default={"x": 0.9}), noisy(10, 11, 12, 13, 14, 0))
    assert better.winner.trial is None
    assert better.config == {"x": 0.9}
    assert "no other configuration is better than the default" in verdict(better)[-1]


def test_a_confirmation_has_no_winner_before_its_end() -> None:
    unfinished = started()
    with pytest.raises(NoResult, match="unfinished"):
        unfinished.loss  # noqa: B018
    assert "unfinished after 0 of at most 25" in verdict(unfinished)[0]


def test_a_confirmation_is_stored_and_read_again() -> None:
    seen = history()
    for default in (None, {"x": 0.5}):
        event = planned(seen, 3, 4, default)
        assert from_json(event.kind, to_json(event)) == event
    seen.apply(event)
    found = raced(seen.confirmations[0], noisy(0, 1, 2, 3))
    end = conclusion(found, 1)
    assert from_json(end.kind, to_json(end)) == end


def test_requests_that_make_no_sense_are_refused() -> None:
    for arguments, message in (((0, 5), "top=0"), ((5, 1), "repeats=1"), ((True, 5), "top=True")):
        with pytest.raises(InvalidArgument, match=message):
            planned(HISTORY, *arguments, None)
    with pytest.raises(InvalidConfiguration):
        planned(HISTORY, 5, 5, {"y": 1})
    with pytest.raises(NoResult):
        planned(BOHB({"x": (0.0, 1.0)}, budgets=[1]).history, 5, 5, None)


def test_confirmations_do_not_move_the_incumbent_the_brackets_or_the_counts() -> None:
    seen = history()
    before = (seen.incumbent, len(seen.outcomes), seen.budget_spent, seen.schedule.alive())
    seen.apply(ConfirmationStarted(0, (promising(seen.results, 1)[0],), 9.0, 2, None))
    seen.apply(RepeatFinished(0, 0, 0, Outcome(Status.OK, loss=-100.0)))
    assert (seen.incumbent, len(seen.outcomes), seen.budget_spent, seen.schedule.alive()) == before
    assert "unfinished" in last_verdict(seen)[0]


def test_the_interval_of_the_winner_covers_its_true_mean_as_often_as_it_says() -> None:
    """The candidates are the best five of 60 by one noisy evaluation; their true means are what the selection left."""
    n, covered = size(20, 1000), 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        means = rng.normal(0, 0.5, 60)
        means = means[np.argsort(means + rng.standard_normal(60))[:5]]
        found = raced(started_once(), noisy(*means, seed=seed))
        assert found.chosen is not None
        covered += found.interval[0] <= means[found.chosen] <= found.interval[1]
    assert covered / n > (0.93 if n >= 1000 else 0.79)


STARTED = started()


def started_once() -> Confirmation:
    return STARTED


def test_the_lowest_of_equal_means_is_corrected_upwards() -> None:
    rng = np.random.default_rng(0)
    losses = [rng.standard_normal(5) for _ in range(5)]
    draws, noise = posterior(rng, losses, np.zeros(5, dtype=bool))
    lowest = min(range(5), key=lambda i: losses[i].mean())
    assert losses[lowest].mean() < draws[:, lowest].mean() < np.concatenate(losses).mean()
    assert 0.6 < noise < 1.6


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_estimates_do_not_depend_on_the_unit_of_the_losses(scale: float) -> None:
    draw = noisy(0, 1, 2, 3, 4)
    found = raced(STARTED, lambda candidate, repeat: draw(candidate, repeat) * scale)
    plain = raced(STARTED, draw)
    assert found.loss / scale == pytest.approx(plain.loss, rel=1e-4)
    assert found.probability == pytest.approx(plain.probability, abs=2e-3)
