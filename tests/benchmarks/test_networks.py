"""Training many networks at once gives the same result as training each alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from benchmarks.paper.networks import timing
from benchmarks.paper.networks.adam import step_plain
from benchmarks.paper.networks.data import Data, load
from benchmarks.paper.networks.space import RANGES, Configs, sample
from benchmarks.paper.networks.stack import Stack, groups, to_device
from benchmarks.paper.networks.train import main

CPU = torch.device("cpu")
WIDTH = 24


def blobs(rows: int = 90, classes: int = 3) -> Data:
    """Return well separated clusters in five dimensions; one third is for validation."""
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=rows)
    X = (rng.normal(size=(classes, 5))[y] * 2 + rng.normal(size=(rows, 5)) * 0.3).astype(np.float32)
    cut = rows * 2 // 3
    return Data(X[:cut], y[:cut], X[cut:], y[cut:], classes)


def three_networks() -> Configs:
    """Return different configurations, deepest first; one has a single layer."""
    return {
        "initial_lr": np.array([1e-2, 3e-3, 1e-2]),
        "batch_size": np.array([8.0, 11.0, 16.0]),
        "units": np.array([16.0, 24.0, 17.0]),
        "final_lr_fraction": np.array([1e-4, 1.0, 0.1]),
        "layers": np.array([3.0, 2.0, 1.0]),
        "dropout": np.array([0.3, 0.0, 0.5]),
    }


def one_network(stack: Stack, i: int) -> list[torch.Tensor]:
    """Return the weights of one network of a stack; the last rows are biases."""
    units, layers = int(stack.columns["units"][i]), int(stack.columns["layers"][i])
    weights = [stack.first.weight[i, [*range(stack.data.columns), stack.data.columns], :units]]
    for layer in range(1, layers):
        start = sum(stack.prefixes[1:layer])
        weights.append(stack.hidden.weight[start + i][[*range(units), stack.width], :units])
    weights.append(stack.last.weight[i][[*range(units), stack.width], : stack.data.classes])
    return [weight.clone().requires_grad_() for weight in weights]


def train_alone(
    stack: Stack, i: int, data: Data, rows: torch.Tensor, keeps: list[torch.Tensor], number: int, adam: torch.optim.Adam
) -> None:
    """Train one network for one epoch with autograd and torch's Adam, with the same batches and the same dropout."""
    (group,) = adam.param_groups
    lr, fraction = (float(stack.columns[name][i]) for name in ("initial_lr", "final_lr_fraction"))
    group["lr"] = lr * fraction ** (number / 50)
    units, size = int(stack.columns["units"][i]), int(stack.columns["batch_size"][i])
    X, y = torch.from_numpy(data.X_train), torch.from_numpy(data.y_train)
    for step in range(-(-len(X) // size)):
        chosen = rows[step, i, : min(size, len(X) - step * size)]
        h, weights = X[chosen], group["params"]
        for layer, weight in enumerate(weights[:-1]):
            keep = keeps[step][sum(stack.prefixes[:layer]) + i, : len(chosen), :units]
            h = torch.relu(h @ weight[:-1] + weight[-1]) * keep
        loss = torch.nn.functional.cross_entropy(h @ weights[-1][:-1] + weights[-1][-1], y[chosen])
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()


def train_together(stack: Stack, number: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Train a stack for one epoch; return its batches and its dropout."""
    rows, clock = stack.epoch(number)
    keeps = []
    for step in range(len(rows)):
        state = stack.random.get_state()
        keeps.append(stack.keep(rows.shape[2]))
        stack.random.set_state(state)
        stack.step(rows[step], stack.shares[step], clock[step], step_plain)
    return rows, keeps


def test_a_stack_trains_each_network_as_if_it_were_alone() -> None:
    data = blobs()
    stack = Stack(three_networks(), to_device(data, CPU), WIDTH, seed=1)
    alone = [torch.optim.Adam(one_network(stack, i), eps=1e-8) for i in range(3)]
    before = [weight.clone() for weight in alone[0].param_groups[0]["params"]]
    for number in range(3):
        rows, keeps = train_together(stack, number)
        for i, adam in enumerate(alone):
            train_alone(stack, i, data, rows, keeps, number, adam)
    for i, adam in enumerate(alone):
        for mine, theirs in zip(one_network(stack, i), adam.param_groups[0]["params"], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    after = alone[0].param_groups[0]["params"]
    assert all((a - b).abs().max() > 1e-3 for a, b in zip(after, before, strict=True))


def test_padding_stays_zero_and_the_constant_unit_one() -> None:
    stack = Stack(three_networks(), to_device(blobs(), CPU), WIDTH, seed=1)
    train_together(stack, 0)
    assert not stack.first.weight[0, :, 16:WIDTH].any()
    assert not stack.hidden.weight[0, 16:WIDTH].any()
    assert not stack.last.weight[0, 16:WIDTH].any()
    activations, _ = stack.forward(stack.data.X_train.expand(3, -1, -1), None)
    assert all((h[..., WIDTH] == 1).all() for h in activations[1:])


def test_a_network_rests_when_its_epoch_is_over() -> None:
    stack = Stack(three_networks(), to_device(blobs(), CPU), WIDTH, seed=1)
    rows, clock = stack.epoch(0)
    own = -(-60 // 16)
    for step in range(len(rows)):
        before = stack.first.weight.clone()
        stack.step(rows[step], stack.shares[step], clock[step], step_plain)
        assert torch.equal(stack.first.weight[2], before[2]) == (step >= own)
    assert len(rows) > own


def test_every_row_is_read_once_per_epoch() -> None:
    stack = Stack(three_networks(), to_device(blobs(), CPU), WIDTH, seed=1)
    rows, _ = stack.epoch(0)
    for i in range(3):
        read = rows[:, i][stack.shares[:, i, :, 0] > 0]
        assert sorted(read.tolist()) == list(range(60))


def test_a_dropout_rate_is_met_and_keeps_the_mean() -> None:
    stack = Stack(three_networks(), to_device(blobs(), CPU), WIDTH, seed=1)
    keep = stack.keep(2000)
    assert (keep[0] == 0)[:, :WIDTH].float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert keep[0].mean().item() == pytest.approx(1, abs=0.02)
    assert (keep[1] == 1).all()


def test_errors_are_those_of_each_network_alone() -> None:
    data = blobs()
    stack = Stack(three_networks(), to_device(data, CPU), WIDTH, seed=1)
    train_together(stack, 0)
    for i, error in enumerate(stack.errors()):
        h = torch.from_numpy(data.X_valid)
        *hidden, last = one_network(stack, i)
        for weight in hidden:
            h = torch.relu(h @ weight[:-1] + weight[-1])
        guess = (h @ last[:-1] + last[-1]).argmax(1)
        assert error.item() == pytest.approx((guess.numpy() != data.y_valid).mean())


def test_samples_fill_the_ranges_of_table_2() -> None:
    configs = sample(np.random.default_rng(0), 4000)
    for name, (low, high, log, whole) in RANGES.items():
        values = configs[name]
        assert values.min() >= low
        assert values.max() <= high
        assert not whole or (values == np.rint(values)).all()
        middle = np.sqrt(low * high) if log else (low + high) / 2
        below = ((values < middle).mean() + (values <= middle).mean()) / 2
        assert below == pytest.approx(0.5, abs=0.03), name


def test_groups_part_the_networks_and_bound_their_waste() -> None:
    configs = sample(np.random.default_rng(0), 300)
    found = groups(configs, (64, 256), ratio=1.5)
    assert sorted(np.concatenate(found).tolist()) == list(range(300))
    for members in found:
        sizes = configs["batch_size"][members]
        assert sizes.max() / sizes.min() < 1.5
        assert (np.diff(configs["layers"][members]) <= 0).all()


def write_raw(root: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(16, size=(300, 64)), rng.integers(10, size=300)
    np.savez(root / "optdigits.npz", X=X.astype(np.uint8), y=y.astype(np.uint8))
    columns = np.stack([rng.integers(90, size=120), rng.integers(3, size=120)], axis=1).astype(np.int32)
    np.savez(root / "adult.npz", X=columns, y=np.arange(120) % 2, categorical=np.array([False, True]))


def test_data_are_one_hot_standardised_and_split(tmp_path: Path) -> None:
    write_raw(tmp_path)
    data = load("adult", tmp_path, train_rows=50)
    assert data.X_train.shape == (50, 4)
    assert data.X_valid.shape == (40, 4)
    assert data.X_train.mean(0) == pytest.approx(0, abs=1e-6)
    assert data.X_train.std(0) == pytest.approx(1, abs=1e-5)
    assert all(len(np.unique(column)) == 2 for column in data.X_train.T[1:])


def test_missing_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="BOHB_DATA"):
        load("letter", tmp_path)
    with pytest.raises(ValueError, match="'iris' must be one of adult"):
        load("iris", tmp_path)


def run(tmp_path: Path, *more: str) -> Path:
    write_raw(tmp_path)
    words = f"--data {tmp_path} --out {tmp_path}/out --device cpu --sets optdigits adult --configs 5 --epochs 2".split()
    main([*words, "--rounds", "2", "--lanes", "2", *more])
    return tmp_path / "out"


def test_the_command_writes_whole_curves_and_repeats_itself(tmp_path: Path) -> None:
    stored = []
    for where in ("a", "b"):
        (tmp_path / where).mkdir()
        with np.load(run(tmp_path / where) / "adult.npz") as file:
            stored.append(dict(file))
    assert stored[0]["error"].shape == (10, 2)
    assert set(stored[0]) == {*RANGES, "error", "notes"}
    assert ((stored[0]["error"] > 0) & (stored[0]["error"] <= 1)).all()
    np.testing.assert_array_equal(stored[0]["error"], stored[1]["error"])


def test_what_does_not_fit_into_the_time_is_not_written(tmp_path: Path) -> None:
    assert not run(tmp_path, "--seconds", "0").exists()


def test_networks_alone_are_timed_for_each_data_set(tmp_path: Path) -> None:
    write_raw(tmp_path)
    words = f"--data {tmp_path} --out {tmp_path}/out --sets optdigits adult --configs 2 --least 0".split()
    threads = torch.get_num_threads()
    timing.main(words)
    torch.set_num_threads(threads)
    with np.load(tmp_path / "out" / "time.npz") as file:
        assert set(file) == {*RANGES, "seconds_optdigits", "seconds_adult", "notes"}
        assert (file["seconds_adult"] > 0).all()
