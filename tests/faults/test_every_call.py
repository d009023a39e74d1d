"""Every call to the file system fails once, or is the last one before the process dies."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.calls import HOW, Calls
from tests.faults.nth_call import PARTS, check, life
from tests.sizes import size

ROOT = Path(__file__).parent.parent.parent
SEED = int(os.environ.get("BOHB_FAULT_SEED", datetime.date.today().strftime("%Y%m%d")))  # other calls every day
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


@pytest.mark.parametrize("part", range(size(1, PARTS)))
def test_whatever_call_fails_or_kills_nothing_is_lost_and_the_study_goes_on(part: int) -> None:
    command = [sys.executable, "-m", "tests.faults.nth_call", str(SEED), str((SEED + part) % PARTS), str(size(16, 0))]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **threads}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert {*found["kinds"]} >= HOW.keys()
    assert found["wrong"] == [], f"repeat it with BOHB_FAULT_SEED={SEED}"


@pytest.mark.parametrize(
    ("loss", "lost"),
    [
        (lambda root: (root / "study.db").unlink(), "a stored result is lost"),
        (lambda root: next(root.glob("*.deleted1.jsonl")).unlink(), "a told result is lost"),
    ],
)
def test_the_check_notices_what_is_lost(tmp_path: Path, loss: Callable[[Path], None], lost: str) -> None:
    told: list[tuple[str, object]] = []
    life(tmp_path, Calls(tmp_path), lambda *said: told.append(said))
    assert {name for name, _ in told} == {"stored", "told", "exported", "renamed", "deleted"}
    loss(tmp_path)
    with pytest.raises(AssertionError, match=lost):
        check(tmp_path, told)
