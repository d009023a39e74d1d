"""`bohb check`: planted mistakes are found."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from bohb import Space, Trial
from bohb.executors.options import TrialOptions
from bohb.studyfile.check import Finding, preflight
from tests import objectives
from tests.cli import planted
from tests.cli.running import EXAMPLES, STUDY, answer, call, complaint, written

SPACE = Space({"x": (0.0, 0.5), "y": (0.0, 1.0)})
LIMITED = TrialOptions(trial_seconds=20)


def verdicts(objective: Any, **more: Any) -> dict[str, str]:
    return {f.check: f.verdict for f in preflight(objective, SPACE, [1, 3, 9], options=LIMITED, **more)}


def test_a_sound_objective_passes_everything() -> None:
    findings = preflight(objectives.training, SPACE, [1, 3, 9], options=LIMITED)
    assert {f.check: f.verdict for f in findings} == dict.fromkeys(
        ("runs", "returns", "deterministic", "resumes", "memory", "takes"), "pass"
    )
    assert not any(f.advice for f in findings)


@pytest.mark.parametrize(
    ("objective", "check", "verdict"),
    [
        (planted.forgets_its_generator, "resumes", "fail"),
        (planted.ignores_its_checkpoint, "resumes", "warn"),
        (planted.draws_without_a_seed, "deterministic", "warn"),
        (planted.leaks, "memory", "warn"),
        (planted.breaks_the_second_time, "deterministic", "fail"),
        (planted.returns_nothing, "runs", "fail"),
        (objectives.failing, "runs", "fail"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_planted_mistake_is_found(objective: Any, check: str, verdict: str) -> None:
    findings: dict[str, Finding] = {f.check: f for f in preflight(objective, SPACE, [1, 3, 9], options=LIMITED)}
    assert findings[check].verdict == verdict
    assert findings[check].advice
    others = {f.verdict for f in findings.values() if f.check not in (check, "resumes")}
    assert others <= {"pass"}


def test_an_objective_that_cannot_be_sent_to_a_worker_is_found() -> None:
    lock = threading.Lock()

    def objective(trial: Trial) -> float:
        with lock:
            return 0.5

    assert verdicts(objective) == {"pickles": "fail"}


def test_one_budget_is_enough() -> None:
    findings = preflight(objectives.quadratic, SPACE, [9], options=LIMITED, config={"x": 0.1, "y": 0.2})
    assert [f.check for f in findings] == ["runs", "returns", "deterministic", "memory", "takes"]


def test_configurations_that_fail_are_not_the_objectives_fault() -> None:
    space = Space({"x": (0.3, 0.8), "y": (0.0, 1.0)})
    by_seed = [{f.check: f.verdict for f in preflight(objectives.half_nan, space, [1, 3], seed=s)} for s in range(2)]
    assert all(found["deterministic"] == "pass" for found in by_seed if "deterministic" in found)


def test_the_command_reports_and_exits_with_1_on_a_failure(tmp_path: Path) -> None:
    for name in ("study.toml", "train.awk"):
        shutil.copy(EXAMPLES / name, tmp_path)
    rows = answer("check", tmp_path / "study.toml")
    assert {row["check"]: row["verdict"] for row in rows}["resumes"] == "pass"
    assert not list(tmp_path.glob("*.db"))
    file = written(tmp_path, STUDY.replace("echo {x}", "no-such-program {x}"), "bad.toml")
    told = call("check", file, code=1)
    assert "cannot start 'no-such-program'" in told.stdout
    assert "what to do:" in told.stdout
    assert "x  float     0 to 1\n" in told.stdout
    pasted = told.stdout.splitlines()[-1]
    assert pasted.startswith(f"cd {tmp_path} && no-such-program 0.")
    assert answer_of(file)["runs"]["command"] == pasted


def answer_of(file: Path) -> dict[str, Any]:
    rows = json.loads(call("check", file, "--json", code=1).stdout)
    return {row["check"]: row for row in rows}


def test_a_wrong_start_method_is_an_error_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, 'start_method = "magic"\n' + STUDY)
    assert f'{file}: start_method = "magic" must be one of spawn' in complaint("check", file)
