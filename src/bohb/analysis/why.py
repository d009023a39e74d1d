"""Explain why a trial was sampled, promoted, stopped or reused, as data and in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bohb.analysis.agreement import BracketChoice, bracket_choice
from bohb.analysis.lineage import RungTable, records, rung_of, standing
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.samplers.density import points_needed
from bohb.core.trial import Explains, Origin, Status, Trial
from bohb.errors import JournalError, UnknownTrial
from bohb.units import counted, duration


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened to one trial, and why.

    origin: why it ran; `picked` is how its configuration was first chosen, in trial `config_id`.
    explains: what explains its configuration; None if no sampler proposed it.
    reason: the numbers behind `picked`, as they were stored.
    from_trial, from_rung: the trial and the rung that it was promoted from; None if it was not promoted.
    reuses: the trial whose result it reuses; None if it ran itself.
    status: None while it is unfinished.
    lost: how often its worker was lost; `waiting`: whether it waits to be started again.
    rung: its rung, with ranks, cut-off and promotions.
    rank: its rank among the finished trials of its rung, from 1; None if it failed or is unfinished.
    promoted_to: the trial that runs its configuration on the next rung; None if there is none yet.
    fate: "running", "waiting", "failed", "stopped", "promoted", "undecided" or "last rung".
    incumbent: whether it is the best result of the study.
    bracket: its bracket, and the numbers behind its choice, if it was chosen.
    sentences: all of this in words.
    """

    number: int
    config_id: int
    origin: Origin
    picked: Origin
    explains: Explains | None
    reason: dict[str, Any]
    from_trial: int | None
    from_rung: RungTable | None
    reuses: int | None
    status: Status | None
    loss: float | None
    lost: int
    waiting: bool
    rung: RungTable
    rank: int | None
    promoted_to: int | None
    fate: str
    incumbent: bool
    bracket: BracketChoice
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        """Return the sentences, one per line."""
        return "\n".join(self.sentences)


def why(history: History, number: int) -> Explanation:
    """Explain one trial. Raises UnknownTrial."""
    if number not in history.trials:
        raise UnknownTrial(f"there is no trial {number!r}; this study has started {len(history.trials)} trials")
    trial = history.trials[number]
    outcome = history.outcomes.get(number)
    rung = rung_of(history, number)
    entry = next(entry for entry in rung.entries if entry.number == number)
    origin_trial = trial.from_trial
    from_rung = None if origin_trial is None else rung_of(history, origin_trial)
    promoted_to = next((n for n, other in history.trials.items() if other.from_trial == number), None)
    first = history.trials[trial.config_id]
    fate = _fate(history, number, rung, entry.promoted)
    best = history.incumbent
    incumbent = best is not None and best.trial.number == number
    bracket = bracket_choice(history, trial.bracket)
    try:
        chosen = [*_chosen(history, first, trial)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(
            f"the reason stored with trial {first.number} cannot be read ({type(error).__name__}: {error}); "
            "it was not written by bohb"
        ) from error
    sentences = [
        *chosen,
        *_proposers(history, first),
        *_promoted_from(history, trial, origin_trial, from_rung),
        *_became(history, trial),
        *standing(history, number, rung),
        *_went_on(history.goals, rung, entry.rank, fate, promoted_to),
        *_bracket(history, bracket),
        *(["It is the incumbent: the best result on the largest budget so far."] if incumbent else []),
    ]
    return Explanation(
        number=number,
        config_id=trial.config_id,
        origin=trial.origin,
        picked=first.origin,
        explains=first.explains,
        reason=dict(first.reason) if first.origin is not Origin.PROMOTED else {},
        from_trial=origin_trial,
        from_rung=from_rung,
        reuses=trial.reuses,
        status=None if outcome is None else outcome.status,
        loss=None if outcome is None else history.goals.shown(outcome.loss),
        lost=history.losses.get(number, 0),
        waiting=number in history.lost,
        rung=rung,
        rank=entry.rank,
        promoted_to=promoted_to,
        fate=fate,
        incumbent=incumbent,
        bracket=bracket,
        sentences=tuple(sentences),
    )


def _fate(history: History, number: int, rung: RungTable, promoted: bool | None) -> str:
    if number in history.lost:
        return "waiting"
    if number in history.pending:
        return "running"
    if not history.outcomes[number].ok:
        return "failed"
    if rung.next_budget is None:
        return "last rung"
    if promoted is None:
        return "undecided"
    return "promoted" if promoted else "stopped"


def _chosen(history: History, first: Trial, trial: Trial) -> Iterator[str]:
    """How the configuration was chosen."""
    subject = (
        "Its configuration"
        if first.number == trial.number
        else f"Its configuration (first run as trial {first.number})"
    )
    reason = first.reason
    match first.origin:
        case Origin.GIVEN:
            yield f"{subject} was given by the user."
        case Origin.MODEL if first.explains == "function":
            yield f"{subject} was proposed by the sampler {reason['sampler']!r}."
        case Origin.MODEL if first.explains == "process":
            yield from _by_process(history.goals, subject, reason)
        case Origin.MODEL:
            log_ratio = reason.get("log_ratio", 0.0)
            name = "model" if history.settings.explains == "density" else "density"
            yield (
                f"{subject} was proposed by the {name}, as the best of {history.settings.num_samples} candidates: it "
                f"is {_times(log_ratio)} among good configurations as among bad ones (log l/g = {log_ratio:.3g})."
            )
            if "model_budget" in reason:
                yield (
                    f"The model was fitted to {reason.get('model_points')} results on budget "
                    f"{reason['model_budget']:g}; the best {reason.get('good_points')} count as good."
                )
        case _:
            how = ", uniformly instead of from the prior" if reason.get("uniform") else ""
            if "chance" in reason:
                how = f", among those likely to keep the constraints (with a probability of {reason['chance']:.3g})"
            yield f"{subject} was drawn at random{_random_why(history, first)}{how}."


def _proposers(history: History, first: Trial) -> Iterator[str]:
    """How those that propose configurations have done, if there are several."""
    known = records(history)
    if first.origin is Origin.MODEL and len(known) > 1:
        done = ", ".join(f"{record.proposer} {record.rank:.2f} ({record.n})" for record in known)
        yield f"Mean rank of new configurations among all on the same budget, 0 is best: {done}."


def _by_process(goals: Goals, subject: str, reason: Mapping[str, Any]) -> Iterator[str]:
    """What the Gaussian process expected of a configuration that it proposed."""
    yield (
        f"{subject} was proposed by the Gaussian process, as the candidate with the largest expected improvement on "
        f"the largest budget (log EI = {reason['log_improvement']:.3g}, in standard deviations of the losses)."
    )
    if "expected" in reason:
        yield from _by_processes(goals, reason)
        return
    results = "results on the largest budget alone" if "largest_only" in reason else "results"
    yield (
        f"The process was fitted to {reason['model_points']} {results}. It expected a {goals.label} of "
        f"{_loss(goals, reason['expected_loss'])} ± {reason['deviation']:.3g} there, and "
        f"{_loss(goals, reason['best_expected_loss'])} for the best configuration among them."
    )
    if "log_prior" in reason:
        yield (
            f"The prior of the space changed the logarithm of its score by {reason['log_prior']:+.3g}. The prior had "
            f"the weight {reason['prior_weight']:.3g}, which decreases with every result."
        )
    if "earlier_agreement" in reason:
        known = ", ".join(f"{agreement:.2f}" for agreement in reason["earlier_agreement"])
        yield f"The correlation of the results of earlier studies with those of this one was estimated as {known}."


def _by_processes(goals: Goals, reason: Mapping[str, Any]) -> Iterator[str]:
    """What several processes expected: one for each objective and each constraint."""
    deviations = reason["deviations"]
    known = ", ".join(f"{name} {value:.6g} ± {deviations[name]:.3g}" for name, value in reason["expected"].items())
    yield (
        f"There is one process for each objective and constraint. From {reason['model_points']} results they expected "
        f"{known}."
    )
    if goals.constraints and "chance" in reason:
        yield f"The constraints were expected to be kept with a probability of {reason['chance']:.3g}."
    if not reason["front"]:
        yield "No configuration was likely to keep the constraints yet, so this probability alone was maximised."
    elif goals.several:
        yield f"Improvement means hypervolume beyond the {reason['front']} best configurations known."


def _times(log_ratio: float) -> str:
    if log_ratio > math.log(1e6):
        return "more than a million times as likely"
    if log_ratio < -math.log(1e6):
        return "less than a millionth as likely"
    return f"{math.exp(log_ratio):.3g} times as likely"


def _random_why(history: History, trial: Trial) -> str:
    settings = history.settings
    match trial.reason.get("why", ""):
        case "random fraction":
            return f", like a share of {settings.random_fraction:.3g} of all new configurations"
        case "no model yet":
            needed = f"{points_needed(history.space, settings)} results on one budget"
            if settings.explains == "density":
                return f", because there was no model yet: it needs {needed}"
            return f", because neither the process nor the density had a model yet: the density needs {needed}"
        case "no candidate allowed":
            return ", because every candidate of the model was forbidden or had been evaluated before"
        case "sampler declined":
            return ", because the sampler left the choice to the prior"
        case "few left":
            return " from the few remaining configurations of this budget"
        case _:
            return ""


def _promoted_from(history: History, trial: Trial, number: int | None, rung: RungTable | None) -> Iterator[str]:
    if rung is None or number is None:
        return
    goals, before = history.goals, history.outcomes[number]
    entry = next(entry for entry in rung.entries if entry.number == number)
    rank = "" if entry.rank is None else f", rank {entry.rank} of {rung.finished}"
    what = goals.described(before.ranking_loss, before.values)
    source = f"trial {number} ({what} on budget {rung.budget:g}{rank})"
    yield f"It was promoted from {source}: {_best(rung)} promoted{_cutoff(goals, rung)}{_place(goals, trial)}."
    if trial.reuses is not None:
        yield (
            f"It did not run: it reuses the result of trial {trial.reuses}, which had already evaluated this "
            f"configuration on budget {trial.budget:g}."
        )


def _became(history: History, trial: Trial) -> Iterator[str]:
    """What happened when it ran."""
    number = trial.number
    lost = history.losses.get(number, 0)
    asked = history.retries.get(number, ())
    if number in history.lost and asked and asked[-1].attempt == trial.attempt:
        yield f"It asked to be started again ({history.lost[number]}), and waits for that."
    elif number in history.lost:
        yield f"Its worker was lost ({history.lost[number]}); it waits to be started again."
    elif number in history.pending:
        again = f", attempt {trial.attempt}" if trial.attempt > 1 else ""
        yield f"It is running on budget {trial.budget:g}{again}."
    else:
        outcome = history.outcomes[number]
        if outcome.ok:
            assert outcome.loss is not None
            what = history.goals.described(outcome.loss, outcome.values)
            yield f"It finished on budget {trial.budget:g} with {what}."
        else:
            cause = "" if outcome.error is None else f": {outcome.error}"
            yield f"It failed on budget {trial.budget:g} ({outcome.status.value}){cause}"
    if lost and number not in history.lost:
        yield f"It had lost its worker {'once' if lost == 1 else f'{lost} times'} before."
    if asked and number not in history.lost:
        yield f"It had asked {counted(len(asked), 'time')} to be started again, at last: {asked[-1].reason}."


def _went_on(goals: Goals, rung: RungTable, rank: int | None, fate: str, promoted_to: int | None) -> Iterator[str]:
    """The decision of its rung."""
    place = f"rung {rung.rung} of bracket {rung.bracket}"
    ranked = f"It has rank {rank} of {rung.finished} on {place}"
    match fate:
        case "failed":
            yield f"A failed trial is never promoted, so its configuration stopped on {place}."
        case "last rung":
            yield f"{ranked}, the last rung of the bracket."
        case "undecided":
            yield (
                f"{ranked} so far. When the remaining {rung.planned - rung.finished} of {rung.planned} trials have "
                f"finished, {_best(rung, 'is', 'are')} promoted to budget {rung.next_budget:g}."
            )
        case "stopped":
            where = f"budget {rung.next_budget:g}{_cutoff(goals, rung)}"
            yield f"{ranked}; {_best(rung)} promoted to {where}, so it was stopped."
        case "promoted":
            next_trial = "." if promoted_to is None else f", where its configuration is trial {promoted_to}."
            yield f"{ranked}; {_best(rung)} promoted to budget {rung.next_budget:g}{next_trial}"


_INFORMED = {  # by verdict, what is special about a bracket of an informed study
    "published": "is the next one in the order of Hyperband",
    "skips": "leaves out the lower rungs, because they no longer pay",
    "repeated": "repeats the last one in the order of Hyperband, because no bracket with its rungs had finished",
}


def _bracket(history: History, choice: BracketChoice) -> Iterator[str]:
    """Why its bracket has its rungs, if that was a choice."""
    name = f"Bracket {choice.index}"
    if choice.verdict == "given":
        yield f"{name} consists of this configuration alone, because the user wanted it on budget {choice.start:g}."
        return
    if choice.verdict == "deadline":
        left = duration(history.schedule.planned[choice.index].seconds_left or 0.0)
        yield f"{name} was chosen because {left} were left until the deadline."
        return
    if choice.verdict == "grown":
        yield f"{name} continues the best configurations on larger budgets, because the largest budget has grown."
        return
    if choice.to_top or choice.verdict == "repeated":
        yield f"{name} {_INFORMED[choice.verdict]}."
    if choice.to_top:
        known = ", ".join(f"{rho:.2f} for {b:g}" for b, rho in zip(choice.starts[:-1], choice.to_top, strict=True))
        yield (
            "For the most promising configurations, the process expected this correlation of a result on a smaller "
            f"budget with one on {choice.starts[-1]:g}: {known}."
        )
        gains = ", ".join(f"{gain:.2f} from {b:g}" for b, gain in zip(choice.starts, choice.gains, strict=True))
        yield (
            f"The expected gain of a bracket, in standard deviations of its best configuration below the mean: {gains}."
        )


def _best(rung: RungTable, one: str = "was", several: str = "were") -> str:
    """The subject and verb of a sentence about promotions."""
    return f"only the best {one}" if rung.keep == 1 else f"the best {rung.keep} {several}"


def _place(goals: Goals, trial: Trial) -> str:
    """Say what decided a promotion that did not follow from the loss alone."""
    reason = trial.reason
    if "violation" in reason:
        return f"; it violates the constraints (by {reason['violation']:.3g}), and too few trials of its rung keep them"
    if "front" not in reason:
        return ""
    kept = "it keeps the constraints and " if goals.constraints else "it "
    if not goals.several:
        return f"; {kept}had rank {reason['rank']} of {reason['of']}"
    which = "the first front" if reason["front"] == 1 else f"front {reason['front']}"
    return f"; {kept}is on {which} of its rung (rank {reason['rank']} of {reason['of']})"


def _cutoff(goals: Goals, rung: RungTable) -> str:
    if rung.cutoff is None:
        return ""
    towards = "down" if goals.objectives[0].maximised else "up"
    return f" ({towards} to {goals.label} {_loss(goals, rung.cutoff)})"


def _loss(goals: Goals, loss: float | None) -> str:
    return "unknown" if loss is None else f"{goals.shown(loss):.6g}"
