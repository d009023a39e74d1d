"""The pages: what each of them shows, as values for its template."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from bohb.analysis import verdicts
from bohb.analysis.importance import importance
from bohb.analysis.overview import Overview
from bohb.analysis.questions import answers, configurations_beside
from bohb.analysis.trials import failures, finished, notes_of, seconds, started, state
from bohb.analysis.why import why
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.trial import Outcome, Trial
from bohb.dashboard.files import Stored
from bohb.dashboard.query import Query, columns, matching, rows
from bohb.dashboard.rendering import link_to, page, study_page
from bohb.dashboard.studies import Entry, Snapshot
from bohb.errors import InvalidArgument
from bohb.optimizer.creation import LONGEST_TEXT
from bohb.plots.choices import CHOICES
from bohb.plots.registry import PLOTS, Plot, suitable
from bohb.plots.report import copies
from bohb.plots.theme import thinned
from bohb.units import DASH, counted, duration, grouped, number, short, value_text

_RUNNING = 64  # rows of running trials
_BRACKETS = 12
_CAUSES = 5
_FRONT = 30  # rows of the front
_CHARACTERS = 100_000  # shown of a traceback or of `info`
_POINTS = 50  # rows of a learning curve
_PLAIN_ROWS = 100  # of the table without JavaScript
_BESIDE = 6  # trials side by side


def studies_page(journals: list[str], entries: list[tuple[str, Entry | None]], version: str) -> Response:
    """Return the list of studies; a study that has not been read yet has no entry."""
    return page(
        "studies.html", "Studies", version_url="/api/version", version=version, journals=journals, entries=entries
    )


def overview_page(view: Snapshot, now: float, runner: str, editable: bool = False) -> Response:
    """Return the current state of a study.

    runner: who runs it.
    editable: whether notes can be added.
    """
    history, goals, running = view.history, view.history.goals, view.history.running
    with view.lock:
        seen = view.overview.at(now)
    causes, best = failures(history), seen.best
    last = history.confirmations[-1] if history.confirmations else None
    one = len(goals.names) == 1
    drawn, hidden = _brackets(history)
    return study_page(
        "overview.html",
        "/study",
        view,
        seen=seen,
        answers=answers(seen, runner),
        version_url=link_to("/api/version", study=view.name, runner=1),
        version="unfinished" if view.unread else f"{view.version} {runner}",
        copies=[] if best is None else copies(best.config),
        confirmation=None if last is None else (verdicts.columns(last), verdicts.rows(last)),
        notes=notes_of(history),
        editable=editable,
        longest_note=LONGEST_TEXT,
        front=history.front[:_FRONT] if goals.several else [],
        n_front=len(history.front),
        running=list(running.values())[:_RUNNING],
        n_running=len(running),
        brackets=drawn,
        hidden_brackets=hidden,
        best_titles=[verdicts.best_title(goals)] if one else [f"Best: {short(name, 24)}" for name in goals.names],
        best_values=_best_values,
        causes=causes[:_CAUSES],
        hidden_causes=len(causes) - len(causes[:_CAUSES]),
        line=config_line,
    )


def _best_values(goals: Goals, best: Result | None) -> list[float | None]:
    """Return the best result on a budget as the user knows it: one value, or all named ones."""
    if len(goals.names) == 1:
        return [goals.shown(best.loss) if best else None]
    return [best.values.get(name) if best else None for name in goals.names]


def _brackets(history: History) -> tuple[list[dict[str, Any]], int]:
    """Return the open and the latest brackets, the latest first, and how many others there are."""
    shown = sorted(set(history.schedule.open) | set(range(len(history.brackets))[-_BRACKETS:]))[-3 * _BRACKETS :]
    trials = [trial for trial in history.trials.values() if trial.bracket in set(shown)]
    begun = Counter((trial.bracket, trial.rung) for trial in trials)
    done = Counter((trial.bracket, trial.rung) for trial in trials if trial.number in history.outcomes)
    found = []
    for index in reversed(shown):
        halving = history.brackets[index]
        rungs = [
            {
                "budget": plan.budget,
                "planned": begun[index, rung] if halving.rung > rung else plan.size,
                "finished": done[index, rung],
            }
            for rung, plan in enumerate(halving.bracket.rungs)
        ]
        running = sum(begun[index, rung] - done[index, rung] for rung in range(len(rungs)))
        text = "complete" if halving.done else f"on rung {halving.rung}, {running} running"
        found.append({"index": index, "state": text, "rungs": rungs})
    return found, len(history.brackets) - len(shown)


def config_line(config: dict[str, Any], limit: int) -> str:
    """Return a configuration in one line."""
    return short(", ".join(f"{name}={short(value_text(value), 30)}" for name, value in config.items()), limit)


def trials_page(view: Snapshot, query: Query) -> Response:
    """Return the table of trials, and the plots that are linked with it."""
    history, found, trouble = view.history, list[int](), ""
    try:
        found = matching(view, query)
    except InvalidArgument as error:
        trouble = str(error)
    shown = [column for column in columns(history) if column.shown]
    total = counted(len(history.trials), "trial") if history.trials else "No trial has been started yet."
    budget = number(history.budgets[-1], 12)
    with view.lock:
        menus = {key: _menus(PLOTS[key], history) for key in ("parallel", "importance", "slice")}
        ranked = importance(history, shuffles=0)
    axes = [scale.name for scale in history.space.dimensions]
    along = axes[0] if ranked is None else ranked.rows[0].name
    menus["slice"] = [
        (replace(choice, usual=along) if choice.name == "parameter" else choice, values)
        for choice, values in menus["slice"]
    ]
    return study_page(
        "trials.html",
        "/trials",
        view,
        query=query,
        trouble=trouble,
        found_text=f"{grouped(len(found))} of {total}" if query.q else total,
        n_found=len(found),
        example=f"budget = {budget} status = ok",
        columns=shown,
        rows=rows(view, found[:_PLAIN_ROWS], shown),
        menus=menus,
        axes=axes,
        along=along,
        label=short(history.goals.label, 30),
        scripts=("plots", "table"),
    )


def plots_page(view: Snapshot) -> Response:
    """Return all plots of a study, in groups."""
    with view.lock:
        groups = {
            title: [(plot, *plot.texts(view.history), _menus(plot, view.history)) for plot in plots]
            for title, plots in suitable(view.history).items()
        }
    return study_page("plots.html", "/plots", view, groups=groups)


def _menus(plot: Plot, history: History) -> list[tuple[Any, list[str]]]:
    return [(CHOICES[name], values) for name, values in plot.choices(history).items()]


def trial_page(view: Snapshot, trial: Trial, stored: Stored, editable: bool = False) -> Response:
    """Return everything about one trial.

    editable: whether notes can be added.
    """
    history, n = view.history, trial.number
    outcome, goals = history.outcomes.get(n), history.goals
    curve = () if outcome is None else outcome.curve
    mine = view.of_configuration(trial)
    shown = {m: history.outcomes[m] for m in mine if m in history.outcomes}
    return study_page(
        "trial.html",
        "/trials",
        view,
        title=f"Trial {n} of {short(view.name, 100)}",
        version_url=link_to("/api/version", study=view.name, trial=n),
        version=trial_version(view, trial),
        trial=trial,
        outcome=outcome,
        state=state(history, n),
        results=_results(history, outcome),
        began=started(history, n),
        ended=finished(history, n),
        took=seconds(history, n),
        config=[(name, value_text(value)) for name, value in trial.config.items()],
        copies=copies(trial.config),
        notes=notes_of(history, n),
        editable=editable,
        longest_note=LONGEST_TEXT,
        explained=why(history, n),
        by_process=history.trials[trial.config_id].explains == "process",
        label=short(goals.label, 30),
        curve=[tuple(map(number, curve[i])) for i in thinned(len(curve), _POINTS).tolist()],
        n_curve=len(curve),
        lineage=[
            (m, history.trials[m].budget, state(history, m), goals.shown(shown[m].loss) if m in shown else None)
            for m in mine
        ],
        info=json.dumps(outcome.info, indent=2, ensure_ascii=False, default=str) if outcome else "",
        output=stored.output(outcome),
        stored=stored,
        most=_CHARACTERS,
    )


def trial_version(view: Snapshot, trial: Trial) -> str:
    """Return a text that changes when the page of this trial does: with its own state and that of its rung."""
    history = view.history
    halving = history.brackets[trial.bracket]
    parts = (state(history, trial.number), trial.attempt, halving.rung, halving.finished)
    return "-".join(map(str, (*parts, len(view.of_configuration(trial)), len(notes_of(history, trial.number)))))


def _results(history: History, outcome: Outcome | None) -> list[tuple[str, str]]:
    """Return the loss as the user knows it, or all named values and whether they keep the constraints."""
    goals = history.goals
    if len(goals.names) == 1 or outcome is None:
        return [(goals.label.capitalize(), number(goals.shown(outcome.loss) if outcome else None))]
    found = [(name, number(outcome.values.get(name))) for name in goals.names]
    if goals.constraints and outcome.ok:
        found.append(("Constraints", "kept" if history.violation(outcome) == 0 else "violated"))
    return found


def selected_page(view: Snapshot, trials: list[Trial]) -> Response:
    """Return some trials over each other, and the first of them side by side, their differences first."""
    compared = trials[:_BESIDE]
    configs = [{name: value_text(value) for name, value in trial.config.items()} for trial in compared]
    names = dict.fromkeys(name for config in configs for name in config)
    table = [(name, [config.get(name, DASH) for config in configs]) for name in names]
    return study_page(
        "selected.html",
        "/trials",
        view,
        title=f"Selected trials of {view.name[:100]}",
        trials=trials,
        compared=compared,
        different=[row for row in table if len(set(row[1])) > 1],
        same=[row for row in table if len(set(row[1])) == 1],
        facts=_facts_beside(view.history, compared),
    )


def _facts_beside(history: History, trials: Sequence[Trial]) -> list[tuple[str, list[str]]]:
    outcomes = [history.outcomes.get(trial.number) for trial in trials]
    results = [dict(_results(history, outcome)) for outcome in outcomes]
    names = dict.fromkeys(name for result in results for name in result)
    found = [(name, [result.get(name, DASH) for result in results]) for name in names]
    found.append(("Status", [state(history, trial.number).replace("_", " ") for trial in trials]))
    found.append(("Budget", [number(trial.budget) for trial in trials]))
    found.append(("Origin", [trial.origin.value for trial in trials]))
    found.append(("Duration", [duration(seconds(history, trial.number)) for trial in trials]))
    return found


def compare_page(names: list[str], views: list[Snapshot]) -> Response:
    """Return the form and, if at least two studies are chosen, their comparison."""
    seen = [view.overview for view in views]
    enough, goals = len(views) > 1, [view.history.goals for view in views]
    return page(
        "compare.html",
        "Compare studies",
        study=views[0].name if views else None,
        tab="/compare",
        version_url=link_to("/api/version", study=[view.name for view in views]) if enough else None,
        version=joint_version(views) if enough else "",
        scripts=("plots",) if enough else (),
        names=names,
        chosen=[view.name for view in views],
        views=views,
        volumes=enough and len({each.objectives for each in goals}) == 1 and goals[0].several,
        columns=("Study", "Best result", *_in_numbers(seen[0])) if views else (),
        rows=[(view, _best(of), list(_in_numbers(of).values())) for view, of in zip(views, seen, strict=True)],
        configurations=configurations_beside(seen),
    )


def _best(seen: Overview) -> str:
    return DASH if seen.best is None else verdicts.best_on_budget(seen.history.goals, seen.best)


def _in_numbers(seen: Overview) -> dict[str, str]:
    n = seen.counts
    return {
        "Finished": grouped(n["finished"]),
        "Failed": grouped(n["failed"]),
        "Running": grouped(n["running"]),
        "Configurations": grouped(seen.configurations),
        "Full evaluations": number(seen.cost, 4),
        "Run time": duration(seen.seconds),
        "Time in trials": duration(seen.busy),
        "Brackets complete": grouped(seen.finished_brackets),
    }


def joint_version(views: Sequence[Snapshot]) -> str:
    """Return a text that changes whenever one of these studies does."""
    return "-".join(str(view.version) for view in views)
