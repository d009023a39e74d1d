"""The sweeper inside the real Hydra."""

from __future__ import annotations

import logging
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import bohb
from bohb.core.history import History
from bohb.errors import InvalidArgument, InvalidSpace
from bohb.integrations.hydra import log, space_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "hydra_sweep.py"
SPACE = ("lr=tag(log, interval(1e-4, 1.0))", "units=range(8, 257)", "act=choice(relu, tanh)")


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., History]:
    """Run a program with `--multirun` in this process; return the study."""

    def run(*overrides: str, app: Callable[[], Any] | None = None) -> History:
        quiet = ("hydra/hydra_logging=disabled", "hydra/job_logging=disabled", f"hydra.sweep.dir={tmp_path}/sweep")
        options = ("max_budget=3", "seed=1")
        chosen = ("--multirun", "hydra/sweeper=bohb", *quiet, *(f"hydra.sweeper.{option}" for option in options))
        monkeypatch.setattr(sys, "argv", ["hydra_sweep.py", *chosen, *overrides])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
        try:
            if app is None:
                runpy.run_path(str(EXAMPLE), run_name="__main__")
            else:
                app()
        finally:
            GlobalHydra.instance().clear()
            for logger in logging.root.manager.loggerDict.values():
                if isinstance(logger, logging.Logger):
                    logger.disabled = False  # the quiet configuration has switched off those of all other tests
        return bohb.load(tmp_path / "sweep" / "study.db", study="sweep").history

    return run


def budgets(folder: Path) -> list[str]:
    """Return the overrides of the budget, by the number of the job."""
    jobs = sorted((int(path.name), path) for path in folder.iterdir() if path.name.isdigit())
    assert [number for number, _ in jobs] == list(range(len(jobs)))
    found = [OmegaConf.load(path / ".hydra" / "overrides.yaml") for _, path in jobs]
    return [str(entry) for overrides in found for entry in overrides if str(entry).startswith("budget=")]


def test_rungs_are_batches_of_jobs_and_the_same_command_goes_on(sweep: Callable[..., History], tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    first = sweep("hydra.sweeper.max_brackets=1", "hydra.sweeper.checkpoint=checkpoint", *SPACE)
    assert budgets(folder) == ["budget=1"] * 3 + ["budget=3"]
    assert (folder / "checkpoints" / str(first.trials[3].config_id) / "state.json").read_text() == '{"epoch": 3}'
    more = sweep("hydra.sweeper.max_brackets=2", "hydra.sweeper.checkpoint=checkpoint", *SPACE)
    assert [more.trials[n].config for n in range(4)] == [trial.config for trial in first.trials.values()]
    assert budgets(folder)[4:] == ["budget=3"] * 2
    best = OmegaConf.load(folder / "optimization_results.yaml")
    assert more.incumbent is not None
    assert best.best_evaluated_params == more.incumbent.config
    assert best.best_evaluated_result == more.incumbent.loss


def test_an_interrupted_sweep_starts_its_unfinished_jobs_again(sweep: Callable[..., History]) -> None:
    interrupt = [True]

    @hydra.main(version_base=None)
    def app(config: Any) -> float:
        if interrupt and config.x > 0.5:
            interrupt.clear()
            raise KeyboardInterrupt
        return float(config.x)

    arguments = ("+x=interval(0.0, 1.0)", "hydra.sweeper.budget=+budget", "hydra.sweeper.max_trials=4")
    with pytest.raises(KeyboardInterrupt):
        sweep(*arguments, app=app)
    study = sweep(*arguments, app=app)
    assert len(study.outcomes) == len(study.trials) == 4
    assert max(trial.attempt for trial in study.trials.values()) == 2


def test_failed_jobs_are_recorded_and_a_program_that_always_fails_ends_the_sweep(sweep: Callable[..., History]) -> None:
    limit = [0.5]

    @hydra.main(version_base=None)
    def app(config: Any) -> float:
        if config.x > limit[0]:
            raise ArithmeticError("too large")
        return -float(config.x)

    arguments = ("+x=interval(0.0, 1.0)", "hydra.sweeper.budget=+budget", "hydra.sweeper.max_trials=5")
    study = sweep(*arguments, "hydra.sweeper.batch_size=3", app=app)
    assert 0 < study.n_failed < 5
    limit[0] = -1.0
    with pytest.raises(ArithmeticError, match="too large"):
        sweep(*arguments, "hydra.sweeper.study=other", app=app)


def test_the_ranges_of_hydra_become_hyperparameters() -> None:
    lines = [*SPACE, "n=int(interval(1, 5))", "size=range(0, 1, 0.25)", "fixed=7", "list=[1,2],[3]"]
    space: Any = space_of(OverridesParser.create().parse_overrides(lines)).configspace
    assert {name: type(parameter) for name, parameter in space.items()} == {
        "lr": CS.UniformFloatHyperparameter,
        "units": CS.UniformIntegerHyperparameter,
        "act": CS.CategoricalHyperparameter,
        "n": CS.UniformIntegerHyperparameter,
        "size": CS.OrdinalHyperparameter,
        "list": CS.CategoricalHyperparameter,
    }
    assert (space["units"].lower, space["units"].upper) == (8, 256)
    assert space["lr"].log
    assert set(space["list"].choices) == {"[1,2]", "[3]"}
    with pytest.raises(InvalidSpace, match="nothing to sweep over"):
        space_of(OverridesParser.create().parse_overrides(["fixed=7"]))


def test_a_sweep_without_an_end_is_refused(sweep: Callable[..., History]) -> None:
    with pytest.raises(InvalidArgument, match=r"set hydra\.sweeper\.max_brackets or max_trials"):
        sweep(*SPACE)


@hydra.main(version_base=None)
def identity(config: Any) -> float:
    return float(config.x)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ((), r"hydra\.sweeper\.budget=budget: .* has no budget; .* set hydra\.sweeper\.budget=\+budget"),
        (("budget=+budget", "checkpoint=folder"), r"set hydra\.sweeper\.checkpoint=\+folder"),
    ],
)
def test_a_key_that_the_program_does_not_have_is_named_with_the_option_that_adds_it(
    options: tuple[str, ...], hint: str, sweep: Callable[..., History]
) -> None:
    given = [f"hydra.sweeper.{option}" for option in ("max_trials=1", *options)]
    with pytest.raises(InvalidArgument, match=hint):
        sweep("+x=interval(0.0, 1.0)", *given, app=identity)


def test_a_sweep_ends_with_its_best_result(sweep: Callable[..., History], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "info", lambda text, *values: said.append(text % values))
    study = sweep("+x=interval(0.0, 1.0)", "hydra.sweeper.budget=+budget", "hydra.sweeper.max_trials=3", app=identity)
    best = study.incumbent
    assert best is not None
    assert said == [f"The best of 3 jobs: +x={best.config['+x']!r}, {best.loss!r} on budget {best.budget:g}"]


@pytest.mark.skipif(not os.environ.get("BOHB_LONG_TESTS"), reason="starts new processes: BOHB_LONG_TESTS=1")
@pytest.mark.filterwarnings("default")  # of the launchers
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_other_launchers_run_a_rung_in_parallel(launcher: str, sweep: Callable[..., History]) -> None:
    study = sweep(f"hydra/launcher={launcher}", "hydra.sweeper.max_trials=3", *SPACE)
    assert [outcome.ok for outcome in study.outcomes.values()] == [True] * 3
