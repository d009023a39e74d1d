"""Proximal policy optimisation on the cart and pole of §5.4 and Appendix K, with its seven hyperparameters."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np

from benchmarks import evaluations
from benchmarks.evaluations import Evaluations, Row
from benchmarks.problem import Config, Evaluation, Parameter
from benchmarks.problems import perceptron, ppo


class CartPole:
    """Budget and cost are trials, each with a fresh agent; the loss is their mean number of episodes to convergence.

    The paper's text speaks of eight hyperparameters, its Appendix K and its code have seven. There is no known
    optimum: the regret is the loss that was seen.
    """

    name = "cartpole"
    budgets = (1.0, 3.0, 9.0)
    parameters = (
        Parameter("n_units_1", "int", 8, 128, log=True),
        Parameter("n_units_2", "int", 8, 128, log=True),
        Parameter("batch_size", "int", 8, 256, log=True),
        Parameter("learning_rate", "float", 1e-7, 1e-1, log=True),
        Parameter("discount", "float", 0.0, 1.0),
        Parameter("likelihood_ratio_clipping", "float", 0.0, 1.0),
        Parameter("entropy_regularization", "float", 0.0, 1.0),
    )

    def __init__(self, kept: Path | None = None, max_episodes: int = ppo.MAX_EPISODES) -> None:
        """Prepare it.

        kept: the folder of finished evaluations; None keeps none.
        max_episodes: where a trial is given up.
        """
        self.sources = (Path(__file__), Path(ppo.__file__), Path(perceptron.__file__))
        self._max_episodes = max_episodes
        self.evaluations = Evaluations(None if kept is None else kept / "cartpole.jsonl", self.sources)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        row = self.evaluations.get(config, budget, seed, lambda: self._run(config, budget, seed))
        return Evaluation(statistics.fmean(row["episodes"]), budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - nothing better than the loss is known
        return loss

    def _run(self, config: Config, budget: float, seed: int) -> Row:
        rng = np.random.default_rng(seed)
        return {"episodes": ppo.episodes_to_convergence(rng, settings_of(config), round(budget), self._max_episodes)}


def settings_of(config: Config) -> ppo.Settings:
    """Return a configuration as settings of PPO."""
    return ppo.Settings(
        units=(config["n_units_1"], config["n_units_2"]),
        batch_size=config["batch_size"],
        learning_rate=config["learning_rate"],
        discount=config["discount"],
        clipping=config["likelihood_ratio_clipping"],
        entropy=config["entropy_regularization"],
    )


def cartpole_problem() -> CartPole:
    """Return the problem with stored evaluations, as `problem_of` needs it."""
    return CartPole(evaluations.KEPT)
