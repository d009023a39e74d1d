"""Ray Tune: `BOHBSearch` and `BOHBScheduler`, in place of `TuneBOHB` and `HyperBandForBOHB`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ConfigSpace import ConfigurationSpace

from bohb.core import streams
from bohb.core.settings import Preset, Settings, preset_settings
from bohb.core.space import Space
from bohb.core.trial import jsonable
from bohb.errors import InvalidArgument, InvalidSpace, MissingExtra, install_hint
from bohb.integrations.foreign import Config, Ladder, Proposals, Results, finite_or_inf

try:
    from ray._private.dict import flatten_dict, unflatten_dict
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler
    from ray.tune.search import Searcher
    from ray.tune.search.sample import Categorical, Uniform
    from ray.tune.search.variant_generator import parse_spec_vars
except ImportError as error:
    raise MissingExtra(f"Ray Tune is not installed: {install_hint('tune')}") from error

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.experiment import Trial

_FORMAT = 1  # of saved states


class TuneSpace:
    """Translates between configurations of Tune, which may be nested, and those of a `Space`.

    space: the hyperparameters; it has the index of a category, which may be any object. What is constant in Tune's
        space is left out, and Tune adds it.
    """

    def __init__(self, space: Mapping[str, Any] | ConfigurationSpace) -> None:
        self._categories: dict[str, list[Any]] = {}
        if isinstance(space, ConfigurationSpace):
            self.space = Space(space)
            return
        _, _, grids = parse_spec_vars(dict(space))
        if grids:
            names = ["/".join(map(str, path)) for path, _ in grids]
            raise InvalidSpace(f"BOHBSearch cannot run the grid_search of {names}; use tune.choice")
        _, found, _ = parse_spec_vars(flatten_dict(dict(space), prevent_delimiter=True))
        domains: dict[str, Any] = {"/".join(map(str, path)): domain for path, domain in found}
        for name, domain in domains.items():
            if isinstance(domain, Categorical) and isinstance(domain.get_sampler(), Uniform):
                self._categories[name] = list(domain.categories)
                domains[name] = {"choice": list(range(len(domain)))}
        self.space = Space(domains)

    def to_tune(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration as Tune has it."""
        known = self._categories
        return dict(unflatten_dict({n: known[n][value] if n in known else value for n, value in config.items()}))

    def to_space(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of the space for one of Tune, nested or with names such as "layer/units"."""
        known, flat = self._categories, flatten_dict(dict(config))
        return {name: known[name].index(value) if name in known else value for name, value in flat.items()}


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
        self._n_given = 0  # of them, that have been suggested
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._max_concurrent = max_concurrent
        self._configs: dict[str, Config] = {}
        self._running: set[str] = set()
        self.results: Results[str] | None = None
        self._proposals: Proposals[str] | None = None

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
        if self._n_given < len(self._given):
            self._n_given += 1
            return space.to_space(self._given[self._n_given - 1])
        config = None
        if self.results is not None:
            if self._proposals is None:
                self._proposals = Proposals(space.space, self.results, self._settings, self._seed)
            config = self._proposals.propose(number, self._configs, self._running)
        return config or space.space.sample(streams.proposal_stream(self._seed, number))

    def on_trial_result(self, trial_id: str, result: Config) -> None:  # noqa: ARG002 - Tune's signature
        """Do nothing but check that there is a `BOHBScheduler`, which adds the results."""
        if self.results is None:
            raise InvalidArgument("BOHBSearch learns the budgets from its scheduler; use scheduler=BOHBScheduler(…)")

    def on_trial_complete(self, trial_id: str, result: Config | None = None, error: bool = False) -> None:  # noqa: ARG002
        """Note that a trial has ended; one that raised an error counts as failed on the rung it was to reach next."""
        self._running.discard(trial_id)
        if error and self.results is not None and trial_id in self._configs:
            self.results.fail(trial_id)

    def on_trial_add(self, trial: Trial, results: Results[str]) -> None:
        """Note a trial that runs or is about to; a restored tuner adds trials that this search may not know.

        results: the scheduler's, used from now on if there are no others.
        """
        self.results = self.results or results
        if self._space is None or trial.is_finished():
            return
        if trial.trial_id not in self._configs:  # it failed, and starts again under a new name
            self._configs[trial.trial_id] = self._space.to_space(trial.evaluated_params)
        self._running.add(trial.trial_id)
        self.results.run_again(trial.trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Save what was suggested and what is known of it, as JSON."""
        state = {
            "space": None if self._space is None else self._space.space.to_json(),
            "settings": self._settings.to_json(),
            "seed": self._seed,
            "suggested": self._n_given,
            "configs": self._configs,
            "results": None if self.results is None else self.results.to_json(),
        }
        _write(checkpoint_path, state)

    def restore(self, checkpoint_path: str) -> None:
        """Go on where `save` was called, with the same space."""
        state = _read(checkpoint_path)
        stored = None if state["space"] is None else Space.from_json(state["space"])
        if self._space is not None and stored is not None and self._space.space.to_json() != stored.to_json():
            raise InvalidArgument(f"{checkpoint_path} is of a search with another space; restore it with that space")
        settings = Settings.from_json(state["settings"])
        results: Results[str] | None = None if state["results"] is None else Results.from_json(state["results"])
        configs = {} if stored is None else {name: stored.restore(config) for name, config in state["configs"].items()}
        self._settings, self.results, self._configs = settings, results, configs
        self._seed, self._n_given = state["seed"], state["suggested"]
        self._running.clear()  # the scheduler adds the unfinished trials again
        self._proposals = None


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
        self._results: Results[str] = Results(Ladder.of(min_t, max_t, reduction_factor))

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
        results, name = self._results, trial.trial_id
        if self._time_attr in result and self._metric in result and name not in results.stopped:
            rung = results.ladder.rung_at(float(result[self._time_attr]))
            loss = finite_or_inf(result[self._metric], -1.0 if self._mode == "max" else 1.0)
            last = rung == results.ladder.top and self._stop_last
            if rung >= 0 and results.add(name, rung, loss) and (last or not results.goes_on(name, rung, loss)):
                results.stopped.add(name)
        # a stopped trial may report again if the tuner ended before it did, and was restored
        return str(TrialScheduler.STOP if name in results.stopped else TrialScheduler.CONTINUE)

    def debug_string(self) -> str:
        """Return one line about the state."""
        reached = [sum(at == rung for _, at, _ in self._results.losses) for rung in range(self._results.ladder.top + 1)]
        budgets = ", ".join(f"{n} on {b:g}" for b, n in zip(self._results.ladder.budgets, reached, strict=True))
        return f"Using BOHB: results by budget: {budgets}"

    def save(self, checkpoint_path: str) -> None:
        """Save the results."""
        _write(checkpoint_path, self._results.to_json())

    def restore(self, checkpoint_path: str) -> None:
        """Go on where `save` was called."""
        self._results = Results.from_json(_read(checkpoint_path))


def _write(path: str, state: Mapping[str, Any]) -> None:
    """Write a line with the format and the checksum, and a line with the state."""
    text = json.dumps(jsonable(state))
    head = json.dumps({"bohb": _FORMAT, "sha256": hashlib.sha256(text.encode()).hexdigest()})
    Path(path).write_text(f"{head}\n{text}\n")


def _read(path: str) -> dict[str, Any]:
    """Return what was written; raise InvalidArgument if the file is damaged or has another format."""
    head, _, text = Path(path).read_bytes().partition(b"\n")
    try:
        stored = json.loads(head)
        version, checksum = stored["bohb"], stored["sha256"]
    except (ValueError, KeyError, TypeError):
        version, checksum = _FORMAT, None
    if version != _FORMAT:
        raise InvalidArgument(
            f"{path} has the format {version!r:.40}, not {_FORMAT}; restore it with the bohb that wrote it"
        )
    if hashlib.sha256(text.rstrip(b"\n")).hexdigest() != checksum:
        raise InvalidArgument(f"{path} is damaged, or was not saved by BOHB; restore from an earlier checkpoint")
    state: dict[str, Any] = json.loads(text)
    return state
