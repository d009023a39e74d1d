"""BOHB inside Optuna beside Optuna's own: TPE with the Hyperband pruner, and the time of a suggestion beside GPSampler.

    python -m benchmarks.optuna_compare
    python -m benchmarks.optuna_compare --page      # only write the page again, from the stored numbers

The problems are the held-out ones of LCBench. Both methods run in one process, report
on the same four rungs, and may spend 60 full evaluations; a trial that goes on is charged for the added epochs only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.better.protocol import FAMILIES, FLOOR, confirming, scale
from benchmarks.better.statistics import floored, interval, means
from benchmarks.problem import Parameter, Problem, parents_first
from benchmarks.problems import problem_of
from bohb.integrations.optuna import BOHBPruner, BOHBSampler

ROOT = Path(__file__).parent.parent
PROBLEMS = confirming(FAMILIES["lcbench"])
ETA, EVALUATIONS = 3, 60.0
LABELS = {"bohb": "BOHBSampler + BOHBPruner", "tpe-hyperband": "TPESampler + HyperbandPruner"}
PACKAGES = ("bohb", "optuna", "ConfigSpace", "numpy", "scipy", "torch", "onnxruntime")
KNOWN, SUGGESTIONS, PARAMETERS = 1000, 5, 7  # of the measured suggestions


def study_of(method: str, problem: Problem, seed: int) -> optuna.Study:
    """Return an empty study. Its resource counts in units of the smallest budget."""
    most = ETA ** (len(problem.budgets) - 1)
    if method == "bohb":
        sampler = BOHBSampler(1, most, ETA, seed=seed, budget_of_step=float)
        return optuna.create_study(sampler=sampler, pruner=BOHBPruner(sampler))
    # The pruner derives a trial's bracket from the study's name: a fixed one makes runs repeatable.
    return optuna.create_study(
        study_name=f"rival-{seed}",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(1, most, ETA),
    )


def run(method: str, name: str, seed: int, evaluations: float = EVALUATIONS) -> dict[str, Any]:
    """Run one study; return the regret of its best complete trial."""
    problem, before = problem_of(name), time.process_time()
    study = study_of(method, problem, seed)
    spent, best, regret = 0.0, float("inf"), float("inf")
    while spent < evaluations:
        trial = study.ask()
        config = suggest(trial, problem.parameters)
        reached = 0.0
        for rung, budget in enumerate(problem.budgets):
            spent += (budget - reached) / problem.budgets[-1]
            reached = budget
            if spent > evaluations * (1 + 1e-9):
                return _row(method, name, seed, regret, study, before)
            loss = problem.evaluate(config, budget, seed).loss
            assert loss is not None  # the surrogates never fail
            trial.report(loss, ETA**rung)
            if rung + 1 < len(problem.budgets) and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, loss)
            assert loss is not None
            if loss < best:
                best, regret = loss, problem.regret(config, loss)
    return _row(method, name, seed, regret, study, before)


def _row(method: str, problem: str, seed: int, regret: float, study: optuna.Study, before: float) -> dict[str, Any]:
    states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
    return {
        "method": method,
        "problem": problem,
        "seed": seed,
        "regret": regret,
        "trials": len(states),
        "complete": states.count("COMPLETE"),
        "seconds": round(time.process_time() - before, 2),
    }


def suggest(trial: optuna.Trial, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Suggest a configuration, define by run."""
    config: dict[str, Any] = {}
    for p in parents_first(parameters):
        if not p.active(config):
            continue
        if p.choices:
            config[p.name] = trial.suggest_categorical(p.name, p.choices)
        elif p.kind == "int":
            assert p.low is not None
            assert p.high is not None
            config[p.name] = trial.suggest_int(p.name, int(p.low), int(p.high), log=p.log)
        else:
            assert p.low is not None
            assert p.high is not None
            config[p.name] = trial.suggest_float(p.name, p.low, p.high, log=p.log)
    return config


def suggestion_seconds(sampler: optuna.samplers.BaseSampler, known: int = KNOWN) -> list[float]:
    """Return the CPU seconds of further trials of a study that has complete trials already."""
    study, rng = optuna.create_study(sampler=sampler), np.random.default_rng(0)
    space: dict[str, optuna.distributions.BaseDistribution] = {
        f"x{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(PARAMETERS)
    }
    for _ in range(known):
        x = {name: float(rng.random()) for name in space}
        loss = sum((value - 0.3) ** 2 for value in x.values())
        study.add_trial(
            optuna.trial.create_trial(
                params=x,
                distributions=space,
                value=loss,
                intermediate_values={step - 1: loss + 1 / step for step in (1, 3, 9, 27)},
            )
        )
    seconds = []
    for _ in range(SUGGESTIONS + 1):  # the first one reads the whole study
        before = time.process_time()
        trial = study.ask(space)
        seconds.append(time.process_time() - before)
        study.tell(trial, sum((value - 0.3) ** 2 for value in trial.params.values()))
    return seconds


def ratio(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the ratio of mean regrets, the geometric mean over problems, with its interval; and the wins."""
    regrets: dict[str, dict[str, Any]] = {}
    for problem in {r["problem"] for r in runs}:
        for method in LABELS:
            found = [r["regret"] for r in runs if (r["problem"], r["method"]) == (problem, method)]
            regrets.setdefault(problem, {})[method] = floored(np.array(found), FLOOR, scale(problem))
    known = means(np.random.default_rng(0), regrets, tuple(LABELS))
    assert known is not None
    logs, drawn = np.log(known.observed), np.log(known.replicates)
    value = interval(
        float(np.exp((logs[:, 1] - logs[:, 0]).mean())), np.exp((drawn[:, :, 1] - drawn[:, :, 0]).mean(axis=1))
    )
    by_problem = dict(zip(known.problems, np.exp(logs[:, 1] - logs[:, 0]).tolist(), strict=True))
    return {"value": value.value, "low": value.low, "high": value.high, "by problem": dict(sorted(by_problem.items()))}


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/optuna.md."""
    found, times, source, runs = body["ratio"], body["suggestion"], body["source"], body["runs"]
    theirs = times.get("GPSampler")  # None if it was not measured
    faster = None if theirs is None else theirs / times["BOHBSampler"]
    wins = sum(value > 1 for value in found["by problem"].values())
    claims = [
        report.verdict(
            found["value"] >= 2,
            "the regret after 60 full evaluations is at least 2 times lower than that of TPE + HyperbandPruner",
            f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}] times, lower on {wins} of "
            f"{len(found['by problem'])} problems",
        ),
        report.verdict(
            None if faster is None else faster >= 5,
            f"a suggestion with {KNOWN} known trials is at least 5 times faster than that of GPSampler",
            f"{1000 * times['BOHBSampler']:.0f} ms of CPU time, "
            + ("GPSampler not measured" if theirs is None else f"GPSampler {1000 * theirs:.0f} ms, {faster:.1f} times"),
        ),
    ]
    text = [
        "`make bench-optuna` measures again. The ratio is the geometric mean over problems of ratios of mean regrets",
        "over seeds, with a bootstrap interval of 95 % over problems and seeds. Regrets count as at least",
        f"{FLOOR:g} of a problem's scale, as for [BEST](better.md). A suggestion is the median of {SUGGESTIONS},",
        f"in a study of {PARAMETERS} floats whose trials have intermediate values on all budgets. The first one, which",
        f"reads the whole study, took {times['BOHBSampler, first']:.2f} s.",
        "How the pruner compares trials was chosen among three rules, on the six other LCBench problems.",
    ]
    problems = [
        [name, f"{value:.2f}", *(f"{_mean(runs, 'regret', method, name):.5f}" for method in LABELS)]
        for name, value in found["by problem"].items()
    ]
    costs = [
        [
            label,
            *(
                f"{_mean(runs, key, method):.{digits}f}"
                for key, digits in (("trials", 0), ("complete", 0), ("seconds", 1))
            ),
        ]
        for method, label in LABELS.items()
    ]
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    first = (
        f"After 60 full evaluations, TPESampler with HyperbandPruner has {found['value']:.2f} [{found['low']:.2f}, "
        f"{found['high']:.2f}] times the regret of BOHBSampler with BOHBPruner."
    )
    second = f"BOHB's mean regret is lower on {wins} of {len(found['by problem'])} problems."
    third = f"A suggestion with {KNOWN} known trials takes {1000 * times['BOHBSampler']:.0f} ms of CPU time."
    lines = [
        *report.opening(
            "BOHB inside Optuna",
            "Does Optuna find better configurations with `BOHBSampler` and `BOHBPruner` than with its TPE sampler and "
            "`HyperbandPruner`?",
            [first, second, third],
        ),
        *report.goal_table(claims),
        "",
        *text,
        *([body["note"]] if "note" in body else []),
        "",
    ]
    lines += [*_table(["problem", "ratio of regrets", *LABELS.values()], problems), ""]
    lines += [*_table(["method", "trials", "complete", "CPU s"], costs), ""]
    seeds = f"Seeds {source['seeds'][0]} to {source['seeds'][-1]}"
    return "\n".join([*lines, f"{seeds}; {source['date'][:10]}; {source['cpu']}; {versions}.", ""])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _mean(runs: Sequence[Mapping[str, Any]], key: str, method: str, problem: str | None = None) -> float:
    return float(np.mean([r[key] for r in runs if r["method"] == method and problem in (None, r["problem"])]))


def measure(seeds: Sequence[int], problems: Sequence[str], evaluations: float) -> dict[str, Any]:
    """Perform all runs and measure the suggestions."""
    runs = []
    for seed in seeds:
        for problem in problems:
            runs += [run(method, problem, seed, evaluations) for method in LABELS]
        print(f"# seed {seed} done", flush=True)
    samplers = {"BOHBSampler": BOHBSampler(1, 27, seed=0), "GPSampler": optuna.samplers.GPSampler(seed=0)}
    times: dict[str, float] = {}
    for name, sampler in samplers.items():
        first, *others = suggestion_seconds(sampler)
        times |= {name: float(np.median(others)), f"{name}, first": first}
    source = report.provenance(list(seeds), PACKAGES)
    body: dict[str, Any] = report.finite({"source": source, "ratio": ratio(runs), "suggestion": times, "runs": runs})
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    stored = options.out / "optuna.json"
    if not options.page:
        with threadpool_limits(1):
            body = measure(range(options.seeds), PROBLEMS, EVALUATIONS)
        stored.write_text(json.dumps(body, allow_nan=False).replace('{"method"', '\n{"method"') + "\n")
    body = json.loads(stored.read_text())
    (options.out / "optuna.md").write_text(page(body))
    print(page(body))


if __name__ == "__main__":
    main()
