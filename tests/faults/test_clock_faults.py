"""The clock of the machine is set while a study runs: row 21 of faults.md.

A library that is loaded before libc shifts the clock of the runner, its guard and its workers, as `date -s` would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIFTED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("CLOCK_SHIFT"), "r");
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += shift();
    return code;
}
"""
STUDY = """
import os
import time
from pathlib import Path

from bohb import minimize
from tests.objectives import SPACE, quadratic

JUMPS = {2: 3600, 5: -3600, 8: 0}

def objective(trial):
    began = time.time()
    if trial.number in JUMPS:
        shift = Path(os.environ["CLOCK_SHIFT"])
        shift.with_suffix(".new").write_text(str(JUMPS[trial.number]))
        shift.with_suffix(".new").rename(shift)
        assert abs(time.time() - began) > 3000, "the clock was not set"
    time.sleep(0.3)  # the guard looks at the limits meanwhile
    return quadratic(trial)

study = minimize(
    objective, SPACE, min_budget=1, max_budget=9, seed=0, workers=2, trial_seconds=60, max_seconds=600, max_trials=12,
    journal=os.environ["JOURNAL"], progress=False,
)
assert study.stopped == "max_trials=12 reached", study.stopped
assert [outcome.status for outcome in study.history.outcomes.values()] == ["ok"] * 12, study.failures
assert 0 < study.history.seconds < 600
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
def test_setting_the_clock_while_a_study_runs_expires_nothing(tmp_path: Path) -> None:
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(SHIFTED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    script = tmp_path / "study.py"
    script.write_text(textwrap.dedent(STUDY))
    (tmp_path / "shift").write_text("0")
    ran = subprocess.run(
        [sys.executable, script],
        cwd=ROOT,
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "CLOCK_SHIFT": str(tmp_path / "shift"),
            "JOURNAL": str(tmp_path / "a.db"),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
