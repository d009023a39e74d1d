"""The answers of a study: its best configuration, loss and trial, and its front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.trial import Trial


class BestResults:
    """The answers of a study, for whatever has its `history`."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def history(self) -> History:
            """Everything that happened."""

    @property
    def incumbent(self) -> Result | None:
        """The best configuration: the largest budget counts first, then the lowest loss. None if nothing succeeded."""
        return self.history.incumbent

    @property
    def best_config(self) -> dict[str, Any]:
        """The configuration of the incumbent. Raises NoResult if no trial has succeeded."""
        return dict(self.history.require_incumbent().config)

    @property
    def best_loss(self) -> float:
        """The loss of the incumbent, or the value of its first objective as the user returned it. Raises NoResult."""
        return self.history.goals.shown(self.history.require_incumbent().loss)

    @property
    def best_trial(self) -> Trial:
        """The trial of the incumbent. Raises NoResult if no trial has succeeded."""
        return self.history.require_incumbent().trial

    @property
    def front(self) -> list[Result]:
        """The results that no other dominates and that keep the constraints, by their first loss.

        They are those on the largest budget that has any. `Result.values` has what the objective returned.
        """
        return self.history.front
