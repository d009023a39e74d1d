"""What to think of the best result, in words: what confirmations found, how large the noise is, and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from statistics import fmean
from typing import Any, NamedTuple

from bohb.core.confirm import Confirmation, Estimate, last_confirmed
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.settings import MODELS
from bohb.units import number, short

_DISTINCT = 1.96 * math.sqrt(2)  # deviations by which two single evaluations differ in 5 of 100 cases, by chance alone
_NEAR = 0.001  # of a range: a float that is nearer to its end lies on the edge
_FEWEST = 5  # values of an integer or ordinal hyperparameter; with fewer, an end is often best by chance


def headline(goals: Goals, found: Result) -> str:
    """Return a result in a line: loss 0.1 on budget 9 (trial 3, model)."""
    trial, what = found.trial, goals.described(goals.shown(found.loss), found.values)
    return f"{what} on budget {number(trial.budget)} (trial {trial.number}, {trial.origin.value}{found.caveat})"


def best_title(goals: Goals) -> str:
    """Return the title of the best result: `Best loss`, or `Best score` in a study that maximises a score."""
    return f"Best {short(goals.label, 30)}" if len(goals.names) == 1 else "Best result"


def best_text(goals: Goals, found: Result) -> str:
    """Return the loss of a result as the user knows it, or all its values with their names."""
    shown = goals.shown(found.loss)
    return number(shown) if len(goals.names) == 1 else short(goals.described(shown, found.values), 200)


def best_on_budget(goals: Goals, found: Result) -> str:
    """Return a result under `best_title`: 0.1 on budget 9."""
    return f"{best_text(goals, found)} on budget {number(found.budget)}{found.caveat}"


def result_data(goals: Goals, found: Result) -> dict[str, Any]:
    """Return a finished trial as JSON."""
    trial = found.trial
    named = {} if goals.plain else {"values": found.values, "feasible": found.feasible}
    return {
        "trial": trial.number,
        "loss": goals.shown(found.loss),
        **named,
        "budget": trial.budget,
        "config": trial.config,
        "origin": trial.origin.value,
        "config_id": trial.config_id,
        "seed": trial.seed,
        "info": found.outcome.info,
    }


def columns(confirmation: Confirmation) -> tuple[str, ...]:
    """Return the names of the columns of `rows`."""
    what = confirmation.goals.label
    return "candidate", "evaluations", f"{what} when selected", f"expected {what}", "95 % interval", "P(best)"


def verdict(confirmation: Confirmation) -> list[str]:
    """Return what a confirmation found, in a few sentences."""
    n = len(confirmation.outcomes)
    if not confirmation.finished:
        done = f"{n} of at most {confirmation.most} evaluations"
        return [f"a confirmation is unfinished after {done}; confirm again to continue it"]
    if confirmation.chosen is None:
        return [f"the confirmation found no winner: all of its {n} evaluations failed"]
    winner, (low, high), what = confirmation.winner, confirmation.interval, confirmation.goals.label
    lines = [
        f"confirmed: {winner.name} has the expected {what} {_spread(confirmation.loss, low, high)} on budget "
        f"{confirmation.budget:g}"
    ]
    if len(confirmation.candidates) > 1:
        chance = f"with probability {_chance(confirmation.probability)}"
        lines.append(f"it is the best of {len(confirmation.candidates)} {chance}, by {n} new evaluations")
        if confirmation.probability < 0.95:
            lines.append(f"its lead over the next, {rows(confirmation)[1][0]}, is within the noise")
    if confirmation.noise == 0:
        lines.append("new seeds change nothing: two evaluations of one configuration never differed")
    elif winner.selected_loss is not None:
        selected = confirmation.goals.shown(winner.selected_loss)
        lines.append(f"the {what} by which it was selected, {selected:.6g}, is not used")
    return [*lines, *_default(confirmation)]


def _default(confirmation: Confirmation) -> list[str]:
    """Return how the default configuration compares, if there is one."""
    if confirmation.gain is None:
        return []
    gain, low, high = confirmation.gain
    if confirmation.winner.trial is None:
        return [f"no other configuration is better than the default; the next one is worse by {-gain:.3g}"]
    sure = "" if low > 0 else "; that may be chance"
    return [f"it is better than the default by {_spread(gain, low, high)}{sure}"]


def rows(confirmation: Confirmation) -> list[tuple[str, ...]]:
    """Return one row per candidate with the cells of `columns`, the winner first."""
    estimates = confirmation.estimates or (None,) * len(confirmation.candidates)
    found = []
    for i, (candidate, estimate) in enumerate(zip(confirmation.candidates, estimates, strict=True)):
        losses = confirmation.losses(i)
        failed = sum(math.isinf(loss) for loss in losses)
        n = f"{len(losses)}" + (f" ({failed} failed)" if failed else "")
        selected = "" if candidate.selected_loss is None else f"{confirmation.goals.shown(candidate.selected_loss):.6g}"
        row = (candidate.name, n, selected, *_cells(None if estimate is None else confirmation.shown(estimate)))
        found.append((i != confirmation.chosen, math.inf if estimate is None else estimate.loss, i, row))
    return [row for *_, row in sorted(found)]


def _cells(estimate: Estimate | None) -> tuple[str, str, str]:
    if estimate is None:
        return "", "", ""
    loss, low, high = _rounded(estimate.loss, estimate.low, estimate.high)
    return loss, f"{low} to {high}", _chance(estimate.probability)


def _spread(value: float, low: float, high: float) -> str:
    """Return an estimate with its interval."""
    value_text, low_text, high_text = _rounded(value, low, high)
    return f"{value_text} (95 % interval {low_text} to {high_text})"


def _rounded(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return three numbers with as many digits as the width of their interval justifies: two of the width."""
    largest, width = max(abs(value), abs(low), abs(high)), high - low
    if not 0 < width < math.inf or not 1e-4 <= largest < 1e6 or largest > 1e9 * width:
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    return f"{value:.{decimals}f}", f"{low:.{decimals}f}", f"{high:.{decimals}f}"


def _chance(probability: float) -> str:
    """Return a probability; those near 0 and 1 are not known exactly."""
    return "< 0.01" if probability < 0.01 else "> 0.99" if probability > 0.99 else f"{probability:.2f}"


def last_verdict(history: History) -> list[str]:
    """Return what the study's confirmations found, and what they do not cover."""
    if not history.confirmations:
        return []
    known, last = last_confirmed(history.confirmations), history.confirmations[-1]
    lines = [] if known is None else verdict(known)
    lines += [] if last is known else verdict(last)
    best, covered = history.incumbent, {c.trial.config_id for c in last.candidates if c.trial is not None}
    if best is not None and last.finished and best.trial.config_id not in covered:
        lines.append(f"trial {best.trial.number}, the incumbent, is newer; confirm again to include it")
    return lines


def confirmation_data(found: Confirmation) -> dict[str, Any]:
    """Return a confirmation as JSON."""
    estimates = found.estimates or (None,) * len(found.candidates)
    return {
        "finished": found.finished,
        "budget": found.budget,
        "evaluations": len(found.outcomes),
        "noise": found.noise,
        "winner": found.chosen,
        "gain_over_default": found.gain,
        "candidates": [
            {
                "trial": None if candidate.trial is None else candidate.trial.number,
                "config": candidate.config,
                "selected_loss": found.goals.shown(candidate.selected_loss),
                "losses": [found.goals.shown(outcome.loss) for outcome in found.evaluations(i)],
                "estimate": None if estimate is None else asdict(found.shown(estimate)),
            }
            for i, (candidate, estimate) in enumerate(zip(found.candidates, estimates, strict=True))
        ],
    }


def known_noise(history: History, model: bool = True) -> tuple[float, str] | None:
    """Return the standard deviation of single evaluations on the incumbent's budget, and how it is known.

    It is known from a confirmation, from repetitions of a configuration, or from the Gaussian process of the study.

    model: whether the process may be fitted, which takes about a second to import.
    """
    best = history.incumbent
    if best is None:
        return None
    confirmed = last_confirmed(history.confirmations)
    if confirmed is not None and confirmed.budget == best.budget and confirmed.noise is not None:
        return confirmed.noise, "measured by the confirmation"
    repeated = _repetitions(history, best.budget)
    if repeated is not None:
        return repeated, "measured by repeated evaluations"
    estimated = _of_process(history) if model else None
    return None if estimated is None else (estimated, "estimated by the model")


def _repetitions(history: History, budget: float) -> float | None:
    """Return the deviation between evaluations of one configuration on a budget; None without repetitions."""
    groups: dict[str, list[float]] = {}
    for n, loss in _losses_on(history, budget):
        trial = history.trials[n]
        if trial.reuses is None:
            groups.setdefault(repr(sorted(trial.config.items())), []).append(loss)
    repeated = [(losses, fmean(losses)) for losses in groups.values() if len(losses) > 1]
    if not repeated:
        return None
    squares = math.fsum((loss - mean) ** 2 for losses, mean in repeated for loss in losses)
    return math.sqrt(squares / sum(len(losses) - 1 for losses, _ in repeated))


def _losses_on(history: History, budget: float) -> list[tuple[int, float]]:
    """Return the trials with a result on a budget, and their losses."""
    found = history.outcomes.items()
    return [(n, outcome.ranking_loss) for n, outcome in found if outcome.ok and history.trials[n].budget == budget]


def _of_process(history: History) -> float | None:
    """Return σ on the largest budget as the Gaussian process has learnt it; None if the study has none."""
    full, best = history.budgets[-1], history.incumbent
    if MODELS[history.settings.model] != "process" or best is None or best.budget != full or not history.goals.single:
        return None
    from bohb.core.samplers.gaussian import GaussianSampler  # slow to import, and most studies do without

    surrogate = GaussianSampler(history.space).surrogate(history)
    return None if surrogate is None else surrogate.noise


def lead_within_noise(history: History, model: bool = True) -> str | None:
    """Return a sentence if the lead of the best result does not exceed the noise; None if it does, or if unknown."""
    best = history.incumbent
    if best is None or not history.goals.single:
        return None
    others = [
        (loss, n) for n, loss in _losses_on(history, best.budget) if history.trials[n].config_id != best.trial.config_id
    ]
    if not others:
        return None
    loss, second = min(others)
    noise, lead = known_noise(history, model), loss - best.loss
    if noise is None or lead > _DISTINCT * noise[0] or noise[0] == 0:
        return None
    if lead <= 0:
        return f"trial {second} has the same result with another configuration"
    deviation, source = noise
    return (
        f"the next best, trial {second}, is {lead:.3g} behind: within the noise, since single evaluations deviate by "
        f"{deviation:.3g} ({source})"
    )


def remarks(history: History, model: bool = True) -> list[str]:
    """Return what is wrong with the best result, in a sentence each; nothing without a result.

    It is not on the largest budget, or violates the constraints; one of its values lies on the edge of its range; its
    lead does not exceed the noise, unless a confirmation says more about that.

    model: whether the noise may be taken from a fit of the Gaussian process.
    """
    best, confirmed = history.incumbent, last_confirmed(history.confirmations)
    if best is None:
        return []
    lines = [*below_the_largest_budget(history), *edges(history, confirmed.config if confirmed else best.config)]
    close = None if confirmed else lead_within_noise(history, model)
    return lines + ([close] if close else [])


def below_the_largest_budget(history: History) -> Iterator[str]:
    """Yield sentences if no result on the largest budget keeps the constraints, or if there is none at all."""
    best = history.incumbent
    if best is None:
        return
    full = history.budgets[-1]
    top = history.best.get(full)
    if not best.feasible:
        yield f"no result keeps the constraints; the nearest is {_broken(history, best)}"
    elif top is not None and not top.feasible:
        yield f"no result on budget {full:g} keeps the constraints; the nearest is {_broken(history, top)}"
    if top is None:
        failed = sum(history.trials[n].budget == full for n in history.outcomes)
        why = f"all {failed} trials there failed" if failed else "no trial there has finished"
        yield f"the best result is not on the largest budget, {full:g}: {why}"


def _broken(history: History, result: Result) -> str:
    """Return a result that violates constraints, with those values."""
    broken = [goal for goal in history.goals.constraints if goal.violation(result.values[goal.name])]
    values = ", ".join(f"{goal.name} {number(result.values[goal.name])}, not {goal}" for goal in broken)
    return f"trial {result.trial.number} ({values})"


class _Range(NamedTuple):
    """The values that a hyperparameter may have."""

    low: float
    high: float
    log: bool
    whole: bool

    def end(self, value: float) -> tuple[str, float] | None:
        """Return the end of the range at which a value lies, and what messages call it; None if it lies within."""
        if value in (self.low, self.high):
            return ("smallest", self.low) if value == self.low else ("largest", self.high)
        if self.whole:
            return None
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        share = (at - low) / (high - low)
        return ("smallest", self.low) if share < _NEAR else ("largest", self.high) if share > 1 - _NEAR else None

    def is_natural(self, end: str) -> bool:
        """Whether there may be nothing beyond an end: 0 and 1 often mean none, a single one, or all."""
        bound = self.low if end == "smallest" else self.high
        if self.whole:
            return bound in (0, 1)
        return not self.log and (bound == 0 or (bound == 1 and end == "largest"))


def edges(history: History, config: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each value of a configuration that lies at an end of its range."""
    lines = []
    for name, allowed in _ranges(history).items():
        value = config.get(name)
        found = None if not isinstance(value, int | float) or isinstance(value, bool) else allowed.end(value)
        if found is None or allowed.is_natural(found[0]):
            continue
        end, bound = found
        near = "" if number(value) == number(bound) else f"close to {number(bound)}, "
        lines.append(f"{name} = {number(value)} is {near}the {end} allowed: widen the range?")
    return lines


def _ranges(history: History) -> dict[str, _Range]:
    """Return the ranges as the journal stores them: compiling a space takes longer than everything else here."""
    assert history.created is not None
    found = {}
    for stored in history.created.space.get("hyperparameters", ()):
        if (values := stored.get("sequence")) and all(type(value) in (int, float) for value in values):
            whole, low, high, n = True, min(values), max(values), len(values)
        elif stored.get("lower") is not None and stored.get("upper") is not None:
            low, high = stored["lower"], stored["upper"]
            whole = stored["type"].endswith("int")
            n = high - low + 1 if whole else _FEWEST
        else:
            continue
        if low < high and n >= _FEWEST:
            found[stored["name"]] = _Range(low, high, bool(stored.get("log")), whole)
    return found
