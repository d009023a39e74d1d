"""Ray Tune: `BOHBSearch` and `BOHBScheduler`, in place of `TuneBOHB` and `HyperBandForBOHB`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from bohb.core import streams
from bohb.core.settings import Preset, preset_settings
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.integrations.evaluations import Evaluations
from bohb.integrations.rungs import Ladder, finite_or_inf

try:
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler
    from ray.tune.search import Searcher
except ImportError as error:
    raise MissingExtra(f"Ray Tune is not installed: {install_hint('tune')}") from error

from bohb.integrations.ray_space import TuneSpace

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.experiment import Trial

Config = dict[str, Any]


class Results:
    """What search and scheduler share: the numbers of the trials, and their losses on the rungs.

    losses: trial, rung and loss, in the order of arrival; +inf if the trial failed.
    stopped: the trials that were stopped on a rung.
    """

    def __init__(self, ladder: Ladder) -> None:
        self.ladder = ladder
        self.losses: list[tuple[str, int, float]] = []
        self.stopped: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        self._failed: dict[str, int] = {}  # the rung reached before the failure

    def number(self, trial_id: str) -> int:
        """Return the number of a trial; a new trial gets the next one."""
        return self._numbers.setdefault(trial_id, len(self._numbers))

    def next_rung(self, trial_id: str) -> int:
        """Return the rung that a trial reaches next."""
        return self.ladder.next_rung(self.number(trial_id), self._reached.get(trial_id, -1))

    def add(self, trial_id: str, rung: int, loss: float) -> bool:
        """Add a loss; return False if the trial has reached the rung before, as one that was restarted may have."""
        if rung <= self._reached.get(trial_id, -1):
            return False
        self._reached[trial_id] = rung
        self.losses.append((trial_id, rung, loss))
        return True

    def goes_on(self, trial_id: str, rung: int, loss: float) -> bool:
        """Whether a trial goes on from the rung that it has reached."""
        others = (other for name, at, other in reversed(self.losses) if at == rung and name != trial_id)
        return self.ladder.goes_on(self.number(trial_id), rung, loss, others)

    def fail(self, trial_id: str) -> None:
        """Note that a trial failed on the rung that it was to reach next."""
        self._failed[trial_id] = self._reached.get(trial_id, -1)
        self.add(trial_id, self.next_rung(trial_id), math.inf)

    def run_again(self, trial_id: str) -> None:
        """Forget the failure of a trial, if it failed: a restored tuner runs it again."""
        if trial_id in self._failed:
            before = self._reached[trial_id] = self._failed.pop(trial_id)
            self.losses = [known for known in self.losses if known[0] != trial_id or known[1] <= before]


class BOHBSearch(Searcher):
    """Proposes configurations by the models of this package, fitted to the results on all budgets.

    It must be used with `BOHBScheduler`, which has the budgets.

    space: a ConfigSpace, or a space of Tune; by default the `param_space` of the tuner.
    metric, mode: by default those of the tuner.
    points_to_evaluate: configurations that are run first.
    seed: decides all proposals, given the same results; None draws one.
    max_concurrent: how many trials may run at the same time; 0 for no limit.
    preset: "best", "paper" or "hpbandster", as for `bohb.minimize`. Its schedule is not used.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | ConfigurationSpace | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
        max_concurrent: int = 0,
        preset: Preset = "best",
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        self._settings = preset_settings(preset)
        self._space = None if space is None else TuneSpace(space)
        self._given = [dict(point) for point in points_to_evaluate]
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._max_concurrent = max_concurrent
        self._configs: dict[str, Config] = {}
        self._running: set[str] = set()
        self.results: Results | None = None
        self._forget_models()

    def _forget_models(self) -> None:
        self._evaluations: Evaluations | None = None
        self._n_added = 0

    def set_search_properties(self, metric: str | None, mode: str | None, config: Config, **spec: Any) -> bool:  # noqa: ARG002
        """Take the space, the metric and the mode from the tuner, where they were not given."""
        if self._space is not None and config:
            return False
        if config:
            self._space = TuneSpace(config)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take the limit of a `ConcurrencyLimiter`."""
        self._max_concurrent = max_concurrent
        return True

    def suggest(self, trial_id: str) -> Config | None:
        """Return the configuration of the next trial; None while as many run as may."""
        if self._space is None:
            raise InvalidArgument("BOHBSearch has no space; give space=… or the param_space of the tuner")
        if 0 < self._max_concurrent <= len(self._running):
            return None
        self._configs[trial_id] = config = self._next(self._space, len(self._configs))
        self._running.add(trial_id)
        return self._space.to_tune(config)

    def _next(self, space: TuneSpace, number: int) -> Config:
        if self._given:
            return space.to_space(self._given.pop(0))
        config = None
        if self.results is not None:
            running = [(self._configs[name], self.results.next_rung(name)) for name in sorted(self._running)]
            config = self._caught_up(space, self.results).propose(number, running)
        return config or space.space.sample(streams.proposal_stream(self._seed, number))

    def _caught_up(self, space: TuneSpace, results: Results) -> Evaluations:
        """Return all evaluations, with those that are new."""
        if self._evaluations is None:
            self._evaluations = Evaluations(space.space, results.ladder, self._settings, self._seed)
        for trial_id, rung, loss in results.losses[self._n_added :]:
            self._evaluations.add(self._configs[trial_id], rung, loss)
        self._n_added = len(results.losses)
        return self._evaluations

    def on_trial_result(self, trial_id: str, result: Config) -> None:  # noqa: ARG002 - Tune's signature
        """Do nothing but check that there is a `BOHBScheduler`, which adds the results."""
        if self.results is None:
            raise InvalidArgument("BOHBSearch learns the budgets from its scheduler; use scheduler=BOHBScheduler(…)")

    def on_trial_complete(self, trial_id: str, result: Config | None = None, error: bool = False) -> None:  # noqa: ARG002
        """Note that a trial has ended; one that raised an error counts as failed on the rung it was to reach next."""
        self._running.discard(trial_id)
        if error and self.results is not None and trial_id in self._configs:
            self.results.fail(trial_id)

    def on_trial_add(self, trial: Trial, results: Results) -> None:
        """Note a trial that runs or is about to; a restored tuner adds trials that this search may not know.

        results: the scheduler's, used from now on if there are no others.
        """
        self.results = self.results or results
        if self._space is None or trial.is_finished():
            return
        if trial.trial_id not in self._configs:  # it failed, and starts again under a new name
            self._configs[trial.trial_id] = self._space.from_flat(trial.evaluated_params)
        self._running.add(trial.trial_id)
        self.results.run_again(trial.trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Save everything but the fitted models."""
        state = {name: value for name, value in vars(self).items() if name not in ("_evaluations", "_n_added")}
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Go on where `save` was called."""
        vars(self).update(cloudpickle.loads(Path(checkpoint_path).read_bytes()))
        self._running.clear()  # the scheduler adds the unfinished trials again
        self._forget_models()


class BOHBScheduler(FIFOScheduler):
    """Stops a trial that is not among the best 1/η on a rung; trials belong to Hyperband's brackets by their number.

    Trials are never paused, so they need no checkpoints.

    time_attr: the entry of a result that is its budget.
    metric, mode: by default those of the tuner.
    max_t, min_t: the largest and the smallest budget.
    reduction_factor: η, the ratio of two neighbouring budgets.
    stop_last_trials: whether trials are stopped at `max_t`.
    """

    _supports_buffered_results = False

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
        min_t: float = 1,
    ) -> None:
        super().__init__()
        if mode not in (None, "min", "max"):
            raise InvalidArgument(f"mode={mode!r} must be 'min' or 'max'")
        self._time_attr, self._metric, self._mode = time_attr, metric, mode
        self._stop_last = stop_last_trials
        self._results = Results(Ladder.of(min_t, max_t, reduction_factor))

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:  # noqa: ARG002
        """Take the metric and the mode from the tuner; return False if both were given already."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        return True

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Give the trial its number, and the search the results."""
        if not self._metric or not self._mode:
            raise InvalidArgument("BOHBScheduler needs metric and mode; give them here or to tune.TuneConfig")
        search = tune_controller.search_alg
        while not isinstance(search, BOHBSearch) and hasattr(search, "searcher"):
            search = search.searcher
        if isinstance(search, BOHBSearch):
            search.on_trial_add(trial, self._results)
            self._results = search.results or self._results  # those of a restored search are more complete
        self._results.number(trial.trial_id)

    def on_trial_result(self, tune_controller: TuneController, trial: Trial, result: Config) -> str:  # noqa: ARG002
        """Stop a trial that is not promoted, or that has reached the largest budget."""
        if self._time_attr not in result or self._metric not in result:
            return str(TrialScheduler.CONTINUE)
        results, name = self._results, trial.trial_id
        if name in results.stopped:  # the tuner ended before the trial did, and was restored
            return str(TrialScheduler.STOP)
        rung = results.ladder.rung_at(float(result[self._time_attr]))
        loss = finite_or_inf(result[self._metric], -1.0 if self._mode == "max" else 1.0)
        if rung < 0 or not results.add(name, rung, loss):
            return str(TrialScheduler.CONTINUE)
        if (rung == results.ladder.top and self._stop_last) or not results.goes_on(name, rung, loss):
            results.stopped.add(name)
            return str(TrialScheduler.STOP)
        return str(TrialScheduler.CONTINUE)

    def debug_string(self) -> str:
        """Return one line about the state."""
        reached = [sum(at == rung for _, at, _ in self._results.losses) for rung in range(self._results.ladder.top + 1)]
        budgets = ", ".join(f"{n} on {b:g}" for b, n in zip(self._results.ladder.budgets, reached, strict=True))
        return f"Using BOHB: results by budget: {budgets}"

    def save(self, checkpoint_path: str) -> None:
        """Save the results."""
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self._results))

    def restore(self, checkpoint_path: str) -> None:
        """Go on where `save` was called."""
        self._results = cloudpickle.loads(Path(checkpoint_path).read_bytes())
