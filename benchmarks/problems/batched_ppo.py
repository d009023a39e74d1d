"""Many PPO agents on the cart and pole at once, in torch: the algorithm of `ppo.py` with other random numbers.

Agents have their own hyperparameters. In every round, each of them plays a batch of episodes and learns from it; an
agent that has converged or used up its episodes makes room for another one. Batches differ in size, so episodes and
rows are packed into blocks of one agent each, which are computed with that agent's weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.problems import ppo
from benchmarks.problems.padded import Graphs, Layout, Parts, backward, forward
from benchmarks.problems.ppo import BASELINE_RATE, BASELINE_UNITS, MAX_STEPS, SHARE, UPDATES, Settings

WIDEST = 128  # units of a hidden layer
LANES, ROWS = 16, 160  # episodes and rows in a block
SIZES = 48  # a round computes a multiple of this number of blocks


@dataclass(slots=True)
class _Trials:
    """The agents of one configuration.

    slots: where they are.
    episodes: the numbers of episodes of those that have ended.
    """

    settings: Settings
    slots: list[int]
    episodes: dict[int, int] = field(default_factory=dict)


class Networks:
    """Padded networks with Adam, one per slot."""

    def __init__(self, units: tuple[int, int], slots: int, device: torch.device, compiled: bool) -> None:
        self.layout = Layout(4, units)
        shape = slots, self.layout.length
        self.theta, self.slope, self._mean, self._square = (torch.zeros(shape, device=device) for _ in range(4))
        self._rate, self._count = (torch.zeros(slots, 1, device=device) for _ in range(2))
        self._adam = torch.compile(adam, dynamic=True) if compiled else adam

    def start(self, slot: int, units: tuple[int, int], rate: float) -> None:
        """Draw a new network."""
        self.layout.draw(self.theta[slot], 4, units)
        self._mean[slot] = self._square[slot] = self._count[slot] = 0
        self._rate[slot] = rate

    def parts(self, slots: Tensor) -> Parts:
        """Return copies of weights and biases for blocks of these slots."""
        return self.layout.views(self.theta[slots])

    def learn(self, slots: Tensor, slopes: Tensor) -> None:
        """Take a step of Adam with the slopes of all blocks."""
        self.slope.zero_().index_add_(0, slots, slopes)
        self._count.add_(1)
        self._adam(self.theta, self._mean, self._square, self.slope, self._rate, self._count)


def adam(theta: Tensor, mean: Tensor, square: Tensor, slope: Tensor, rate: Tensor, count: Tensor) -> None:
    """Take a step of Adam in place; see `ppo.Adam`."""
    new_mean = mean + 0.1 * (slope - mean)
    new_square = square + 0.001 * (slope * slope - square)
    size = rate * torch.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    mean.copy_(new_mean)
    square.copy_(new_square)
    theta.sub_(size * new_mean / (new_square.sqrt() + 1e-8))


def policy_slope(
    layout: Layout, parts: Parts, states: Tensor, right: Tensor, old: Tensor, advantage: Tensor, clipping: Tensor,
    entropy: Tensor, weights: Tensor,
) -> Tensor:  # fmt: skip
    """Return the slope of the negative objective of every block, by the weights of the policy."""
    first, second, logit = forward(parts, states)
    slope = objective_slope(logit, right, old, advantage, clipping, entropy)
    return layout.flat(backward(parts, states, first, second, -weights * slope))


def baseline_slope(layout: Layout, parts: Parts, states: Tensor, returns: Tensor, weights: Tensor) -> Tensor:
    """Return the slope of half the baseline's squared error of every block."""
    first, second, value = forward(parts, states)
    return layout.flat(backward(parts, states, first, second, weights * (value - returns)))


def log_likelihood(logit: Tensor, right: Tensor) -> Tensor:
    """Return the log-likelihood of actions."""
    return -torch.nn.functional.softplus(torch.where(right > 0, -logit, logit))


def objective_slope(
    logit: Tensor, right: Tensor, old: Tensor, advantage: Tensor, clipping: Tensor, entropy: Tensor
) -> Tensor:
    """Return the derivative of the clipped objective with the entropy bonus by the logit; see `ppo.objective`."""
    p = torch.sigmoid(logit)
    ratio = torch.exp((log_likelihood(logit, right) - old).clamp(max=20))
    free = torch.where(advantage > 0, ratio <= 1 + clipping, ratio >= 1 - clipping)
    return free * advantage * ratio * (right - p) - entropy * logit * p * (1 - p)


def push(
    parts: Parts, state: Tensor, alive: Tensor, lengths: Tensor, uniform: Tensor, now: Tensor, seen: Tensor,
    right: Tensor,
) -> None:  # fmt: skip
    """Choose an action in every episode and advance it by one step, in place; see `ppo.advance`.

    parts: of the policies, whose output is the logit of a push to the right.
    state: (4, …) positions, speeds, angles and spins.
    now: the states as the policies see them (…, 4).
    seen: receives the next ones.
    right: receives the actions.
    """
    chosen = uniform < torch.sigmoid(forward(parts, now)[-1])
    position, speed, angle, spin = state
    force = chosen.double() * (2 * ppo.FORCE) - ppo.FORCE
    sin, cos = torch.sin(angle), torch.cos(angle)
    mass, lever = ppo.CART + ppo.POLE, ppo.POLE * ppo.HALF_LENGTH
    pushed = (force + lever * spin * spin * sin) / mass
    turn = (ppo.GRAVITY * sin - cos * pushed) / (ppo.HALF_LENGTH * (4 / 3 - ppo.POLE / mass * cos * cos))
    acceleration = pushed - lever / mass * turn * cos
    after = torch.stack([
        position + ppo.STEP * speed,
        speed + ppo.STEP * acceleration,
        angle + ppo.STEP * spin,
        spin + ppo.STEP * turn,
    ])  # fmt: skip
    fallen = (after[0].abs() > ppo.MAX_POSITION) | (after[2].abs() > ppo.MAX_ANGLE)
    right.copy_(chosen)
    lengths.add_(alive)
    # Episodes that have ended stay where they are, so that their numbers remain finite.
    moved = torch.where(alive, after, state)
    state.copy_(moved)
    seen.copy_(moved.permute(1, 2, 0))
    alive.copy_(alive & ~fallen)


class Agents:
    """Agents of many configurations, each with the trials of one evaluation."""

    def __init__(
        self,
        capacity: int,
        device: torch.device,
        compiled: bool = False,
        max_episodes: int = ppo.MAX_EPISODES,
    ) -> None:
        """Prepare the slots.

        capacity: the largest number of agents at the same time.
        compiled: whether to fuse what lies between the matrix products into few kernels.
        """
        self._device, self._max_episodes = device, max_episodes
        self._trials: dict[Any, _Trials] = {}
        self._free, self._owner = list(range(capacity)), dict[int, Any]()
        slots = capacity + 1  # empty blocks belong to the last slot
        self._batch, self._played, self._streak = (np.zeros(slots, dtype=int) for _ in range(3))
        self._policy = Networks((WIDEST, WIDEST), slots, device, compiled)
        self._baseline = Networks(BASELINE_UNITS, slots, device, compiled)
        self._returns = torch.zeros(slots, MAX_STEPS, device=device)
        self._clipping, self._entropy = (torch.zeros(slots, 1, device=device) for _ in range(2))
        self._push = torch.compile(push, dynamic=True) if compiled else push
        self._policy_slope = torch.compile(policy_slope, dynamic=True) if compiled else policy_slope
        self._baseline_slope = torch.compile(baseline_slope, dynamic=True) if compiled else baseline_slope
        self._graphs = Graphs(device)
        self._buffers: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, key: Any, settings: Settings, trials: int) -> None:
        """Start new agents.

        key: identifies their result.
        """
        slots = [self._free.pop() for _ in range(trials)]
        self._trials[key] = _Trials(settings, slots)
        for slot in slots:
            self._owner[slot] = key
            self._batch[slot], self._played[slot], self._streak[slot] = settings.batch_size, 0, 0
            self._policy.start(slot, settings.units, settings.learning_rate)
            self._baseline.start(slot, BASELINE_UNITS, BASELINE_RATE)
        discounts = np.cumsum(settings.discount ** np.arange(MAX_STEPS)).astype(np.float32)
        self._returns[slots] = torch.from_numpy(discounts).to(self._device)
        self._clipping[slots], self._entropy[slots] = settings.clipping, settings.entropy

    def advance(self) -> dict[Any, list[int]]:
        """Play and learn once with every agent; return the episodes of configurations whose agents have all ended."""
        agents = np.array(sorted(self._owner), dtype=int)
        if not len(agents):
            return {}
        episodes = np.minimum(self._batch[agents], self._max_episodes - self._played[agents])
        blocks = -(-episodes // LANES)
        owner = np.repeat(np.arange(len(agents)), blocks)
        used = np.minimum(LANES, episodes[owner] - LANES * _ranks(blocks))
        size = self._load("play", len(owner), slots=agents[owner], used=used)
        self._graphs.run(self.play, size)
        lengths = self._buffers["lengths"][:size].cpu().numpy()[: len(owner)]
        self._played[agents] += episodes
        self._judge(agents, lengths, owner, used)
        stay = np.array([agent in self._owner for agent in agents])
        self._learn_from(agents, lengths, owner, stay)
        return self._ended()

    def _judge(self, agents: Any, lengths: Any, owner: Any, used: Any) -> None:
        """Count full episodes in a row, and end agents that have converged or used up their episodes."""
        full = (lengths == ppo.MAX_STEPS) & (np.arange(LANES) < used[:, None])
        some = np.bincount(owner, full.any(axis=1), len(agents)) > 0
        for k, agent in enumerate(agents):
            if not some[k]:
                self._streak[agent] = 0
            else:
                mine = owner == k
                self._count(agent, full[mine].ravel()[: used[mine].sum()])
            if agent in self._owner and self._played[agent] == self._max_episodes:
                self._end(agent, self._max_episodes)

    def _count(self, agent: int, full: Any) -> None:
        """Continue an agent's streak with its episodes of this round."""
        streak = self._streak[agent]
        for number, is_full in enumerate(full, self._played[agent] - len(full) + 1):
            streak = streak + 1 if is_full else 0
            if streak == ppo.CONVERGED_AFTER:
                self._end(agent, number)
                return
        self._streak[agent] = streak

    def _end(self, agent: int, episodes: int) -> None:
        trials = self._trials[self._owner.pop(agent)]
        trials.episodes[agent] = int(episodes)

    def _ended(self) -> dict[Any, list[int]]:
        """Return the results of finished configurations, and free their slots."""
        done = {key: t for key, t in self._trials.items() if len(t.episodes) == len(t.slots)}
        for key, trials in done.items():
            self._free += trials.slots
            del self._trials[key]
        return {key: [trials.episodes[slot] for slot in trials.slots] for key, trials in done.items()}

    def _learn_from(self, agents: Any, lengths: Any, owner: Any, stay: Any) -> None:
        """Draw a random tenth of each agent's steps for each update, in blocks of rows."""
        sizes = np.bincount(owner, lengths.sum(axis=1), len(agents)).astype(int)
        starts = np.cumsum(sizes) - sizes
        counts = np.where(stay, np.ceil(sizes * SHARE).astype(int), 0)
        blocks = -(-counts // ROWS)
        rows = np.repeat(np.arange(len(agents)), blocks)
        if not len(rows):
            return
        size = self._load(
            "learn", len(rows), slots=agents[rows], ranks=_ranks(blocks), starts=starts[rows], sizes=sizes[rows],
            counts=counts[rows],
        )  # fmt: skip
        self._buffers["ends"].copy_(self._lane_ends())
        self._graphs.run(self.learn, size)

    def _lane_ends(self) -> Tensor:
        """Return for every episode the number of steps of all episodes up to it."""
        return self._buffers["lengths"].flatten().cumsum(0)

    def play(self, n: int) -> None:
        """Play the episodes of n blocks until the last one has ended."""
        slots, used = self._buffers["play.slots"][:n], self._buffers["play.used"][:n]
        seen, right, lengths = self._buffers["seen"], self._buffers["right"], self._buffers["lengths"]
        parts = self._policy.parts(slots)
        state = torch.empty(4, n, LANES, dtype=torch.float64, device=self._device).uniform_(-0.05, 0.05)
        alive = torch.arange(LANES, device=self._device) < used[:, None]
        lengths.zero_()
        uniform = torch.rand(MAX_STEPS, n, LANES, device=self._device)
        seen[0, :n] = state.permute(1, 2, 0)
        for t in range(MAX_STEPS):
            self._push(parts, state, alive, lengths[:n], uniform[t], seen[t, :n], seen[t + 1, :n], right[t, :n])

    def learn(self, n: int) -> None:
        """Perform one round of PPO with the rows of n blocks; see `ppo.Agents.learn`."""
        slots, ranks, starts, sizes, counts = (
            self._buffers[f"learn.{name}"][:n] for name in ("slots", "ranks", "starts", "sizes", "counts")
        )
        at = ranks[:, None] * ROWS + torch.arange(ROWS, device=self._device)
        weights = (at < counts[:, None]) / counts[:, None].clamp(min=1).float()
        drawn = torch.rand(UPDATES, n, ROWS, dtype=torch.float64, device=self._device)
        states, right, ahead = self._steps(starts[:, None] + (drawn * sizes[:, None]).long())
        returns = self._returns[slots[:, None], ahead]
        clipping, entropy = self._clipping[slots], self._entropy[slots]
        before, value = self._policy.parts(slots), self._baseline.parts(slots)
        advantages = [returns[k] - forward(value, states[k])[-1] for k in range(UPDATES)]
        old = [log_likelihood(forward(before, states[k])[-1], right[k]) for k in range(UPDATES)]
        for k in range(UPDATES):
            layout, parts = self._policy.layout, self._policy.parts(slots)
            slopes = self._policy_slope(
                layout, parts, states[k], right[k], old[k], advantages[k], clipping, entropy, weights
            )
            self._policy.learn(slots, slopes)
            layout, parts = self._baseline.layout, self._baseline.parts(slots)
            slopes = self._baseline_slope(layout, parts, states[k], returns[k], weights)
            self._baseline.learn(slots, slopes)

    def _steps(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return states, actions and the number of steps to come for steps counted over all episodes of a round."""
        ends, lengths = self._buffers["ends"], self._buffers["lengths"].flatten()
        lane = torch.searchsorted(ends, index, right=True).clamp(max=len(ends) - 1)
        ahead = (ends[lane] - 1 - index).clamp(0, MAX_STEPS - 1)
        t = (lengths[lane] - 1 - ahead).clamp(min=0)
        block, column = lane // LANES, lane % LANES
        return self._buffers["seen"][t, block, column], self._buffers["right"][t, block, column], ahead

    def _load(self, graph: str, number: int, **arrays: Any) -> int:
        """Copy the blocks to the device, followed by empty ones; return the number of all blocks."""
        size = self._graphs.size(number, SIZES)
        name = f"{graph}.slots"
        if name not in self._buffers or len(self._buffers[name]) < size:
            self._allocate(graph, size, list(arrays))
        for key, array in arrays.items():
            buffer = self._buffers[f"{graph}.{key}"]
            filled = np.full(len(buffer), len(self._batch) - 1 if key == "slots" else 0)
            filled[:number] = array
            buffer.copy_(torch.from_numpy(filled))
        return size

    def _allocate(self, graph: str, size: int, names: list[str]) -> None:
        """Make the buffers twice as large as needed now; graphs recorded with the old ones are dropped."""
        size *= 2
        self._graphs = Graphs(self._device)
        for name in names:
            self._buffers[f"{graph}.{name}"] = torch.zeros(size, dtype=torch.int64, device=self._device)
        if graph == "play":
            self._buffers["seen"] = torch.zeros(MAX_STEPS + 1, size, LANES, 4, device=self._device)
            self._buffers["right"] = torch.zeros(MAX_STEPS, size, LANES, device=self._device)
            self._buffers["lengths"] = torch.zeros(size, LANES, dtype=torch.int64, device=self._device)
            self._buffers["ends"] = torch.zeros(size * LANES, dtype=torch.int64, device=self._device)


def _ranks(blocks: Any) -> Any:
    """Return the position of each block among those of its agent."""
    return np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
