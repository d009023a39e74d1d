"""Lightning: a promoted configuration continues from its checkpoint, and the result is that of training through.

    python examples/lightning_continue.py

Lightning's checkpoint has weights, optimiser and counters, but no random generator. So the order of the data follows
from the epoch (a sampler with `set_epoch`) and dropout from the step: it does not matter how training got there.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import bohb

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "dropout": (0.0, 0.5), "batch": [32, 64, 128]}
X = torch.randn(384, 8, generator=torch.Generator().manual_seed(0))  # 256 rows to train on, the rest to validate
Y = (X[:, 0].sin() + X[:, 1] * X[:, 2] > 0).float()
QUIET: Any = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class _Network(lightning.LightningModule):
    def __init__(self, config: dict[str, Any], seed: int) -> None:
        super().__init__()
        self.lr, self.seed, self.loss, units = config["lr"], seed, nn.BCEWithLogitsLoss(), config["units"]
        self.layers = nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Dropout(config["dropout"]), nn.Linear(units, 1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def training_step(self, batch: list[torch.Tensor]) -> Any:
        torch.manual_seed(self.seed + self.global_step)
        return self.loss(self.layers(batch[0]).squeeze(1), batch[1])


def train(trial: bohb.Trial) -> dict[str, Any]:
    rows, path = TensorDataset(X[:256], Y[:256]), trial.checkpoint_dir and trial.checkpoint_dir / "last.ckpt"
    batches: Any = DataLoader(rows, trial.config["batch"], sampler=DistributedSampler(rows, 1, 0, seed=trial.seed))
    torch.set_num_threads(1)
    torch.manual_seed(trial.seed)
    network = _Network(trial.config, trial.seed)
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=round(trial.budget), **QUIET)
    trainer.fit(network, batches, ckpt_path=path if trial.previous_budget else None)
    if path:
        trainer.save_checkpoint(path)
    with torch.no_grad():
        return {"loss": network.loss(network.eval().layers(X[256:]).squeeze(1), Y[256:]).item()}


if __name__ == "__main__":
    study = bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=0)
    continued = [(trial, outcome) for trial, outcome in study.trials if trial.previous_budget]
    same = sum(train(replace(t, previous_budget=None))["loss"] == o.loss for t, o in continued if o)
    print(study, f"{same} of {len(continued)} continued trainings equal those trained through", sep="\n")
