"""Feed-forward networks on six data sets (§5.2.2, Appendix I): forests fitted to curves that we recorded.

The budget is seconds of training. One forest predicts how long an epoch takes, the other predicts the validation error
after each of 50 epochs. The loss is the error after the last epoch that ends within the budget, at most the 50th, and 1
if none does. As in the paper, every evaluation costs its budget, and losses are not noisy.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.networks.forest import Array, Forest, Trees
from benchmarks.paper.networks.space import EPOCHS, RANGES, Configs
from benchmarks.problem import Config, Evaluation, Parameter, geometric

HERE = Path(__file__).parent
FAILED = 1.0  # the error of a network that was not trained for a single epoch
PARAMETERS = tuple(
    Parameter(name, "int" if whole else "float", low, high, log) for name, (low, high, log, whole) in RANGES.items()
)


@dataclass(frozen=True, slots=True)
class Task:
    """The results of `benchmarks.paper.networks.fit` for a data set.

    seconds: the largest budget.
    optimum: the lowest error on it that differential evolution found.
    """

    seconds: float
    optimum: float


TASKS = {
    "adult": Task(27.0, 0.1494800028204918),
    "higgs": Task(9.0, 0.3126925140619278),
    "letter": Task(81.0, 0.020975999906659125),
    "mnist": Task(27.0, 0.03518800087273121),
    "optdigits": Task(9.0, 0.014151547383517028),
    "poker": Task(81.0, 0.012276000231504441),
}


def features(configs: Configs) -> NDArray[np.float32]:
    """Return the inputs of the forests (n, 6) in the order of RANGES, as logarithms where Table 2 has them."""
    columns = [np.log(configs[name]) if log else configs[name] for name, (_, _, log, _) in RANGES.items()]
    return np.column_stack(columns).astype(np.float32)


def curves(name: str) -> tuple[NDArray[np.float32], Array]:
    """Return inputs (n, 6) and recorded errors (n, 50) of one data set."""
    with np.load(HERE / "curves" / f"{name}.npz") as file:
        return features({key: file[key].astype(float) for key in RANGES}), file["wrong"] / float(file["rows"])


def times(name: str) -> tuple[NDArray[np.float32], Array]:
    """Return inputs (n, 6) and logarithms of the seconds per epoch (n, 1) of one data set."""
    with np.load(HERE / "curves" / "time.npz") as file:
        return features({key: file[key].astype(float) for key in RANGES}), np.log(file[f"seconds_{name}"])[:, None]


class Surrogate:
    """Both forests of a data set."""

    def __init__(self, name: str) -> None:
        if not (HERE / "forests" / f"{name}.npz").exists():
            known = ", ".join(sorted(path.stem for path in (HERE / "forests").glob("*.npz")))
            raise ValueError(f"data set {name!r} must be one of {known}")
        with np.load(HERE / "forests" / f"{name}.npz") as file:
            parts = [Trees(*(file[f"{part}_{field}"] for field in Trees.__slots__)) for part in ("error", "time")]
        self._error, self._time = Forest(parts[0], *curves(name)), Forest(parts[1], *times(name))

    @functools.lru_cache(maxsize=20_000)  # noqa: B019 - there are six of these, and they live as long as the process
    def one(self, *values: float) -> tuple[float, list[float]]:
        """Return seconds per epoch and the error after each epoch.

        values: the hyperparameters in the order of RANGES.
        """
        logs = (log for _, _, log, _ in RANGES.values())
        x = [math.log(value) if log else value for value, log in zip(values, logs, strict=True)]
        row = np.array(x, np.float32).tolist()
        return math.exp(self._time.one(row)[0]), self._error.one(row).tolist()

    def many(self, X: NDArray[np.float32]) -> tuple[Array, Array]:
        """Return seconds per epoch (n,) and errors (n, 50)."""
        return np.exp(self._time.many(X)[:, 0]), self._error.many(X)

    def losses(self, X: NDArray[np.float32], seconds: float) -> Array:
        """Return errors (n,) after `seconds` of training."""
        each, errors = self.many(X)
        epochs = np.minimum(seconds // each, EPOCHS).astype(int)
        return np.where(epochs > 0, errors[np.arange(len(X)), np.maximum(epochs, 1) - 1], FAILED)


class Networks:
    """Six hyperparameters of a network on one data set."""

    parameters = PARAMETERS

    def __init__(self, name: str) -> None:
        if name not in TASKS:
            raise ValueError(f"data set {name!r} must be one of {', '.join(TASKS)}")
        self.name, self._task = f"networks-{name}", TASKS[name]
        self.budgets = geometric(self._task.seconds / 27, self._task.seconds)
        self._surrogate = Surrogate(name)

    def curve(self, config: Config, budget: float) -> tuple[float, list[float]]:
        """Return the seconds per epoch, and the error after each epoch that ends within the budget."""
        seconds, errors = self._surrogate.one(*(config[name] for name in RANGES))
        return seconds, errors[: int(budget // seconds)]

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:  # noqa: ARG002 - deterministic
        _, errors = self.curve(config, budget)
        return Evaluation(errors[-1] if errors else FAILED, budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        found = self.evaluate(config, self._task.seconds, 0).loss
        assert found is not None
        return found - self._task.optimum


def networks_problem(name: str) -> Networks:
    """Return the problem of a data set: adult, higgs, letter, mnist, optdigits or poker."""
    return Networks(name)
