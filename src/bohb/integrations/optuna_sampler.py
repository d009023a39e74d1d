"""BOHB inside Optuna: `BOHBSampler` proposes parameters, `BOHBPruner` ends trials that are not promoted."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner, HyperbandPruner
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from bohb.core.settings import Preset, preset_settings
from bohb.errors import InvalidArgument
from bohb.integrations.optuna_history import Follower
from bohb.integrations.optuna_rungs import Steps, one_more, sign
from bohb.integrations.rungs import Ladder


class BOHBSampler(BaseSampler):  # type: ignore[misc,unused-ignore]
    """Proposes parameters by the models of this package, fitted to the values that trials report on the budgets.

    min_budget, max_budget, eta: the budgets, as for `bohb.minimize`, in the unit of `budget_of_step`. The value that an
        objective returns counts on the largest budget; intermediate values count on the budgets that they reach.
    preset: "best", "paper" or "hpbandster", as for `bohb.minimize`. Its schedule is not used: trials belong to the
        brackets of Hyperband by their number.
    seed: decides all proposals, given the same results; None draws one.
    budget_of_step: the budget that has been spent when `trial.report(value, step)` is called; by default steps count
        from 0, so that step 8 is budget 9.
    """

    def __init__(
        self,
        min_budget: float,
        max_budget: float,
        eta: float = 3,
        preset: Preset = "best",
        seed: int | None = None,
        *,
        budget_of_step: Callable[[int], float] = one_more,
    ) -> None:
        self._settings = preset_settings(preset)
        self.steps = Steps(Ladder.of(min_budget, max_budget, eta, self._settings.bracket_sizes), budget_of_step)
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._study: tuple[Any, int] | None = None
        self._follower = Follower(self.steps, self._settings, self._seed)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock and the fitted models, which the storage brings back."""
        return {name: getattr(self, name) for name in ("_settings", "steps", "_seed")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:  # noqa: ARG002 - Optuna's signature
        """Check that the study has one objective and that its pruner has the same budgets."""
        sign(study)
        check_same_rungs(self, study.pruner)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """Return the parameters that finished trials have."""
        with self._lock:
            self._catch_up(study)
            return dict(self._follower.inferred.distributions)

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Propose the parameters of a trial together."""
        with self._lock:
            proposed = self._follower.propose(trial.number)
        # Another thread may have found more parameters in the meantime.
        return {name: value for name, value in proposed.items() if name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter at random: one that no finished trial has, or whose condition did not seem to hold."""
        stream = np.random.SeedSequence([self._seed, trial.number, zlib.crc32(param_name.encode())])
        random = RandomSampler(seed=int(stream.generate_state(1)[0]))
        return random.sample_independent(study, trial, param_name, param_distribution)

    def _catch_up(self, study: Study) -> None:
        """Follow the study; start over if the sampler is used for another one."""
        known = study._storage, study._study_id
        if self._study is None or self._study[0] is not known[0] or self._study[1] != known[1]:
            self._forget_study(known)
        self._follower.catch_up(study.get_trials(deepcopy=False), sign(study))

    def _forget_study(self, new: tuple[Any, int]) -> None:
        self._study = new
        self._follower = Follower(self.steps, self._settings, self._seed)


class BOHBPruner(BasePruner):  # type: ignore[misc,unused-ignore]
    """Prunes a trial that is not among the best 1/η on a rung.

    Optuna's trials cannot pause until a rung is complete. A trial is therefore compared with the latest trials that
    have reached the rung, whichever bracket they belong to, as many as its own bracket has. Earlier ones, whose
    parameters were proposed by a model that knew less, do not count. The bracket decides the first rung on which a
    trial can be pruned.

    sampler: the study's sampler, which has the budgets. To use another sampler of Optuna, give the budgets instead, as
        for `BOHBSampler`.
    """

    def __init__(
        self,
        sampler: BOHBSampler | None = None,
        *,
        min_budget: float | None = None,
        max_budget: float | None = None,
        eta: float = 3,
        budget_of_step: Callable[[int], float] = one_more,
    ) -> None:
        if sampler is not None:
            if (min_budget, max_budget) != (None, None):
                raise InvalidArgument("BOHBPruner takes the budgets from its sampler; give one or the other, not both")
            self.steps = sampler.steps
        elif min_budget is None or max_budget is None:
            raise InvalidArgument("BOHBPruner needs a BOHBSampler, or min_budget and max_budget")
        else:
            self.steps = Steps(Ladder.of(min_budget, max_budget, eta), budget_of_step)

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the trial ends on the rung that it has reached."""
        check_same_rungs(study.sampler, self)
        direction = sign(study)
        own = self.steps.reported(trial.intermediate_values, direction)
        if not own:
            return False
        rung = max(own)
        others = (
            self.steps.reported(other.intermediate_values, direction).get(rung)
            for other in reversed(study.get_trials(deepcopy=False))
            if other.number != trial.number
        )
        losses = (loss for loss in others if loss is not None)
        return not self.steps.ladder.goes_on(trial.number, rung, own[rung], losses)


def check_same_rungs(sampler: BaseSampler, pruner: BasePruner) -> None:
    """Raise InvalidArgument if sampler and pruner disagree on the budgets."""
    if not isinstance(sampler, BOHBSampler):
        return
    if isinstance(pruner, HyperbandPruner):
        raise InvalidArgument("HyperbandPruner hides trials from the sampler; use pruner=BOHBPruner(sampler)")
    if isinstance(pruner, BOHBPruner) and sampler.steps != pruner.steps:
        raise InvalidArgument(
            f"the sampler has the budgets {sampler.steps.ladder.budgets}, the pruner has "
            f"{pruner.steps.ladder.budgets}, or they count steps differently; use pruner=BOHBPruner(sampler)"
        )
