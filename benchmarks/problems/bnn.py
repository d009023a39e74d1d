"""The Bayesian neural network of §5.3 and Appendix J: five hyperparameters of an SGHMC chain on two UCI data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import evaluations
from benchmarks.data import find
from benchmarks.evaluations import Evaluations, Row
from benchmarks.problem import Config, Evaluation, Parameter, geometric
from benchmarks.problems import perceptron, sghmc
from benchmarks.problems.perceptron import Array

DATASETS = ("boston", "protein")
TRAINING, VALIDATION = 0.6, 0.2  # as in the authors' benchmarks; the rest is for the test
WORST = 9.0  # larger losses, some by orders of magnitude, count as this one: the axis of the paper's figure ends here
LARGEST = 2000  # rows of protein's validation and test parts that are looked at, for speed


@dataclass(frozen=True, slots=True)
class Split:
    """Standardised data.

    scale: the standard deviation of the targets before.
    """

    scale: float
    X: Array
    y: Array
    X_valid: Array
    y_valid: Array
    X_test: Array
    y_test: Array


def split(dataset: str) -> Split:
    """The data in a fixed random order, standardised by the training part."""
    with np.load(find("raw", f"{dataset}.npz")) as stored:
        X, y = stored["X"], stored["y"]
    order = np.random.default_rng(0).permutation(len(y))
    train, valid = int(TRAINING * len(y)), int((TRAINING + VALIDATION) * len(y))
    known = order[:train]
    X = ((X - X[known].mean(0)) / X[known].std(0)).astype(np.float32)
    scale = float(y[known].std())
    y = ((y - y[known].mean()) / scale).astype(np.float32)
    parts = known, order[train:valid][:LARGEST], order[valid:][:LARGEST]
    arrays = [array[rows] for rows in parts for array in (X, y)]
    return Split(scale, *arrays)


class BayesianNetwork:
    """Budget and cost are steps of the chain, burn-in included; the loss is the negative log-likelihood of validation
    data per datum, in the targets' own unit. A chain that diverges fails.

    The chain starts afresh on every budget, since the burn-in is a share of the budget. There is no known optimum:
    the regret is the loss that was seen, at most `WORST`.
    """

    budgets = geometric(500, 10_000)
    parameters = (
        Parameter("l_rate", "float", 1e-6, 1e-1, log=True),
        Parameter("burn_in", "float", 0.0, 0.8),
        Parameter("n_units_1", "int", 16, 512, log=True),
        Parameter("n_units_2", "int", 16, 512, log=True),
        Parameter("mdecay", "float", 0.0, 1.0),
    )

    def __init__(self, dataset: str, kept: Path | None = None) -> None:
        """Load the data.

        dataset: boston or protein.
        kept: the folder of finished evaluations; None keeps none.
        """
        if dataset not in DATASETS:
            raise ValueError(f"data set {dataset!r} must be one of {DATASETS}")
        self.name = f"bnn-{dataset}"
        self.sources = (Path(__file__), Path(sghmc.__file__), Path(perceptron.__file__))
        self._data = split(dataset)
        self.evaluations = Evaluations(None if kept is None else kept / f"{self.name}.jsonl", self.sources)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        row = self.evaluations.get(config, budget, seed, lambda: self._run(config, budget, seed))
        return Evaluation(row["loss"], budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - nothing better than the loss is known
        return min(loss, WORST)

    def _run(self, config: Config, budget: float, seed: int) -> Row:
        """Loss and test loss; both None if the chain diverged."""
        chain, data = chain_of(config, budget), self._data
        with np.errstate(all="ignore"):  # a chain may diverge; that is looked for
            networks = sghmc.samples(np.random.default_rng(seed), chain, data.X, data.y)
            both = np.concatenate([data.X_valid, data.X_test])
            found = sghmc.predictive(networks, both, expected=len(chain.kept))
        if found is None:
            return {"loss": None, "test": None}
        mean, variance = found
        at = len(data.y_valid)
        return {
            "loss": self._loss(data.y_valid, mean[:at], variance[:at]),
            "test": self._loss(data.y_test, mean[at:], variance[at:]),
        }

    def _loss(self, y: Any, mean: Any, variance: Any) -> float | None:
        loss = sghmc.negative_log_likelihood(y, mean, variance) + float(np.log(self._data.scale))
        return loss if np.isfinite(loss) else None


def chain_of(config: Config, budget: float) -> sghmc.Chain:
    """Return a configuration as settings of a chain."""
    units = config["n_units_1"], config["n_units_2"]
    return sghmc.Chain(units, config["l_rate"], config["burn_in"], config["mdecay"], round(budget))


def bnn_problem(dataset: str) -> BayesianNetwork:
    """Return the problem with stored evaluations, as `problem_of` needs it."""
    return BayesianNetwork(dataset, evaluations.KEPT)
