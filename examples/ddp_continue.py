"""Data-parallel PyTorch: each trial trains in two processes, and a promoted configuration continues its training.

    python examples/ddp_continue.py

The objective starts the processes of a trial itself and waits for them. They find each other through a file, so that no
port can be taken. If one of them fails, the others are ended, and the trial fails with its error. The first one saves
the checkpoint, which holds no random generator: the order of the data follows from `trial.seed` and the epoch.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed import barrier, destroy_process_group, init_process_group
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import bohb

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "batch": [16, 32, 64]}
PROCESSES = 2
CUDA = torch.cuda.is_available()
data = torch.Generator().manual_seed(0)
X = torch.randn(384, 8, generator=data)  # 256 rows to train on, the rest to validate
Y = (X[:, 0].sin() + X[:, 1] * X[:, 2] > 0).float()


def work(rank: int, trial: bohb.Trial, shared: str) -> None:
    """Train in one of the processes; the first one stores the loss."""
    torch.set_num_threads(1)
    backend, meeting = "nccl" if CUDA else "gloo", f"file://{shared}/meeting"
    init_process_group(backend, init_method=meeting, rank=rank, world_size=PROCESSES)
    device = torch.device("cuda", rank) if CUDA else torch.device("cpu")
    torch.manual_seed(trial.seed)
    units, done = trial.config["units"], round(trial.previous_budget or 0)
    plain = nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Linear(units, 1)).to(device)
    model = DistributedDataParallel(plain, device_ids=[rank] if CUDA else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=trial.config["lr"])
    loss = nn.BCEWithLogitsLoss()
    path = trial.checkpoint_dir / "state.pt" if trial.checkpoint_dir else None
    if done and path:
        state = torch.load(path, map_location=device)
        plain.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    rows = TensorDataset(X[:256], Y[:256])
    sampler: DistributedSampler[Any] = DistributedSampler(rows, PROCESSES, rank, seed=trial.seed % 2**31)
    loader = DataLoader(rows, trial.config["batch"] // PROCESSES, sampler=sampler)
    for epoch in range(done, round(trial.budget)):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x.to(device)).squeeze(1), y.to(device)).backward()
            optimizer.step()
    if rank == 0:
        if path:
            torch.save({"model": plain.state_dict(), "optimizer": optimizer.state_dict()}, path)
        with torch.no_grad():
            final = loss(plain(X[256:].to(device)).squeeze(1), Y[256:].to(device)).item()
        Path(shared, "loss").write_text(repr(final))
    barrier()
    destroy_process_group()


def train(trial: bohb.Trial) -> float:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    with tempfile.TemporaryDirectory() as shared:
        plain = replace(trial, reporter=None)  # it cannot be sent to a process
        method = "spawn"  # CUDA needs new processes; without it, copies of this one start faster
        if not CUDA:
            method = "fork"
        start_processes(work, (plain, shared), PROCESSES, start_method=method)
        return float(Path(shared, "loss").read_text())


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=3, max_brackets=2, seed=0, workers=1))
