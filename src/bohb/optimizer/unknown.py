"""Arguments that do not exist: a guess at what was meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from bohb.core.settings import Settings
from bohb.errors import InvalidArgument

# What other libraries call it: the argument here, or what to do instead.
_ARGUMENTS = {
    "n_trials": "max_trials",
    "max_evals": "max_trials",
    "n_iterations": "max_brackets",
    "n_iter": "max_trials",
    "walltime_limit": "max_seconds",
    "n_jobs": "workers",
    "n_workers": "workers",
    "num_workers": "workers",
    "max_concurrent_trials": "workers",
    "storage": "journal",
    "study_name": "study",
    "run_id": "study",
    "working_directory": "directory",
    "random_state": "seed",
    "min_resource": "min_budget",
    "max_resource": "max_budget",
    "reduction_factor": "eta",
    "points_to_evaluate": "initial_configs",
    "previous_result": "warm_start",
    "verbose": "progress",
    "show_progress_bar": "progress",
    "rho": "random_fraction",
    "top_n_percent": "good_fraction",
    "min_points_in_model": "min_points",
}
_MAXIMISE = "use direction='maximize' for one score, or a minus for each value to maximise: objectives=['-accuracy']"
_ADVICE = {
    "settings": "write preset='best', preset='paper' or preset='hpbandster'; single settings are given by name",
    "timeout": "use max_seconds for the whole study or trial_seconds for a single trial",
    "directions": _MAXIMISE,
    "mode": _MAXIMISE,
    "maximize": _MAXIMISE,
    "metric": "the objective returns the loss, or {'loss': …, 'info': {…}}",
    "callbacks": "it is an argument of bohb.minimize; with ask and tell, call your functions after tell",
    "pruner": "leave it out: the brackets already stop poor configurations early",
    "catch": "leave it out: a failing trial never ends the study",
    "load_if_exists": "leave it out: the same journal and study name continue the study",
}


def check_changes(function: Callable[..., Any], changes: Iterable[str]) -> None:
    """Refuse keywords of `function` that are neither its parameters nor settings, with a guess at what was meant."""
    settings = [field.name for field in fields(Settings)]
    known = [*(name for name in inspect.signature(function).parameters if name != "self"), *settings]
    for name in changes:
        if name not in settings:
            raise InvalidArgument(f"there is no argument {name!r}; {_hint(name, known)}")


def _hint(name: str, known: list[str]) -> str:
    if name in _ADVICE:
        return _ADVICE[name]
    close = difflib.get_close_matches(name, known, 1)
    meant = _ARGUMENTS.get(name) or (close[0] if close else None)
    return f"did you mean {meant!r}?" if meant else "see help(bohb.minimize) and help(bohb.Settings)"
