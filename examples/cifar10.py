"""Tune a residual network on CIFAR-10, as in §5.5 of the paper: learning rate, momentum, weight decay and batch size.

    python examples/cifar10.py --data DIRECTORY              # on a GPU
    python examples/cifar10.py --tiny                        # on a CPU, with made-up images, in seconds

The network has depth 20 and base width 64, Shake-Shake (Gastaldi, 2017) and Cutout (DeVries and Taylor, 2017); 5 000
training images are held back for validation. The budget is a number of epochs. The learning rate follows a cosine over
the epochs that a trial adds, and a promoted configuration continues from its checkpoint.

On a GPU, one training step is captured as a CUDA graph, so that its few hundred kernels are launched at once.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

import bohb

SPACE = {
    "learning_rate": (1e-3, 1.0, "log"),
    "momentum": (0.5, 0.99),
    "weight_decay": (1e-6, 1e-2, "log"),
    "log2_batch_size": (6, 9),
}
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
HELD_BACK = 5_000
PADDING, CUTOUT = 4, 16


# ---------------------------------------------------------------------------------------------------------- the data


@dataclass(frozen=True)
class Images:
    """Images as (n, height, width, 3) in the network's precision, normalised; labels as (n,)."""

    x: Tensor
    y: Tensor

    def pick(self, rows: Tensor) -> Images:
        """Return some of the images."""
        return Images(self.x[rows], self.y[rows])


@dataclass(frozen=True)
class Data:
    """Training, validation and test images, and the training images that include the validation images."""

    train: Images
    validation: Images
    test: Images
    all: Images


def read_mosaic(path: Path) -> np.ndarray:
    """Read 10 000 images from a mosaic of 100 × 100 images, row by row."""
    Image.MAX_IMAGE_PIXELS = None
    pixels = np.asarray(Image.open(path).convert("RGB"))
    return pixels.reshape(100, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)


def load(directory: Path, device: torch.device) -> Data:
    """Read CIFAR-10 from the mosaics and labels that `tools/cifar10_data.py` wrote."""
    labels = json.loads((directory / "labels.json").read_text())
    batches = [read_mosaic(directory / f"data_batch_{i}.webp") for i in range(1, 6)]
    train = _images(np.concatenate(batches), np.array(labels["train"]), device)
    test = _images(read_mosaic(directory / "test_batch.webp"), np.array(labels["test"]), device)
    return split(train, test, HELD_BACK)


def made_up(device: torch.device, n: int = 320) -> Data:
    """Make noisy images whose class shows as their colour: enough to see that training works."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 160, size=(10, 3), dtype=np.uint8)
    y = rng.integers(10, size=2 * n)
    x = rng.integers(0, 96, size=(2 * n, 32, 32, 3), dtype=np.uint8) + colours[y][:, None, None]
    return split(_images(x[:n], y[:n], device), _images(x[n:], y[n:], device), n // 4)


def split(train: Images, test: Images, held_back: int) -> Data:
    """Hold back some training images, always the same ones."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(train.y))).to(train.y.device)
    return Data(train.pick(order[held_back:]), train.pick(order[:held_back]), test, train)


def _images(x: np.ndarray, y: np.ndarray, device: torch.device) -> Images:
    precision = torch.bfloat16 if device.type == "cuda" else torch.float32
    scaled = (torch.from_numpy(x).to(device).float() / 255 - torch.tensor(MEAN, device=device)) / torch.tensor(
        DEVIATION, device=device
    )
    return Images(scaled.to(precision), torch.from_numpy(y).to(device, torch.int64))


def padded(images: Images) -> Tensor:
    """Pad images on all sides, so that a shifted crop is a plain slice."""
    return functional.pad(images.x, (0, 0, PADDING, PADDING, PADDING, PADDING))


def augmented(x: Tensor, rows: Tensor) -> Tensor:
    """Crop, flip and cut out at random: (batch, 3, 32, 32) from the padded images x at `rows`."""
    n, device, side = len(rows), x.device, x.shape[1] - 2 * PADDING
    line = torch.arange(side, device=device)
    top = torch.randint(2 * PADDING + 1, (n, 1), device=device)
    left = torch.randint(2 * PADDING + 1, (n, 1), device=device)
    mirrored = torch.rand((n, 1), device=device) < 0.5
    down, across = top + line, left + torch.where(mirrored, side - 1 - line, line)
    crop = x[rows[:, None, None], down[:, :, None], across[:, None, :]]
    centre = torch.randint(side, (n, 2), device=device)
    half = CUTOUT // 2
    hidden_rows = (line >= centre[:, :1] - half) & (line < centre[:, :1] + half)
    hidden_columns = (line >= centre[:, 1:] - half) & (line < centre[:, 1:] + half)
    hidden = hidden_rows[:, :, None] & hidden_columns[:, None, :]
    return crop.masked_fill(hidden[..., None], 0).permute(0, 3, 1, 2)


# ------------------------------------------------------------------------------------------------------- the network


class Branch(nn.Sequential):
    """ReLU, 3 × 3 convolution, batch normalisation, twice."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__(
            nn.ReLU(),
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )


class Shortcut(nn.Module):
    """Halve the resolution by two strided 1 × 1 convolutions, one of them shifted by a pixel."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer // 2, 1, bias=False)
        self.second = nn.Conv2d(inner, outer // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(outer)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input in half its resolution."""
        x = functional.relu(x)
        shifted = functional.pad(x[:, :, 1:, 1:], (0, 1, 0, 1))
        return self.norm(torch.cat([self.first(x[:, :, ::2, ::2]), self.second(shifted[:, :, ::2, ::2])], 1))


class Block(nn.Module):
    """A residual block whose two branches are mixed at random, per image, and differently in the backward pass."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.left, self.right = Branch(inner, outer, stride), Branch(inner, outer, stride)
        widened = Shortcut(inner, outer) if stride == 2 else nn.Conv2d(inner, outer, 1, bias=False)
        self.shortcut = nn.Identity() if inner == outer else widened

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output: αl + (1 − α)r forwards, βl + (1 − β)r backwards."""
        left, right = self.left(x), self.right(x)
        if not self.training:
            return self.shortcut(x) + 0.5 * (left + right)
        alpha, beta = torch.rand((2, len(x), 1, 1, 1), device=x.device, dtype=x.dtype)
        mixed = right + beta * (left - right) + ((alpha - beta) * (left - right)).detach()
        return self.shortcut(x) + mixed


class Network(nn.Module):
    """A Shake-Shake network of depth 6·blocks + 2: 20 for three blocks, with about 8.5 million parameters."""

    def __init__(self, width: int = 64, blocks: int = 3) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16))
        stages: list[nn.Module] = []
        inner = 16
        for stage in range(3):
            outer = width * 2**stage
            for block in range(blocks):
                stages.append(Block(inner, outer, 2 if stage and not block else 1))
                inner = outer
        self.stages = nn.Sequential(*stages)
        self.last = nn.Linear(inner, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        return self.last(functional.relu(self.stages(self.first(x))).mean((2, 3)))


# ------------------------------------------------------------------------------------------------------ the training


class Trainer:
    """Trains one network for a batch size; hyperparameters are tensors, so that one captured step serves all of them.

    Weights, gradients and momenta lie in one flat tensor each: SGD with Nesterov's momentum is then a handful of
    operations, and a checkpoint is two tensors and the running means of the batch normalisation.
    """

    def __init__(
        self, images: Images, batch_size: int, width: int = 64, blocks: int = 3, compiled: bool = False
    ) -> None:
        self.images, self.device = images, images.x.device
        self.batch = min(batch_size, len(images.y))
        self._padded = padded(images)
        self.network = Network(width, blocks).to(self.device)
        shapes = [p.shape for p in self.network.parameters()]
        sizes = [p.numel() for p in self.network.parameters()]
        self.weights, self._gradients, self._velocity = torch.zeros((3, sum(sizes)), device=self.device)
        for p, w, g in zip(
            self.network.parameters(), self.weights.split(sizes), self._gradients.split(sizes), strict=True
        ):
            p.data, p.grad = _view(w, p.shape), _view(g, p.shape)
        assert [p.shape for p in self.network.parameters()] == shapes
        self._lr, self._momentum, self._decay, self._step, self._steps = torch.zeros(5, device=self.device).unbind()
        self._rows = torch.zeros(self.batch, dtype=torch.int64, device=self.device)
        self._loss = torch.zeros((), device=self.device)
        self._forward = torch.compile(self.network) if compiled else self.network
        self._graph: Any = None

    def start(self, seed: int) -> None:
        """Initialise the network as PyTorch does, from a seed."""
        torch.manual_seed(seed)
        for module in self.network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
                module.reset_parameters()
        self._velocity.zero_()

    def state(self) -> dict[str, Any]:
        """Return everything that training goes on from."""
        return {"weights": self.weights, "velocity": self._velocity, "buffers": dict(self.network.named_buffers())}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state."""
        self.weights.copy_(state["weights"])
        self._velocity.copy_(state["velocity"])
        for name, buffer in self.network.named_buffers():
            buffer.copy_(state["buffers"][name])

    def train(self, epochs: int, seed: int, learning_rate: float, momentum: float, weight_decay: float) -> float:
        """Train for some epochs with a cosine schedule; returns the mean loss of the last one."""
        steps = len(self.images.y) // self.batch
        for tensor, value in (
            (self._lr, learning_rate), (self._momentum, momentum), (self._decay, weight_decay),
            (self._step, 0.0), (self._steps, float(epochs * steps)),
        ):  # fmt: skip
            tensor.fill_(value)
        self.network.train()
        step = self._captured()
        torch.manual_seed(seed)
        for _ in range(epochs):
            self._loss.zero_()
            order = torch.randperm(len(self.images.y), device=self.device)[: steps * self.batch].view(steps, -1)
            for rows in order.unbind():
                self._rows.copy_(rows)
                step()
        return float(self._loss) / steps

    def _captured(self) -> Any:
        """Return one training step: a CUDA graph that was captured once, or plain code on a CPU."""
        if self.device.type != "cuda":
            return self._one_step
        if self._graph is None:
            kept = {name: _copied(value) for name, value in self.state().items()}
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # warm up outside the capture, as CUDA graphs require
                for _ in range(3):
                    self._one_step()
            torch.cuda.current_stream().wait_stream(stream)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._one_step()
            self.restore(kept)
            self._step.zero_()
        return self._graph.replay

    def _one_step(self) -> None:
        """Take one step of SGD with Nesterov's momentum and L2 regularisation."""
        x = augmented(self._padded, self._rows)
        self._gradients.zero_()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            scores = self._forward(x)
        loss = functional.cross_entropy(scores.float(), self.images.y[self._rows])
        loss.backward()
        rate = self._lr * 0.5 * (1 + torch.cos(math.pi * self._step / self._steps))
        gradients = self._gradients.addcmul_(self.weights, self._decay)
        self._velocity.mul_(self._momentum).add_(gradients)
        self.weights.sub_((gradients + self._momentum * self._velocity) * rate)
        self._step.add_(1)
        self._loss.add_(loss.detach())

    @torch.no_grad()
    def error(self, images: Images, batch: int = 1000) -> float:
        """Return the share of images that are classified wrongly."""
        self.network.eval()
        wrong = torch.zeros((), device=self.device)
        for x, y in zip(images.x.split(batch), images.y.split(batch), strict=True):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                scores = self.network(x.permute(0, 3, 1, 2))
            wrong += (scores.argmax(1) != y).sum()
        return float(wrong) / len(images.y)


def _view(flat: Tensor, shape: torch.Size) -> Tensor:
    """View a part of a flat tensor as a weight; convolutions in the channels-last layout, which is faster on GPUs."""
    if len(shape) != 4:
        return flat.view(shape)
    outer, inner, height, width = shape
    return flat.view(outer, height, width, inner).permute(0, 3, 1, 2)


def _copied(value: Any) -> Any:
    return {k: v.clone() for k, v in value.items()} if isinstance(value, dict) else value.clone()


class Objective:
    """Trains a configuration for the epochs that its budget adds and returns its validation error.

    The reported cost is the number of seconds on the GPU.
    """

    def __init__(self, data: Data, width: int = 64, blocks: int = 3, compiled: bool = False) -> None:
        self._data, self._arguments = data, (width, blocks, compiled)
        self._trainers: dict[int, Trainer] = {}

    def trainer(self, batch_size: int) -> Trainer:
        """Return the trainer for a batch size, made when it is first needed."""
        if batch_size not in self._trainers:
            self._trainers[batch_size] = Trainer(self._data.train, batch_size, *self._arguments)
        return self._trainers[batch_size]

    def __call__(self, trial: bohb.Trial) -> dict[str, Any]:
        """Evaluate one trial."""
        config = dict(trial.config)
        trainer = self.trainer(2 ** config.pop("log2_batch_size"))
        began = time.perf_counter()
        assert trial.checkpoint_dir is not None
        checkpoint = trial.checkpoint_dir / "state.pt"
        if trial.previous_budget is None:
            trainer.start(trial.seed)
        else:
            trainer.restore(torch.load(checkpoint, map_location=trainer.device, weights_only=True))
        epochs = round(trial.budget - (trial.previous_budget or 0))
        loss = trainer.train(epochs, trial.seed + round(trial.budget), **config)
        error = trainer.error(self._data.validation) if math.isfinite(loss) else math.nan
        test = trainer.error(self._data.test) if math.isfinite(loss) else math.nan
        torch.save(trainer.state(), checkpoint)
        return {"loss": error, "cost": time.perf_counter() - began, "info": {"train_loss": loss, "test_error": test}}


def main() -> None:
    """Tune the network and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the directory that tools/cifar10_data.py wrote")
    parser.add_argument("--tiny", action="store_true", help="a small network and made-up images, on a CPU")
    parser.add_argument("--journal", default="cifar10.db")
    parser.add_argument("--hours", type=float, default=8.0)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() and not options.tiny else "cpu")
    if options.tiny:
        objective = Objective(made_up(device, 80), width=4, blocks=1)
        extent: dict[str, Any] = {"max_budget": 3, "max_cost": 4}
    else:
        objective = Objective(load(options.data, device))
        extent = {"max_budget": 81, "max_reported_cost": 3600 * options.hours}
    study = bohb.minimize(objective, SPACE, min_budget=1, **extent, preset="best", journal=options.journal, seed=0)
    print(study)


if __name__ == "__main__":
    main()
