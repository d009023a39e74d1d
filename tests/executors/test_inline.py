"""An InlineExecutor behaves as any other, in this process."""

from __future__ import annotations

import os
from typing import Any

import pytest

from bohb.core.trial import Status
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.evaluate import InlineExecutor
from tests.executors import objectives
from tests.executors.running import make_trial, run_one


def test_the_objective_must_be_callable() -> None:
    with pytest.raises(InvalidArgument, match=r"objective=3\.5"):
        InlineExecutor(3.5)  # type: ignore[arg-type]


def test_trials_run_in_this_process() -> None:
    with InlineExecutor(objectives.anything) as executor:
        assert executor.slots == 1
        assert executor.wait(None) == []
        assert run_one(executor, act="pid").info["pid"] == os.getpid()
        assert run_one(executor, act="raises").status is Status.CRASHED
        assert run_one(executor, act="sys_exit").error == "SystemExit: 3"
        assert run_one(executor, act="reports", points=2).curve == ((0.0, 1.0), (1.0, 0.5))


def test_an_interrupt_propagates_and_keeps_the_trial() -> None:
    calls: list[int] = []

    def interrupted_once(trial: Any) -> float:
        calls.append(trial.number)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return 0.0

    executor = InlineExecutor(interrupted_once)
    executor.submit(make_trial(4))
    with pytest.raises(KeyboardInterrupt):
        executor.wait(None)
    assert [done.trial.number for done in executor.wait(None)] == [4]
    executor.shutdown(kill=True)
    with pytest.raises(BohbError):
        executor.submit(make_trial(5))
