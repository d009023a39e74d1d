"""Measure one package at one number of observations and print JSON; `overhead.py` starts this program.

    python -m benchmarks.speed.overhead_one --package bohb --space mixed16 --observations 1000

A package is imported only when it is measured, because the environment of HpBandSter has none of the others.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.problems import CountingOnes, uniform_fill
from benchmarks.report import versions

SPACES = {"cont6": CountingOnes(0, 6), "mixed16": CountingOnes(8, 8)}
T = TypeVar("T")
Timings = dict[str, list[float]]  # by name, in seconds of CPU time


def cpu(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its CPU time."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def measure_bohb(problem: CountingOnes, n: int, repeats: int, seed: int) -> Timings:
    """Time `ask` after a tell (including the fit), a second `ask` (cached model) and `tell`."""
    import bohb
    from bohb.core.events import ObservationAdded
    from bohb.journal import MemoryJournal

    configs, losses = uniform_fill(problem, n, seed)
    empty = bohb.BOHB(problem.space, budgets=[1.0], preset="paper", random_fraction=0, seed=seed)
    observed = [
        ObservationAdded(i, config, 1.0, loss) for i, (config, loss) in enumerate(zip(configs, losses, strict=True))
    ]
    # the journal that `warm_start` would write, without a study of n trials
    optimizer = bohb.BOHB.from_events(MemoryJournal([*empty.events, *observed]).read())
    timings: Timings = {"ask": [], "ask_cached": [], "tell": []}
    for _ in range(repeats):
        trial, fresh = cpu(optimizer.ask)
        again, cached = cpu(optimizer.ask)
        loss = problem.regret(trial.config) - problem.d
        _, tell = cpu(lambda trial=trial, loss=loss: optimizer.tell(trial, loss))  # type: ignore[misc]
        optimizer.tell(again, problem.regret(again.config) - problem.d)
        if (trial.origin, again.origin) != (bohb.Origin.MODEL, bohb.Origin.MODEL):
            raise RuntimeError(f"trials {trial.number} and {again.number} were not both proposed by the model")
        for name, seconds in (("ask", fresh), ("ask_cached", cached), ("tell", tell)):
            timings[name].append(seconds)
    return timings


def measure_hpbandster(problem: CountingOnes, n: int, repeats: int, seed: int) -> Timings:
    """Time `get_config` and `new_result`, which fits again, of its config generator BOHB."""
    import ConfigSpace
    import numpy as np
    from hpbandster.core.dispatcher import Job  # type: ignore[import-not-found]
    from hpbandster.optimizers.config_generators.bohb import BOHB  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")  # division by zero in its categorical kernel, see docs/deviations.md
    np.random.seed(seed)  # noqa: NPY002 - HpBandSter draws from the global state
    space: Any = ConfigSpace.ConfigurationSpace(seed=seed)
    for name, domain in problem.space.items():
        hyperparameters: Any = ConfigSpace.hyperparameters
        space.add_hyperparameter(
            hyperparameters.CategoricalHyperparameter(name, domain["choice"])
            if isinstance(domain, dict)
            else hyperparameters.UniformFloatHyperparameter(name, *domain)
        )
    generator = BOHB(space, random_fraction=0, logger=logging.getLogger("hpbandster"))

    def tell(config: dict[str, Any], loss: float, update_model: bool = True) -> None:
        job = Job((0, 0, 0), config=config, budget=1.0)
        job.result = {"loss": loss, "info": {}}
        generator.new_result(job, update_model)

    configs, losses = uniform_fill(problem, n, seed)
    for i, (config, loss) in enumerate(zip(configs, losses, strict=True)):
        tell(config, loss, update_model=i == n - 1)
    timings: Timings = {"ask": [], "tell": []}
    for _ in range(repeats):
        (config, info), ask = cpu(lambda: generator.get_config(1.0))
        if not info["model_based_pick"]:
            raise RuntimeError("HpBandSter fell back to a random configuration")
        loss = problem.regret(config) - problem.d
        timings["ask"].append(ask)
        timings["tell"].append(cpu(lambda config=config, loss=loss: tell(config, loss))[1])  # type: ignore[misc]
    return timings


def measure_optuna(problem: CountingOnes, n: int, repeats: int, seed: int, multivariate: bool | None) -> Timings:
    """Time `study.ask` with a suggestion for every parameter, and `study.tell`: `TPESampler`, storage in memory."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.CategoricalDistribution(domain["choice"])
        if isinstance(domain, dict)
        else optuna.distributions.FloatDistribution(*domain)
        for name, domain in problem.space.items()
    }
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=multivariate))
    configs, losses = uniform_fill(problem, n, seed)
    for config, loss in zip(configs, losses, strict=True):
        study.add_trial(optuna.trial.create_trial(params=config, distributions=distributions, value=loss))
    timings: Timings = {"ask": [], "tell": []}
    for _ in range(repeats):
        trial, ask = cpu(lambda: study.ask(distributions))
        loss = problem.regret(trial.params) - problem.d
        timings["ask"].append(ask)
        timings["tell"].append(cpu(lambda trial=trial, loss=loss: study.tell(trial, loss))[1])  # type: ignore[misc]
    return timings


def grow(evaluations: int, random_fraction: float | None, seed: int, chunks: int = 10) -> list[float]:
    """Return CPU seconds of serial no-op evaluations on mixed16 and budgets 1 … 27, in equal chunks."""
    import numpy as np

    import bohb

    changes: dict[str, Any] = {"preset": "paper"}
    if random_fraction is not None:
        changes["random_fraction"] = random_fraction
    optimizer = bohb.BOHB(SPACES["mixed16"].space, min_budget=1, max_budget=27, seed=seed, **changes)
    losses = np.random.default_rng(seed).random(evaluations).tolist()
    seconds = []
    for chunk in range(chunks):
        start = time.process_time()
        for loss in losses[chunk * evaluations // chunks : (chunk + 1) * evaluations // chunks]:
            optimizer.tell(optimizer.ask(), loss)
        seconds.append(time.process_time() - start)
    return seconds


def measure(package: str, space: str, n: int, repeats: int, seed: int) -> Timings:
    """Return the timings of one package by its name on the command line."""
    problem = SPACES[space]
    match package:
        case "bohb":
            return measure_bohb(problem, n, repeats, seed)
        case "hpbandster":
            return measure_hpbandster(problem, n, repeats, seed)
        case "optuna":
            return measure_optuna(problem, n, repeats, seed, multivariate=None)
        case "optuna-multivariate":
            return measure_optuna(problem, n, repeats, seed, multivariate=True)
        case "optuna-univariate":
            return measure_optuna(problem, n, repeats, seed, multivariate=False)
        case _:
            raise ValueError(f"package={package!r} is not one that can be measured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", required=True)
    parser.add_argument("--space", choices=SPACES, default="mixed16")
    parser.add_argument("--observations", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--grow", type=int, help="instead: this many serial no-op evaluations through bohb")
    parser.add_argument("--random-fraction", type=float)
    args = parser.parse_args()
    body: dict[str, Any] = {
        "versions": versions(["bohb", "ConfigSpace", "hpbandster", "numpy", "optuna", "scipy", "statsmodels"])
    }
    gc.collect()
    start = time.process_time()
    if args.grow:
        body["chunks"] = grow(args.grow, args.random_fraction, args.seed)
    else:
        timings = measure(args.package, args.space, args.observations, args.repeats, args.seed)
        body["median"] = {name: statistics.median(seconds) for name, seconds in timings.items()}
        body["all"] = timings
    body["total"] = time.process_time() - start
    json.dump(body, sys.stdout)


if __name__ == "__main__":
    main()
