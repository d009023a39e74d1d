"""Check an objective before a study: find mistakes that would otherwise show after hours."""

from __future__ import annotations

import gc
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from bohb.core.goals import PLAIN, Goals
from bohb.core.schedule.brackets import Bracket, hyperband
from bohb.core.times.durations import Sample, fit_durations
from bohb.core.times.forecast import planned_time
from bohb.core.trial import Lost, Outcome, Status, Trial, first_trial, outcome_of, promoted_trial
from bohb.errors import InvalidArgument
from bohb.executors.base import Objective
from bohb.executors.local import processes
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import TrialOptions
from bohb.studyfile.command import ShellObjective
from bohb.units import counted, duration

if TYPE_CHECKING:  # a worker imports this module for `Measured`, and should start quickly
    from bohb.core.space import Space

REPEATS = 5  # further calls on the smallest budget, whose losses and memory are compared
TRIES = 4  # random configurations to try before the objective counts as broken
_GROWTH = 2**20  # bytes per call that count as a leak
_MEMORY = "bohb_resident_bytes"
_TOLERANCE = 1e-9  # relative difference of two losses that count as equal

_ADVICE = {
    Status.BAD_RESULT: "return one number, or {'loss': number}",
    Status.DIVERGED: "return a finite loss; a configuration that diverges counts as failed",
    Status.TIMEOUT: "raise --trial-seconds, or lower the smallest budget",
    Status.MEMORY: "raise trial.memory",
    Status.DEVICE_MEMORY: "leave out configurations that are too large, or use a device with more memory",
}
Verdict = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a verdict, what was observed, what to do about it, and a command that helps with it."""

    check: str
    verdict: Verdict
    detail: str
    advice: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """The objective, which also reports the memory of its process after each call."""

    objective: Objective

    def __call__(self, trial: Trial) -> Outcome:
        outcome = outcome_of(self.objective(trial), trial.goals)
        gc.collect()
        return replace(outcome, info={**outcome.info, _MEMORY: processes.resident_bytes([os.getpid()])})


class _Caller:
    """Calls the objective in one worker process, each time as a new trial."""

    def __init__(self, executor: LocalExecutor, root: Path, seed: int, goals: Goals, objective: Objective) -> None:
        self._executor, self._root, self._seed, self._goals = executor, root, seed, goals
        self._objective = objective
        self._number = 0
        self.config: dict[str, Any] = {}

    def call(self, budget: float, directory: str, previous: float | None = None) -> Outcome:
        """Return the outcome of one call; calls with the same directory share its files."""
        place = self._root / directory
        place.mkdir(exist_ok=True)
        trial = first_trial(0, dict(self.config), previous or budget, seed=self._seed)
        if previous is not None:
            trial = promoted_trial(trial, 0, budget, 0, 1)
        self._trial = trial = replace(trial, number=self._number, checkpoint_dir=place, goals=self._goals)
        self._number += 1
        self._executor.submit(trial)
        result = self._executor.wait(None)[0].result
        if isinstance(result, Lost):
            raise InvalidArgument(f"the worker disappeared: {result.reason}")
        return result

    def failed(self, check: str, outcome: Outcome) -> Finding:
        """Return the finding about the last call, which failed."""
        last, budget = (outcome.output or "").strip().splitlines()[-1:], self._trial.budget
        detail = f"{outcome.status.value} on budget {budget:g}: {outcome.error}"
        shown = f" (its output ends with: {last[0]})" if last and last[0] not in detail else ""
        command = ""
        if isinstance(self._objective, ShellObjective):
            place = Path(tempfile.gettempdir()) / "bohb-check"
            command = self._objective.line(replace(self._trial, checkpoint_dir=place))
        by_hand = "run it by hand:" if command else f"call it by hand with {self.config!r} on budget {budget:g}"
        advice = _ADVICE.get(outcome.status, by_hand)
        return Finding(check, "fail", detail + shown, advice, command if advice == by_hand else "")

    def files(self, directory: str) -> int:
        """Return the number of files in a directory."""
        return sum(path.is_file() for path in (self._root / directory).rglob("*"))


def preflight(
    objective: Objective,
    space: Space,
    budgets: Sequence[float],
    *,
    seed: int = 0,
    options: TrialOptions | None = None,
    config: Mapping[str, Any] | None = None,
    eta: float = 3,
    workers: int = 1,
    goals: Goals = PLAIN,
) -> list[Finding]:
    """Call the objective on the two smallest budgets in a worker process, and report the findings.

    config: the configuration to try; default: a random one.
    eta, workers: of the study, for an estimate of its time.
    """
    try:
        executor = LocalExecutor(Measured(objective), 1, options)
    except InvalidArgument as error:
        return [Finding("pickles", "fail", str(error), "define the objective at the top level of a module")]
    with executor, tempfile.TemporaryDirectory(prefix="bohb-check-") as root:
        caller = _Caller(executor, Path(root), seed, goals, objective)
        random = (space.sample(np.random.default_rng([seed, i])) for i in range(TRIES))
        tried = _tried(caller, space, budgets[:2], [config] if config else list(random))
        if isinstance(tried, Finding):
            return [tried]
        assert tried.first.loss is not None
        number = Finding("returns", "pass", goals.described(tried.first.loss, tried.first.values))
        again = [caller.call(budgets[0], f"again-{i}") for i in range(REPEATS)]
        same = _same_again(tried.first, again)
        findings = [tried.finding, number, same]
        if tried.direct is not None:
            findings.append(_continues(caller, tried, budgets[0], budgets[1], same.verdict == "pass"))
        takes = _takes(budgets, [tried.first, *again], tried.direct, hyperband(budgets, eta), workers)
        return [*findings, _memory(objective, tried.first, again), takes]


class _Tried(NamedTuple):
    """A configuration that succeeds: its outcomes on the smallest budget, in `directory`, and at once on the next."""

    finding: Finding
    directory: str
    first: Outcome
    direct: Outcome | None


def _tried(
    caller: _Caller, space: Space, budgets: Sequence[float], configs: Sequence[Mapping[str, Any]]
) -> _Tried | Finding:
    """Return the first configuration that succeeds on these budgets; some configurations of a space may fail."""
    failed: list[tuple[Finding, str | None]] = []
    for index, config in enumerate(configs):
        caller.config = space.restore(config)
        space.encode(caller.config)
        outcomes: list[Outcome] = []
        for budget in budgets:
            outcomes.append(caller.call(budget, f"first-{index}" if not outcomes else f"direct-{index}"))
            if not outcomes[-1].ok:
                failed.append((caller.failed("runs", outcomes[-1]), outcomes[-1].error))
                break
        else:
            took = ", ".join(f"{o.seconds or 0:.2f} s on budget {b:g}" for b, o in zip(budgets, outcomes, strict=True))
            found = Finding("runs", "pass", f"in a worker process: {took}")
            if failed:
                detail = f"{len(failed)} of {index + 1} random configurations failed, for example: {failed[0][1]}"
                found = Finding("runs", "warn", detail, "narrow the space if these should not fail")
            return _Tried(found, f"first-{index}", outcomes[0], outcomes[1] if len(outcomes) > 1 else None)
    return failed[0][0]


def _same_again(first: Outcome, again: Sequence[Outcome]) -> Finding:
    failed = [outcome for outcome in again if not outcome.ok]
    if failed:
        detail = f"{len(failed)} of {len(again)} further calls failed: {failed[0].error}"
        return Finding("deterministic", "fail", detail, "find out what differs between two calls in one process")
    losses = [outcome.ranking_loss for outcome in (first, *again)]
    if _alike(min(losses), max(losses)):
        return Finding("deterministic", "pass", f"{len(losses)} calls with the same seed gave the same loss")
    detail = f"{len(losses)} calls with the same seed gave losses from {min(losses):.6g} to {max(losses):.6g}"
    return Finding("deterministic", "warn", detail, "seed every random generator with trial.seed ({seed} in a command)")


def _continues(caller: _Caller, tried: _Tried, low: float, high: float, deterministic: bool) -> Finding:
    """Check that training to `low` and then to `high` equals training to `high` at once."""
    assert tried.direct is not None
    if caller.files(tried.directory) == 0:
        detail = "it wrote nothing to its checkpoint directory, so every promotion trains from the beginning"
        return Finding("resumes", "warn", detail, "save the state in trial.checkpoint_dir; see docs/checkpoints.md")
    continued = caller.call(high, tried.directory, previous=low)
    if not continued.ok:
        return caller.failed("resumes", continued)
    losses = f"{continued.loss:.6g} continued from budget {low:g}, {tried.direct.loss:.6g} trained to {high:g} at once"
    if _alike(continued.ranking_loss, tried.direct.ranking_loss):
        return Finding("resumes", "pass", f"the same result either way: {continued.loss:.6g}")
    if not deterministic:
        detail = f"not checked, because the objective is not deterministic: {losses}"
        return Finding("resumes", "warn", detail, "make it deterministic first")
    advice = "save and restore all of the state: weights, optimiser, schedule, random generators, data order"
    return Finding("resumes", "fail", f"the losses differ: {losses}", advice)


def _takes(
    budgets: Sequence[float], small: Sequence[Outcome], direct: Outcome | None, round_: Sequence[Bracket], workers: int
) -> Finding:
    """Report how long a round of Hyperband would take, by the calls so far: one configuration on two budgets."""
    calls = [(budgets[0], outcome) for outcome in small] + ([(budgets[1], direct)] if direct is not None else [])
    known = [Sample(0, b, None, o.seconds or 0.0) for b, o in calls if o.ok]
    durations = fit_durations(known)
    assert durations is not None
    expected, low, high = planned_time(round_, workers, durations)
    span = f"{duration(expected)} ({duration(low)} to {duration(high)}) on {counted(workers, 'worker')}"
    return Finding("takes", "pass", f"a round of {len(round_)} brackets: about {span}")


def _memory(objective: Objective, first: Outcome, again: Sequence[Outcome]) -> Finding:
    if isinstance(objective, ShellObjective):
        return Finding("memory", "pass", "every call runs in its own process")
    seen = [outcome.info[_MEMORY] for outcome in (first, *again) if _MEMORY in outcome.info]
    steps = np.diff(seen)[1:]  # the first calls load things that stay
    growth = float(np.median(steps)) if len(steps) else 0.0
    if growth < _GROWTH:
        return Finding("memory", "pass", f"{seen[-1] / 2**20:.0f} MiB after {len(seen)} calls, not growing")
    advice = "free what a call leaves behind, or set trial.recycle_after so that workers are replaced"
    return Finding("memory", "warn", f"grows by {growth / 2**20:.0f} MiB with every call", advice)


def _alike(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
