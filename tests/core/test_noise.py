"""A lead that noise explains is called so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bohb import BOHB, Outcome, Status
from bohb.core.confirm import continued
from bohb.core.confirm_estimate import conclusion
from bohb.core.confirm_start import planned
from bohb.core.events import RepeatFinished
from bohb.core.noise import known_noise, lead_within_noise


def study(losses: Sequence[float], settings: str = "paper", space: dict[str, object] | None = None) -> BOHB:
    optimizer = BOHB(space or {"x": (0.0, 1.0)}, budgets=[1], seed=1, settings=settings, duplicates=True)  # type: ignore[arg-type]
    for loss in losses:
        optimizer.tell(optimizer.ask(), loss)
    return optimizer


def test_nothing_is_said_while_the_noise_is_unknown() -> None:
    found = study([1.0, 1.001, 3.0]).history
    assert known_noise(found) is None
    assert lead_within_noise(found) is None


@pytest.mark.parametrize(("spread", "said"), [(0.5, True), (0.001, False)])
def test_the_noise_of_a_confirmation_decides(spread: float, said: bool) -> None:
    history = study([1.0, 1.2, 3.0]).history
    history.apply(planned(history, 3, 2, None))
    found = history.confirmations[0]
    for candidate in range(3):
        for repeat in range(2):
            outcome = Outcome(Status.OK, loss=1.0 + candidate + spread * repeat)
            found = continued(found, RepeatFinished(0, candidate, repeat, outcome))
    history.confirmations[0] = continued(found, conclusion(found, 1))
    line = lead_within_noise(history)
    assert (line is not None) == said
    if line is not None:
        assert line.startswith(
            "the next best, trial 1, is 0.2 behind: within the noise, since single evaluations deviate"
        )


def test_repetitions_show_the_noise() -> None:
    history = study([1.0, 1.5, 3.0, 2.6, 1.1, 1.9, 2.0, 2.2], space={"k": ["a", "b"]}).history
    noise = known_noise(history)
    assert noise is not None
    assert noise[1] == "measured by repeated evaluations"
    assert lead_within_noise(history) is not None


def test_the_gaussian_process_estimates_the_noise() -> None:
    rows = [0.1 * ((7 * i) % 5) for i in range(14)]  # unrelated to x
    noise = known_noise(study(rows, "best").history)
    assert noise is not None
    assert noise[1] == "estimated by the model"
    assert 0.01 < noise[0] < 1
