"""Proximal policy optimisation on the cart and pole, with numpy only; Gym is not needed.

The dynamics are those of Barto, Sutton and Anderson (IEEE Transactions on Systems, Man, and Cybernetics, 1983) without
friction, with the numbers of OpenAI Gym's CartPole-v0: Euler steps of 20 ms, an episode ends beyond 2.4 m or 12°, or
after 200 steps, and every step earns 1. A policy is fixed while a batch of episodes is played, so all of them are
played at once; so are the trials of one configuration, which share nothing but the calls of numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.problems.perceptron import Array, Perceptron

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MAX_POSITION, MAX_ANGLE, MAX_STEPS = 2.4, math.radians(12), 200
CONVERGED_AFTER = 20  # episodes of full length in a row
MAX_EPISODES = 3000
# What the paper does not specify follows the authors' benchmark: ten Adam steps per batch, here each on a random tenth
# of it, and a separate baseline with two layers of 64 units and a learning rate of 1e-3. Batches are counted in
# episodes, and advantages are not normalised.
UPDATES, SHARE = 10, 0.1
BASELINE_UNITS, BASELINE_RATE = (64, 64), 1e-3

Float = np.ndarray[Any, np.dtype[np.float64]]
Bool = np.ndarray[Any, np.dtype[np.bool_]]
Int = np.ndarray[Any, np.dtype[np.int64]]


def accelerations(angle: Float, spin: Float, force: Float) -> tuple[Float, Float]:
    """Return the accelerations of the cart and of the pole's angle, by the equations of motion.

    angle, spin: the pole's angle from upright and its time derivative.
    force: the force on the cart.
    """
    sin, cos = np.sin(angle), np.cos(angle)
    pushed = (force + POLE * HALF_LENGTH * spin * spin * sin) / (CART + POLE)
    turn = (GRAVITY * sin - cos * pushed) / (HALF_LENGTH * (4 / 3 - POLE / (CART + POLE) * cos * cos))
    return pushed - POLE * HALF_LENGTH / (CART + POLE) * turn * cos, turn


def advance(state: Float, right: Bool) -> Float:
    """Return the states after one Euler step.

    state: (4, n) positions, speeds, angles and spins of n carts.
    right: whether each cart is pushed to the right; otherwise to the left.
    """
    _, speed, angle, spin = state
    acceleration, turn = accelerations(angle, spin, np.where(right, FORCE, -FORCE))
    return state + STEP * np.stack([speed, acceleration, spin, turn])


def fallen(state: Float) -> Bool:
    """Return which carts have left the track or dropped their pole."""
    result: Bool = (np.abs(state[0]) > MAX_POSITION) | (np.abs(state[2]) > MAX_ANGLE)
    return result


@dataclass(frozen=True, slots=True)
class Settings:
    """The hyperparameters of Appendix K.

    units: widths of the two hidden layers of the policy.
    batch_size: episodes between two updates.
    learning_rate: learning rate of Adam for the policy.
    discount: discount of future rewards.
    clipping: how far the likelihood ratio may move from 1.
    entropy: the weight of the policy's entropy.
    """

    units: tuple[int, int]
    batch_size: int
    learning_rate: float
    discount: float
    clipping: float
    entropy: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Episodes of every trial: states and actions of all steps, and the number of steps after each.

    trial: the trial that a step belongs to.
    lengths: steps of each episode, in the order in which they count.
    """

    states: Array  # (steps, 4)
    right: Array  # (steps,), 1 or 0
    ahead: Int  # (steps,)
    trial: Int  # (steps,)
    lengths: Int  # (trials, episodes)


class Adam:
    """Adam (Kingma and Ba, 2015) with its usual constants, on the flat parameters of a network."""

    def __init__(self, network: Perceptron, rate: float) -> None:
        self.network, self._rate, self._count = network, rate, 0
        self._mean, self._square = np.zeros_like(network.theta), np.zeros_like(network.theta)

    def step(self) -> None:
        """Take a step against the network's `slope`."""
        self._count += 1
        slope = self.network.slope
        self._mean += np.float32(0.1) * (slope - self._mean)
        self._square += np.float32(0.001) * (slope * slope - self._square)
        size = self._rate * math.sqrt(1 - 0.999**self._count) / (1 - 0.9**self._count)
        self.network.theta -= np.float32(size) * self._mean / (np.sqrt(self._square) + np.float32(1e-8))

    def keep(self, which: list[int]) -> None:
        """Keep only these networks of the stack."""
        self._mean, self._square = self.network.keep(which, self._mean, self._square)


def play(rng: np.random.Generator, policy: Perceptron, trials: int, episodes: int) -> Batch:
    """Play episodes of all trials in parallel until the last one has ended.

    rng: draws the first states and the actions.
    policy: a stack of one network per trial, whose output is the logit of a push to the right.
    """
    state = rng.uniform(-0.05, 0.05, size=(4, trials, episodes))
    alive = np.ones((trials, episodes), dtype=bool)
    episode = np.tile(np.arange(episodes), (trials, 1))
    every = np.arange(trials)[:, None]
    lengths = np.zeros((trials, episodes), dtype=int)
    steps = []
    for _ in range(MAX_STEPS):
        seen = state.transpose(1, 2, 0).astype(np.float32)
        right = rng.random(alive.shape) < _sigmoid(policy.predict(seen))
        trial, column = np.nonzero(alive)
        who = episode[trial, column]
        steps.append((seen[alive], right[alive], trial, who, lengths[trial, who]))
        lengths[trial, who] += 1
        state = advance(state, right)
        alive &= ~fallen(state)
        widest = int(alive.sum(axis=1).max())
        if not widest:
            break
        if widest <= alive.shape[1] // 2:  # move running episodes to the left and drop the columns of ended ones
            order = np.argsort(~alive, axis=1, kind="stable")[:, :widest]
            state, alive, episode = state[:, every, order], alive[every, order], episode[every, order]
    states, rights, trial, who, age = (np.concatenate(column) for column in zip(*steps, strict=True))
    return Batch(states, rights.astype(np.float32), lengths[trial, who] - age - 1, trial, lengths)


class Agents:
    """One policy per trial, and baselines of their returns, trained on batches of episodes."""

    def __init__(self, rng: np.random.Generator, settings: Settings, trials: int) -> None:
        self._rng, self._settings = rng, settings
        self.policy = Perceptron(rng, 4, settings.units, stack=(trials,))
        self._baseline = Perceptron(rng, 4, BASELINE_UNITS, stack=(trials,))
        self._policy_steps = Adam(self.policy, settings.learning_rate)
        self._baseline_steps = Adam(self._baseline, BASELINE_RATE)
        # The sum of k + 1 discounted rewards of 1 each, with k steps to come.
        self._returns = np.cumsum(settings.discount ** np.arange(MAX_STEPS)).astype(np.float32)

    def learn(self, batch: Batch) -> None:
        """Perform one round of PPO: steps on the clipped objective, and as many on the baseline's squared error."""
        rows, weights = self._subsets(batch)
        states, right, returns = batch.states[rows], batch.right[rows], self._returns[batch.ahead[rows]]
        advantages = [r - self._baseline.predict(x) for x, r in zip(states, returns, strict=True)]
        old = [_log_likelihood(self.policy.predict(x), a) for x, a in zip(states, right, strict=True)]
        for k, x in enumerate(states):
            first, second, logit = self.policy.forward(x)
            slope = objective_slope(logit, right[k], old[k], advantages[k], self._settings)
            self.policy.backward(x, first, second, -weights * slope)
            self._policy_steps.step()
            first, second, value = self._baseline.forward(x)
            self._baseline.backward(x, first, second, weights * (value - returns[k]))
            self._baseline_steps.step()

    def keep(self, which: list[int]) -> None:
        """Keep only these trials."""
        self._policy_steps.keep(which)
        self._baseline_steps.keep(which)

    def _subsets(self, batch: Batch) -> tuple[Int, Array]:
        """Draw a random tenth of each trial's steps for each update, with weights, because trials differ in length."""
        sizes = batch.lengths.sum(axis=1)
        counts = np.ceil(sizes * SHARE).astype(int)
        order = np.argsort(batch.trial, kind="stable")
        starts = np.cumsum(sizes) - sizes
        drawn = self._rng.random((UPDATES, len(sizes), counts.max()))
        rows = order[starts[:, None] + (drawn * sizes[:, None]).astype(int)]
        weights = (np.arange(counts.max()) < counts[:, None]) / counts[:, None]
        return rows, weights.astype(np.float32)


def objective(logit: Array, right: Array, old: Array, advantage: Array, settings: Settings) -> Array:
    """Return the clipped objective with the entropy bonus, per step (Schulman et al., 2017, Eq. 7 and 9).

    logit: logit of a push to the right under the policy that learns.
    right: the actions.
    old: the log-likelihood of the actions under the policy that chose them.
    advantage: the return minus the baseline.
    """
    ratio = _ratio(logit, right, old)
    clipped = np.clip(ratio, 1 - settings.clipping, 1 + settings.clipping)
    entropy = np.logaddexp(0, logit) - logit * _sigmoid(logit)
    result: Array = np.minimum(ratio * advantage, clipped * advantage) + np.float32(settings.entropy) * entropy
    return result


def objective_slope(logit: Array, right: Array, old: Array, advantage: Array, settings: Settings) -> Array:
    """Return the derivative of `objective` by the logit."""
    p = _sigmoid(logit)
    ratio = _ratio(logit, right, old)
    free = np.where(advantage > 0, ratio <= 1 + settings.clipping, ratio >= 1 - settings.clipping)
    result: Array = free * advantage * ratio * (right - p) - np.float32(settings.entropy) * logit * p * (1 - p)
    return result


def episodes_to_convergence(
    rng: np.random.Generator, settings: Settings, trials: int = 1, max_episodes: int = MAX_EPISODES
) -> list[int]:
    """Train new agents and return how many episodes each took until twenty in a row had full length.

    rng: draws all random numbers.
    settings: the hyperparameters.
    trials: number of agents.
    max_episodes: largest number of episodes; also the result of an agent that does not converge.
    """
    agents = Agents(rng, settings, trials)
    taken = [max_episodes] * trials
    active, streaks, done = list(range(trials)), [0] * trials, 0
    while True:
        batch = play(rng, agents.policy, len(active), min(settings.batch_size, max_episodes - done))
        for trial, lengths in zip(active, batch.lengths, strict=True):
            for number, length in enumerate(lengths, done + 1):
                streaks[trial] = streaks[trial] + 1 if length == MAX_STEPS else 0
                if streaks[trial] == CONVERGED_AFTER:
                    taken[trial] = number
                    break
        done += batch.lengths.shape[1]
        stay = [k for k, trial in enumerate(active) if streaks[trial] < CONVERGED_AFTER]
        if not stay or done == max_episodes:
            return taken
        agents.learn(batch)
        if len(stay) < len(active):
            agents.keep(stay)
            active = [active[k] for k in stay]


def _sigmoid(logit: Array) -> Array:
    result: Array = 0.5 * (1 + np.tanh(0.5 * logit))  # does not overflow
    return result


def _log_likelihood(logit: Array, right: Array) -> Array:
    return -np.logaddexp(0, np.where(right > 0, -logit, logit))


def _ratio(logit: Array, right: Array, old: Array) -> Array:
    result: Array = np.exp(np.minimum(_log_likelihood(logit, right) - old, 20))  # exp(20) is as good as infinite
    return result
