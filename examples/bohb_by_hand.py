"""BOHB by hand: Algorithms 1, 2 and 3 of the paper on `bohb.core` alone, without journal, workers or ask and tell.

    python examples/bohb_by_hand.py [seed]

The loss is Branin's function plus noise that shrinks as the budget grows. Comments cite the paper: Falkner,
Klein and Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale", ICML 2018.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from bohb.core.samplers import kde
from bohb.core.samplers.kde import Array, Density
from bohb.core.samplers.observations import Observations
from bohb.core.schedule.brackets import Bracket, geometric_budgets, hyperband
from bohb.core.schedule.halving import top_k
from bohb.core.space import Space

SPACE = Space({"x": (-5.0, 10.0), "y": (0.0, 15.0)})
ETA = 3
RHO = 1 / 3  # ρ: the share of random configurations
Q = 0.15  # q: the share of good observations
N_S = 64  # N_s: candidates per proposal
B_W = 3.0  # b_w: how much wider l′ is than l
N_MIN = SPACE.d + 1  # N_min: the points that each density needs (§4.1)
MINIMUM = 0.39788735772973816  # of Branin's function

Data = dict[float, Observations]  # D: the observations D_b of every budget b


def branin(x: float, y: float) -> float:
    """Return f(x), the true function."""
    parabola = y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6
    return parabola**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def evaluate(rng: np.random.Generator, vector: Array, budget: float) -> float:
    """Return f̃(x, b), the noisy value that the budget b buys (§3.2)."""
    return branin(**SPACE.decode(vector)) + rng.normal(scale=2 / budget)


def random_vector(rng: np.random.Generator) -> Array:
    return SPACE.encode(SPACE.sample(rng))


def density(points: Array) -> Density:
    """Fit a product of one-dimensional kernels with Scott's bandwidths (App. D)."""
    return kde.fit(points, SPACE.coordinates, kde.scott(points, SPACE.coordinates))


def sample(rng: np.random.Generator, data: Data) -> tuple[Array, str]:
    """Return the next configuration and its origin (Algorithm 2)."""
    if rng.random() < RHO:  # line 1
        return random_vector(rng), "random"
    enough = [b for b, d_b in data.items() if len(d_b) >= N_MIN + 2]  # line 2
    if not enough:  # line 3
        return random_vector(rng), "random"
    d_b = data[max(enough)]
    n = len(d_b)
    n_good = max(N_MIN, math.floor(Q * n))  # N_b,l of Eq. 3
    n_bad = max(N_MIN, n - n_good)  # N_b,g of Eq. 3
    good = density(d_b.ranked(0, n_good))  # line 4: l(x) of Eq. 2, fitted to the best …
    bad = density(d_b.ranked(n - n_bad, n))  # … and g(x), to the worst
    candidates = good.sample(rng, N_S, widen=B_W)  # line 5: from l′(x)
    ratio = good.log_density(candidates) - bad.log_density(candidates)
    return candidates[np.argmax(ratio)], "model"  # line 6: the highest l(x)/g(x)


def successive_halving(rng: np.random.Generator, bracket: Bracket, data: Data) -> list[dict[str, Any]]:
    """Run Algorithm 3. Algorithm 2 fills the first rung and learns from every loss at once (§4.1)."""
    rungs = bracket.rungs
    chosen: list[Array | None] = [None] * rungs[0].size  # C, not sampled yet (Alg. 1, line 3)
    report = []
    for i, rung in enumerate(rungs):  # lines 1, 2 and 5: b = b_0, then η·b, until b_max
        losses, vectors, origins = [], [], []
        for number, known in enumerate(chosen):
            vector, origin = (known, "promoted") if known is not None else sample(rng, data)
            loss = evaluate(rng, vector, rung.budget)  # line 3
            data.setdefault(rung.budget, Observations(SPACE.d)).add(vector, loss)
            losses.append((loss, number))
            vectors.append(vector)
            origins.append(origin)
        best = min(losses)
        row = {"budget": rung.budget, "origins": origins, "loss": best[0], "config": SPACE.decode(vectors[best[1]])}
        report.append(row)
        if i + 1 < len(rungs):
            chosen = [vectors[number] for number in top_k(losses, rungs[i + 1].size)]  # line 4
    return report


def main(seed: int = 0, rounds: int = 4) -> dict[str, Any]:
    """Run Algorithm 1 several times."""
    rng = np.random.default_rng(seed)
    budgets = geometric_budgets(1, 27, ETA)  # line 1: b_max·η^−s
    data: Data = {}
    rungs: list[dict[str, Any]] = []
    for number, bracket in enumerate(hyperband(budgets, ETA) * rounds):  # line 2: s = s_max … 0, again and again
        for rung in successive_halving(rng, bracket, data):  # lines 3 and 4
            rungs.append({"bracket": number, **rung})
            origins = {o: rung["origins"].count(o) for o in ("random", "model", "promoted")}
            print(f"bracket {number:2d}  budget {rung['budget']:4g}  {origins}  lowest loss {rung['loss']:8.4f}")
    best = min((rung for rung in rungs if rung["budget"] == budgets[-1]), key=lambda rung: float(rung["loss"]))
    regret = branin(**best["config"]) - MINIMUM
    print(f"best: {best['config']}, {regret:.4f} above the minimum")
    return {"config": best["config"], "loss": best["loss"], "regret": regret, "rungs": rungs}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
