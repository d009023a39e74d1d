"""PyTorch: a promoted configuration continues from its checkpoint, and the result is that of training through.

    python examples/torch_continue.py [seed]

Training depends on the weights, the optimiser's state and the random generator, which decides dropout and the order of
the data. All three are in the checkpoint; `main` trains again without it and compares losses bit by bit.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import torch
from torch import nn

import bohb

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "dropout": (0.0, 0.5), "batch": [16, 32, 64]}
data = torch.Generator().manual_seed(0)
X = torch.randn(384, 8, generator=data)  # 256 rows to train on, the rest to validate
Y = (X[:, 0].sin() + X[:, 1] * X[:, 2] > 0).float()


def train(trial: bohb.Trial) -> dict[str, Any]:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    torch.set_num_threads(1)
    torch.manual_seed(trial.seed)
    units, done = trial.config["units"], round(trial.previous_budget or 0)
    model = nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Dropout(trial.config["dropout"]), nn.Linear(units, 1))
    loss = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=trial.config["lr"])
    if done and trial.checkpoint_dir:
        state = torch.load(trial.checkpoint_dir / "state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])  # last, for making the model has drawn from it
    for _ in range(done, round(trial.budget)):
        for rows in torch.split(torch.randperm(256), trial.config["batch"]):
            optimizer.zero_grad()
            loss(model(X[rows]).squeeze(1), Y[rows]).backward()
            optimizer.step()
    if trial.checkpoint_dir:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
        torch.save(state, trial.checkpoint_dir / "state.pt")
    with torch.no_grad():
        return {"loss": loss(model.eval()(X[256:]).squeeze(1), Y[256:]).item(), "info": {"continued_from": done}}


def main(seed: int = 0) -> None:
    study = bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=seed)
    print(study)
    continued = [
        (trial, outcome.loss) for trial, outcome in study.trials if outcome and outcome.info.get("continued_from")
    ]
    same = sum(train(replace(trial, previous_budget=None))["loss"] == loss for trial, loss in continued)
    print(f"{same} of {len(continued)} continued trainings equal those trained through")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
