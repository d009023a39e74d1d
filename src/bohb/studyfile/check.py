"""Trying an objective before a study depends on it: the mistakes that otherwise show after hours."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from bohb.core.trial import Origin, Outcome, Trial, outcome_of
from bohb.errors import InvalidArgument
from bohb.executors.base import Lost, Objective
from bohb.executors.local import processes
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import START_METHOD, StartMethod, TrialOptions
from bohb.studyfile.command import ShellObjective

if TYPE_CHECKING:  # a worker imports this module for `Measured`, and need not wait for the rest
    from bohb.core.space import Space

REPEATS = 5  # further calls on the smallest budget, whose losses and memory are compared
TRIES = 4  # random configurations before we say that it does not run
_GROWTH = 2**20  # bytes per call that count as a leak
_MEMORY = "bohb_resident_bytes"
_TOLERANCE = 1e-9  # of two losses that should be the same

Verdict = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: how it went, what was seen, and what to do about it."""

    check: str
    verdict: Verdict
    detail: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """For a script."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Measured:
    """The objective, with the memory of its process after each call."""

    objective: Objective

    def __call__(self, trial: Trial) -> Outcome:
        outcome = outcome_of(self.objective(trial))
        gc.collect()
        return replace(outcome, info={**outcome.info, _MEMORY: processes.resident_bytes([os.getpid()])})


class _Bench:
    """Calls the objective in one worker process, each time as a new trial with a directory of its own choice."""

    def __init__(self, executor: LocalExecutor, root: Path, seed: int) -> None:
        self._executor, self._root, self._seed = executor, root, seed
        self._number = 0
        self.config: dict[str, Any] = {}

    def call(self, budget: float, directory: str, previous: float | None = None) -> Outcome:
        """The outcome of one call; directories of the same name are shared."""
        place = self._root / directory
        place.mkdir(exist_ok=True)
        trial = Trial(
            number=self._number,
            config=dict(self.config),
            budget=budget,
            config_id=0,
            bracket=0,
            rung=0 if previous is None else 1,
            seed=self._seed,
            origin=Origin.RANDOM if previous is None else Origin.PROMOTED,
            previous_budget=previous,
            checkpoint_dir=place,
        )
        self._number += 1
        self._executor.submit(trial)
        result = self._executor.wait(None)[0].result
        if isinstance(result, Lost):
            raise InvalidArgument(f"the worker disappeared: {result.reason}")
        return result

    def files(self, directory: str) -> int:
        """How many files a call left in its directory."""
        return sum(path.is_file() for path in (self._root / directory).rglob("*"))


def preflight(
    objective: Objective,
    space: Space,
    budgets: Sequence[float],
    *,
    seed: int = 0,
    trial_seconds: float | None = 600,
    trial_memory: int | None = None,
    start_method: StartMethod | None = None,
    config: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """Call the objective on the two smallest budgets, in a worker process, and report what was seen.

    config: the configuration to try; a random one unless given.
    """
    with _bench(objective, seed, trial_seconds, trial_memory, start_method) as bench:
        if isinstance(bench, Finding):
            return [bench]
        tried = _tried(bench, space, budgets[:2], [config] if config else _random_configs(space, seed))
        if isinstance(tried, Finding):
            return [tried]
        number = Finding("returns", "pass", f"the loss {tried.first.loss:.6g}")
        again = [bench.call(budgets[0], f"again-{i}") for i in range(REPEATS)]
        same = _same_again(tried.first, again)
        findings = [tried.finding, number, same]
        if tried.through is not None:
            findings.append(_continues(bench, tried, budgets[0], budgets[1], same.verdict == "pass"))
        return [*findings, _memory(objective, tried.first, again)]


def _random_configs(space: Space, seed: int) -> list[Mapping[str, Any]]:
    return [space.sample(np.random.default_rng([seed, i])) for i in range(TRIES)]


class _Tried(NamedTuple):
    """A configuration that runs: its outcomes on the smallest budget, kept in `directory`, and on the next one."""

    finding: Finding
    directory: str
    first: Outcome
    through: Outcome | None


def _tried(
    bench: _Bench, space: Space, budgets: Sequence[float], configs: Sequence[Mapping[str, Any]]
) -> _Tried | Finding:
    """The first configuration that succeeds on these budgets; some of a space may rightly fail."""
    failed: list[tuple[float, Outcome]] = []
    for index, config in enumerate(configs):
        bench.config = space.restore(config)
        space.encode(bench.config)
        outcomes: list[Outcome] = []
        for budget in budgets:
            outcomes.append(bench.call(budget, f"first-{index}" if not outcomes else f"through-{index}"))
            if not outcomes[-1].ok:
                failed.append((budget, outcomes[-1]))
                break
        else:
            took = ", ".join(f"{_seconds(o)} on budget {b:g}" for b, o in zip(budgets, outcomes, strict=True))
            found = Finding("runs", "pass", f"in a worker process: {took}")
            if failed:
                detail = f"{len(failed)} of {index + 1} random configurations failed, such as: {failed[0][1].error}"
                found = Finding("runs", "warn", detail, "narrow the space if these should not fail")
            return _Tried(found, f"first-{index}", outcomes[0], outcomes[1] if len(outcomes) > 1 else None)
    return _failed("runs", *failed[0])


@contextmanager
def _bench(
    objective: Objective,
    seed: int,
    trial_seconds: float | None,
    trial_memory: int | None,
    start_method: StartMethod | None,
) -> Iterator[_Bench | Finding]:
    """A worker to try the objective in, or why there is none."""
    try:
        options = TrialOptions(trial_seconds, trial_memory, start_method=start_method or START_METHOD)
        executor = LocalExecutor(Measured(objective), 1, options)
    except InvalidArgument as error:
        yield Finding("pickles", "fail", str(error), "define the objective at the top level of a module")
        return
    with executor, tempfile.TemporaryDirectory(prefix="bohb-check-") as root:
        yield _Bench(executor, Path(root), seed)


def _failed(check: str, budget: float, outcome: Outcome) -> Finding:
    last = (outcome.output or "").strip().splitlines()[-1:]
    detail = f"{outcome.status.value} on budget {budget:g}: {outcome.error}"
    shown = f" (its output ends with: {last[0]})" if last and last[0] not in detail else ""
    advice = {
        "bad_result": "return one number, or {'loss': number}",
        "diverged": "return a finite loss; a configuration that diverges counts as failed",
        "timeout": "raise --trial-seconds, or lower the smallest budget",
        "memory": "raise trial.memory",
    }.get(outcome.status.value, "call it by hand with this configuration")
    return Finding(check, "fail", detail + shown, advice)


def _same_again(first: Outcome, again: Sequence[Outcome]) -> Finding:
    failed = [outcome for outcome in again if not outcome.ok]
    if failed:
        detail = f"{len(failed)} of {len(again)} further calls failed: {failed[0].error}"
        return Finding("deterministic", "fail", detail, "find out what differs between two calls in one process")
    losses = [outcome.ranking_loss for outcome in (first, *again)]
    if _alike(min(losses), max(losses)):
        return Finding("deterministic", "pass", f"{len(losses)} calls with one seed gave one loss")
    detail = f"{len(losses)} calls with one seed gave losses from {min(losses):.6g} to {max(losses):.6g}"
    return Finding("deterministic", "warn", detail, "seed every random generator with trial.seed ({seed} in a command)")


def _continues(bench: _Bench, tried: _Tried, low: float, high: float, deterministic: bool) -> Finding:
    """Training low and then on to high should equal training high at once."""
    assert tried.through is not None
    if bench.files(tried.directory) == 0:
        detail = "it wrote nothing to its checkpoint directory, so every promotion trains from the beginning"
        return Finding("resumes", "warn", detail, "save the state in trial.checkpoint_dir; see docs/checkpoints.md")
    continued = bench.call(high, tried.directory, previous=low)
    if not continued.ok:
        return _failed("resumes", high, continued)
    losses = f"{continued.loss:.6g} after budget {low:g}, {tried.through.loss:.6g} trained through to {high:g}"
    if _alike(continued.ranking_loss, tried.through.ranking_loss):
        return Finding("resumes", "pass", f"the same result either way: {continued.loss:.6g}")
    if not deterministic:
        return Finding(
            "resumes", "warn", f"cannot be told without determinism: {losses}", "make it deterministic first"
        )
    advice = "save and restore all of the state: weights, optimiser, schedule, random generators, data order"
    return Finding("resumes", "fail", f"another result when continued: {losses}", advice)


def _memory(objective: Objective, first: Outcome, again: Sequence[Outcome]) -> Finding:
    if isinstance(objective, ShellObjective):
        return Finding("memory", "pass", "every call is a process of its own")
    seen = [outcome.info[_MEMORY] for outcome in (first, *again) if _MEMORY in outcome.info]
    steps = np.diff(seen)[1:]  # the first calls load things that stay
    growth = float(np.median(steps)) if len(steps) else 0.0
    if growth < _GROWTH:
        return Finding("memory", "pass", f"{seen[-1] / 2**20:.0f} MiB after {len(seen)} calls, not growing")
    advice = "let go of what a call leaves behind, or set trial.recycle_after so that workers are replaced"
    return Finding("memory", "warn", f"grows by {growth / 2**20:.0f} MiB with every call", advice)


def _alike(a: float, b: float) -> bool:
    return abs(a - b) <= _TOLERANCE * max(1.0, abs(a), abs(b))


def _seconds(outcome: Outcome) -> str:
    return f"{(outcome.finished or 0.0) - (outcome.started or 0.0):.2f} s"
