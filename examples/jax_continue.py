"""JAX: a promoted configuration continues from its checkpoint, and the result is that of uninterrupted training.

    python examples/jax_continue.py

The state of training is one tree of arrays, parameters and momentum, which is saved leaf by leaf. JAX has no hidden
random generator: the keys of an epoch follow from `trial.seed` and the number of the epoch. `flax_continue.py` does the
same with Flax and Optax.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bohb

SPACE = {"lr": (1e-3, 1.0, "log"), "momentum": (0.0, 0.95), "dropout": (0.0, 0.5)}
UNITS, BATCH = 32, 64  # shapes that differ between trials are compiled anew
X = jax.random.normal(jax.random.key(0), (384, 8))  # 256 rows to train on, the rest to validate
Y = (jnp.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(jnp.float32)


def initial(key: jax.Array) -> Any:
    first, second = jax.random.split(key)
    weights = {
        "w1": jax.random.normal(first, (8, UNITS)) / 8**0.5,
        "b1": jnp.zeros(UNITS),
        "w2": jax.random.normal(second, (UNITS,)) / UNITS**0.5,
    }
    return {"weights": weights, "momentum": jax.tree.map(jnp.zeros_like, weights)}


def loss_of(weights: Any, rows: jax.Array, labels: jax.Array, keep: jax.Array | float = 1.0) -> jax.Array:
    hidden = jax.nn.relu(rows @ weights["w1"] + weights["b1"]) * keep
    logits = hidden @ weights["w2"]
    return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits)


@jax.jit  # type: ignore[untyped-decorator]
def epochs(state: Any, key: jax.Array, first: int, last: int, lr: float, momentum: float, dropout: float) -> Any:
    """Train from one epoch to another; the keys of an epoch follow from its number."""

    def step(state: Any, rows_and_key: Any) -> tuple[Any, None]:
        rows, key = rows_and_key
        keep = jax.random.bernoulli(key, 1 - dropout, (BATCH, UNITS)) / (1 - dropout)
        gradient = jax.grad(loss_of)(state["weights"], X[rows], Y[rows], keep)
        velocity = jax.tree.map(lambda v, g: momentum * v - lr * g, state["momentum"], gradient)
        return {"weights": jax.tree.map(jnp.add, state["weights"], velocity), "momentum": velocity}, None

    def epoch(number: int, state: Any) -> Any:
        order, masks = jax.random.split(jax.random.fold_in(key, number))
        batches = jax.random.permutation(order, 256).reshape(-1, BATCH)
        return jax.lax.scan(step, state, (batches, jax.random.split(masks, len(batches))))[0]

    return jax.lax.fori_loop(first, last, epoch, state)


def train(trial: bohb.Trial) -> float:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    key, done = jax.random.key(trial.seed), round(trial.previous_budget or 0)
    state = initial(key)
    leaves, structure = jax.tree.flatten(state)
    path = trial.checkpoint_dir / "state.npz" if trial.checkpoint_dir else None
    if done and path:
        with np.load(path) as stored:
            state = jax.tree.unflatten(structure, [stored[f"arr_{i}"] for i in range(len(leaves))])
    state = epochs(state, key, done, round(trial.budget), **trial.config)
    if path:
        np.savez(path, *jax.tree.leaves(state))
    return float(loss_of(state["weights"], X[256:], Y[256:]))


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=0))
