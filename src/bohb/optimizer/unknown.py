"""Arguments that do not exist: a guess at what was meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

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


def known_names(function: Callable[..., Any], options: type) -> set[str]:
    """Return the names of all arguments of a function.

    options: the TypedDict of those that its signature does not list.
    """
    listed = inspect.signature(function).parameters.keys() - {"self", "options"}
    return listed | options.__optional_keys__  # type: ignore[attr-defined,no-any-return]


def check_names(function: Callable[..., Any], options: type, given: Iterable[str]) -> None:
    """Refuse arguments that a function does not have, with a guess at what was meant."""
    known = known_names(function, options)
    for name in given:
        if name not in known:
            raise InvalidArgument(f"there is no argument {name!r}; {_hint(name, sorted(known))}")


def _hint(name: str, known: list[str]) -> str:
    if name in _ADVICE:
        return _ADVICE[name]
    close = difflib.get_close_matches(name, known, 1)
    meant = _ARGUMENTS.get(name) or (close[0] if close else None)
    return f"did you mean {meant!r}?" if meant else "help(bohb.minimize) lists all arguments"
