"""Reinforcement learning: a policy that balances a pole, in one file, with its score maximised.

    python examples/cartpole_continue.py

The budget counts updates. A promoted configuration continues where its smaller budget ended: the checkpoint has the
policy, the optimiser, the random generator and the state of the carts. The environment is the cart and pole of Barto,
Sutton and Anderson (1983), 16 of them at once; with Gymnasium or Stable-Baselines3, save what they need to go on in the
same way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import bohb
from bohb.integrations import learners

SPACE = {
    "lr": (1e-4, 1e-1, "log"),
    "discount": (0.8, 0.999),
    "entropy": (1e-4, 1e-1, "log"),
    "units": (8, 64, "log"),
}
CARTS, STEPS, LONGEST = 16, 32, 200  # carts at once, steps per update, and steps of the longest episode


def moved(state: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Push every cart for 0.02 seconds. A state has position, speed, angle and angular speed."""
    _, speed, angle, turning = state.unbind(1)
    force = torch.where(right == 1, 10.0, -10.0)
    pull = (force + 0.05 * turning**2 * angle.sin()) / 1.1
    turn = (9.8 * angle.sin() - angle.cos() * pull) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
    push = pull - 0.05 * turn * angle.cos() / 1.1
    return state + 0.02 * torch.stack([speed, push, turning, turn], 1)


class Carts:
    """16 carts, each put back to the middle when its pole falls."""

    def __init__(self) -> None:
        self.state = {"carts": 0.1 * torch.rand(CARTS, 4) - 0.05, "age": torch.zeros(CARTS), "recent": torch.zeros(20)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self.state

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.state = state

    def step(self, right: torch.Tensor) -> torch.Tensor:
        """Push every cart; return where an episode has ended. `recent` has the lengths of the last 20 episodes."""
        carts, age = moved(self.state["carts"], right), self.state["age"] + 1
        over = (carts[:, 0].abs() > 2.4) | (carts[:, 2].abs() > 0.2095) | (age >= LONGEST)
        fresh = 0.1 * torch.rand(CARTS, 4) - 0.05
        recent = torch.cat([self.state["recent"], age[over]])[-20:]
        self.state = {"carts": torch.where(over[:, None], fresh, carts), "age": age * ~over, "recent": recent}
        return over


def train(trial: bohb.Trial) -> float:
    """Improve the policy until `trial.budget` updates are done, counted from the very beginning."""
    torch.set_num_threads(1)
    torch.manual_seed(trial.seed)
    units = trial.config["units"]
    network = nn.Sequential(nn.Linear(4, units), nn.Tanh(), nn.Linear(units, 3))  # two logits and a value
    optimizer = torch.optim.Adam(network.parameters(), lr=trial.config["lr"])
    carts = Carts()
    for number in learners.epochs(trial, network=network, optimizer=optimizer, carts=carts):
        update(network, optimizer, carts, trial.config)
        trial.report(number + 1, score := carts.state["recent"].mean().item())
    return score


def update(network: nn.Module, optimizer: torch.optim.Optimizer, carts: Carts, config: dict[str, Any]) -> None:
    """Play some steps with every cart, and make actions that did better than expected more likely."""
    seen, pushed, ended = [], [], []
    for _ in range(STEPS):
        with torch.no_grad():
            logits = network(carts.state["carts"])[:, :2]
        right = torch.multinomial(logits.softmax(1), 1).squeeze(1)
        seen.append(carts.state["carts"])
        pushed.append(right)
        ended.append(carts.step(right))
    with torch.no_grad():
        worth = network(carts.state["carts"])[:, 2]
    returns = []
    for over in reversed(ended):
        worth = 1 + config["discount"] * worth * ~over
        returns.append(worth)
    output = network(torch.cat(seen))
    chances = output[:, :2].log_softmax(1)
    chosen = chances.gather(1, torch.cat(pushed)[:, None]).squeeze(1)
    better = torch.cat(returns[::-1]) - output[:, 2]
    entropy = -(chances.exp() * chances).sum(1)
    scale = better.detach().std() + 1e-6
    loss = -(chosen * better.detach() / scale) + 0.5 * (better / scale) ** 2 - config["entropy"] * entropy
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=9, max_budget=81, max_brackets=1, seed=0, direction="maximize"))
