"""Compare curves of the result files; each comparison has a verdict and its numbers.

A mean counts as lower than another if the difference is more than two standard errors. Otherwise it is undecided which
one is lower, and neither counts as worse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.drawing import LABELS
from benchmarks.results import mean_error

HOLDS, PARTLY, FAILS = "holds", "holds where measured", "does not hold"
UNDECIDED, NOT_MEASURED = "undecided", "not measured"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, and the numbers behind it.

    about: what was compared.
    gap: the difference of two means in standard errors, positive if it speaks for the claim.
    parts: the single findings of a combined one.
    """

    verdict: str
    numbers: str = ""
    about: str = field(default="", compare=False)
    gap: float | None = field(default=None, compare=False)
    parts: tuple[Finding, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Value:
    """A mean and its standard error, which is infinite for a single run."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.2g}" + (f" ± {self.error:.1g}" if math.isfinite(self.error) else " (one run)")

    def below(self, other: Value) -> bool:
        """Whether it is lower by more than two standard errors of the difference."""
        return other.mean - self.mean > 2 * math.hypot(self.error, other.error)

    def gap(self, other: Value) -> float | None:
        """Return by how many standard errors of the difference it is lower; None without errors."""
        error = math.hypot(self.error, other.error)
        return (other.mean - self.mean) / error if 0 < error < math.inf else None


def all_of(findings: Iterable[Finding]) -> Finding:
    """Combine findings: holds if all hold, fails if one fails, holds where measured if some were not measured."""
    listed = list(findings)
    verdicts = {finding.verdict for finding in listed}
    numbers = "; ".join(finding.numbers for finding in listed if finding.numbers)
    if verdicts <= {NOT_MEASURED}:
        return Finding(NOT_MEASURED, numbers)
    holds = PARTLY if NOT_MEASURED in verdicts else HOLDS
    verdict = next((verdict for verdict in (FAILS, UNDECIDED, PARTLY) if verdict in verdicts), holds)
    return Finding(verdict, numbers, parts=tuple(part for finding in listed for part in finding.parts or (finding,)))


class Evidence:
    """The results of all experiments in a folder."""

    def __init__(self, folder: Path) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        for path in sorted(folder.glob("*.json")):
            body = json.loads(path.read_text())
            if isinstance(body, dict):
                self.bodies[path.stem] = body

    def problems(self, experiment: str) -> list[str]:
        """Return the problems for which an experiment has results."""
        return list(self.bodies.get(experiment, {}).get("problems", {}))

    def on(self, experiment: str, problem: str) -> Comparison:
        """Return the curves of one problem."""
        body = self.bodies.get(experiment, {})
        entry = body.get("problems", {}).get(problem, {"x": [], "methods": {}})
        unit = 1.0
        if entry["methods"] and body.get("axis", "").startswith("seconds"):
            unit = max(method["at"] for method in entry["methods"].values()) / body["full_evaluations"]
        return Comparison(problem, entry["x"], entry["methods"], unit)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The methods on one problem.

    unit: the length of a full evaluation on the axis.
    """

    problem: str
    x: list[float]
    methods: Mapping[str, Mapping[str, Any]]
    unit: float = 1.0

    def final(self, method: str) -> Value | None:
        """Return the final value."""
        if method not in self.methods:
            return None
        final = self.methods[method]["final"]
        mean, error = mean_error(final.values() if isinstance(final, Mapping) else final)
        return Value(mean, math.inf if error is None else error)

    def at(self, method: str, x: float) -> Value | None:
        """Return the value at the last point of the axis up to x full evaluations."""
        if method not in self.methods:
            return None
        curve = self.methods[method]
        known = [
            (m, e)
            for at, m, e in zip(self.x, curve["mean"], curve["error"], strict=True)
            if at <= x * self.unit * (1 + 1e-6) and m is not None
        ]
        if not known:  # a method without smaller budgets has its first result just then
            first = next((i for i, m in enumerate(curve["mean"]) if m is not None), None)
            if first is None or self.x[first] > 1.25 * x * self.unit:
                return None
            known = [(curve["mean"][first], curve["error"][first])]
        mean, error = known[-1]
        return Value(mean, math.inf if error is None else error)

    def reaches(self, method: str, level: float) -> float | None:
        """Return where the mean first reaches this level."""
        curve = self.methods.get(method, {"mean": []})["mean"]
        found = (x for x, mean in zip(self.x, curve, strict=False) if mean is not None and mean <= level)
        return next(found, None)

    def lower(self, a: str, b: str, x: float | None = None) -> Finding:
        """Whether a is below b, at the end or at x."""
        first, second = self._pair(a, b, x)
        if first is None or second is None:
            return self._missing(a, b)
        verdict = HOLDS if first.below(second) else FAILS if second.below(first) else UNDECIDED
        return Finding(verdict, self._numbers(a, first, b, second, x), self._about(a, b), first.gap(second))

    def no_higher(self, a: str, b: str, x: float | None = None) -> Finding:
        """Whether a is not above b, at the end or at x."""
        first, second = self._pair(a, b, x)
        if first is None or second is None:
            return self._missing(a, b)
        numbers = self._numbers(a, first, b, second, x)
        if math.isinf(first.error + second.error):
            return Finding(UNDECIDED, numbers, self._about(a, b))
        return Finding(FAILS if second.below(first) else HOLDS, numbers, self._about(a, b), first.gap(second))

    def times_faster(self, a: str, b: str, factor: float) -> Finding:
        """Whether a's mean is at b's final mean after at most 1/factor of b's run."""
        end = self.final(b)
        if end is None or a not in self.methods:
            return self._missing(a, b)
        stored = self.methods[b].get("bohb_reaches") if a == "bohb" else None
        x = stored or self.reaches(a, end.mean)
        if x is None:
            numbers = f"{self.problem}: {name(a)} never reaches {name(b)}'s final {end}"
            return Finding(FAILS, numbers, self._about(a, b))
        times = self.methods[b]["at"] / x
        numbers = f"{self.problem}: {times:.0f}× earlier"
        return Finding(HOLDS if times >= factor else FAILS, numbers, self._about(a, b))

    def converged(self, method: str, level: float) -> Finding:
        """Whether the final mean is at most this level."""
        end = self.final(method)
        if end is None:
            return self._missing(method)
        return Finding(HOLDS if end.mean <= level else FAILS, f"{self.problem}: {name(method)} {end} (limit {level:g})")

    def _pair(self, a: str, b: str, x: float | None) -> tuple[Value | None, Value | None]:
        if x is None and a in self.methods and b in self.methods:
            first, second = self.methods[a]["at"], self.methods[b]["at"]
            if min(first, second) < 0.9 * max(first, second):  # one had shorter runs: compare where they ended
                x = min(first, second) / self.unit
        if x is None:
            return self.final(a), self.final(b)
        return self.at(a, x), self.at(b, x)

    def _numbers(self, a: str, first: Value, b: str, second: Value, x: float | None) -> str:
        where = "" if x is None else f" at {x:.3g}"
        return f"{self.problem}{where}: {name(a)} {first}, {name(b)} {second}"

    def _about(self, a: str, b: str) -> str:
        return f"{self.problem}, {name(a)} and {name(b)}"

    def _missing(self, *methods: str) -> Finding:
        absent = [name(m) for m in methods if m not in self.methods]
        return Finding(
            NOT_MEASURED, f"{self.problem}: no runs of {', '.join(absent)}" if self.methods and absent else ""
        )


def name(method: str) -> str:
    """Return the display name of a method."""
    return LABELS.get(method, method)


def negated(finding: Finding) -> Finding:
    """Return the verdict on the opposite claim."""
    return Finding({HOLDS: FAILS, FAILS: HOLDS}.get(finding.verdict, finding.verdict), finding.numbers)
