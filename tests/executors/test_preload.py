"""Modules that are imported once, in the process that workers are forked from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb.errors import InvalidArgument
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import TrialOptions
from tests.executors.running import run_one

Write = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes a module which workers can import, and returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str) -> str:
        (tmp_path / "heavy_to_import.py").write_text(source)
        return "heavy_to_import"

    return write


def test_a_module_is_imported_once_for_all_workers(module: Write) -> None:
    name = module("import os\nIMPORTED_BY = os.getpid()\n")

    def objective(trial: Any) -> dict[str, Any]:
        import heavy_to_import  # type: ignore[import-not-found]

        return {"loss": 0.0, "by": heavy_to_import.IMPORTED_BY, "guard": os.getppid(), "pid": os.getpid()}

    options = TrialOptions(preload=[name], recycle_after=1, start_method="forkserver")
    with LocalExecutor(objective, 1, options) as executor:
        infos = [run_one(executor, number=number).info for number in range(3)]
    assert len({info["pid"] for info in infos}) == 3
    assert {info["by"] for info in infos} == {infos[0]["guard"]}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("open(__file__ + '-dir/nvidia-uvm')", "cannot be imported: FileNotFoundError"),
        ("import os\nKEPT = os.open(os.path.dirname(__file__) + '/nvidia-uvm', os.O_CREAT)", "uses CUDA while it is"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), name='eager').start()", "'eager'"),
        ("import time\ntime.sleep(60)", "TimeoutError: it took longer than start_seconds"),
    ],
)
def test_a_module_that_workers_cannot_be_forked_after_is_named_and_refused(
    module: Write, source: str, said: str
) -> None:
    """CUDA is recognised by the file that it opens; here that is a file of this name elsewhere."""
    seconds = 2.0 if "TimeoutError" in said else 120.0
    options = TrialOptions(preload=[module(source)], start_seconds=seconds, start_method="forkserver")
    with (
        LocalExecutor(lambda trial: 0.0, 1, options) as executor,
        pytest.raises(InvalidArgument, match=r"the module 'heavy_to_import' .*leave it out of preload") as refused,
    ):
        run_one(executor)
    assert said in str(refused.value)


def test_a_study_with_a_module_that_cannot_be_preloaded_ends_with_its_name() -> None:
    with pytest.raises(InvalidArgument, match=r"preload=\['no_such_module'\].*ModuleNotFoundError"):
        bohb.minimize(
            lambda trial: 0.0, {"x": (0.0, 1.0)}, budgets=[1], workers=1, preload=["no_such_module"], progress=False
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preload": "torch"}, "must be a list of names of modules"),
        ({"preload": ["torch"], "start_method": "spawn"}, "needs start_method='forkserver', not 'spawn'"),
        ({"preload": ["torch"]}, "preload needs isolated workers; give workers=1"),
    ],
)
def test_preload_where_it_has_no_effect_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        bohb.minimize(lambda trial: 0.0, {"x": (0.0, 1.0)}, budgets=[1], **options)
