"""Functions of the user that the runner calls after each finished trial."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument
from bohb.optimizer.ask_tell import BOHB
from bohb.running.study import Study, T

log = logging.getLogger("bohb")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RunningStudy(Study):
    """A study while it runs; callbacks are called with it.

    latest: the trial that has just finished, with its outcome.
    """

    latest: tuple[Trial, Outcome]
    _callbacks: Callbacks
    _optimizer: BOHB

    def stop(self, reason: str = "") -> None:
        """Start no further trial, and end the session when the running ones have finished; the study can be resumed.

        Where several runners share the study, only this one stops.

        reason: becomes `stopped` of the returned study.
        """
        self._callbacks.stopped = reason or "a callback stopped the study"

    def _change(self, act: Callable[[BOHB], T]) -> T:
        return act(self._optimizer)


Callback = Callable[[RunningStudy], object]


class Callbacks:
    """Calls the functions, and remembers which of them failed and whether one of them stopped the study.

    functions: each is called with a RunningStudy. An exception is logged the first time, and the study goes on.
    """

    def __init__(self, functions: Iterable[Callback]) -> None:
        self._functions = checked_callbacks(functions)
        self._failed: set[int] = set()  # positions
        self.stopped = ""  # why a callback stopped the study

    def call(self, optimizer: BOHB, number: int) -> None:
        """Call every function after trial `number` has finished."""
        history = optimizer.history
        latest = history.trials[number], history.outcomes[number]
        study = RunningStudy(history, latest=latest, _callbacks=self, _optimizer=optimizer)
        for index, function in enumerate(self._functions):
            try:
                function(study)
            except Exception as error:  # a user's function may raise anything
                if index not in self._failed:
                    self._failed.add(index)
                    name = getattr(function, "__qualname__", repr(function))
                    text = "callback %s failed after trial %d; the study goes on, and later errors of it are not shown"
                    log.warning(text, name, number, exc_info=error)


def checked_callbacks(functions: Iterable[Callback]) -> list[Callback]:
    """Return the callbacks as a list. Raises InvalidArgument for anything else than functions."""
    if callable(functions) or not isinstance(functions, Iterable):
        raise InvalidArgument(f"callbacks={functions!r:.200} must be a list of functions: write callbacks=[…]")
    found = list(functions)
    for function in found:
        if not callable(function):
            raise InvalidArgument(f"callbacks has {function!r:.200}, which cannot be called; give functions of a study")
    return found
