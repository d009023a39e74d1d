"""Run the tests that depend on linear algebra as other machines would: other kernels, one core, a busy machine.

    make test-machines

A test that fails in one of these environments claims something about the last bits of a sum, or about time.
"""

from __future__ import annotations

import os
import subprocess
import sys

from replay_across_machines import kinds

TESTS = ("tests/core", "tests/integrations", "tests/journal/test_stored_formats.py", "tests/replays", "tests/snapshots")
BUSY = 4  # loops beside the tests
LOOP = "while True: pass"


def run(name: str, environment: dict[str, str], prefix: tuple[str, ...] = ()) -> bool:
    """Run the tests once; return whether they passed."""
    print(f"== {name}", flush=True)
    # numpy warns of features that it was told to disable but cannot; the tests turn warnings into errors.
    ignored = ["-W", "ignore:During parsing environment variable:ImportWarning"]
    command = [*prefix, sys.executable, *ignored, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode == 0


def busy() -> bool:
    """Run the tests beside processes that use every core."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(BUSY)]
    try:
        return run(f"beside {BUSY} busy loops", {})
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    """Run all environments; return 1 if the tests failed in one of them."""
    passed = {name: run(name, environment) for name, environment in kinds().items()}
    passed["one core"] = run("one core", {}, ("taskset", "-c", "0"))
    passed["busy"] = busy()
    for name, ok in passed.items():
        print(f"{'passed' if ok else 'FAILED':8}{name}")
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
