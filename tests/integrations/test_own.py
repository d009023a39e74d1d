"""A sampler of one's own is one function; the executor and the journal of the pages about them keep the contracts."""

from __future__ import annotations

import ast
import functools
import math
import re
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, EqualsCondition, ForbiddenEqualsClause

import bohb
from bohb import BOHB, Origin, replay
from bohb.core.samplers.proposal import Situation
from bohb.errors import InvalidArgument, InvalidConfiguration, StudyMismatch
from bohb.journal import Journal, MemoryJournal
from bohb.testing import DurableJournalContract, ExecutorContract, Place

SPACE = {"c": ["a", "b", "c"], "n": (1, 8), "x": (0.0, 1.0)}  # in the order of the vector's coordinates
ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


def middle(rng: np.random.Generator, situation: Situation) -> list[float]:
    """Near the middle of everything."""
    return [1.2, 0.5, 0.5 + 0.1 * rng.random()]


def new(sampler: Any = middle, **keywords: Any) -> BOHB:
    return BOHB(SPACE, min_budget=1, max_budget=9, seed=0, sampler=sampler, **keywords)


def run(study: BOHB, n: int, workers: int = 1) -> BOHB:
    running: list[bohb.Trial] = []
    for step in range(n):
        running += study.ask_many(workers - len(running))
        trial = running.pop(step % len(running))
        study.tell(trial, math.nan if trial.number % 7 == 3 else trial.config["x"] + 1 / trial.budget)
    return study


def configs(study: BOHB) -> list[Mapping[str, Any]]:
    return [trial.config for trial in study.history.trials.values()]


def test_a_vector_becomes_the_nearest_legal_configuration_and_its_origin_is_recorded() -> None:
    study = run(new(random_fraction=0.5), 40)
    trials = [t for t in study.history.trials.values() if t.origin is not Origin.PROMOTED]
    assert {t.origin for t in trials} == {Origin.MODEL, Origin.RANDOM}
    for trial in trials:
        if trial.origin is Origin.MODEL:
            assert trial.reason == {"sampler": "middle"}
            assert 0.5 <= trial.config["x"] <= 0.6
            assert isinstance(trial.config["n"], int)
            assert trial.config["c"] == "b"
        else:
            assert trial.reason == {"why": "random fraction"}


def test_a_configuration_will_do_and_so_will_a_reason_beside_it() -> None:
    def fixed(rng: np.random.Generator, situation: Situation) -> Any:
        return {"x": 0.25, "n": 3, "c": "c"}, {"score": np.float64(1.5)}

    trial = new(fixed, random_fraction=0).ask()
    assert trial.config == {"x": 0.25, "n": 3, "c": "c"}
    assert trial.reason == {"sampler": "fixed", "score": 1.5}


def test_a_sampler_that_declines_leaves_the_choice_to_the_prior() -> None:
    trial = new(lambda rng, situation: None, random_fraction=0).ask()
    assert (trial.origin, trial.reason) == (Origin.RANDOM, {"why": "sampler declined"})


def test_a_sampler_sees_observations_pending_trials_and_budgets() -> None:
    largest, pending, failed = set(), set(), set()

    def curious(rng: np.random.Generator, situation: Situation) -> None:
        vectors, losses = situation.observations(1.0)
        assert vectors.shape == (len(losses), 3)
        assert list(losses) == sorted(losses)
        assert situation.pending.shape == (len(situation.history.pending), 3)
        assert situation.log_chance(np.full((2, 3), 0.5)).shape == (2,)
        assert situation.observations(2.0)[0].shape == (0, 3)
        assert situation.budget in situation.budgets == (1.0, 3.0, 9.0)
        assert situation.settings.sampler == "curious"
        largest.add(situation.largest_budget(2))
        pending.add(len(situation.pending))
        failed.add(int(np.isinf(losses).sum()))

    run(new(curious, random_fraction=0), 30, workers=3)
    assert largest == {None, 1.0, 3.0, 9.0}
    assert pending == {0, 1, 2}
    assert failed == {0, 1, 2}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5, 0.5], r"shape \(2,\) does not fit a space of 3"),
        ([1, 0.5, 1.5], r"coordinate 2, 'x', must lie in \[0, 1\]"),
        ([3, 0.5, 0.5], r"coordinate 0, 'c', must lie in \[0, 2\]"),
        ([1, math.nan, 0.5], "coordinate 1 of 'n' is nan"),
        ("text", "must be a configuration, a vector or None"),
        ({"x": 0.5, "n": 9, "c": "a"}, "n=9"),
        ({"x": 0.5, "n": 8}, "'c' is missing"),
    ],
)
def test_a_wrong_answer_is_refused_by_name_and_nothing_is_stored(answer: Any, message: str) -> None:
    def wrong(rng: np.random.Generator, situation: Situation) -> Any:
        return answer

    study = new(wrong, random_fraction=0)
    with pytest.raises(InvalidConfiguration, match="the sampler 'wrong' proposed.*" + message):
        study.ask()
    assert len(study.events) == 1


def test_what_a_sampler_raises_is_raised_and_the_study_can_go_on() -> None:
    calls = []

    def moody(rng: np.random.Generator, situation: Situation) -> list[float]:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError
        return middle(rng, situation)

    study = new(moody, random_fraction=0)
    with pytest.raises(ZeroDivisionError):
        study.ask_many(4)
    trials = study.ask_many(4)
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    assert len(study.events) == 5


def test_inactive_and_forbidden_values_are_no_concern_of_a_sampler() -> None:
    space = ConfigurationSpace({"kind": ["a", "b", "c"], "x": (0.0, 1.0)}, seed=0)
    space.add(EqualsCondition(space["x"], space["kind"], "b"))
    space.add(ForbiddenEqualsClause(space["kind"], "c"))
    answers = iter([[2, 0.5], [0, 0.5], [1, 0.5]])  # forbidden, x inactive, x active
    study = BOHB(space, budgets=[1], seed=0, random_fraction=0, sampler=lambda rng, situation: next(answers))
    assert [study.ask().config for _ in range(2)] == [{"kind": "a"}, {"kind": "b", "x": 0.5}]


def test_a_finite_space_is_searched_without_repetition_whatever_the_sampler_says() -> None:
    def stubborn(rng: np.random.Generator, situation: Situation) -> list[float]:
        assert situation.is_new({"n": 9}) or len(situation.history.trials) > 0
        return [0.99]

    study = BOHB({"n": (1, 9)}, budgets=[1], seed=0, random_fraction=0, sampler=stubborn)
    trials = [study.ask() for _ in range(9)]
    assert trials[0].config == {"n": 9}
    assert sorted(trial.config["n"] for trial in trials) == list(range(1, 10))
    assert trials[1].reason["why"] == "no candidate allowed"


def test_the_same_seed_gives_the_same_trials_and_resuming_needs_no_refit() -> None:
    assert configs(run(new(), 40, workers=3)) == configs(run(new(), 40, workers=3))
    journal = MemoryJournal()
    whole = run(new(), 40)
    run(new(journal=journal), 15)
    assert configs(run(new(journal=journal), 25)) == configs(whole)


def test_another_sampler_is_refused_by_name_when_a_study_is_resumed() -> None:
    journal = MemoryJournal()
    run(new(journal=journal), 3)
    with pytest.raises(StudyMismatch, match="sampler: stored 'middle', given 'tpe'"):
        new(None, journal=journal)
    with pytest.raises(StudyMismatch, match="sampler: stored 'middle', given '<lambda>'"):
        new(lambda rng, situation: None, journal=journal)
    read = BOHB.from_journal(journal)
    assert len(read.history.trials) == 3
    assert read.model() is None
    with pytest.raises(InvalidArgument, match="the sampler of this study is 'middle'"):
        read.ask()
    assert BOHB.from_journal(journal, sampler=middle).ask().number == 3


def test_replay_asks_for_the_sampler_and_makes_its_decisions_again() -> None:
    study = run(new(random_fraction=0.2), 40, workers=3)
    with pytest.raises(InvalidArgument, match="proposed by the sampler 'middle', not by 'tpe'"):
        replay(study.events)
    assert replay(study.events, sampler=middle).ok

    def other(rng: np.random.Generator, situation: Situation) -> list[float]:
        return [0, 0.1, 0.1]

    other.__name__ = "middle"
    assert not replay(study.events, sampler=other).ok
    with pytest.raises(InvalidArgument, match="not by 'middle'"):
        replay(run(new(None), 3).events, sampler=middle)


def test_a_sampler_must_be_callable_and_has_a_name_of_its_own() -> None:
    with pytest.raises(InvalidArgument, match="sampler='gp' must be a function"):
        new("gp")

    def tpe(rng: np.random.Generator, situation: Situation) -> None: ...

    with pytest.raises(InvalidArgument, match="rename the function"):
        new(tpe)

    class Clever:
        def __call__(self, rng: np.random.Generator, situation: Situation) -> None: ...

    assert new(Clever()).settings.sampler == "Clever"
    assert new(functools.partial(middle)).settings.sampler == "middle"
    assert new(None).settings.sampler == "tpe"


def test_minimize_takes_a_sampler() -> None:
    study = bohb.minimize(lambda t: t.config["x"], SPACE, budgets=[1], sampler=middle, max_trials=5, random_fraction=0)
    assert all(0.5 <= trial.config["x"] <= 0.6 for trial, _ in study.trials)


def test_a_gaussian_process_beats_random_search_on_branin_three_times_over() -> None:
    """Mean regret of 5 seeds after 40 evaluations; measured: 0.04 to 2.2."""
    sampler = runpy.run_path(str(EXAMPLES / "gp_sampler.py"))["gaussian_process"]

    def branin(trial: bohb.Trial) -> float:
        x, y = 15 * trial.config["x"] - 5, 15 * trial.config["y"]
        bent = (y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6) ** 2
        return float(bent + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.397887)

    def regret(seed: int, **keywords: Any) -> float:
        study = BOHB({"x": (0.0, 1.0), "y": (0.0, 1.0)}, budgets=[1], seed=seed, **keywords)
        for _ in range(40):
            trial = study.ask()
            study.tell(trial, branin(trial))
        assert study.incumbent is not None
        return study.incumbent.loss

    seeds = range(5)
    modelled = np.mean([regret(seed, sampler=sampler) for seed in seeds])
    drawn = np.mean([regret(seed, random_fraction=1) for seed in seeds])
    assert modelled < drawn / 3


def page(name: str, directory: Path) -> dict[str, Any]:
    """What the code of a page defines, after it has run in a directory."""
    text = (ROOT / "docs" / name).read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    names: dict[str, Any] = {"__name__": "page"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        exec(compile(code, name, "exec"), names)
    return names


@pytest.fixture(scope="module")
def executor_page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return page("own-executor.md", tmp_path_factory.mktemp("executor"))


@pytest.fixture(scope="module")
def journal_page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return page("own-journal.md", tmp_path_factory.mktemp("journal"))


class TestTheExecutorOfThePage(ExecutorContract):
    @pytest.fixture
    def place(self, executor_page: dict[str, Any]) -> Place:
        place: Place = executor_page["Place"]()
        return place


class TestTheJournalOfThePage(DurableJournalContract):
    @pytest.fixture
    def journal_factory(self, journal_page: dict[str, Any], tmp_path: Path) -> Callable[..., Journal]:
        factory: Callable[..., Journal] = journal_page["factory"](tmp_path)
        return factory


def test_the_example_finds_the_bowl(capsys: Any) -> None:
    runpy.run_path(str(EXAMPLES / "gp_sampler.py"), run_name="__main__")
    config = ast.literal_eval(capsys.readouterr().out)
    assert abs(config["x"] - 0.2) + abs(config["y"] - 0.7) < 0.1
