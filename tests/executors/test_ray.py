"""Ray, in a network namespace with loopback only, because it always binds to the machine's external address."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_isolated(file: Path, timeout: float = 450) -> str:
    """Run a file of tests with loopback as the only network; return what pytest prints. All its tests must pass."""
    # a process namespace, too, so that no process of Ray is left
    isolate = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        isolate.insert(1, "--map-root-user")
    script = 'ip link set lo up && exec "$@"'
    limit = f"--timeout={timeout * 3 / 7:g}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", limit, str(file)]
    for _ in range(2):
        ran = subprocess.run(
            [*isolate, "sh", "-c", script, "sh", *command],
            cwd=ROOT,
            env={**os.environ, "RAY_raylet_start_wait_time_s": "100"},  # 30 s are not enough on a busy machine
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if ran.returncode != -signal.SIGSEGV:  # compiled code of Ray may crash when one of its nodes is killed
            break
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert "skipped" not in ran.stdout
    return ran.stdout


@pytest.mark.timeout(1000)
def test_the_executor_contract_holds_on_a_real_ray_cluster() -> None:
    printed = run_isolated(Path(__file__).with_name("ray_inside.py"))
    assert int(re.findall(r"(\d+) passed", printed)[-1]) >= 10, printed[-2000:]
