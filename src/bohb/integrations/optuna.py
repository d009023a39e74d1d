"""Optuna: BOHB as a sampler and a pruner, and the trials of an Optuna study as a warm start.

Optuna's spaces are defined by running the objective. Ranges and choices are stored with each trial, so the space is
inferred from the trials, and conditions as well.
"""

from __future__ import annotations

import itertools
import math
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np

from bohb.core.events import ObservationAdded
from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket
from bohb.core.settings import Preset, Settings, preset_settings
from bohb.core.space import Space
from bohb.errors import InvalidArgument, InvalidConfiguration, MissingExtra, install_hint
from bohb.integrations.foreign import Column, Config, Ladder, Proposals, Results, conditions, earlier, finite_or_inf

try:
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.pruners import BasePruner, HyperbandPruner
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise MissingExtra(f"Optuna is not installed: {install_hint('optuna')}") from error

__all__ = ["BOHBPruner", "BOHBSampler", "observations", "one_more"]

_WITH_ALL_PARAMETERS = (TrialState.COMPLETE, TrialState.PRUNED)
_GRID_TOLERANCE = 1e-8  # of a value's distance from a grid, in steps
_MOST_PARENT_VALUES = 100  # of a whole number that other parameters depend on


def one_more(step: int) -> float:
    """Return the budget of a step counted from 0: after epoch 0, one epoch has been spent."""
    return step + 1


def sign(study: Study) -> float:
    """Return what turns a value of the study into a loss: −1 if it is maximised."""
    if len(study.directions) != 1:
        raise InvalidArgument(f"the study has {len(study.directions)} objectives; BOHB needs exactly one")
    return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0


def hull(one: Any, other: Any) -> Any:
    """Return the distribution that covers two of the same parameter; Optuna allows ranges to change between trials."""
    if one == other or isinstance(one, CategoricalDistribution) or isinstance(other, CategoricalDistribution):
        return one
    low, high = min(one.low, other.low), max(one.high, other.high)
    step = one.step if one.step == other.step else None
    if step is not None and _GRID_TOLERANCE < (one.low - other.low) / step % 1 < 1 - _GRID_TOLERANCE:
        step = None  # two grids that do not meet
    if isinstance(one, IntDistribution):
        return IntDistribution(int(low), int(high), log=one.log, step=int(step or 1))
    return FloatDistribution(low, high, log=one.log, step=step)


class InferredSpace:
    """The space of some trials that have all their parameters. It has the index of a choice, which may be any object.

    space: what the models work on; without parameters of a single value and those whose conditions are unknown; None
        if it has none.
    distributions: the parameters of the space, as Optuna describes them.
    """

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        self._hulls: dict[str, Any] = {}  # of BaseDistribution, which says nothing about its fields
        for trial in trials:
            for name, distribution in trial.distributions.items():
                self._hulls[name] = hull(self._hulls.get(name, distribution), distribution)
        columns = {name: _column(name, d, trials) for name, d in self._hulls.items() if not d.single()}
        explained = conditions(columns)
        self.distributions: dict[str, BaseDistribution] = {name: self._hulls[name] for name in explained}
        self.space: Space | None = None
        if explained:
            choices = {n: len(d.choices) for n, d in self._hulls.items() if isinstance(d, CategoricalDistribution)}
            indices = {n: {"choice": list(range(length))} for n, length in choices.items()}
            made = Space({name: indices.get(name, self._hulls[name]) for name in explained}).configspace
            for name, parents in explained.items():
                parts = [CS.InCondition(made[name], made[parent], sorted(v)) for parent, v in parents.items()]
                if parts:
                    made.add(parts[0] if len(parts) == 1 else CS.AndConjunction(*parts))
            self.space = Space(made)

    def covers(self, trial: FrozenTrial) -> bool:
        """Whether the trial agrees with the space; otherwise the space has to be inferred again."""
        found, known = trial.distributions.items(), self._hulls
        agree = all(name in known and hull(known[name], d) == known[name] for name, d in found)
        return agree and self.config(trial.params) is not None

    def config(self, params: Mapping[str, Any]) -> Config | None:
        """Return the configuration of a trial, or None if its parameters do not fit the space."""
        if self.space is None:
            return None if params.keys() - self._hulls else {}
        config = {name: _index(self._hulls[name], params[name]) for name in self.distributions if name in params}
        try:
            self.space.encode(config)
        except InvalidConfiguration:
            return None
        return config

    def params(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a configuration, as Optuna has them."""
        choices = {name: getattr(d, "choices", None) for name, d in self.distributions.items()}
        return {name: found[value] if (found := choices[name]) else value for name, value in config.items()}


def _index(d: Any, value: Any) -> Any:
    """Return the value that the space has for a value of Optuna."""
    return int(d.to_internal_repr(value)) if isinstance(d, CategoricalDistribution) else value


def _column(name: str, d: Any, trials: Sequence[FrozenTrial]) -> Column:
    present, choice = np.array([name in trial.params for trial in trials]), isinstance(d, CategoricalDistribution)
    if not choice and (isinstance(d, FloatDistribution) or (d.high - d.low) / d.step > _MOST_PARENT_VALUES):
        return Column(present)
    values = np.array([_index(d, trial.params[name]) if name in trial.params else -1 for trial in trials])
    return Column(present, values, range(0) if choice else range(d.low, d.high + 1, d.step), choice)


@dataclass(frozen=True, slots=True)
class Steps:
    """The rungs that sampler and pruner share, and how trials reach them.

    budget_of_step: the budget that has been spent when `trial.report(value, step)` is called.
    """

    ladder: Ladder
    budget_of_step: Callable[[int], float]

    def reported(self, values: Mapping[int, float], sign: float) -> dict[int, float]:
        """Return the losses of intermediate values by rung, ascending; +inf for NaN and infinities.

        The first value at or after a budget counts on its rung; one that is the first after several budgets counts on
        the highest of them only.
        """
        found: dict[int, float] = {}
        for step in sorted(values):
            rung = self.ladder.rung_at(self.budget_of_step(step))
            if rung > max(found, default=-1):
                found[rung] = finite_or_inf(values[step], sign)
        return found

    def results(self, trial: FrozenTrial, sign: float) -> dict[int, float]:
        """Return the losses of a trial by rung, ascending; the value of a complete trial counts on the highest."""
        found, top = self.reported(trial.intermediate_values, sign), self.ladder.top
        if trial.state != TrialState.PRUNED:
            found.pop(top, None)  # the final value is yet to come, or replaces it
        if trial.state == TrialState.COMPLETE:
            found[top] = finite_or_inf(trial.value, sign)
        return found


class Follower:
    """Follows one study. Each result on a rung is added once; a changed space starts it over.

    inferred: the space as far as it is known.
    results: the results of the trials whose parameters are known.
    proposals: None while the space is not known.
    """

    def __init__(self, steps: Steps, settings: Settings, seed: int) -> None:
        self._steps, self._settings, self._seed = steps, settings, seed
        self._begin([])

    def _begin(self, known: Sequence[FrozenTrial]) -> None:
        """Infer the space from trials with all their parameters, and forget the rest."""
        self.inferred = InferredSpace(known)
        self.results: Results[int] = Results(self._steps.ladder)
        self._configs: dict[int, Config] = {}  # as proposed, until a trial has asked for all its parameters
        self._running, self._finished = set[int](), set[int]()
        space = self.inferred.space
        self.proposals = None if space is None else Proposals(space, self.results, self._settings, self._seed)

    def catch_up(self, trials: Sequence[FrozenTrial], sign: float) -> None:
        """Add what is new in the trials, which are all trials of the study by number."""
        begun = [trial for trial in trials if trial.state != TrialState.WAITING]
        new = [trial for trial in begun if trial.number not in self._finished]
        if any(trial.state in _WITH_ALL_PARAMETERS and not self.inferred.covers(trial) for trial in new):
            self._begin([trial for trial in trials if trial.state in _WITH_ALL_PARAMETERS])
            new = begun
        if self.proposals is not None:
            self._running.clear()
            for trial in new:
                self._add(trial, sign)

    def propose(self, number: int) -> dict[str, Any]:
        """Return the parameters of trial `number`; empty if the space is not known yet, or has nothing new left."""
        waiting = self._running - {number}
        config = None if self.proposals is None else self.proposals.propose(number, self._configs, waiting)
        if config is None:
            return {}
        self._configs[number] = config
        self._running.add(number)
        return self.inferred.params(config)

    def _add(self, trial: FrozenTrial, sign: float) -> None:
        number, finished = trial.number, trial.state.is_finished()
        config = self.inferred.config(trial.params) or self._configs.get(number)
        if config:
            self._configs[number] = config
            for rung, loss in self._steps.results(trial, sign).items():
                self.results.add(number, rung, loss)
            if trial.state == TrialState.FAIL:
                self.results.fail(number)
            elif not finished:
                self._running.add(number)
        if finished:
            self._finished.add(number)


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
        self._lock = threading.RLock()
        self._follow(None)

    def _follow(self, study: tuple[Any, int] | None) -> None:
        self._study, self._follower = study, Follower(self.steps, self._settings, self._seed)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock and the fitted models, which the storage brings back."""
        return {name: getattr(self, name) for name in ("_settings", "steps", "_seed")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._follow(None)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:  # noqa: ARG002 - Optuna's signature
        """Check that the study has one objective and that its pruner has the same budgets."""
        sign(study)
        check_same_rungs(self, study.pruner)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """Return the parameters that finished trials have."""
        known = study._storage, study._study_id
        with self._lock:
            if self._study != known:
                self._follow(known)  # the sampler is new, or used for another study
            self._follower.catch_up(study.get_trials(deepcopy=False), sign(study))
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
        others = (other for other in reversed(study.get_trials(deepcopy=False)) if other.number != trial.number)
        reported = (self.steps.reported(other.intermediate_values, direction) for other in others)
        losses = (values[rung] for values in reported if rung in values)
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


def observations(
    study: Study,
    space: Space | CS.ConfigurationSpace | Mapping[str, Any],
    budgets: Sequence[float],
    budget_of_step: Callable[[int], float] = one_more,
) -> History:
    """Return the trials of an Optuna study for `warm_start=`.

    study: a study with one objective; maximised values are negated.
    space: the space of the new study. Every trial must have exactly its parameters, with values that belong to it.
    budgets: the budgets of the new study. The value of a complete trial counts on the largest one; intermediate values
        of complete and pruned trials count on the smaller budgets, as for `BOHBSampler`.
    budget_of_step: the budget that had been spent when `trial.report(value, step)` was called.

    Failed trials are failures on the largest budget. Running and waiting trials are left out, and so are failed trials
    that had not suggested all their parameters.
    """
    compiled = space if isinstance(space, Space) else Space(space)
    direction = sign(study)
    if not budgets or any(b <= a for a, b in itertools.pairwise(budgets)):
        raise InvalidArgument(f"budgets={budgets!r} must be increasing numbers, such as [1, 3, 9]")
    steps = Steps(Ladder((Bracket.of([(budget, 1) for budget in budgets]),), 3), budget_of_step)
    found: list[ObservationAdded] = []
    for trial in study.get_trials(deepcopy=False):
        if trial.state.is_finished() and _fits(compiled, trial):
            losses = steps.results(trial, direction)
            if trial.state == TrialState.FAIL:
                losses[steps.ladder.top] = math.inf
            for rung, loss in losses.items():
                known, source = loss if math.isfinite(loss) else None, f"Optuna trial {trial.number}"
                found.append(ObservationAdded(len(found), dict(trial.params), float(budgets[rung]), known, source))
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
