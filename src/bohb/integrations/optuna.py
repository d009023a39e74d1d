"""Optuna: BOHB as a sampler and a pruner, and the trials of an Optuna study as a warm start."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bohb.core.events import ObservationAdded
from bohb.core.history import History
from bohb.core.space import Space
from bohb.errors import InvalidArgument, InvalidConfiguration, MissingExtra, install_hint
from bohb.integrations.earlier import earlier

try:
    from optuna.study import StudyDirection
    from optuna.trial import TrialState
except ImportError as error:
    raise MissingExtra(f"Optuna is not installed: {install_hint('optuna')}") from error

from bohb.integrations.optuna_rungs import one_more
from bohb.integrations.optuna_sampler import BOHBPruner, BOHBSampler

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna import Study
    from optuna.trial import FrozenTrial

__all__ = ["BOHBPruner", "BOHBSampler", "observations", "one_more"]


def observations(
    study: Study,
    space: Space | ConfigurationSpace | Mapping[str, Any],
    budgets: Sequence[float],
    budget_of_step: Callable[[int], float] = one_more,
) -> History:
    """Return the trials of an Optuna study for `warm_start=`.

    study: a study with one objective; maximised values are negated.
    space: the space of the new study. Every trial must have exactly its parameters, with values that belong to it.
    budgets: the budgets of the new study. The value of a complete trial counts on the largest one; intermediate values
        of complete and pruned trials count on the smaller budgets.
    budget_of_step: the budget that had been spent when `trial.report(value, step)` was called.

    Failed trials are failures on the largest budget. Running and waiting trials are left out, and so are failed trials
    that had not suggested all their parameters.
    """
    compiled = space if isinstance(space, Space) else Space(space)
    if len(study.directions) != 1:
        raise InvalidArgument(f"the study has {len(study.directions)} objectives; a warm start needs exactly one")
    if not budgets or any(b <= a for a, b in itertools.pairwise(budgets)):
        raise InvalidArgument(f"budgets={budgets!r} must be increasing numbers, such as [1, 3, 9]")
    sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
    found: list[ObservationAdded] = []
    for trial in study.get_trials(deepcopy=False):
        if not trial.state.is_finished() or not _fits(compiled, trial):
            continue
        for budget, value in _values(trial, [float(b) for b in budgets], budget_of_step):
            loss = sign * value if value is not None and math.isfinite(value) else None
            source = f"Optuna trial {trial.number}"
            found.append(ObservationAdded(len(found), dict(trial.params), budget, loss, source))
    return earlier(compiled, found)


def _fits(space: Space, trial: FrozenTrial) -> bool:
    """Whether the parameters of a trial belong to the space; only a failed trial may lack some."""
    try:
        space.encode(trial.params)
    except InvalidConfiguration as error:
        if trial.state == TrialState.FAIL:
            return False
        raise InvalidConfiguration(
            f"Optuna trial {trial.number}: {error}; give the space that its parameters came from"
        ) from error
    return True


def _values(
    trial: FrozenTrial, budgets: Sequence[float], budget_of_step: Callable[[int], float]
) -> Iterator[tuple[float, float | None]]:
    """Yield the budgets and values of a trial."""
    reported = {float(budget_of_step(step)): value for step, value in trial.intermediate_values.items()}
    last = budgets[-1]
    for budget, value in reported.items():
        known = next((b for b in budgets if math.isclose(b, budget, rel_tol=1e-6)), None)
        if known is not None and (known < last or trial.state == TrialState.PRUNED):
            yield known, value
    if trial.state == TrialState.COMPLETE:
        yield last, trial.value
    elif trial.state == TrialState.FAIL:
        yield last, None
