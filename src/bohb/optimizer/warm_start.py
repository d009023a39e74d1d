"""Results of earlier studies for the model of a new one, also if the space has changed since."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bohb.core.events import Event, NoteAdded, ObservationAdded, StudyCreated
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.space import Space
from bohb.core.space.configspace import chosen_default
from bohb.core.streams import observation_stream
from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument, InvalidConfiguration
from bohb.journal import SqlJournal, study_names
from bohb.journal.location import shown_journal, study_of
from bohb.units import counted

log = logging.getLogger("bohb")


def as_histories(source: Any) -> list[History]:
    """Return the histories that `warm_start` names: of studies, optimizers, journals and their paths, or a list."""
    match source:
        case History():
            return [source]
        case str() | Path():
            return [_stored_history(source)]
        case _ if isinstance(getattr(source, "history", None), History):
            return [source.history]
        case _ if hasattr(source, "read"):
            return [History().extend(source.read(0))]
        case Iterable() if not isinstance(source, Mapping):
            return [history for item in source for history in as_histories(item)]
    raise InvalidArgument(
        f"warm_start={source!r} must be a Study, a History, a BOHB, a journal or its path, or a list of these"
    )


def _stored_history(source: str | Path) -> History:
    """Return the history of the only study of a journal, or of the one that "journal::name" names."""
    journal, study = study_of(str(source))
    if "://" not in journal and not Path(journal).exists():
        shown = shown_journal(str(source))
        raise InvalidArgument(f"warm_start={shown!r} must be the path of a journal; there is no such file")
    names = study_names(journal)
    if study is None and len(names) == 1:
        study = names[0]
    if study not in names:
        listed, shown = ", ".join(names) or "none", shown_journal(journal)
        named = shown if study is None else f"{shown}::{study}"
        raise InvalidArgument(
            f"warm_start={named!r} must hold one study, or name one of them as {shown}::NAME; it has {listed}"
        )
    assert study is not None
    with SqlJournal(journal, study, read_only=True) as opened:
        return History().extend(opened.read())


def observed_events(space: Space, histories: Iterable[History], created: StudyCreated, goals: Goals) -> list[Event]:
    """Return the results of earlier studies as events, and a note if they had to be adapted to this space.

    goals: those of the new study; an earlier one must have the values that they name.
    """
    events: list[Event] = []
    notes: list[str] = []
    studies: dict[tuple[int, int], int] = {}  # (history, one of its own earlier studies or -1 for itself) -> number
    for h, history in enumerate(histories):
        if history.created is not None:
            _check_values(history.goals, goals)
        adapter = _Adapter(space, created.seed)
        for config, budget, result, source, of in _results(history):
            adapted = adapter.adapted(config)
            if adapted is None:
                continue
            study = studies.setdefault((h, of), len(studies))
            values = {name: result.values[name] for name in goals.names if name in result.values}
            loss = result.loss if goals.plain or result.loss is None else goals.losses(values)[0]
            events.append(ObservationAdded(len(events), adapted, budget, loss, source, study, values))
        notes += [] if (statement := adapter.statement()) is None else [f"warm start: {statement}"]
    for note in notes:
        log.warning("%s", note)
    return events + [NoteAdded(index, note, time=created.time) for index, note in enumerate(notes)]


def _results(history: History) -> list[tuple[dict[str, Any], float, Outcome | ObservationAdded, str, int]]:
    """Return the results of a study: configuration, budget, result, where it is from, and which earlier study."""
    known: list[tuple[dict[str, Any], float, Outcome | ObservationAdded, str, int]] = [
        (old.config, old.budget, old, old.source, old.study) for old in history.observed
    ]
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if trial.reuses is None and number not in history.forgotten:  # reused: the result of another trial
            known.append((trial.config, trial.budget, outcome, f"trial {number}", -1))
    return known


def _check_values(earlier: Goals, goals: Goals) -> None:
    """Raise InvalidArgument if an earlier study does not have the values that the new one decides by."""
    for name in goals.names:
        if name not in earlier.names:
            raise InvalidArgument(
                f"warm_start: the earlier study has no {name!r} (it has {', '.join(earlier.names)}); "
                "its results can only be used by a study with the same names"
            )


class _Adapter:
    """Turns configurations of an earlier study into ones of a space, and counts what it did.

    A hyperparameter that the space does not have is left out. One that is new takes the default that the space
    declares, because the earlier trials most likely had that value; without one it is drawn from the prior, so that no
    value seems to be tried more often. A result with a value that the space does not allow is left out.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._defaults = {name: chosen_default(space.configspace[name]) for name in space.names}
        self._n = self._used = self._forbidden = 0
        self._new: set[str] = set()
        self._gone: set[str] = set()
        self._outside: Counter[str] = Counter()

    def adapted(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a configuration of the space; None if it cannot become one."""
        self._n += 1
        if all(name in self._space.names for name in config):
            try:
                self._space.encode(self._space.restore(config))
            except InvalidConfiguration:
                pass
            else:
                self._used += 1
                return dict(config)
        found = self._converted(config)
        self._used += found is not None
        return found

    def _converted(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        space, rng = self._space, observation_stream(self._seed, self._n)
        kept = {name: value for name, value in config.items() if name in space.names}
        if not any(scale.name in kept for scale in space.dimensions):
            raise InvalidArgument(
                f"warm_start: the earlier study, with {', '.join(map(repr, config))}, has no hyperparameter in common "
                f"with this one, which has {', '.join(map(repr, space.names))}"
            )
        vector = np.empty(space.d)
        for j, scale in enumerate(space.dimensions):
            default, drawn = self._defaults[scale.name], rng.random()
            try:
                if scale.name in kept:
                    vector[j] = scale.encode(space.restore({scale.name: kept[scale.name]})[scale.name])
                else:
                    vector[j] = scale.draw(np.array([drawn])).item() if default is None else scale.encode(default)
            except InvalidConfiguration:
                self._outside[scale.name] += 1
                return None
        try:
            found = space.decode(vector)
        except InvalidConfiguration:
            self._forbidden += 1
            return None
        constant = [name for name in found if name not in {scale.name for scale in space.dimensions}]
        for name in constant:
            if name in kept and kept[name] != found[name]:
                self._outside[name] += 1
                return None
        self._new |= found.keys() - kept.keys() - set(constant)
        self._gone |= config.keys() - found.keys()
        return space.restore({name: kept.get(name, value) for name, value in found.items()})

    def statement(self) -> str | None:
        """Return what was done, as a sentence; None if nothing had to be done.

        Raises InvalidArgument if no result could be used.
        """
        done = [_new(name, self._defaults[name]) for name in sorted(self._new)]
        done += [f"{name!r} is not in this space and was left out" for name in sorted(self._gone)]
        outside = ", ".join(f"{name!r} {n}" for name, n in sorted(self._outside.items()))
        if outside:
            left = counted(self._outside.total(), "result")
            done.append(f"{left} with a value that the space does not allow left out ({outside})")
        if self._forbidden:
            done.append(f"{counted(self._forbidden, 'result')} in a forbidden region left out")
        text = f"{self._used} of {counted(self._n, 'earlier result')} used; " + "; ".join(done)
        if self._n and not self._used:
            raise InvalidArgument(f"warm_start: the earlier study does not fit this space: {text}")
        return text if done else None


def _new(name: str, default: Any) -> str:
    how = "was drawn at random for each result" if default is None else f"was set to its default {default!r}"
    return f"{name!r} is new and {how}"
