"""Evidence: the results that models are fitted to, as vectors."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bohb.core.goals import PLAIN, Goals

if TYPE_CHECKING:
    from bohb.core.events import ObservationAdded
    from bohb.core.samplers.observations import Observations
    from bohb.core.space import Array, Space
    from bohb.core.trial import Outcome, Trial

Standing = tuple[float, ...]  # as `Goals.standing` returns it
_RECENT = 1000  # vectors kept to tell where evaluations fail


class Evidence:
    """Results of this study and of earlier ones. Configurations are encoded when vectors are first needed.

    goals: how results compare; with several objectives or constraints, D_b is sorted by their order.
    observations: D_b by budget.
    recent_ok, recent_failed: the vectors of the last successful and failed evaluations.
    n_failures: number of failed evaluations.
    """

    def __init__(self, goals: Goals = PLAIN) -> None:
        self._goals = goals
        self.observations: dict[float, Observations] = {}
        self.recent_ok: deque[Array] = deque(maxlen=_RECENT)
        self.recent_failed: deque[Array] = deque(maxlen=_RECENT)
        self.n_failures = 0
        self._waiting: deque[tuple[float, Mapping[str, Any], Standing]] = deque()

    def add(self, budget: float, config: Mapping[str, Any], result: Outcome | ObservationAdded) -> None:
        """Add a result; a failed evaluation has no loss."""
        self.n_failures += result.loss is None
        self._waiting.append((budget, config, self._goals.standing(result.loss, result.values)))

    def encode(self, space: Space) -> None:
        """Encode the results that were added since the last call."""
        if not self._waiting:
            return
        # not before vectors are needed: it imports numpy
        from bohb.core.samplers.observations import Observations, RankedObservations

        while self._waiting:
            budget, config, standing = self._waiting[0]
            vector = space.encode(space.restore(config))
            if budget not in self.observations:
                self.observations[budget] = (Observations if self._goals.single else RankedObservations)(space.d)
            d_b = self.observations[budget]
            if isinstance(d_b, RankedObservations):
                d_b.add_standing(vector, standing)
            else:
                d_b.add(vector, standing[1])
            (self.recent_failed if math.isinf(standing[-1]) else self.recent_ok).append(vector)
            self._waiting.popleft()


def collected(
    goals: Goals,
    observed: Iterable[ObservationAdded],
    trials: Mapping[int, Trial],
    outcomes: Mapping[int, Outcome],
    forgotten: Container[int],
) -> Evidence:
    """Return the evidence of earlier studies and finished trials, without the forgotten ones."""
    evidence = Evidence(goals)
    for event in observed:
        evidence.add(event.budget, event.config, event)
    for number, outcome in outcomes.items():
        if trials[number].reuses is None and number not in forgotten:
            evidence.add(trials[number].budget, trials[number].config, outcome)
    return evidence
