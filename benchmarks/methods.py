"""Our own methods by name, behind the harness's ask and tell; other names are rivals.

Settings can be changed in the name: `bohb:num_samples=16` or `bohb:eta=2:random_fraction=0`.
"""

from __future__ import annotations

import ast
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np

import bohb
from benchmarks.better.without import without
from benchmarks.problem import Evaluation, Method, Parameter, Problem, Suggestion, geometric
from benchmarks.problems import lowest_budget
from bohb.core.decide import PlanBracket, StartSample, decide
from bohb.core.samplers.density import fit_model, model_budget, points_needed
from bohb.core.samplers.observations import Observations
from bohb.core.samplers.proposal import Situation
from bohb.core.space import Array
from bohb.errors import NoTrialReady, StudyDone
from bohb.journal import MemoryJournal


def bracket_model(rng: np.random.Generator, situation: Situation) -> Array | None:
    """The combination of Wang et al. (2018), as Appendix B describes it: each bracket's model knows that bracket alone.

    With several workers more than one bracket may be open; the model is that of the bracket the sample is drawn for.
    """
    history, space, settings = situation.history, situation.space, situation.settings
    decision = decide(history)
    assert isinstance(decision, StartSample | PlanBracket)
    observed: dict[float, Observations] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        if trial.bracket == decision.bracket:
            d_b = observed.setdefault(trial.budget, Observations(space.d))
            d_b.add(space.encode(trial.config), outcome.ranking_loss)
    budget = model_budget(observed, points_needed(space, settings))
    if budget is None:
        return None
    model = fit_model(space, budget, observed[budget], settings)
    candidates = space.snap(model.good.sample(rng, settings.num_samples, settings.bandwidth_factor))
    best: Array = candidates[int(model.log_ratio(candidates).argmax())]
    return best


OURS: dict[str, dict[str, Any]] = {
    "bohb": {"preset": "paper"},
    "best": {"preset": "best"},
    "hyperband": {"preset": "paper", "random_fraction": 1},
    "random": {"preset": "paper", "random_fraction": 1, "one_budget": True},
    "bohb-one-budget": {"preset": "paper", "one_budget": True},
    "hpbandster-preset": {"preset": "hpbandster"},
    "widened": {"preset": "paper", "widen_categorical": True},
    "bracket-models": {"preset": "paper", "sampler": bracket_model},
}
# Our own code as well, but it needs more than the package: the module and what to call in it.
ABLATIONS = {
    "gp-budget": ("benchmarks.paper.ablations", "GaussianProcessOverBudgets"),
    "hb-lcnet": ("benchmarks.paper.networks.lcnet", "HyperbandLCNet"),
}


def connect(name: str, problem: Problem, *, seed: int, full_evaluations: float, workers: int = 1) -> Method:
    """Return a method that is ready to work on a problem.

    name: one of OURS, with settings if wanted, or a rival's.
    full_evaluations: the length of the run, for rivals that plan ahead.
    """
    base, *changes = name.split(":")
    if base in OURS:
        return Ours(problem, seed, {**OURS[base], **dict(map(_setting, changes))}, full_evaluations)
    if base in ABLATIONS:
        module, factory = ABLATIONS[base]
        method: Method = getattr(importlib.import_module(module), factory)(problem, seed)
        return method
    from benchmarks.rivals import connect as connect_rival

    return connect_rival(name, problem, seed, math.ceil(full_evaluations), workers)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"setting {text!r} of a method must be like num_samples=16") from error


class Ours:
    """This package, driven by ask and tell.

    settings: arguments of `bohb.BOHB`; also `one_budget`, which means the largest alone, `misspecified`, one of the
        cases of `misspecified_budgets`, and `without`, a part of the Gaussian process that is taken away.
    full_evaluations: the length of the run, in the middle of which a maximum that was too small is raised.
    """

    def __init__(
        self, problem: Problem, seed: int, settings: Mapping[str, Any], full_evaluations: float = math.inf
    ) -> None:
        arguments = dict(settings)
        budgets = problem.budgets
        self._without = arguments.pop("without", None)
        case = arguments.pop("misspecified", None)
        if arguments.pop("one_budget", False):
            arguments["budgets"] = budgets[-1:]
        elif "eta" in arguments:  # keep the smallest and largest budget, and compute those in between
            whole = all(budget == round(budget) for budget in budgets)
            arguments |= {"min_budget": budgets[0], "max_budget": budgets[-1], "integer_budgets": whole}
        else:
            arguments |= {"budgets": misspecified_budgets(case, budgets), "eta": 3}
        self._arguments = {"space": space_of(problem.parameters), "seed": seed, "journal": MemoryJournal(), **arguments}
        self._optimizer = bohb.BOHB(**self._arguments)
        self._lowest = lowest_budget(problem.name)
        self._spent = 0.0  # budget
        self._raise_at = full_evaluations / 2 * budgets[-1] if case == "short" else math.inf
        self._raised = budgets

    def ask(self) -> Suggestion | None:
        if self._spent >= self._raise_at:
            self._raise_at = math.inf
            self._optimizer = bohb.BOHB(**{**self._arguments, "budgets": self._raised})
        try:
            with without(self._without):
                trial = self._optimizer.ask()
        except (NoTrialReady, StudyDone):
            return None
        # An epoch cannot be divided: a smaller request gets the smallest budget and is charged for it.
        budget = max(trial.budget, self._lowest)
        previous = None if trial.previous_budget is None else max(trial.previous_budget, self._lowest)
        self._spent += budget - (previous or 0.0)
        return Suggestion(trial.number, trial.config, budget, previous)

    def tell(self, number: int, evaluation: Evaluation) -> None:
        self._optimizer.tell(number, evaluation.loss if evaluation.ok else float("nan"))

    def close(self) -> None:
        """Do nothing; there is nothing to close."""


def misspecified_budgets(case: str | None, budgets: Sequence[float]) -> tuple[float, ...]:
    """Return wrong budgets.

    case: "low" and "high": the minimum ten times too small or too large; "short": the maximum three times too small;
        None: right.
    """
    match case:
        case None:
            return tuple(budgets)
        case "low":
            return geometric(budgets[0] / 10, budgets[-1])
        case "high":
            return geometric(budgets[0] * 10, budgets[-1])
        case "short":
            return tuple(budgets[:-1])
        case _:
            raise ValueError(f"misspecified={case!r} must be 'low', 'high' or 'short'")


def space_of(parameters: Sequence[Parameter]) -> CS.ConfigurationSpace:
    """Return the search space as a ConfigSpace."""
    space = CS.ConfigurationSpace()
    for p in parameters:
        match p:
            case Parameter(kind="float", low=float() | int() as low, high=float() | int() as high):
                space.add(CS.Float(p.name, (low, high), log=p.log))
            case Parameter(kind="int", low=float() | int() as low, high=float() | int() as high):
                space.add(CS.Integer(p.name, (round(low), round(high)), log=p.log))
            case Parameter(kind="ordinal"):
                space.add(CS.OrdinalHyperparameter(p.name, p.choices))
            case _:
                space.add(CS.CategoricalHyperparameter(p.name, p.choices))
    for p in parameters:
        parts = [CS.InCondition(space[p.name], space[parent], list(values)) for parent, values in p.active_if]
        if parts:
            space.add(parts[0] if len(parts) == 1 else CS.AndConjunction(*parts))
    return space
