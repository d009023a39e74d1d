from __future__ import annotations

import math

import pytest

from bohb import BOHB
from bohb.analysis.trials import FailureKind, failure_kinds, failures, normalised
from bohb.analysis.why import _times, why
from bohb.core.trial import Origin, Status
from bohb.errors import UnknownTrial
from tests.analysis.studies import KINDS, XY, play, played, smooth, tiny


def test_errors_that_differ_in_numbers_addresses_and_paths_are_one_cause() -> None:
    lines = [
        "ValueError: bad x = 0.25 in '/tmp/a/b.py' at 0x7f00aa",
        "ValueError: bad x = -1e-3 in '/home/me/c.py' at 0x1",
    ]
    assert len({normalised(line) for line in lines}) == 1
    assert normalised("KeyError: 'a'") != normalised("IndexError: 'a'")
    assert normalised("conv2d failed") == "conv2d failed"
    for kept in ("ended with exit code 1", "exit code -9", "killed by signal 64"):
        assert normalised(f"{kept} after 3.5 s") == f"{kept} after # s"


def test_causes_are_counted_with_one_traceback_each() -> None:
    (cause,) = failures(tiny().history)
    assert (cause.status, cause.n, cause.numbers, cause.budgets) == (Status.CRASHED, 1, (2,), {1: 1})
    assert cause.cause == "ValueError: bad x = #"
    assert cause.example == "ValueError: bad x = 0.25"
    assert cause.traceback is not None
    causes = failures(played("mixed"))
    assert [cause.n for cause in causes] == sorted((cause.n for cause in causes), reverse=True)
    assert sum(cause.n for cause in causes) == sum(not outcome.ok for outcome in played("mixed").outcomes.values())
    assert {cause.status for cause in causes} == {Status.CRASHED, Status.DIVERGED, Status.TIMEOUT}


def test_failures_are_counted_by_kind_with_their_most_common_message() -> None:
    optimizer = BOHB(XY, budgets=[1, 3], seed=0)
    errors = [ValueError("late"), ValueError("bad x = 1"), ValueError("bad x = 2"), float("nan")]
    for error in errors:
        optimizer.tell(optimizer.ask(), error)
    assert failure_kinds(optimizer.history) == [
        FailureKind(Status.CRASHED, 3, "ValueError: bad x = 1", 2),
        FailureKind(Status.DIVERGED, 1, "the loss is nan, not a finite number", 1),
    ]
    assert sum(kind.n for kind in failure_kinds(played("mixed"))) == played("mixed").n_failed


def test_a_random_trial_that_was_promoted() -> None:
    told = why(tiny().history, 1)
    assert (told.origin, told.picked, told.fate, told.rank, told.promoted_to) == (
        Origin.RANDOM,
        Origin.RANDOM,
        "promoted",
        1,
        3,
    )
    assert told.sentences[0].startswith("Its configuration was drawn at random")
    assert told.sentences[1] == "It finished on budget 1 with loss 0.2."
    assert told.sentences[2] == (
        "It has rank 1 of 3 on rung 0 of bracket 0; only the best was promoted to budget 3, where its configuration is "
        "trial 3."
    )


def test_a_trial_that_was_stopped() -> None:
    told = why(tiny().history, 0)
    assert (told.fate, told.rank, told.rung.cutoff) == ("stopped", 2, 0.2)
    assert told.sentences[-1] == (
        "It has rank 2 of 3 on rung 0 of bracket 0; only the best was promoted to budget 3 (up to loss 0.2), "
        "so it was stopped."
    )


def test_a_promoted_trial_names_the_trial_it_was_promoted_from() -> None:
    told = why(tiny().history, 3)
    assert (told.origin, told.from_trial, told.fate) == (Origin.PROMOTED, 1, "last rung")
    assert told.from_rung is not None
    assert told.from_rung.cutoff == 0.2
    promoted = "It was promoted from trial 1 (loss 0.2 on budget 1, rank 1 of 3): only the best was promoted"
    assert f"{promoted} (up to loss 0.2)." in told.sentences
    assert "(first run as trial 1)" in told.sentences[0]


def test_the_cutoff_of_a_maximised_score_is_its_lowest() -> None:
    history = played("maximised")
    number = next(n for n, trial in history.trials.items() if trial.origin is Origin.PROMOTED)
    assert any("(down to score " in sentence for sentence in why(history, number).sentences)


def test_a_failed_trial_and_the_incumbent() -> None:
    told = why(tiny().history, 2)
    assert (told.fate, told.status, told.rank) == ("failed", Status.CRASHED, None)
    assert "It failed on budget 1 (crashed): ValueError: bad x = 0.25" in told.sentences
    assert why(tiny().history, 5).incumbent
    assert "It is the incumbent" in str(why(tiny().history, 5))


def test_a_trial_of_the_model_shows_the_numbers() -> None:
    history = played("mixed")
    number = next(n for n, trial in history.trials.items() if trial.origin is Origin.MODEL)
    told = why(history, number)
    ratio = history.trials[number].reason["log_ratio"]
    assert f"log l/g = {ratio:.3g}" in told.sentences[0]
    assert f"to {told.reason['model_points']} results on budget {told.reason['model_budget']:g}" in told.sentences[1]
    assert math.isfinite(told.reason["log_ratio"])


def test_a_trial_of_the_gaussian_process_shows_the_expected_loss() -> None:
    history = played("best")
    number = next(n for n, trial in history.trials.items() if trial.explains == "process")
    told, reason = why(history, number), history.trials[number].reason
    assert "was proposed by the Gaussian process" in told.sentences[0]
    assert f"log EI = {reason['log_improvement']:.3g}," in told.sentences[0]
    assert told.sentences[1] == (
        f"The process was fitted to {reason['model_points']} results. It expected a loss of "
        f"{reason['expected_loss']:.6g} ± {reason['deviation']:.3g} there, and {reason['best_expected_loss']:.6g} for "
        "the best configuration among them."
    )


def test_a_trial_of_the_density_that_stands_in_for_the_process_says_so() -> None:
    history = play(BOHB(XY, budgets=[1, 3, 9], seed=0, preset="best"), 40, lambda *_: 1.0).history
    by_density = next(n for n, trial in history.trials.items() if "log_ratio" in trial.reason)
    assert "was proposed by the density, as the best of 64 candidates" in why(history, by_density).sentences[0]


def test_given_running_lost_and_restarted_trials() -> None:
    optimizer = BOHB(XY, budgets=[1, 3], seed=0, initial_configs=[{"x": 0.5, "y": 0.5}])
    first = optimizer.ask()
    assert why(optimizer.history, 0).fate == "running"
    assert str(why(optimizer.history, 0)).startswith(
        "Its configuration was given by the user.\nIt is running on budget 1."
    )
    optimizer.lose(first, "power cut")
    told = why(optimizer.history, 0)
    assert (told.fate, told.waiting, told.lost) == ("waiting", True, 1)
    assert "Its worker was lost (power cut); it waits to be started again." in told.sentences
    optimizer.ask()
    assert "attempt 2" in str(why(optimizer.history, 0))
    optimizer.tell(0, 0.1)
    told = why(optimizer.history, 0)
    assert "It had lost its worker once before." in told.sentences
    assert told.fate == "undecided"
    assert "remaining 2 of 3 trials have finished, only the best is promoted to budget 3." in told.sentences[-2]


def test_a_result_that_was_reused() -> None:
    optimizer = BOHB({"a": {"choice": [1, 2]}, "b": {"choice": [1, 2]}}, budgets=[1, 3], seed=0)
    for _ in range(12):
        try:
            play(optimizer, 1, smooth)
        except Exception:  # noqa: BLE001 - the space is exhausted
            break
    reused = [n for n, trial in optimizer.history.trials.items() if trial.reuses is not None]
    for number in reused:
        told = why(optimizer.history, number)
        assert told.reuses is not None
        assert "It did not run: it reuses" in str(told)


@pytest.mark.parametrize("kind", KINDS)
def test_every_trial_of_every_study_can_be_explained(kind: str) -> None:
    history = played(kind)
    for number in list(history.trials)[:: max(1, len(history.trials) // 50)]:
        told = why(history, number)
        assert told.number == number
        assert len(told.sentences) >= 2
        assert all(sentence.strip() for sentence in told.sentences)


def test_a_trial_that_was_never_started_has_no_explanation() -> None:
    with pytest.raises(UnknownTrial, match="there is no trial 6; this study has started 6 trials"):
        why(tiny().history, 6)


def test_likelihood_ratios_stay_readable() -> None:
    assert _times(math.log(3.0)) == "3 times as likely"
    assert _times(3.63e5) == "more than a million times as likely"
    assert _times(-3.63e5) == "less than a millionth as likely"
