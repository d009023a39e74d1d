"""The harness accounts for costs, orders evaluations and stores runs; no run is repeated."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from benchmarks import rivals, runs
from benchmarks.data import Missing
from benchmarks.fingerprint import code_digest, deciding_files
from benchmarks.harness import Accounting, Record, incumbents, simulate, trajectory
from benchmarks.methods import OURS, connect
from benchmarks.paper import lcbench
from benchmarks.problem import Config, Evaluation, Parameter, Suggestion, geometric, parents_first
from benchmarks.problems import problem_of
from benchmarks.runs import Run, require, run_all

import bohb


@dataclass
class Plain:
    """The loss is x on every budget; one unit of budget costs two seconds. Records seeds."""

    name: str = "plain"
    parameters: tuple[Parameter, ...] = (Parameter("x", "float", 0.0, 1.0),)
    budgets: tuple[float, ...] = (1.0, 3.0, 9.0)
    seeds: list[int] = field(default_factory=list)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        self.seeds.append(seed)
        return Evaluation(None if config["x"] < 0 else config["x"], 2 * budget)

    def regret(self, config: Config, loss: float) -> float:
        return float(config["x"]) - 0.1


@dataclass
class Script:
    """Makes the given suggestions, and records the results."""

    suggestions: list[Suggestion]
    told: list[tuple[int, Evaluation]] = field(default_factory=list)

    def ask(self) -> Suggestion | None:
        return self.suggestions.pop(0) if self.suggestions else None

    def tell(self, number: int, evaluation: Evaluation) -> None:
        self.told.append((number, evaluation))

    def close(self) -> None:
        pass


def asked(*rows: tuple[float, float, float | None]) -> Script:
    """Return suggestions with this x, budget and previous budget."""
    return Script([Suggestion(i, {"x": x}, budget, previous) for i, (x, budget, previous) in enumerate(rows)])


def records(*rows: tuple[float, float | None]) -> list[Record]:
    """Return records with this budget and loss."""
    return [Record(i, i, i, {"x": loss}, budget, loss, 1.0) for i, (budget, loss) in enumerate(rows)]


@pytest.mark.parametrize(("accounting", "times", "spent"), [("whole", [2, 8, 26], 13), ("continue", [2, 6, 18], 9)])
def test_a_promoted_configuration_is_charged_whole_or_only_what_it_adds(
    accounting: Accounting, times: list[float], spent: float
) -> None:
    method = asked((0.5, 1, None), (0.5, 3, 1), (0.5, 9, 3))
    found = simulate(method, Plain(), seed=0, full_evaluations=10, accounting=accounting)
    assert [record.time for record in found] == times
    assert found[-1].spent == spent


def test_a_configuration_keeps_its_seed_when_it_is_continued_and_only_then() -> None:
    problem = Plain()
    simulate(asked((0.5, 1, None), (0.5, 3, 1), (0.5, 1, None)), problem, seed=3, full_evaluations=10)
    first, continued, again = problem.seeds
    assert first == continued != again


def test_a_run_ends_before_it_would_spend_more_than_it_may() -> None:
    method = asked((0.5, 9, None), (0.4, 9, None), (0.3, 1, None), (0.2, 1, None))
    found = simulate(method, Plain(), seed=0, full_evaluations=2)
    assert [record.number for record in found] == [0, 1]


def test_what_ends_after_the_limit_of_time_is_left_out() -> None:
    found = simulate(asked((0.5, 9, None), (0.4, 1, None)), Plain(), seed=0, full_evaluations=9, max_cost=19)
    assert [record.time for record in found] == [18]


def test_workers_run_side_by_side_and_are_told_in_the_order_of_their_ends() -> None:
    method = asked((0.5, 9, None), (0.4, 1, None), (0.3, 3, None), (0.2, 1, None))
    found = simulate(method, Plain(), seed=0, full_evaluations=9, workers=2)
    assert [(record.number, record.time) for record in found] == [(1, 2), (2, 8), (3, 10), (0, 18)]
    assert [number for number, _ in method.told] == [1, 2, 3, 0]


def test_bohb_with_many_workers_spends_the_same_in_less_time() -> None:
    problem = problem_of("counting_ones-2-2")

    def run(workers: int) -> list[Record]:
        method = connect("bohb", problem, seed=0, full_evaluations=12)
        return simulate(method, problem, seed=0, full_evaluations=12, workers=workers)

    one, eight = run(1), run(8)
    assert one[-1].time == sum(record.cost for record in one)
    assert abs(one[-1].spent - eight[-1].spent) <= problem.budgets[-1]
    assert eight[-1].time < one[-1].time / 4


def test_a_failed_evaluation_is_told_and_never_becomes_the_incumbent() -> None:
    method = asked((-1.0, 1, None), (0.5, 1, None))
    found = simulate(method, Plain(), seed=0, full_evaluations=9)
    assert [evaluation.ok for _, evaluation in method.told] == [False, True]
    assert [record.loss for record in incumbents(found)] == [0.5]


def test_by_the_authors_rule_a_larger_budget_alone_does_not_make_an_incumbent() -> None:
    rows = records((1, 0.5), (3, 0.6), (9, 0.4), (3, 0.1), (9, 0.4), (9, None), (9, 0.3))
    assert [record.number for record in incumbents(rows, "authors")] == [0, 2, 6]
    assert [record.number for record in incumbents(rows, "largest")] == [0, 1, 2, 6]


def test_a_trajectory_has_regrets_and_full_evaluations() -> None:
    found = simulate(asked((0.5, 9, None), (0.3, 9, None)), Plain(), seed=0, full_evaluations=2)
    points = trajectory(Plain(), incumbents(found))
    assert [(point.spent, point.regret) for point in points] == [(1, 0.4), (2, pytest.approx(0.2))]


@pytest.mark.parametrize("method", OURS)
def test_every_method_of_ours_stays_within_budgets_and_is_decided_by_its_seed(method: str) -> None:
    problem = problem_of("counting_ones-2-2")

    def run(seed: int) -> list[Record]:
        return simulate(connect(method, problem, seed=seed, full_evaluations=6), problem, seed=seed, full_evaluations=6)

    first = run(1)
    assert first == run(1)
    assert [r.config for r in first] != [r.config for r in run(2)]
    budgets = {record.budget for record in first}
    one_budget = method in ("random", "bohb-one-budget")
    assert budgets == ({problem.budgets[-1]} if one_budget else set(problem.budgets))


def test_a_setting_can_be_changed_in_the_name_of_a_method() -> None:
    problem = problem_of("counting_ones-2-2")
    found = simulate(connect("bohb:eta=9", problem, seed=0, full_evaluations=4), problem, seed=0, full_evaluations=4)
    assert {record.budget for record in found} == {9, 81, 729}
    with pytest.raises(ValueError, match="num_samples=16"):
        connect("bohb:eta", problem, seed=0, full_evaluations=4)


def test_budgets_are_a_factor_apart_and_not_below_the_smallest() -> None:
    assert geometric(1 / 512, 1) == pytest.approx([3**-k for k in range(5, -1, -1)])
    assert geometric(1, 243) == (1, 3, 9, 27, 81, 243)  # exact powers lose no rung


def test_a_parameter_survives_json_and_its_parents_come_first() -> None:
    child = Parameter("c", "int", 1, 8, log=True, active_if=(("p", ("a",)),))
    parent = Parameter("p", "categorical", choices=("a", "b"))
    assert Parameter.from_json(json.loads(json.dumps(child.to_json()))) == child
    assert [p.name for p in parents_first([child, parent])] == ["p", "c"]
    with pytest.raises(ValueError, match="circle"):
        list(parents_first([child]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "float", "low": 1.0, "high": 0.0},
        {"kind": "int", "low": 0, "high": 3, "log": True},
        {"kind": "categorical", "choices": ("one",)},
        {"kind": "real"},
    ],
)
def test_a_parameter_that_cannot_be_searched_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^p: "):
        Parameter("p", **arguments)


RUNS = [Run("counting_ones-1-1", method, seed, 2) for seed in (0, 1) for method in ("bohb", "random")]


def test_finished_runs_are_kept_and_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_all(RUNS[:3], jobs=1, folder=tmp_path)
    done: list[Run] = []
    execute = runs.execute

    def noted(run: Run) -> runs.Result:
        done.append(run)
        return execute(run)

    monkeypatch.setattr(runs, "execute", noted)
    second = run_all(RUNS, jobs=1, folder=tmp_path)
    assert done == RUNS[3:]
    assert {run: second[run] for run in RUNS[:3]} == first


def test_a_line_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    whole = run_all(RUNS[:2], jobs=1, folder=tmp_path)
    path = tmp_path / "counting_ones-1-1.jsonl"
    path.write_text(path.read_text()[:-40] + "\n")
    again = run_all(RUNS[:2], jobs=1, folder=tmp_path)
    assert [r.trajectories for r in again.values()] == [r.trajectories for r in whole.values()]


def test_other_code_does_not_take_up_old_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all(RUNS[:1], jobs=1, folder=tmp_path)
    monkeypatch.setattr(runs, "decisive", lambda method, problem: "other code")
    run_all(RUNS[:1], jobs=1, folder=tmp_path)
    assert len((tmp_path / "counting_ones-1-1.jsonl").read_text().splitlines()) == 2


def test_runs_that_other_code_made_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(RUNS[:1], jobs=1, folder=tmp_path)
    monkeypatch.setattr(runs, "decisive", lambda method, problem: "other code")
    capsys.readouterr()
    assert runs.kept(RUNS, tmp_path) == {}
    assert "1 more runs are stored" in capsys.readouterr().err


def digest(path: Path, text: str) -> str:
    path.write_text(text)
    return code_digest((path,))


def test_comments_and_docstrings_do_not_count_as_other_code(tmp_path: Path) -> None:
    plain = digest(tmp_path / "a.py", "def f(x):\n    return x\n")
    assert plain == digest(tmp_path / "b.py", '"""Words."""\ndef f(x):\n    """More."""\n    return x  # why\n')
    assert plain != digest(tmp_path / "c.py", "def f(x):\n    return x + 1\n")


def test_the_place_of_a_module_does_not_count_as_other_code(tmp_path: Path) -> None:
    before = digest(tmp_path / "a.py", "from a.b import f, g\nfrom c import h\n\nf(g, h)\n")
    assert before == digest(tmp_path / "b.py", "from c.d import h\nfrom z import g, f\n\nf(g, h)\n")
    assert before != digest(tmp_path / "c.py", "from a.b import f, k as g\nfrom c import h\n\nf(g, h)\n")


def test_the_whole_core_decides_a_run() -> None:
    package = Path(bohb.__file__).parent
    assert {*(package / "core").rglob("*.py"), *(package / "optimizer").rglob("*.py")} == set(deciding_files())


def run_main(monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["experiment", *arguments])
    lcbench.main()


def test_missing_data_is_told_in_one_line_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BOHB_DATA", "")  # restored afterwards, because --data sets it
    problem_of.cache_clear()
    with pytest.raises(SystemExit) as ended:
        run_main(monkeypatch, ["--smoke", "--data", str(tmp_path / "nowhere")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "nowhere" / "yahpo") in line
    assert "--data" in line


def test_a_rival_without_its_environment_names_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "ROOT", tmp_path)
    with pytest.raises(Missing, match=r"smac cannot run: .*make "):
        require(["bohb", "smac"])
