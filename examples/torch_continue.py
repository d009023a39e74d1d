"""PyTorch: a promoted configuration continues from its checkpoint, and the result is that of uninterrupted training.

    python examples/torch_continue.py

Training depends on the weights, the optimiser's state and the random generator, which decides dropout and the order of
the data. `learners.epochs` restores all three, and saves them in the end.
"""

from __future__ import annotations

import torch
from torch import nn

import bohb
from bohb.integrations import learners

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "dropout": (0.0, 0.5), "batch": [16, 32, 64]}
data = torch.Generator().manual_seed(0)
X = torch.randn(384, 8, generator=data)  # 256 rows to train on, the rest to validate
Y = (X[:, 0].sin() + X[:, 1] * X[:, 2] > 0).float()


def train(trial: bohb.Trial) -> float:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    torch.set_num_threads(1)
    torch.manual_seed(trial.seed)
    units, loss = trial.config["units"], nn.BCEWithLogitsLoss()
    model = nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Dropout(trial.config["dropout"]), nn.Linear(units, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=trial.config["lr"])
    for epoch in learners.epochs(trial, model=model, optimizer=optimizer):
        for rows in torch.split(torch.randperm(256), trial.config["batch"]):
            optimizer.zero_grad()
            loss(model.train()(X[rows]).squeeze(1), Y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            validation = float(loss(model.eval()(X[256:]).squeeze(1), Y[256:]))
        trial.report(epoch + 1, validation)
    return validation


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=0))
