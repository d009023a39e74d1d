"""Lightning: a promoted configuration continues from its checkpoint, and the result is that of uninterrupted training.

    python examples/lightning_continue.py

Lightning's checkpoint has weights, optimiser and counters; `learners.train_lightning` adds the random generators, which
decide dropout and the order of the data.
"""

from __future__ import annotations

import logging
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bohb
from bohb.integrations import learners

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "dropout": (0.0, 0.5), "batch": [32, 64, 128]}
MAX_EPOCHS = 9
X = torch.randn(384, 8, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0].sin() + X[:, 1] * X[:, 2] > 0).float()
ROWS, VALID = TensorDataset(X[:256], Y[:256]), TensorDataset(X[256:], Y[256:])
QUIET: Any = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Network(lightning.LightningModule):
    """One hidden layer with dropout."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.lr, self.loss, units = config["lr"], nn.BCEWithLogitsLoss(), config["units"]
        self.layers = nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Dropout(config["dropout"]), nn.Linear(units, 1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def training_step(self, batch: list[torch.Tensor]) -> Any:
        return self.loss(self.layers(batch[0]).squeeze(1), batch[1])

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        self.log("val_loss", self.loss(self.layers(batch[0]).squeeze(1), batch[1]))


def train(trial: bohb.Trial) -> dict[str, Any]:
    torch.set_num_threads(1)
    lightning.seed_everything(trial.seed, verbose=False)
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=MAX_EPOCHS, **QUIET)
    batches: Any = DataLoader(ROWS, trial.config["batch"], shuffle=True)
    valid: Any = DataLoader(VALID, len(VALID))
    return learners.train_lightning(
        trial, trainer, Network(trial.config), train_dataloaders=batches, val_dataloaders=valid
    )


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=MAX_EPOCHS, max_brackets=1, seed=0))
