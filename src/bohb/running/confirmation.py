"""confirm: evaluate the most promising configurations again, with the workers and the journal of their study."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from typing import Any, Literal

from bohb.core import streams
from bohb.core.confirm import Confirmation
from bohb.core.confirm_estimate import conclusion, planned
from bohb.core.events import RepeatFinished, StudyCreated
from bohb.core.history import History
from bohb.core.space import Space
from bohb.core.trial import Lost, Outcome, Status, Trial, last_try, retry_delay
from bohb.errors import InvalidArgument, JournalBusy
from bohb.executors.base import Executor
from bohb.journal import Journal, open_journal
from bohb.journal.base import shared_journal
from bohb.optimizer.ledger import Ledger
from bohb.optimizer.session import Heartbeat, runner_name
from bohb.running.directories import Workplace, remove
from bohb.running.loop import Ended, Loop, patiently
from bohb.running.run_options import RunSetup, choose_executor, files_of
from bohb.units import printable

log = logging.getLogger("bohb")
Default = Mapping[str, Any] | Literal["space"] | None
_HOLDER = "confirming on "  # with the name of a process: who holds the lease of a confirmation


def confirm(
    setup: RunSetup, top: int, repeats: int, default: Default, quiet: bool, history: History | None = None
) -> Confirmation:
    """Run a confirmation, or continue the one that was interrupted.

    The same request again returns the stored answer if the study has the same candidates.

    quiet: whether evaluations are not shown as lines on stderr.
    history: of the study; the events that are new in the journal are added to it.
    """
    if setup.objective is None:
        raise InvalidArgument("the study was loaded from its journal, which holds no objective: give objective=…")
    with ExitStack() as stack:
        on_server = isinstance(setup.journal, str) and setup.journal.startswith("postgres")
        journal = patiently(on_server, lambda: open_journal(setup.journal, setup.study))
        if journal is not setup.journal:
            stack.callback(journal.close)
        shared = shared_journal(journal) is not None
        ledger = patiently(shared, lambda: _ledger(journal))
        name, seconds = _HOLDER + runner_name(shared), setup.session.lease_seconds
        patiently(shared, lambda: ledger.in_turn(lambda: stack.enter_context(_claimed(ledger, name, seconds))))
        index = patiently(shared, lambda: ledger.in_turn(lambda: _begin(ledger, top, repeats, default)))
        if history is not None:
            stack.callback(lambda: history.extend(journal.read(history.n_events)))
        if ledger.history.confirmations[index].finished:
            return ledger.history.confirmations[index]
        place = files_of(journal, setup.study, setup.directory, ledger.history.study_key)
        files = stack.enter_context(place) / "confirm"
        workplace = Workplace(files / "working") if setup.session.checkpoints else None
        if workplace is not None:
            stack.callback(workplace.close)
        options = replace(setup.trials, log_dir=files / f"logs-{index}")
        executor = choose_executor(setup.objective, setup.executor, setup.workers, options)
        repeated = Repeats(ledger, index, executor, workplace, setup.session.max_attempts, quiet)
        log.info("stopped: %s", repeated.work())
        return repeated.confirmation


def _ledger(journal: Journal) -> Ledger:
    events = journal.read(0)
    if not events or not isinstance(events[0], StudyCreated):
        raise InvalidArgument("there is nothing to confirm: the journal holds no such study")
    return Ledger(journal, Space.from_json(events[0].space), events)


def _claimed(ledger: Ledger, name: str, seconds: float) -> AbstractContextManager[object]:
    """Return a context that holds a lease on confirming this study; refuse a second confirmation."""
    if ledger.shared is None:
        return nullcontext()
    for holder in ledger.shared.live_leases():
        if holder.startswith(_HOLDER) and holder != name:
            raise JournalBusy(
                f"this study is being confirmed already ({holder}); wait until that has ended: the same call then "
                f"returns its answer, or continues it {seconds:g} s after it was killed"
            )
    return Heartbeat(ledger.shared, name, seconds)


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


class Repeats(Loop):
    """The loop of one session of a confirmation.

    workplace: where trials get an empty directory; None for none.
    quiet: whether evaluations are not shown.
    """

    def __init__(
        self,
        ledger: Ledger,
        index: int,
        executor: Executor,
        workplace: Workplace | None,
        max_attempts: int,
        quiet: bool,
    ) -> None:
        super().__init__(ledger, executor, max_attempts)
        self._index, self._workplace, self._quiet = index, workplace, quiet
        self._places: dict[int, tuple[int, int]] = {}  # number of the trial -> candidate, repetition
        self._attempts: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._retries: Counter[int] = Counter()
        self._ready_at: dict[int, float] = {}  # when trials start again that have asked for it

    @property
    def confirmation(self) -> Confirmation:
        """The confirmation as it is now."""
        return self.ledger.history.confirmations[self._index]

    def ask(self, n: int) -> Sequence[Trial]:
        """Return the evaluations that are due; if there will be none, store what the others say."""
        seed, confirmation = self.ledger.history.study.seed, self.confirmation
        known, found = {number for number, _ in self.known()}, list[Trial]()
        due = confirmation.due()
        for candidate, repeat in due:
            trial = confirmation.trial(candidate, repeat, streams.repeat_seed(seed, self._index, candidate, repeat))
            ready = self._ready_at.get(trial.number, 0.0) <= time.monotonic()
            if ready and trial.number not in known and len(found) < n:
                self._attempts[trial.number] += 1
                self._places[trial.number] = candidate, repeat
                found.append(replace(trial, attempt=self._attempts[trial.number]))
        if not due:
            self.ledger.add(lambda: [] if self.confirmation.finished else [conclusion(self.confirmation, seed)])
        return found

    def prepare(self, trial: Trial) -> Trial:
        """Return the trial with an empty directory."""
        if self._workplace is None:
            return trial
        return replace(trial, checkpoint_dir=self._workplace.make())

    def losses(self, number: int) -> int:
        """Return how many losses of a trial count."""
        return self._losses[number]

    def save(self, ended: list[Ended]) -> None:
        """Store the evaluations that ended with an outcome, and count the others."""
        for index, (trial, result) in enumerate(ended):
            if isinstance(result, Outcome):
                ended[index] = trial, last_try(result, self._retries[trial.number])
        self.ledger.add(
            lambda: [  # without those that are stored
                RepeatFinished(self._index, *place, result)
                for trial, result in ended
                if isinstance(result, Outcome) and result.status is not Status.RETRY
                if (place := self._places[trial.number]) not in self.confirmation.outcomes
            ]
        )
        for trial, result in ended:
            if trial.checkpoint_dir is not None:
                remove(trial.checkpoint_dir)
            if isinstance(result, Lost):
                self._losses[trial.number] += result.charged
            elif result.status is Status.RETRY:
                self._retries[trial.number] += 1
                self._ready_at[trial.number] = time.monotonic() + retry_delay(self._retries[trial.number])
            else:
                self._say(self._places[trial.number][0], result)

    def _say(self, candidate: int, outcome: Outcome) -> None:
        name, goals = self.confirmation.candidates[candidate].name, self.confirmation.goals
        result = f"failed: {outcome.error}"
        if outcome.loss is not None:
            result = f"{goals.label} {goals.shown(outcome.loss):.6g}"
        line = f"{len(self.confirmation.outcomes)} of at most {self.confirmation.most}: {name} again, {result}"
        log.info("%s", line)
        if not self._quiet:
            with suppress(OSError, ValueError):  # nobody may be there to read it
                sys.stderr.write(printable(line) + "\n")
                sys.stderr.flush()

    def why_over(self) -> str | None:
        """Return that the confirmation is complete, once it is."""
        return "the confirmation is complete" if self.confirmation.finished else None
