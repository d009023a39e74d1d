"""The sections of a report, as HTML."""

from __future__ import annotations

import json
import platform
import pprint
import shlex
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from bohb._version import __version__
from bohb.analysis import verdicts
from bohb.analysis.overview import Overview
from bohb.analysis.trials import Cause, failures
from bohb.analysis.why import why
from bohb.core.goals import goals_of
from bohb.core.history import History
from bohb.core.schedule.brackets import plan
from bohb.core.settings import PRESETS, nearest_preset
from bohb.plots.markup import Markup, code, details, element, joined, table
from bohb.units import DASH, counted, date, duration, value_text

_LIBRARIES = ("numpy", "scipy", "ConfigSpace", "plotly")


def summary_section(history: History) -> Markup:
    """Return the section with counts, costs and times."""
    seen = Overview(history)
    tiles = [element("div", element("dt", name), element("dd", value)) for name, value in seen.facts()]
    parts: list[object] = [element("dl", *tiles, class_="tiles")]
    if seen.budgets:
        goals = history.goals
        rows = [
            (
                f"{row.budget:g}",
                row.finished,
                row.failed,
                DASH if row.best is None else verdicts.best_text(goals, row.best),
                duration(row.seconds),
            )
            for row in seen.budgets
        ]
        head = ("budget", "finished", "failed", "best", "mean duration")
        parts.append(table(head, rows, "Trials by budget"))
    if seen.origins:
        rows_of = [(origin.value, count) for origin, count in seen.origins.items()]
        parts.append(table(("chosen", "trials"), rows_of, "Started trials by origin"))
    return joined(parts)


def best_section(history: History) -> Markup:
    """Return the section with the incumbent, ready to be copied."""
    best = history.incumbent
    if best is None:
        return element("p", "No trial has a result yet.")
    config = dict(best.config)
    remarks = [element("li", remark) for remark in verdicts.remarks(history)]
    reasons = element("ul", *(element("li", sentence) for sentence in why(history, best.trial.number).sentences))
    return joined(
        [
            element("p", f"{verdicts.headline(history.goals, best)}."),
            *([element("ul", remarks)] if remarks else []),
            table(
                ("hyperparameter", "value"),
                [(name, value_text(value)) for name, value in config.items()],
                "Best configuration",
            ),
            *confirmation_part(history),
            code(pprint.pformat(config, sort_dicts=False, width=88), "As a Python dict"),
            code(command_line(config), "As command-line options"),
            details("Why this configuration?", reasons),
        ]
    )


def confirmation_part(history: History) -> list[Markup]:
    """Return what the study's confirmations found, for the section with the best configuration."""
    if not history.confirmations:
        return []
    last = history.confirmations[-1]
    found = element("ul", *(element("li", line) for line in verdicts.last_verdict(history)))
    return [found, table(verdicts.columns(last), verdicts.rows(last), "Confirmation with new evaluations")]


def failures_section(history: History) -> Markup:
    """Return the section with failed trials by cause."""
    causes = failures(history)
    if not causes:
        return element("p", "No trial has failed.")
    total = sum(cause.n for cause in causes)
    line = f"{counted(total, 'trial')} failed, for {counted(len(causes), 'cause')}."
    return joined([element("p", line), *(_cause(cause) for cause in causes)])


def plan_section(history: History) -> Markup:
    """Return the section with one round of Hyperband and the progress of the study."""
    whole = plan(history.schedule.round)
    head = ["budget", *(f"bracket {index}" for index in range(len(whole.brackets)))]
    rows = []
    for budget in history.budgets:
        sizes = [{rung.budget: rung.size for rung in bracket.rungs} for bracket in whole.brackets]
        rows.append([f"{budget:g}", *(column.get(budget, "·") for column in sizes)])
    opened, still = len(history.brackets), len(history.schedule.open)
    line = (
        f"One round tries {whole.configurations} configurations in {whole.trials} evaluations, which cost "
        f"{whole.cost:.2f} full evaluations, or {whole.continued_cost:.2f} if training continues from checkpoints. "
        f"So far {counted(opened, 'bracket')} opened, {opened - still} complete."
    )
    return joined([table(head, rows, "Configurations per budget in one round"), element("p", line)])


def reproduction_section(history: History) -> Markup:
    """Return the section with settings, seed, space and versions."""
    created = history.created
    assert created is not None
    preset, changes = nearest_preset(history.settings)
    settings = [
        (name, repr(value), f"preset: {getattr(PRESETS[preset], name)!r}" if name in changes else "")
        for name, value in history.settings.to_json().items()
    ]
    facts = [
        ("preset", preset),
        ("seed", str(created.seed)),
        ("budgets", ", ".join(f"{budget:g}" for budget in history.budgets)),
        ("eta", f"{created.eta:g}"),
        ("created", date(created.time)),
        ("sessions", str(len(history.sessions))),
        ("results of earlier studies", str(len(history.observed))),
        ("bohb (when the study was created)", created.version or "unknown"),
        ("bohb (this report)", __version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, metadata.version(name)) for name in _LIBRARIES),
    ]
    serialised = json.dumps(created.space, indent=2, ensure_ascii=False, default=str)
    return joined(
        [
            table(("", "value"), facts, "Seed, budgets and versions"),
            table(("setting", "value", ""), settings, "Settings"),
            _space(history),
            code(_reproduce(history), "Run it again"),
            details("The search space as ConfigSpace serialises it", code(serialised, "Search space (JSON)")),
        ]
    )


def command_line(config: Mapping[str, Any]) -> str:
    """Format a configuration as options of a command, quoted for a shell."""
    return " ".join(f"{shlex.quote('--' + name)} {shlex.quote(_plain(value))}" for name, value in config.items())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _cause(cause: Cause) -> Markup:
    budgets = ", ".join(f"{count} on budget {budget:g}" for budget, count in cause.budgets.items())
    shown = ", ".join(map(str, cause.numbers[:20])) + (" …" if cause.n > 20 else "")
    heading = joined([element("strong", f"{cause.n} × {cause.status.value}"), f": {cause.cause}"])
    parts: list[object] = [
        element("p", f"For example: {cause.example}"),
        element("p", f"{'Trial' if cause.n == 1 else 'Trials'} {shown} ({budgets})."),
    ]
    if cause.traceback:
        parts.append(code(cause.traceback, "Traceback of the first one"))
    if cause.output:
        parts.append(code(cause.output, "Output"))
    return details(heading, *parts)


def _space(history: History) -> Markup:
    space = history.space
    rows = space.table()
    whole = table(("hyperparameter", "kind", "values", "active if"), rows, "Search space")
    forbidden = [element("li", clause) for clause in space.forbidden]
    return joined([whole, *([element("p", "Forbidden:"), element("ul", *forbidden)] if forbidden else [])])


def _reproduce(history: History) -> str:
    created = history.created
    assert created is not None
    preset, changes = nearest_preset(history.settings)
    goals = history.goals
    named = {"direction": "maximize"} if goals == goals_of(direction="maximize") else goals.to_json()
    arguments = {"budgets": list(history.budgets), "eta": created.eta, "preset": preset, "seed": created.seed}
    arguments |= named | changes
    if history.brackets:
        arguments["max_brackets"] = len(history.brackets)
    lines = [
        "import json",
        "import bohb",
        "",
        f"space = bohb.Space.from_json(json.loads({json.dumps(created.space, default=str)!r}))",
        "study = bohb.minimize(",
        "    objective,  # yours",
        "    space,",
        *(f"    {name}={value!r}," for name, value in arguments.items()),
        ")",
    ]
    if history.given.total:
        lines.append(f"# It also started with {counted(history.given.total, 'configuration')}: initial_configs=[…]")
    if history.observed:
        lines.append(f"# It also used {counted(len(history.observed), 'result')} of earlier studies: warm_start=[…]")
    return "\n".join(lines)
