"""Flax: a promoted configuration continues from its checkpoint, and the result is that of uninterrupted training.

    python examples/flax_continue.py

The state of the model and of Optax's optimiser is one tree of arrays, which Flax turns into bytes. The random keys of
dropout are not part of it: each epoch has a key that follows from `trial.seed` and the number of the epoch, like the
order of the data.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx, serialization

import bohb

SPACE = {"learning_rate": (1e-4, 0.1, "log"), "b1": (0.5, 0.99)}
ADAM = optax.inject_hyperparams(optax.adam)(learning_rate=1e-3, b1=0.9)  # set for each trial, without compiling again
X = jax.random.normal(jax.random.key(0), (384, 8))  # 256 rows to train on, the rest to validate
Y = (jnp.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(jnp.float32)
NO_KEYS = nnx.Not(nnx.RngState)


class Network(nnx.Module):  # type: ignore[misc]
    """One hidden layer with dropout."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(8, 32, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, rows: jax.Array) -> jax.Array:
        return self.out(self.dropout(nnx.relu(self.hidden(rows))))[:, 0]


def loss_of(model: Network, rows: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.sigmoid_binary_cross_entropy(model(rows), labels).mean()


@nnx.jit  # type: ignore[untyped-decorator]
def step(model: Network, optimizer: nnx.Optimizer, rows: jax.Array) -> None:
    optimizer.update(model, nnx.grad(loss_of)(model, X[rows], Y[rows]))


def restore(parts: tuple[Network, nnx.Optimizer], path: Path) -> None:
    state = nnx.state(parts, NO_KEYS)
    nnx.replace_by_pure_dict(state, serialization.from_bytes(nnx.to_pure_dict(state), path.read_bytes()))
    nnx.update(parts, state)


def train(trial: bohb.Trial) -> float:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    model = Network(nnx.Rngs(trial.seed))
    optimizer = nnx.Optimizer(model, ADAM, wrt=nnx.Param)
    for name, value in trial.config.items():
        optimizer.opt_state.hyperparams[name][...] = value
    path, done = trial.checkpoint_dir / "state.msgpack" if trial.checkpoint_dir else None, trial.previous_budget or 0
    if done and path:
        restore((model, optimizer), path)
    model.train()
    for epoch in range(round(done), round(trial.budget)):
        nnx.reseed(model, default=jax.random.fold_in(jax.random.key(trial.seed), epoch))
        for rows in np.random.default_rng([trial.seed, epoch]).permutation(256).reshape(-1, 64):
            step(model, optimizer, rows)
    if path:
        path.write_bytes(serialization.to_bytes(nnx.to_pure_dict(nnx.state((model, optimizer), NO_KEYS))))
    model.eval()
    return float(loss_of(model, X[256:], Y[256:]))


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=0))
