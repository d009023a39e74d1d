"""Evidence: the results that models are fitted to, as vectors."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bohb.core.density.observations import Observations
    from bohb.core.events import ObservationAdded
    from bohb.core.space import Array, Space
    from bohb.core.trial import Outcome, Trial

_RECENT = 1000  # vectors kept to tell where evaluations fail


class Evidence:
    """Results of this study and of earlier ones. Configurations are encoded when vectors are first needed.

    observations: D_b by budget.
    seen: in an adaptive study, the losses on each budget by encoded configuration.
    recent_ok, recent_failed: the vectors of the last successful and failed evaluations.
    n_failures: number of failed evaluations.
    """

    def __init__(self) -> None:
        self.observations: dict[float, Observations] = {}
        self.seen: dict[float, dict[bytes, float]] = {}
        self.recent_ok: deque[Array] = deque(maxlen=_RECENT)
        self.recent_failed: deque[Array] = deque(maxlen=_RECENT)
        self.n_failures = 0
        self._waiting: deque[tuple[float, Mapping[str, Any], float]] = deque()  # (budget, configuration, loss)

    def add(self, budget: float, config: Mapping[str, Any], loss: float | None) -> None:
        """Add a result; a failed evaluation has no loss, or +inf."""
        loss = math.inf if loss is None else loss
        self.n_failures += math.isinf(loss)
        self._waiting.append((budget, config, loss))

    def encode(self, space: Space, adaptive: bool) -> None:
        """Encode the results that were added since the last call."""
        if not self._waiting:
            return
        from bohb.core.density.observations import Observations  # not before vectors are needed: it imports numpy

        while self._waiting:
            budget, config, loss = self._waiting[0]
            vector = space.encode(space.restore(config))
            if budget not in self.observations:
                self.observations[budget] = Observations(space.d)
            self.observations[budget].add(vector, loss)
            if adaptive:
                self.seen.setdefault(budget, {})[vector.tobytes()] = loss
            (self.recent_failed if math.isinf(loss) else self.recent_ok).append(vector)
            self._waiting.popleft()


def collected(
    observed: Iterable[ObservationAdded],
    trials: Mapping[int, Trial],
    outcomes: Mapping[int, Outcome],
    forgotten: Container[int],
) -> Evidence:
    """Return the evidence of earlier studies and finished trials, without the forgotten ones."""
    evidence = Evidence()
    for event in observed:
        evidence.add(event.budget, event.config, event.loss)
    for number, outcome in outcomes.items():
        if trials[number].reuses is None and number not in forgotten:
            evidence.add(trials[number].budget, trials[number].config, outcome.ranking_loss)
    return evidence
