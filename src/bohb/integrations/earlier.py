"""Results of another tool as a history for `warm_start=`."""

from __future__ import annotations

from collections.abc import Sequence

from bohb.core.events import ObservationAdded, StudyCreated
from bohb.core.history import History
from bohb.core.settings import Settings
from bohb.core.space import Space
from bohb.errors import InvalidArgument


def earlier(space: Space, observations: Sequence[ObservationAdded]) -> History:
    """Return the history of a study with these observations and no trial."""
    if not observations:
        raise InvalidArgument("there is no result to start from; leave warm_start out")
    budgets = tuple(sorted({event.budget for event in observations}))
    created = StudyCreated(space.to_json(), budgets, 3, 0, Settings().to_json())
    return History(space).extend([created, *observations])
