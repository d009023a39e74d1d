"""The settings of a guard and its workers, and the command that starts them in a fresh interpreter."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass

from bohb.executors.options import TrialOptions


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings that the coordinator, the guard and the workers of one LocalExecutor share.

    token: identifies this executor in the environment of its processes.
    parent: process id of the coordinator.
    argv: `sys.argv` of the coordinator.
    log_dir: where workers write their output; a temporary directory if the options name none.
    payload: descriptor of the pickled objective; None if workers inherit it by forking.
    """

    options: TrialOptions
    slots: int
    token: str
    parent: int
    argv: list[str]
    log_dir: str
    payload: int | None = None

    @property
    def keep_logs(self) -> bool:
        """Whether the user asked for logs."""
        return self.options.log_dir is not None


def command(module: str, setup: Setup, **arguments: int) -> list[str]:
    """Return the command that calls `main(setup, **arguments)` of a module in a fresh interpreter.

    The interpreter gets the flags and the search path of this one. multiprocessing's spawn would import the user's
    script again, which would then need a `__main__` guard.
    """
    # the private function that multiprocessing uses; it returns -W, -X, -O and similar flags
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = (
        f"import sys; sys.path[:] = {list(map(str, sys.path))!r}; import pickle; from {module} import main; "
        f"main(pickle.loads({pickle.dumps(setup)!r}), **{arguments!r})"
    )
    return [sys.executable, *flags, "-c", code]
