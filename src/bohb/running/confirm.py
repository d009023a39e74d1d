"""confirm: evaluate the most promising configurations again, with the workers and the journal of their study."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bohb.core import streams
from bohb.core.confirm import Confirmation
from bohb.core.confirm_start import planned
from bohb.core.events import Event, RepeatFinished, StudyCreated
from bohb.core.history import History
from bohb.core.space import Space
from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument
from bohb.executors.base import Executor, Lost
from bohb.executors.choose import choose_executor
from bohb.journal import open_journal
from bohb.journal.base import shared_journal
from bohb.optimizer.ledger import Ledger
from bohb.running.interrupts import interrupts
from bohb.running.outages import Ended, Outages
from bohb.running.patience import patiently
from bohb.running.setup import RunSetup, files_of
from bohb.running.trees import remove
from bohb.running.workplace import Workplace
from bohb.units import printable

log = logging.getLogger("bohb")
Default = Mapping[str, Any] | Literal["space"] | None
_TICK = 1.0  # seconds between two looks at Ctrl-C while trials run


def confirm(
    setup: RunSetup,
    top: int = 5,
    repeats: int = 5,
    default: Default = None,
    quiet: bool = False,
    history: History | None = None,
) -> Confirmation:
    """Run a confirmation, or continue the one that was interrupted.

    The same request again returns the stored answer if the study has the same candidates.

    quiet: whether evaluations are not shown as lines on stderr.
    history: of the study; the events that are new in the journal are added to it.
    """
    if setup.objective is None:
        raise InvalidArgument("the study was loaded from its journal, which holds no objective: give objective=…")
    with ExitStack() as stack:
        journal = open_journal(setup.journal, setup.study)
        if journal is not setup.journal:
            stack.callback(journal.close)
        shared = shared_journal(journal) is not None
        ledger = patiently(shared, lambda: _ledger(journal.read(0), journal))
        index = patiently(shared, lambda: ledger.in_turn(lambda: _begin(ledger, top, repeats, default)))
        if history is not None:
            stack.callback(lambda: history.extend(journal.read(history.n_events)))
        if ledger.history.confirmations[index].finished:
            return ledger.history.confirmations[index]
        files = stack.enter_context(files_of(journal, setup.study, setup.directory)) / "confirm"
        workplace = Workplace(files / "working") if setup.session.checkpoints else None
        if workplace is not None:
            stack.callback(workplace.close)
        options = replace(setup.trials, log_dir=files / f"logs-{index}")
        executor = choose_executor(setup.objective, setup.executor, setup.workers, options)
        return _Run(ledger, index, executor, workplace, Outages(setup.session.max_attempts), quiet).run()


def _ledger(events: Any, journal: Any) -> Ledger:
    if not events or not isinstance(events[0], StudyCreated):
        raise InvalidArgument("there is nothing to confirm: the journal holds no such study")
    return Ledger(journal, Space.from_json(events[0].space), events)


def _begin(ledger: Ledger, top: int, repeats: int, default: Default) -> int:
    """Return the index of the confirmation to run: the last one if the request is the same, or a new one."""
    history = ledger.history
    if isinstance(default, str):
        if default != "space":
            raise InvalidArgument(
                f"default={default!r} must be a configuration, or 'space' for the space's own default"
            )
        default = history.space.default()
    wanted = planned(history, top, repeats, default)
    if history.confirmations:
        last = history.confirmations[-1]
        compared = last.candidates[last.racing].config if last.racing < len(last.candidates) else None
        same = (last.racing, last.repeats, compared) == (len(wanted.trials), wanted.repeats, wanted.default)
        chosen = tuple(candidate.trial.number for candidate in last.candidates if candidate.trial is not None)
        if same and (not last.finished or chosen == wanted.trials):
            return last.index
    ledger.append([wanted])
    return wanted.index


@dataclass(slots=True)
class _Run:
    """One session of a confirmation: submit what is due, wait, store.

    workplace: where trials get an empty directory; None for none.
    """

    ledger: Ledger
    index: int
    executor: Executor
    workplace: Workplace | None
    outages: Outages
    quiet: bool
    running: dict[int, tuple[int, int]] = field(default_factory=dict)  # number of the trial -> candidate, repetition
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same for every trial that was submitted
    directories: dict[int, Path] = field(default_factory=dict)
    attempts: Counter[int] = field(default_factory=Counter)
    losses: Counter[int] = field(default_factory=Counter)  # lost attempts that count

    @property
    def confirmation(self) -> Confirmation:
        """The confirmation as it is now."""
        return self.ledger.history.confirmations[self.index]

    @property
    def seed(self) -> int:
        """The seed of the study."""
        assert self.ledger.history.created is not None
        return self.ledger.history.created.seed

    def run(self) -> Confirmation:
        """Evaluate until nothing is due, or until Ctrl-C."""
        kill = True
        try:
            with interrupts() as interrupted:
                self._loop(interrupted)
            kill = False
        except KeyboardInterrupt:
            log.warning("interrupted twice; unfinished evaluations will run when the confirmation is continued")
        finally:
            self.executor.shutdown(kill)
        return self.confirmation

    def _loop(self, interrupted: Callable[[], bool]) -> None:
        while not self.confirmation.finished:
            if not interrupted() and not self.outages.paused:
                self._submit()
            if self.running:
                self._collect()
            elif interrupted():
                return
            elif not self.confirmation.due():
                self._conclude()
            else:
                self._rest()

    def _submit(self) -> None:
        """Submit the evaluations that are due, as many as can run at once."""
        held = {trial.number for trial, _ in self.outages.held}
        confirmation = self.confirmation
        for candidate, repeat in confirmation.due():
            if len(self.running) >= self.executor.slots:
                return
            seed = streams.repeat_seed(self.seed, self.index, candidate, repeat)
            trial = confirmation.trial(candidate, repeat, seed)
            if trial.number in self.running or trial.number in held:
                continue
            self.attempts[trial.number] += 1
            trial = replace(trial, attempt=self.attempts[trial.number])
            if self.workplace is not None:
                self.directories[trial.number] = self.workplace.make()
                trial = replace(trial, checkpoint_dir=self.directories[trial.number])
            self.running[trial.number] = self.places[trial.number] = (candidate, repeat)
            self.executor.submit(trial)

    def _collect(self) -> None:
        """Wait for evaluations to end, and store them."""
        ended: list[Ended] = []
        for done in self.executor.wait(_TICK):
            self.running.pop(done.trial.number, None)
            directory = self.directories.pop(done.trial.number, None)
            if directory is not None:
                remove(directory)
            match done.result:
                case Outcome() as outcome:
                    ended += self.outages.ended(done.trial, outcome)
                case Lost() as loss:
                    losses = self.losses[done.trial.number]
                    ended += self.outages.lost(done.trial, loss, losses, self.executor.slots)
        self._settle(ended)

    def _rest(self) -> None:
        """Wait while nothing can start; if nothing else shows whether the held trials are to blame, judge them now."""
        self.outages.check()
        if self.outages.held and not self.outages.paused:
            self._settle(self.outages.judge_held())
        else:
            time.sleep(_TICK / 4)

    def _settle(self, ended: Iterable[Ended]) -> None:
        """Store the evaluations that ended with an outcome, and count the lost ones."""
        results: dict[tuple[int, int], Outcome] = {}
        for end in ended:
            if end.outcome is not None:
                results[self.places[end.trial.number]] = end.outcome
            elif end.counts:
                self.losses[end.trial.number] += 1
        if results:
            self._store(lambda: self._repeats(results))
        for (candidate, _), outcome in results.items():
            name = self.confirmation.candidates[candidate].name
            goals = self.confirmation.goals
            ok = outcome.loss is not None
            result = f"{goals.label} {goals.shown(outcome.loss):.6g}" if ok else f"failed: {outcome.error}"
            line = f"{len(self.confirmation.outcomes)} of at most {self.confirmation.most}: {name} again, {result}"
            log.info("%s", line)
            if not self.quiet:
                with suppress(OSError, ValueError):  # nobody may be there to read it
                    sys.stderr.write(printable(line) + "\n")
                    sys.stderr.flush()

    def _repeats(self, results: Mapping[tuple[int, int], Outcome]) -> list[Event]:
        """Return the results as events, without those that another runner has stored meanwhile."""
        new = {place: outcome for place, outcome in results.items() if place not in self.confirmation.outcomes}
        return [RepeatFinished(self.index, *place, outcome) for place, outcome in new.items()]

    def _conclude(self) -> None:
        from bohb.core.confirm_estimate import conclusion

        self._store(lambda: [] if self.confirmation.finished else [conclusion(self.confirmation, self.seed)])

    def _store(self, events: Callable[[], list[Event]]) -> None:
        patiently(self.ledger.shared, lambda: self.ledger.in_turn(lambda: self.ledger.append(events())))
