"""The rivals: other people's programs, each in an environment of its own behind the same few lines of JSON.

    method = connect("smac", problem, seed=0, full_evaluations=60)

This module is imported by every rival's process, too, so it needs nothing but the standard library.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.problem import Parameter
    from benchmarks.rivals.connection import Connection

ROOT = Path(__file__).parents[2]


class Described(Protocol):
    """What a rival is told about a problem."""

    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def budgets(self) -> tuple[float, ...]: ...


class MissingEnvironment(RuntimeError):
    """The environment of a rival is missing."""


class Rival(NamedTuple):
    """How to run a rival.

    environment: the folder in .venvs; None for this Python.
    module: its adapter in this package.
    package: the name of its distribution; None if it has none.
    budgets: whether it uses smaller budgets.
    """

    environment: str | None
    module: str
    package: str | None
    budgets: bool


RIVALS = {
    "hpbandster": Rival("hpbandster", "hpbandster", "hpbandster", budgets=True),
    "hpbandster-hyperband": Rival("hpbandster", "hpbandster", "hpbandster", budgets=True),
    "tpe": Rival("hyperopt", "hyperopt", "hyperopt", budgets=False),
    "optuna-tpe": Rival("optuna", "optuna", "optuna", budgets=False),
    "optuna-tpe-hyperband": Rival("optuna", "optuna", "optuna", budgets=True),
    "optuna-gp": Rival("optuna", "optuna", "optuna", budgets=False),
    "optuna-motpe": Rival("optuna", "several", "optuna", budgets=False),
    "optuna-nsga2": Rival("optuna", "several", "optuna", budgets=False),
    "smac": Rival("smac", "smac", "smac", budgets=False),
    "smac-parego": Rival("smac", "smac_several", "smac", budgets=False),
    "smac-mf": Rival("smac", "smac", "smac", budgets=True),
    "gp-bo": Rival("smac", "smac", "smac", budgets=False),
    "dehb": Rival("dehb", "dehb", "DEHB", budgets=True),
    "synetune-asha": Rival("synetune", "synetune", "syne-tune", budgets=True),
    "synetune-bohb": Rival("synetune", "synetune", "syne-tune", budgets=True),
    "synetune-cqr": Rival("synetune", "synetune", "syne-tune", budgets=True),
    "synetune-moasha": Rival("synetune", "synetune_several", "syne-tune", budgets=True),
    "neps-priorband": Rival("neps", "neps", "neural-pipeline-search", budgets=True),
    "neps-hyperband": Rival("neps", "neps", "neural-pipeline-search", budgets=True),
    "uniform": Rival(None, "uniform", None, budgets=False),
    "uniform-halving": Rival(None, "uniform", None, budgets=True),
}


def connect(
    name: str,
    problem: Described,
    seed: int,
    full_evaluations: int,
    workers: int = 1,
    eta: int = 3,
    answer_seconds: float = 600,
    goals: Mapping[str, int] | None = None,
) -> Connection:
    """Start a rival on a problem.

    full_evaluations: the length of the run, in evaluations on the largest budget; some rivals need it for their plan.
    workers: number of evaluations at the same time.
    answer_seconds: time limit of one answer.
    goals: the number of `objectives` and `constraints`, if there are several.
    """
    from benchmarks.rivals.connection import Connection

    rival = find(name)
    first = {
        "method": name,
        "parameters": [parameter.to_json() for parameter in problem.parameters],
        "budgets": list(problem.budgets),
        "eta": eta,
        "seed": seed,
        "full_evaluations": full_evaluations,
        "workers": workers,
        "data": None,
        **({"goals": goals} if goals else {}),
    }
    command = [str(python(rival)), "-m", f"{__name__}.{rival.module}"]
    return Connection(command, first, ROOT, answer_seconds)


def find(name: str) -> Rival:
    """Return the rival of that name."""
    if name not in RIVALS:
        raise ValueError(f"rival={name!r} is none of {', '.join(RIVALS)}")
    return RIVALS[name]


def python(rival: Rival) -> Path:
    """Return the interpreter that runs it."""
    if rival.environment is None:
        return Path(sys.executable)
    path = ROOT / ".venvs" / rival.environment / "bin" / "python"
    if not path.exists():
        raise MissingEnvironment(
            f"no .venvs/{rival.environment}: `make {rival.environment}-env` makes it, `make rivals` those of all rivals"
        )
    return path


@functools.cache
def version(name: str) -> str:
    """Return the version of the rival and a digest of its adapter, part of the key of stored runs."""
    rival = find(name)
    files = [ROOT / "benchmarks" / "rivals" / f"{module}.py" for module in ("wire", "space", rival.module)]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    if rival.package is None:
        return digest
    asked = f"import importlib.metadata; print(importlib.metadata.version({rival.package!r}))"
    done = subprocess.run([str(python(rival)), "-c", asked], capture_output=True, text=True, check=True)
    return f"{rival.package} {done.stdout.strip()} {digest}"
