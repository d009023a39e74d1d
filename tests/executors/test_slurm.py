"""The executor contract on submitit's local executor, which runs each job in a process, as Slurm would."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import submitit

from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Objective
from bohb.executors.engines.engine import EngineBroken
from bohb.executors.options import Resources
from bohb.testing import ExecutorContract
from bohb.testing.executors import acting, host_of, make_trial, run_all
from tests.executors.places import on
from tests.executors.studies import assert_whole, kill_in_the_middle, run_study


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """submitit waits 15 s for the result of a job that died, because a network file system may show it late."""
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 1)


class Jobs:
    """Jobs on this machine."""

    replaces = True

    def __init__(self, folder: Path, cluster: str = "local") -> None:
        self.submitit = submitit.AutoExecutor(folder, cluster=cluster)

    def executor(self, objective: Objective, **options: Any) -> Executor:
        return on(self.submitit, objective, 2, **options)

    def host_of(self, pid: int) -> int:
        return host_of(pid)

    def works(self) -> bool:
        return True  # it is a folder


class TestSubmitit(ExecutorContract):
    @pytest.fixture
    def place(self, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
        return Jobs(tmp_path_factory.mktemp("jobs"))


def test_a_study_survives_the_death_of_a_job(tmp_path: Path) -> None:
    killer = kill_in_the_middle(tmp_path, host_of)
    study = run_study(Jobs(tmp_path / "jobs").submitit, tmp_path, trials=5, workers=2)
    killer.join()
    assert_whole(study, trials=5)


def test_a_job_that_slurm_runs_again_is_refused_without_checkpoints_too(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs" / "%j")
    submit, again = jobs.submitit.submit, list[Any]()

    def twice(run: Any, *arguments: Any) -> Any:
        again.append(partial(run, *arguments))
        return submit(run, *arguments)

    jobs.submitit.submit = twice  # type: ignore[method-assign, assignment]
    executor = jobs.executor(acting())
    assert isinstance(run_all(executor, [make_trial(0, act="fine")])[0], Outcome)
    assert "was told to start it again" in again[0]()["lost"]  # its ticket was in the folder that all jobs see
    executor.shutdown(kill=True)


# it leaves the handlers of its own logs open
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_submitits_debug_executor_runs_trials_one_after_the_other(tmp_path: Path) -> None:
    executor = Jobs(tmp_path, "debug").executor(acting())
    found = run_all(executor, [make_trial(n, act=act) for n, act in enumerate(["fine", "segfault", "fine"])])
    executor.shutdown(kill=False)
    assert [getattr(found[n], "loss", None) for n in range(3)] == [0, None, 2]


def test_a_job_that_cannot_be_submitted_is_an_error_and_not_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError("sbatch: no such file")

    jobs = Jobs(tmp_path)
    monkeypatch.setattr(jobs.submitit, "submit", fail)
    executor = jobs.executor(acting())
    executor.submit(make_trial(0, act="fine"))
    with pytest.raises(EngineBroken, match=r"could not submit a job: sbatch"):
        executor.wait(None)
    executor.shutdown(kill=True)


def test_the_number_of_jobs_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="give workers="):
        on(Jobs(tmp_path).submitit, acting())


def test_resources_are_handed_to_slurm(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    executor = jobs.executor(acting(), resources=Resources(cpu=2, gpu=1, memory=3 * 2**30))
    executor.shutdown(kill=True)
    asked = jobs.submitit.parameters
    assert (asked["cpus_per_task"], asked["gpus_per_node"], asked["mem_gb"]) == (2, 1, 3)
    with pytest.raises(InvalidArgument, match="LICENCE"):
        jobs.executor(acting(), resources=Resources(others={"LICENCE": 1}))
    with pytest.raises(InvalidArgument, match="update_parameters of LocalExecutor"):
        on(submitit.LocalExecutor(tmp_path), acting(), 1, resources=Resources(cpu=2))
