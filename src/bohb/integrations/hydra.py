"""Hydra: a sweep as a study. The plugin in `hydra_plugins` calls this module."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bohb.core.goals import Direction
from bohb.core.limits import Limits
from bohb.core.settings import Preset
from bohb.core.space import Space
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument, InvalidResult, InvalidSpace, MissingExtra, install_hint
from bohb.journal import open_journal
from bohb.optimizer.ask_tell import BOHB
from bohb.optimizer.session import runner_name

try:
    from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
    from hydra.core.utils import JobReturn, JobStatus
    from hydra.errors import ConfigCompositionException
except ImportError as error:
    raise MissingExtra(f"Hydra is not installed: {install_hint('hydra')}") from error

if TYPE_CHECKING:
    from hydra_bohb_sweeper import BOHBSweeperConf  # hydra_plugins is a namespace package, which mypy leaves out

log = logging.getLogger(__name__)
_WHOLE_RUNG = 10**9  # more jobs than a rung has
Launch = Callable[[list[list[str]], int], Sequence[JobReturn]]  # (overrides of each job, number of the first job)


class Sweep:
    """Runs a sweep as a study.

    options: those of the plugin.
    launch: runs jobs and waits until all of them have ended.
    """

    def __init__(self, options: BOHBSweeperConf, launch: Launch) -> None:
        if options.max_brackets is None and options.max_trials is None:
            raise InvalidArgument("the sweep would never end: set hydra.sweeper.max_brackets or max_trials")
        self._options, self._launch = options, launch

    def run(self, overrides: Sequence[Override]) -> BOHB:
        """Run the sweep to its end and return its study; one that was interrupted is continued."""
        fixed = [
            f"{o.get_key_element()}={o.get_value_element_as_str()}" for o in overrides if not o.is_sweep_override()
        ]
        options = self._options
        limits = Limits(max_brackets=options.max_brackets, max_trials=options.max_trials, max_initial_failures=None)
        size = options.batch_size or _WHOLE_RUNG
        journal = open_journal(options.journal, options.study)
        try:
            optimizer = self._optimizer(overrides, journal)
            while batch := optimizer.ask_many(size, limits, one_rung=True):
                # the numbers of jobs are those of their trials, and launched together they are consecutive
                for _, group in itertools.groupby(enumerate(batch), key=lambda pair: pair[1].number - pair[0]):
                    trials = [trial for _, trial in group]
                    jobs = self._jobs([[*fixed, *self._overrides(trial)] for trial in trials], trials[0].number)
                    tell(optimizer, trials, jobs)
        finally:
            journal.close()
        if (best := optimizer.incumbent) is not None:
            found = " ".join(f"{name}={_text(value)}" for name, value in best.config.items())
            n_jobs = len(optimizer.history.trials)
            log.info("The best of %d jobs: %s, %r on budget %g", n_jobs, found, best.loss, best.budget)
        return optimizer

    def _optimizer(self, overrides: Sequence[Override], journal: Any) -> BOHB:
        """Create or continue the study; trials that were running when it was interrupted are started again."""
        options = self._options
        optimizer = BOHB(
            space_of(overrides),
            min_budget=options.min_budget,
            max_budget=options.max_budget,
            eta=options.eta,
            integer_budgets=float(options.min_budget).is_integer() and float(options.max_budget).is_integer(),
            preset=cast("Preset", options.preset),
            direction=cast("Direction", options.direction),
            seed=options.seed,
            journal=journal,
        )
        optimizer.session.begin(runner_name(shared=False))
        return optimizer

    def _overrides(self, trial: Trial) -> list[str]:
        found = [f"{name}={_text(value)}" for name, value in trial.config.items()]
        found.append(f"{self._options.budget}={_text(trial.budget)}")
        if self._options.checkpoint is not None:
            folder = Path(self._options.checkpoint_dir) / str(trial.config_id)
            folder.mkdir(parents=True, exist_ok=True)
            quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
            found.append(f"{self._options.checkpoint}='{quoted}'")
        return found

    def _jobs(self, overrides: list[list[str]], first: int) -> Sequence[JobReturn]:
        """Launch jobs; if the program's configuration lacks one of our keys, say which option adds it."""
        try:
            return self._launch(overrides, first)
        except ConfigCompositionException as error:
            for option, key in (("budget", self._options.budget), ("checkpoint", self._options.checkpoint)):
                if f"'{key}'" in str(error):
                    raise InvalidArgument(
                        f"hydra.sweeper.{option}={key}: the configuration of the program has no {key}; add it there, "
                        f"or set hydra.sweeper.{option}=+{key}"
                    ) from error
            raise


def tell(optimizer: BOHB, trials: Sequence[Trial], jobs: Sequence[JobReturn]) -> None:
    """Tell the study how jobs ended. If all trials so far failed, raise the error of the last one."""
    failure: BaseException | None = None
    for trial, job in zip(trials, jobs, strict=True):
        if job.status != JobStatus.COMPLETED:
            failure = job._return_value
            log.error("Job %d failed: %r", trial.number, failure)
        try:
            optimizer.tell(trial, job._return_value)
        except InvalidResult as error:
            failure = error
            optimizer.tell(trial, error)
    if failure is not None and optimizer.incumbent is None:
        raise failure


def space_of(overrides: Sequence[Override]) -> Space:
    """Return the space of the overrides that sweep over several values."""
    swept = {override.get_key_element(): _entry(override) for override in overrides if override.is_sweep_override()}
    if not swept:
        raise InvalidSpace("nothing to sweep over; give ranges such as 'lr=tag(log, interval(1e-5, 1e-1))'")
    return Space(swept)


def _entry(override: Override) -> dict[str, Any]:
    """Return what a dict of a space has for an override."""
    value = override.value()
    log_scale = "log" in getattr(value, "tags", ())
    if isinstance(value, IntervalSweep):
        kind = "int" if isinstance(value.start, int) and isinstance(value.end, int) else "float"
        return {kind: [value.start, value.end], "log": log_scale}
    texts = list(override.sweep_string_iterator())
    if isinstance(value, RangeSweep) and isinstance(value.start, int) and value.step == 1:
        return {"int": [value.start, int(texts[-1])], "log": log_scale}
    return {"ordinal" if isinstance(value, RangeSweep) else "choice": texts}


def _text(value: Any) -> str:
    """Return a value as Hydra reads it; choices are stored as text already, whole numbers stay whole."""
    return value if isinstance(value, str) else repr(value)
