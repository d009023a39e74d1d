"""JAX: a promoted configuration continues from its checkpoint, and the result is that of training through.

    python examples/jax_continue.py [seed]

The state of training is one tree of arrays, parameters and momentum, which is saved leaf by leaf. JAX has no hidden
random generator: the keys of an epoch follow from `trial.seed` and the number of the epoch. `flax_continue.py` does the
same with Flax and Optax.
"""

from __future__ import annotations

import sys
from dataclasses import replace
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


def train(trial: bohb.Trial) -> dict[str, Any]:
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
    return {"loss": float(loss_of(state["weights"], X[256:], Y[256:])), "info": {"continued_from": done}}


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
