"""A Hydra program that BOHB sweeps: each job gets its budget and its checkpoint directory as overrides.

    python examples/hydra_sweep.py --multirun hydra/sweeper=bohb hydra.sweeper.max_budget=9 \\
        hydra.sweeper.max_brackets=2 hydra.sweeper.checkpoint=checkpoint \\
        'lr=tag(log, interval(1e-4, 1.0))' 'units=range(8, 257)' 'act=choice(relu, tanh)'

Needs Hydra: pip install ".[hydra]"
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore


@dataclass
class Config:
    """What the program can be told."""

    lr: float = 0.01
    units: int = 64
    act: str = "relu"
    budget: int = 9
    checkpoint: str | None = None


ConfigStore.instance().store(name="config", node=Config)


@hydra.main(version_base=None, config_name="config")
def main(config: Config) -> float:
    """Stand for training: go on from the epoch of the checkpoint, and return the loss."""
    state = None if config.checkpoint is None else Path(config.checkpoint) / "state.json"
    epoch = json.loads(state.read_text())["epoch"] if state is not None and state.exists() else 0
    while epoch < config.budget:
        epoch += 1
    if state is not None:
        state.write_text(json.dumps({"epoch": epoch}))
    return abs(config.lr - 0.01) + abs(config.units - 64) / 64 + (config.act == "tanh") + 1 / epoch


if __name__ == "__main__":
    main()
