"""Train many configurations of Table 2 on the six data sets and record the validation error after every epoch.

    python -m benchmarks.paper.networks.train --data DIR --out DIR --configs 1000 --seconds 480    # on a GPU
    python -m benchmarks.paper.networks.train --device cpu --configs 8 --epochs 2 --rows 500 --sets optdigits --out DIR

Needs only torch and numpy (and Triton, which comes with torch for GPUs). All data sets use the same configurations, in
rounds of --configs, until --seconds have passed; incomplete rounds of a data set are discarded. Writes one NAME.npz per
data set: the hyperparameters (n,), `error` (n, epochs), and notes on how they were made.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.paper.networks.adam import Block, fused_available, step_fused, step_plain
from benchmarks.paper.networks.data import FILES, data_root, load
from benchmarks.paper.networks.space import EPOCHS, Configs, sample
from benchmarks.paper.networks.stack import DeviceData, Stack, groups, to_device

WIDTHS = (64, 128, 256)  # padded widths: half of the networks have up to 64 units, a quarter up to 128
RATIO = 2.0  # largest ratio of batch sizes within a group
ORDER = ("optdigits", "letter", "higgs", "poker", "adult", "mnist")  # cheap ones first
Adam = Callable[[Block, torch.Tensor], None]


@dataclass
class Job:
    """One data set in one round: its networks, and their curves so far."""

    name: str
    configs: Configs
    error: NDArray[np.float32]
    waiting: int  # groups of networks that are not finished


@dataclass(frozen=True, slots=True)
class Work:
    """One group of networks to train."""

    job: Job
    members: NDArray[np.intp]
    width: int
    data: DeviceData
    seed: int


def choose_adam(device: torch.device) -> Adam:
    """Return the fused kernel if it agrees with plain torch on this device, else plain torch."""
    if device.type != "cuda" or not fused_available():
        return step_plain
    random = torch.Generator(device=device).manual_seed(0)
    blocks = []
    for _ in range(2):
        random.manual_seed(0)
        weight, gradient, mean, square = torch.rand(4, 3, 40, 72, generator=random, device=device)
        blocks.append(Block(weight, gradient, mean, square, torch.tensor([0, 1, 0], device=device), 64))
    clock = torch.tensor([[0.01, 0.0], [1e-8, 1e-8], [1.0, 0.0]], device=device)
    step_plain(blocks[0], clock)
    step_fused(blocks[1], clock)
    same = all(
        torch.allclose(getattr(blocks[0], name), getattr(blocks[1], name), rtol=1e-5, atol=1e-7)
        for name in ("weight", "mean", "square")
    )
    print(f"fused Adam {'agrees with' if same else 'DIFFERS from, so we use'} plain torch", flush=True)
    return step_fused if same else step_plain


def advance(stack: Stack, adam: Adam, epochs: int, device: torch.device) -> Iterator[torch.Tensor]:
    """Train a stack and yield the errors of its networks after each epoch, without waiting for the device."""
    rows, clock = stack.epoch(0)
    buffers = [table[: stack.chunk].clone() for table in (rows, stack.shares, clock)]

    def chunk() -> None:
        for rows_now, share, clock_now in zip(*buffers, strict=True):
            stack.step(rows_now, share, clock_now, adam)

    play = _recorded(chunk, stack) if device.type == "cuda" else chunk
    for number in range(epochs):
        if number:
            rows, clock = stack.epoch(number)
        for start in range(0, len(rows), stack.chunk):
            for buffer, table in zip(buffers, (rows, stack.shares, clock), strict=True):
                buffer.copy_(table[start : start + stack.chunk])
            play()
        yield stack.errors()


def _recorded(chunk: Callable[[], None], stack: Stack) -> Callable[[], None]:
    """Record a chunk of steps as a CUDA graph, because dozens of small kernels per step would wait for Python."""
    saved = [
        (tensor, tensor.clone())
        for block in (stack.first, stack.hidden, stack.last)
        for tensor in (block.weight, block.mean, block.square)
    ]
    chunk()  # warm up: libraries allocate memory on first use, which is not allowed in a graph
    torch.cuda.current_stream().synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(stack.random)
    # `torch.cuda.graph` would wait for all streams first.
    graph.capture_begin(capture_error_mode="thread_local")
    chunk()
    graph.capture_end()
    for tensor, value in saved:
        tensor.copy_(value)
    return graph.replay


class Trainer:
    """Runs groups of networks on several streams of one device at once, so that short kernels overlap."""

    def __init__(self, device: torch.device, epochs: int, deadline: float, lanes: int) -> None:
        self.device, self.epochs, self.deadline = device, epochs, deadline
        self.adam = choose_adam(device)
        self.lanes = [self._stream() for _ in range(lanes)]
        if device.type == "cuda":
            torch.cuda.synchronize()  # the data were copied on another stream

    def _stream(self) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def run(self, work: Iterator[Work]) -> Iterator[Job]:
        """Train all groups of `work` until the deadline; yield every job whose last group is finished."""
        lanes = [self._lane(stream, work) for stream in self.lanes]
        while lanes:
            for lane in list(lanes):
                if time.monotonic() > self.deadline:
                    return
                job = next(lane, None)
                if job is None:
                    lanes.remove(lane)
                elif job.waiting == 0:
                    yield job

    def _lane(self, stream: torch.cuda.Stream | None, work: Iterator[Work]) -> Iterator[Job]:
        """Train the groups of `work` one after the other; yield after each epoch."""
        for item in work:
            yield from self._train(stream, item)

    def _train(self, lane: torch.cuda.Stream | None, work: Work) -> Iterator[Job]:
        """Train one group; yield when an epoch is queued, at most one epoch ahead of the device."""
        job, members = work.job, work.members
        with _on(lane):
            stack = Stack(
                {name: value[members] for name, value in job.configs.items()}, work.data, work.width, work.seed
            )
            curves = advance(stack, self.adam, self.epochs, self.device)
        found: list[torch.Tensor] = []
        behind: torch.cuda.Event | None = None
        for _ in range(self.epochs):
            with _on(lane):
                found.append(next(curves))
                ahead = lane.record_event() if lane is not None else None
            yield job
            if behind is not None:
                behind.synchronize()
            behind = ahead
        with _on(lane):
            job.error[members] = torch.stack(found, dim=1).cpu().numpy()
        job.waiting -= 1
        yield job


def _on(lane: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    return torch.cuda.stream(lane) if lane is not None else nullcontext()


def plan(configs: Configs, sets: dict[str, DeviceData], epochs: int, first_seed: int) -> Iterator[Work]:
    """Return all groups of a round; in each data set, long ones come first, so that short ones fill gaps."""
    found = groups(configs, WIDTHS, RATIO)
    found.sort(key=lambda members: float(configs["batch_size"][members].min()))
    count = len(configs["layers"])
    for name, data in sets.items():
        job = Job(name, configs, np.zeros((count, epochs), np.float32), len(found))
        for number, members in enumerate(found):
            width = min(value for value in WIDTHS if value >= configs["units"][members].max())
            yield Work(job, members, width, data, first_seed + number)


def save(out: Path, done: list[Job], notes: dict[str, object]) -> None:
    """Write one file per data set, with its complete rounds."""
    out.mkdir(parents=True, exist_ok=True)
    for name in {job.name for job in done}:
        mine = [job for job in done if job.name == name]
        columns = {key: np.concatenate([job.configs[key] for job in mine]) for key in mine[0].configs}
        error = np.concatenate([job.error for job in mine])
        np.savez_compressed(out / f"{name}.npz", error=error, notes=json.dumps(notes), **columns)  # type: ignore[arg-type]


def train(args: argparse.Namespace) -> list[Job]:
    """Train all rounds that fit into the time, and save after each."""
    began, device = time.monotonic(), torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    sets = {name: to_device(load(name, args.data, train_rows=args.rows), device) for name in args.sets}
    notes: dict[str, object] = {"torch": torch.__version__, "device": _device_name(device), "seed": args.seed}
    notes |= {"rows": {name: [len(data.X_train), len(data.X_valid)] for name, data in sets.items()}}
    trainer = Trainer(device, args.epochs, began + args.seconds, args.lanes)
    done: list[Job] = []
    for number in range(args.rounds):
        configs = sample(np.random.default_rng([args.seed, number]), args.configs)
        for job in trainer.run(plan(configs, sets, args.epochs, 1000 * number)):
            done.append(job)
            save(args.out, done, notes)
            print(f"round {number}: {job.name} after {time.monotonic() - began:.0f} s", flush=True)
        if (time.monotonic() - began) * (number + 2) / (number + 1) > args.seconds:
            break
    return done


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_root(), help="directory of the raw files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--configs", type=int, default=1000, help="networks per data set and round")
    parser.add_argument("--rounds", type=int, default=100, help="largest number of rounds")
    parser.add_argument("--seconds", type=float, default=480, help="stop after this many seconds")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rows", type=int, help="largest number of training rows (default: see data.py)")
    parser.add_argument("--sets", nargs="+", choices=list(FILES), default=list(ORDER))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--lanes", type=int, default=6, help="groups that train at the same time")
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args(words))


if __name__ == "__main__":
    main()
