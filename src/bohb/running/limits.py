"""How a session treats its trials."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.arguments import BYTES, COUNT, FLAG, GRACE, MOMENT, SECONDS, argument, check
from bohb.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session treats its trials.

    grace: seconds that running trials have after a deadline (`until` or `max_seconds`); then they are stopped. math.inf
        lets them finish. Stopped trials do not count as failed and run again when the study is resumed. With
        workers=None a running trial cannot be stopped: the study ends when it does.
    forget_failures: whether failures of earlier sessions no longer count as evidence for the sampler; use it after
        fixing a bug in the objective. Those of a session in which every trial failed are forgotten anyway if there were
        at least three, or if no trial of the study had ever succeeded.
    max_attempts: how often a trial is started before it counts as failed because its worker disappeared.
    lease_seconds: where several runners share a study, the time without a sign of life after which the others take
        over a runner's trials.
    checkpoints: whether trials get a directory; False for objectives that keep no state, on machines that share no file
        system.
    checkpoint_quota: bytes that checkpoints may take together.
    """

    grace: float = argument(0.0, GRACE, "limits.grace")
    forget_failures: bool = argument(False, FLAG)
    max_attempts: int = argument(3, COUNT, "trial.attempts")
    lease_seconds: float = argument(60.0, SECONDS)
    checkpoints: bool = argument(True, FLAG)
    checkpoint_quota: int | None = argument(None, BYTES, "checkpoint_quota")

    def __post_init__(self) -> None:
        check(self)


def deadline(until: object) -> float | None:
    """Return the argument `until` in seconds since the epoch. Raises InvalidArgument."""
    try:
        return None if until is None else MOMENT.read(until)
    except ValueError as error:
        raise InvalidArgument(f"until={until!r} {error}") from error
