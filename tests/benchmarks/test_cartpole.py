from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.problems import ppo
from benchmarks.problems.cartpole import CartPole
from benchmarks.problems.perceptron import Perceptron
from benchmarks.problems.ppo import (
    CART,
    GRAVITY,
    HALF_LENGTH,
    MAX_STEPS,
    POLE,
    Settings,
    accelerations,
    advance,
    fallen,
    play,
)

SANE = Settings(units=(32, 32), batch_size=16, learning_rate=2e-3, discount=0.99, clipping=0.2, entropy=0.01)
HOPELESS = {
    "n_units_1": 8,
    "n_units_2": 8,
    "batch_size": 256,
    "learning_rate": 1e-7,
    "discount": 0.0,
    "likelihood_ratio_clipping": 0.2,
    "entropy_regularization": 0.0,
}


def test_one_step_from_rest_is_as_computed_by_hand() -> None:
    """10/1.1 = 9.0909; θ̈ = −9.0909/(0.5 (4/3 − 0.1/1.1)) = −14.634; ẍ = 9.0909 + 0.05 · 14.634/1.1 = 9.7561."""
    after = advance(np.zeros((4, 2)), np.array([True, False]))
    np.testing.assert_allclose(after[:, 0], [0, 0.195121951, 0, -0.292682927], atol=1e-8)
    np.testing.assert_allclose(after[:, 1], -after[:, 0])
    again = advance(after, np.array([True, False]))
    assert again[0, 0] == pytest.approx(0.02 * 0.195121951)
    assert again[2, 0] == pytest.approx(-0.02 * 0.292682927)


def test_accelerations_fulfil_the_equations_of_motion() -> None:
    """Newton's law for cart and pole along the track, and for the rotation of the pole, with inertia 4/3 m l²."""
    rng = np.random.default_rng(0)
    angle, spin, force = rng.uniform(-3, 3, size=(3, 1000))
    x, turn = accelerations(angle, spin, force)
    sin, cos = np.sin(angle), np.cos(angle)
    momentum = (CART + POLE) * x + POLE * HALF_LENGTH * (turn * cos - spin**2 * sin)
    np.testing.assert_allclose(momentum, force, atol=1e-10)
    np.testing.assert_allclose(4 / 3 * HALF_LENGTH * turn + x * cos, GRAVITY * sin, atol=1e-10)


def test_energy_is_conserved_without_a_push() -> None:
    state = np.array([0.0, 0.3, 0.5, -0.2])

    def energy() -> float:
        _, v, angle, w = state
        turning = POLE * HALF_LENGTH * v * w * math.cos(angle) + 2 / 3 * POLE * HALF_LENGTH**2 * w**2
        return float(0.5 * (CART + POLE) * v**2 + turning + POLE * GRAVITY * HALF_LENGTH * math.cos(angle))

    before, step = energy(), 1e-4
    for _ in range(10_000):
        x, turn = accelerations(state[2:3], state[3:4], np.zeros(1))
        state = state + step * np.array([state[1], x[0], state[3], turn[0]])
    assert energy() == pytest.approx(before, rel=2e-3)
    assert abs(state[2]) > 1  # it fell in the meantime


def test_the_mirrored_state_moves_mirrored() -> None:
    rng = np.random.default_rng(1)
    state, right = rng.uniform(-1, 1, size=(4, 50)), rng.random(50) < 0.5
    np.testing.assert_allclose(advance(-state, ~right), -advance(state, right))


def test_an_episode_ends_beyond_the_track_or_twelve_degrees() -> None:
    state = np.zeros((4, 5))
    state[0, :3] = [2.39, 2.41, -2.41]
    state[2, 3:] = np.radians([11.9, -12.1])
    assert fallen(state).tolist() == [False, True, True, False, True]


def constant(trials: int, logit: float) -> Perceptron:
    """Return policies that choose the same action in every state."""
    policy = Perceptron(np.random.default_rng(0), 4, (8, 8), stack=(trials,))
    policy.theta[:] = 0
    policy.theta[-trials:] = logit  # the biases of the outputs come last
    return policy


def test_pushing_to_one_side_drops_the_pole_after_ten_steps() -> None:
    batch = play(np.random.default_rng(0), constant(3, 50.0), 3, 40)
    assert batch.lengths.shape == (3, 40)
    assert set(batch.lengths.ravel()) <= {8, 9, 10, 11}
    assert batch.right.min() == 1


def test_a_batch_has_every_step_of_every_episode_once() -> None:
    batch = play(np.random.default_rng(0), constant(2, 0.0), 2, 64)
    assert len(batch.states) == len(batch.right) == len(batch.ahead) == batch.lengths.sum()
    assert np.bincount(batch.trial).tolist() == batch.lengths.sum(axis=1).tolist()
    for trial, lengths in enumerate(batch.lengths):
        expected = np.concatenate([np.arange(length) for length in lengths])
        assert sorted(batch.ahead[batch.trial == trial]) == sorted(expected)
    assert 15 < batch.lengths.mean() < 30  # a coin keeps the pole up for about 22 steps
    starts = np.abs(batch.states[: 2 * 64])
    assert starts.max() <= 0.05
    assert not fallen(batch.states.T.astype(float)).any()


@pytest.mark.parametrize("clipping", [0.1, 0.6])
@pytest.mark.parametrize("entropy", [0.0, 0.7])
def test_the_slope_is_the_derivative_of_the_objective(clipping: float, entropy: float) -> None:
    rng = np.random.default_rng(3)
    settings = Settings((8, 8), 8, 1e-3, 0.9, clipping, entropy)
    logit, advantage = rng.normal(size=(2, 500)) * 2
    right = (rng.random(500) < 0.5).astype(float)
    old = -np.logaddexp(0, np.where(right > 0, -1, 1) * (logit + rng.normal(size=500) * 0.3))
    up, down = (ppo.objective(logit + h, right, old, advantage, settings) for h in (1e-5, -1e-5))
    slope = ppo.objective_slope(logit, right, old, advantage, settings)
    np.testing.assert_allclose(slope, (up - down) / 2e-5, atol=1e-5)


def test_ppo_learns_with_sane_hyperparameters() -> None:
    episodes = ppo.episodes_to_convergence(np.random.default_rng(0), SANE, trials=3)
    assert len(episodes) == 3
    assert np.median(episodes) < 1000
    assert min(episodes) >= ppo.CONVERGED_AFTER


def test_equal_seeds_give_equal_trials() -> None:
    once, again = (ppo.episodes_to_convergence(np.random.default_rng(5), SANE, 2, 48) for _ in range(2))
    assert once == again


def test_a_trial_is_given_up_after_3000_episodes(tmp_path: Path) -> None:
    problem = CartPole(tmp_path)
    assert problem.evaluate(HOPELESS, 1.0, 0).loss == 3000
    (kept,) = problem.evaluations.rows.values()
    assert kept["episodes"] == [3000]
    again = CartPole(tmp_path)
    assert again.evaluate(HOPELESS, 1.0, 0).loss == 3000
    assert len((tmp_path / "cartpole.jsonl").read_text().splitlines()) == 1


def test_the_budget_is_the_number_of_trials() -> None:
    problem = CartPole(max_episodes=40)
    evaluation = problem.evaluate(HOPELESS, 3.0, 1)
    assert (evaluation.loss, evaluation.cost) == (40, 3.0)
    (row,) = problem.evaluations.rows.values()
    assert row["episodes"] == [40, 40, 40]
    assert problem.budgets == (1.0, 3.0, 9.0)


def test_convergence_takes_twenty_full_episodes_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of one step every episode is full: the twentieth ends the trial, for every batch size."""
    monkeypatch.setattr(ppo, "MAX_STEPS", 1)
    for batch_size in (8, 20, 64):
        settings = Settings((8, 8), batch_size, 1e-3, 0.9, 0.2, 0.0)
        assert ppo.episodes_to_convergence(np.random.default_rng(0), settings, 2) == [20, 20]
    assert MAX_STEPS == 200
