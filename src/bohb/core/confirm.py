"""Confirmation: the most promising configurations are evaluated again with new seeds, to see which is really best.

The evaluation by which a configuration was selected is too good: of many noisy losses the lowest ones were lucky. Only
the new evaluations count here. They are shared out by successive rejects (Audibert, Bubeck and Munos, 2010): after each
stage the candidate with the highest mean loss is rejected, and so are those that are clearly worse than the best. Most
repetitions go to the candidates that are hard to tell apart, and none are spent once one is left. Which evaluation is
due depends on the results so far and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import fmean, variance
from typing import Any, NamedTuple

from bohb.core.events import ConfirmationFinished, ConfirmationStarted, RepeatFinished
from bohb.core.goals import PLAIN, Goals
from bohb.core.results import Result
from bohb.core.trial import Origin, Outcome, Trial
from bohb.errors import NoResult

PILOT = 2  # evaluations that every candidate gets, the fewest that show noise
CLEARLY = 3.0  # standard errors by which the mean of a candidate that is clearly worse exceeds the lowest


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that is evaluated again.

    trial: the trial by which it was selected; None for the default configuration.
    selected_loss: the loss of that trial, which no estimate uses.
    """

    config: dict[str, Any] = field(hash=False)
    trial: Trial | None = None
    selected_loss: float | None = None

    @property
    def name(self) -> str:
        """How messages name it."""
        return "the default" if self.trial is None else f"trial {self.trial.number}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the new evaluations say about one candidate.

    loss: its expected loss.
    low, high: the ends of the 95 % interval of its expected loss.
    probability: that no other candidate has a lower expected loss.
    """

    loss: float
    low: float
    high: float
    probability: float


@dataclass(frozen=True, slots=True)
class Confirmation:
    """New evaluations of the most promising configurations on the largest budget, and what they say.

    index: position among the confirmations of the study.
    candidates: the most promising first; the default configuration, if there is one, is the last.
    repeats: evaluations per candidate, on average.
    first_number: the first number of the trials that the objective is called with.
    goals: those of the study. Losses and estimates are minimised; `loss` and `interval` are what the user knows.
    outcomes: the new evaluations, by candidate and repetition.
    chosen: the index of the winner; None before the end, or if every candidate failed.
    estimates: one per candidate; None for one without a successful evaluation. Empty before the end.
    noise: the standard deviation of single evaluations.
    gain: expected loss of the default less the lowest of the other candidates, and the ends of its 95 % interval; None
        without a default.
    """

    index: int
    budget: float
    repeats: int
    candidates: tuple[Candidate, ...]
    first_number: int
    goals: Goals = PLAIN
    outcomes: Mapping[tuple[int, int], Outcome] = field(default_factory=dict, hash=False, repr=False)
    finished: bool = False
    chosen: int | None = None
    estimates: tuple[Estimate | None, ...] = ()
    noise: float | None = None
    gain: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        """Return the winner with its interval and its configuration; `analysis.verdicts` says more."""
        if self.chosen is None:
            return f"confirmation {self.index} has no winner after {len(self.outcomes)} evaluations"
        low, high = self.interval
        lines = [
            f"{self.winner.name}: expected {self.goals.label} {self.loss:.3g} (95 % interval {low:.3g} to {high:.3g}), "
            f"best of {len(self.candidates)} with probability {self.probability:.2f}"
        ]
        return "\n".join([*lines, *(f"  {name} = {value}" for name, value in self.config.items())])

    @property
    def winner(self) -> Candidate:
        """The candidate with the lowest expected loss. Raises NoResult while there is none."""
        if self.chosen is None:
            why = "every candidate failed" if self.finished else "it is unfinished; confirm again to continue it"
            raise NoResult(f"confirmation {self.index} has no winner: {why}")
        return self.candidates[self.chosen]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the winner."""
        return dict(self.winner.config)

    @property
    def loss(self) -> float:
        """The expected loss of the winner; the expected score, if the study maximises one."""
        return self.shown(self._estimate).loss

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the winner's expected loss."""
        estimate = self.shown(self._estimate)
        return estimate.low, estimate.high

    @property
    def probability(self) -> float:
        """The probability that no other candidate has a lower expected loss than the winner."""
        return self._estimate.probability

    @property
    def _estimate(self) -> Estimate:
        found = self.estimates[self.candidates.index(self.winner)]
        assert found is not None
        return found

    def shown(self, estimate: Estimate) -> Estimate:
        """Return an estimate as the user knows the loss: with the other sign if it is maximised."""
        low, high = sorted((self.goals.shown(estimate.low), self.goals.shown(estimate.high)))
        return Estimate(self.goals.shown(estimate.loss), low, high, estimate.probability)

    @property
    def racing(self) -> int:
        """Number of candidates without the default, which is never rejected."""
        return sum(candidate.trial is not None for candidate in self.candidates)

    @property
    def most(self) -> int:
        """Number of evaluations if none of them is saved."""
        return self.repeats * len(self.candidates)

    def losses(self, candidate: int) -> list[float]:
        """Return the losses of a candidate's evaluations so far; +inf where one failed."""
        return [outcome.ranking_loss for outcome in self.evaluations(candidate)]

    def evaluations(self, candidate: int) -> list[Outcome]:
        """Return the evaluations of a candidate so far, in the order of their repetitions."""
        known = sorted(repeat for of, repeat in self.outcomes if of == candidate)
        return [self.outcomes[candidate, repeat] for repeat in known]

    def due(self) -> list[tuple[int, int]]:
        """Return the evaluations that the results so far call for, as (candidate, repetition); none at the end."""
        wanted = self._wanted()
        places = ((repeat, candidate) for candidate, n in enumerate(wanted) for repeat in range(n))
        return [(candidate, repeat) for repeat, candidate in sorted(places) if (candidate, repeat) not in self.outcomes]

    def _wanted(self) -> list[int]:
        """Return how many evaluations of each candidate the results so far call for."""
        wanted = [PILOT] * len(self.candidates)
        candidates = range(len(self.candidates))
        noisy = any(len(set(self.losses(candidate)[:PILOT])) > 1 for candidate in candidates)
        if not self._known(wanted) or not noisy:  # if repetitions never differ, they say nothing
            return wanted
        wanted[self.racing :] = [self.repeats] * (len(wanted) - self.racing)
        left = self._in_question(list(range(self.racing)), PILOT)
        *sizes, last = stages(self.racing, self.repeats)
        for size, meant_for in zip(sizes, range(self.racing, 1, -1), strict=True):
            if len(left) == 1:  # the others are clearly worse: what they have not used is saved
                wanted[left[0]] = max(wanted[left[0]], self.repeats)
                return wanted
            if len(left) == meant_for:
                for candidate in left:
                    wanted[candidate] = size
                if not self._known(wanted):
                    return wanted
                left.remove(max(left, key=lambda candidate: (fmean(self.losses(candidate)[:size]), candidate)))
                left = self._in_question(left, size)
        wanted[left[0]] = last
        return wanted

    def _in_question(self, left: list[int], size: int) -> list[int]:
        """Return the candidates whose first `size` losses are not clearly higher than those of the best."""
        losses = {candidate: self.losses(candidate)[:size] for candidate in left}
        means = {candidate: fmean(found) for candidate, found in losses.items()}
        best = min(means.values())
        ok = [found for found in losses.values() if math.isfinite(sum(found))]
        if math.isinf(best) or not ok:
            return left
        pooled = math.sqrt(fmean(variance(found) for found in ok))
        return [candidate for candidate in left if means[candidate] <= best + CLEARLY * pooled * math.sqrt(2 / size)]

    def _known(self, wanted: Iterable[int]) -> bool:
        return all(len(self.losses(candidate)) >= n for candidate, n in enumerate(wanted))

    def trial(self, candidate: int, repeat: int, seed: int) -> Trial:
        """Return the trial that evaluates a candidate again.

        seed: a new one; continuing an earlier training would repeat its luck.
        """
        chosen = self.candidates[candidate]
        number = self.first_number + repeat * len(self.candidates) + candidate
        place = (0, 0) if chosen.trial is None else (chosen.trial.bracket, chosen.trial.rung)
        config_id = number if chosen.trial is None else chosen.trial.config_id
        origin = Origin.GIVEN if chosen.trial is None else chosen.trial.origin
        return Trial(number, dict(chosen.config), self.budget, config_id, *place, seed, origin, goals=self.goals)


def stages(n: int, repeats: int) -> list[int]:
    """Return how many evaluations each remaining candidate has at the end of each stage, n · repeats in all.

    After every stage but the last one candidate is rejected; what is left at the end goes to the last one.
    """
    log_bar = Fraction(1, 2) + sum(Fraction(1, i) for i in range(2, n + 1))
    spare = (repeats - PILOT) * n
    sizes = [PILOT + math.floor(spare / (log_bar * left)) for left in range(n, 1, -1)]
    return [*sizes, n * repeats - sum(sizes)]


def begun(
    event: ConfirmationStarted, goals: Goals, trials: Mapping[int, Trial], outcomes: Mapping[int, Outcome]
) -> Confirmation:
    """Return the confirmation that an event begins.

    goals, trials, outcomes: those of the study.
    """
    candidates = [Candidate(trials[n].config, trials[n], outcomes[n].loss) for n in event.trials]
    if event.default is not None:
        candidates.append(Candidate(event.default))
    return Confirmation(event.index, event.budget, event.repeats, tuple(candidates), len(trials), goals)


def continued(confirmation: Confirmation, event: RepeatFinished | ConfirmationFinished) -> Confirmation:
    """Return the confirmation after an event."""
    if isinstance(event, RepeatFinished):
        place = (event.candidate, event.repeat)
        return replace(confirmation, outcomes={**confirmation.outcomes, place: event.outcome})
    estimates = tuple(None if found is None else Estimate(*found) for found in event.estimates)
    return replace(
        confirmation, finished=True, chosen=event.winner, estimates=estimates, noise=event.noise, gain=event.gain
    )


def last_confirmed(confirmations: Sequence[Confirmation]) -> Confirmation | None:
    """Return the last confirmation that has a winner."""
    return next((found for found in reversed(confirmations) if found.chosen is not None), None)


class Repeat(NamedTuple):
    """A new evaluation of a configuration, and how many trials of the study had finished before it."""

    after: int
    config: dict[str, Any]
    budget: float
    outcome: Outcome


def promising(results: Iterable[Result], top: int) -> list[int]:
    """Return the trials of the `top` most promising configurations: the largest budget first, then the lowest loss."""
    found: dict[int, int] = {}
    for result in sorted(results, key=lambda r: (-r.budget, r.loss, r.trial.number)):
        found.setdefault(result.trial.config_id, result.trial.number)
    return list(found.values())[:top]
