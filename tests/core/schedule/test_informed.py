"""When brackets leave out lower rungs: what the process expects of them, and the share that stays Hyperband's."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import bohb
from bohb import BOHB, Trial
from bohb.analysis.agreement import bracket_choices
from bohb.analysis.why import why
from bohb.core.events import BracketPlanned
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.samplers.process import LEVEL, Data, Kernel, Process, matern
from bohb.core.schedule.brackets import PUBLISHED_EVERY, Bracket
from bohb.core.schedule.informed import expected_gain, shared_noise
from bohb.errors import StudyMismatch
from bohb.journal import MemoryJournal

PLANE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
ROUND = 3  # brackets of one round of 1, 3, 9
Losses = Callable[[Trial], float]


def bowl(config: dict[str, Any]) -> float:
    return float((config["x"] - 0.3) ** 2 + (config["y"] - 0.8) ** 2)


def noise(*key: float) -> float:
    """A number that looks like a standard normal one, and is always the same for the same key."""
    return float(np.random.default_rng([round(1e9 * abs(part)) for part in key]).standard_normal())


def misleading(trial: Trial) -> float:
    """Smaller budgets than the largest are mostly noise."""
    x, y = trial.config["x"], trial.config["y"]
    return bowl(trial.config) + (0.5 * noise(x, y, trial.budget) if trial.budget < 9 else 0.0)


def unpredictable(trial: Trial) -> float:
    """All budgets agree, and nothing else says anything about a configuration."""
    return noise(trial.config["x"], trial.config["y"]) + 0.01 / trial.budget


def study(losses: Losses, trials: int, seed: int = 0, **arguments: Any) -> BOHB:
    made = BOHB(PLANE, **{"min_budget": 1, "max_budget": 9, "seed": seed, "preset": "best", **arguments})
    for _ in range(trials):
        trial = made.ask()
        made.tell(trial, losses(trial))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_noisy_lower_rungs_are_left_out(seed: int) -> None:
    choices = bracket_choices(study(misleading, 80, seed).history)
    skipping = [choice for choice in choices if choice.verdict == "skips"]
    assert len(skipping) >= len(choices[ROUND:]) / 2
    assert all([rung.budget for rung in choice.bracket.rungs] == [9] for choice in skipping)
    assert all(choice.gains[-1] > max(choice.gains[:-1]) for choice in skipping)
    assert np.median([choice.to_top[0] for choice in skipping]) < 0.5


def test_rungs_that_agree_mostly_stay_where_the_process_cannot_predict() -> None:
    """Then a cheap result shows what the process cannot know."""

    def share(losses: Losses) -> float:
        choices = [choice for seed in range(3) for choice in bracket_choices(study(losses, 120, seed).history)]
        return sum(choice.verdict == "skips" for choice in choices) / len(choices)

    assert share(unpredictable) < 0.6 * share(misleading)


def test_what_the_process_cannot_predict_is_shared_by_rungs_that_agree() -> None:
    def shared(losses: Losses) -> float:
        made = study(losses, 120)
        surrogate = GaussianSampler(made.space).surrogate(made.history)
        assert surrogate is not None
        return shared_noise(surrogate)

    assert shared(unpredictable) > 0.4
    assert shared(misleading) < 0.2


@pytest.mark.parametrize("losses", [misleading, unpredictable, lambda trial: bowl(trial.config)])
def test_the_first_round_and_every_third_bracket_are_hyperbands_in_its_order(losses: Losses) -> None:
    history = study(losses, 120).history
    skips = [choice.verdict == "skips" for choice in bracket_choices(history)]
    assert not any(skips[: ROUND + 1])
    assert not any(all(skips[i : i + PUBLISHED_EVERY]) for i in range(len(skips) - PUBLISHED_EVERY + 1))
    published = [halving.bracket for i, halving in enumerate(history.brackets) if history.schedule.rule(i) != "skip"]
    assert published == [history.schedule.round[i % ROUND] for i in range(len(published))]


def test_brackets_that_leave_out_lower_rungs_have_no_random_configurations() -> None:
    history = study(misleading, 120).history
    origins = {t.origin for t in history.trials.values() if history.schedule.rule(t.bracket) == "skip"}
    assert origins == {"model"}
    told = [t for t in history.trials.values() if "largest_only" in t.reason]
    assert told
    assert all(history.schedule.rule(t.bracket) == "skip" for t in told)
    assert "on the largest budget alone" in str(why(history, told[-1].number))
    assert "leaves out the lower rungs, because they no longer pay" in str(why(history, told[-1].number))


def test_with_one_budget_only_every_third_bracket_draws_at_random() -> None:
    history = study(misleading, 150, budgets=[9], min_budget=None, max_budget=None).history
    at_random = {
        t.bracket % PUBLISHED_EVERY for t in history.trials.values() if t.reason.get("why") == "random fraction"
    }
    assert at_random == {0}
    published = study(misleading, 150, budgets=[9], min_budget=None, max_budget=None, schedule="hyperband").history
    at_random = {
        t.bracket % PUBLISHED_EVERY for t in published.trials.values() if t.reason.get("why") == "random fraction"
    }
    assert at_random == {0, 1, 2}


@pytest.mark.parametrize("budgets", [[9], [1, 3, 9]])
def test_all_configurations_are_random_if_the_settings_say_so(budgets: list[float]) -> None:
    history = study(misleading, 80, budgets=budgets, min_budget=None, max_budget=None, random_fraction=1).history
    assert {t.origin for t in history.trials.values()} <= {"random", "promoted"}


def test_a_process_of_the_largest_budget_alone_knows_nothing_else() -> None:
    made = study(misleading, 60, warm_start=study(misleading, 30, seed=1))
    surrogate = GaussianSampler(made.space, largest_only=True).surrogate(made.history)
    assert surrogate is not None
    there = [n for n, t in made.history.trials.items() if t.budget == 9 and n in made.history.outcomes]
    assert len(surrogate.targets.y) == len(there)
    assert not surrogate.targets.below.any()
    assert not surrogate.targets.study.any()
    assert len(surrogate.process.kernel.study_decays) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"preset": "paper", "schedule": "informed"},
        {"budgets": [9], "min_budget": None, "max_budget": None},
        {"objectives": ["loss", "size"]},
        {"constraints": {"size": "<= 0.5"}},
        {"sampler": lambda rng, situation: situation.space.draw(rng, 1)[0]},
    ],
    ids=["density", "one budget", "several objectives", "a constraint", "own sampler"],
)
def test_without_a_process_of_one_loss_or_with_one_budget_nothing_is_chosen(arguments: dict[str, Any]) -> None:
    made = BOHB(PLANE, **{"min_budget": 1, "max_budget": 9, "seed": 0, "preset": "best", **arguments})
    for _ in range(60):
        trial = made.ask()
        loss = misleading(trial)
        made.tell(trial, loss if made.history.goals.single else {"loss": loss, "size": -loss})
    assert len(made.history.brackets) > ROUND
    assert not made.history.schedule.planned
    assert made.history.schedule.informed == (len(made.history.budgets) == 1)
    shares = {made.history.schedule.random_share(index) for index in range(len(made.history.brackets))}
    assert shares == ({1 / 3, 0} if len(made.history.budgets) == 1 else {1 / 3})


def test_all_losses_equal_leave_hyperbands_order() -> None:
    history = study(lambda _: 1.0, 80).history
    assert not any(choice.verdict == "skips" for choice in bracket_choices(history))


def test_choices_are_made_again_in_a_replay_and_after_an_interruption() -> None:
    journal = MemoryJournal()
    study(misleading, 40, journal=journal)
    study(misleading, 40, journal=journal)
    assert not bohb.replay(journal).differences
    resumed, whole = study(misleading, 0, journal=journal).history, study(misleading, 80).history
    assert [t.config for t in resumed.trials.values()] == [t.config for t in whole.trials.values()]
    assert resumed.schedule.planned == whole.schedule.planned


def test_after_the_largest_budget_was_raised_a_whole_round_is_hyperbands() -> None:
    journal = MemoryJournal()
    first = study(misleading, 60, journal=journal)
    before = len(first.history.brackets)
    history = study(misleading, 140, journal=journal, max_budget=27).history
    later = [history.schedule.rule(i) == "skip" for i in range(before, len(history.brackets))]
    assert any(later)
    assert not any(later[:6])  # the bracket that continues the best, a round of four, and the next one's first


def test_a_bracket_that_is_planned_keeps_its_rungs_when_budgets_are_raised() -> None:
    journal = MemoryJournal()
    made = study(misleading, 40, journal=journal)
    while not isinstance(made.next_events()[0], BracketPlanned):
        trial = made.ask()
        made.tell(trial, misleading(trial))
    journal.append(made.next_events(), made.history.n_events)
    larger = study(misleading, 0, journal=journal, max_budget=27)
    index = len(made.history.brackets)
    assert larger.history.schedule.plan(index).rungs[-1].budget == 9
    assert larger.history.schedule.first_of_round == index + 1
    assert larger.ask().bracket == index
    assert larger.history.brackets[index].bracket == larger.history.schedule.plan(index)
    assert bohb.replay(journal).ok


def best_of(n: int) -> float:
    """Return the expected maximum of n standard normal numbers."""
    x = np.linspace(-8, 8, 20_001)
    return float(np.sum(x * n * norm.pdf(x) * norm.cdf(x) ** (n - 1)) * (x[1] - x[0]))


def test_the_expected_gain_is_that_of_order_statistics() -> None:
    def pair(rho: float) -> np.ndarray:
        return np.array([[1, rho], [rho, 1]])

    def gain(sizes: list[int], correlation: np.ndarray) -> float:
        return expected_gain(np.random.default_rng(0), sizes, correlation)[0]

    one = np.ones((1, 1))
    assert expected_gain(np.random.default_rng(0), [1], one) == pytest.approx((0, 1), abs=0.03)
    assert gain([5], one) == pytest.approx(best_of(5), abs=0.03)
    assert gain([27, 1], pair(1)) == pytest.approx(best_of(27), abs=0.05)
    assert gain([27, 1], pair(0.5)) == pytest.approx(0.5 * best_of(27), abs=0.08)
    assert gain([27, 9], pair(0)) == pytest.approx(best_of(9), abs=0.05)
    assert gain([27, 1], pair(-1)) == pytest.approx(-best_of(27), abs=0.05)
    # The agreement of the first rung with the last counts, besides that with the second.
    chain = np.array([[1, 0.8, 0.64], [0.8, 1, 0.8], [0.64, 0.8, 1]])
    noise = np.array([[1, 0.8, 0.8], [0.8, 1, 0.8], [0.8, 0.8, 1]])
    assert gain([81, 9, 1], noise) > gain([81, 9, 1], chain) + 0.05


def parallel(workers: int, trials: int, **arguments: Any) -> Iterator[BOHB]:
    """Yield a study after the start of each trial; a trial takes as long as its budget."""
    made, running, now = study(misleading, 0, **arguments), list[tuple[float, int, Trial]](), 0.0
    for _ in range(trials):
        if len(running) == workers:
            now, _, ended = heapq.heappop(running)
            made.tell(ended, misleading(ended))
        trial = made.ask()
        heapq.heappush(running, (now + trial.budget, trial.number, trial))
        yield made


@pytest.mark.parametrize("workers", [1, 2, 5, 20])
def test_a_bracket_is_repeated_until_one_of_its_kind_has_finished(workers: int) -> None:
    in_order: list[Bracket] = []
    kind: list[int] = []  # the last bracket in Hyperband's order and its repetitions
    n_opened = n_repeated = 0
    for made in parallel(workers, 400 + 20 * workers):
        history = made.history
        if len(history.brackets) == n_opened:
            continue
        choice, n_opened = bracket_choices(history)[-1], len(history.brackets)
        finished = any(history.brackets[index].done for index in kind)
        if choice.verdict == "repeated":
            assert not finished
            assert choice.bracket == in_order[-1]
            kind.append(choice.index)
            n_repeated += 1
        elif choice.verdict == "published":
            assert finished or not kind
            in_order.append(choice.bracket)
            kind = [choice.index]
    assert in_order == [history.schedule.round[i % ROUND] for i in range(len(in_order))]
    assert len(in_order) > ROUND
    assert bool(n_repeated) == (workers > 1)


def test_repeated_brackets_are_explained_and_decided_again_in_a_replay() -> None:
    journal = MemoryJournal()
    history = list(parallel(5, 150, journal=journal))[-1].history
    repeated = [choice.index for choice in bracket_choices(history) if choice.verdict == "repeated"]
    trial = next(number for number, trial in history.trials.items() if trial.bracket == repeated[0])
    assert f"Bracket {repeated[0]} repeats the last one in the order of Hyperband" in str(why(history, trial))
    assert not bohb.replay(journal).differences


@pytest.mark.parametrize("arguments", [{"preset": "paper"}, {"schedule": "hyperband"}], ids=["paper", "hyperband"])
def test_other_schedules_open_brackets_in_the_order_of_the_paper(arguments: dict[str, Any]) -> None:
    history = list(parallel(5, 100, **arguments))[-1].history
    opened = [halving.bracket for halving in history.brackets]
    assert opened == [history.schedule.round[i % ROUND] for i in range(len(opened))]


def test_a_study_of_the_paper_is_not_continued_with_the_preset() -> None:
    journal = MemoryJournal()
    study(misleading, 5, journal=journal, preset="paper")
    with pytest.raises(StudyMismatch, match=r"preset: stored 'paper', given 'best'"):
        study(misleading, 5, journal=journal)


def test_the_covariance_of_rungs_is_that_of_the_conditioned_normal_distribution() -> None:
    rng = np.random.default_rng(0)
    kernel = Kernel.of(rng.normal(-0.5, 0.3, 2 + 1 + 2 + 2 + 3), rungs=3)
    points, new, group = rng.random((12, 2)), rng.random((4, 2)), np.arange(12) % 3
    process = Process(kernel, Data(np.arange(2), points, group, rng.standard_normal(12)))
    scale, rungs = np.exp(-kernel.lengths), np.arange(3)

    def covariance(A: Any, a: Any, B: Any, b: Any) -> Any:
        return matern(A * scale, B * scale) * kernel.groups()[np.ix_(a, b)] + LEVEL * (a[:, None] == b)

    seen = covariance(points, group, points, group) + np.diag(np.exp(kernel.noises)[group])
    expected = np.zeros((3, 3))
    for x in new:
        X = np.tile(x, (3, 1))
        cross = covariance(X, rungs, points, group)
        expected += covariance(X, rungs, X, rungs) - cross @ np.linalg.solve(seen, cross.T)
    np.testing.assert_allclose(process.rung_covariance(new), expected / len(new), atol=1e-6)
