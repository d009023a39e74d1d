"""Ray, in a network namespace with loopback only, because it always binds to the machine's external address."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_executor_contract_holds_on_a_real_ray_cluster() -> None:
    inside = [Path(__file__).with_name("ray_inside.py"), ROOT / "tests" / "integrations" / "ray_tune_inside.py"]
    # a process namespace, too, so that no process of Ray is left
    isolate = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        isolate.insert(1, "--map-root-user")
    script = 'ip link set lo up && exec "$@"'
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "120", *map(str, inside)]
    ran = subprocess.run(
        [*isolate, "sh", "-c", script, "sh", *command], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert int(re.findall(r"(\d+) passed", ran.stdout)[-1]) >= 10, ran.stdout[-2000:]
    assert "skipped" not in ran.stdout
