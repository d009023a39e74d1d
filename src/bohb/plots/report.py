"""One HTML file with everything about a study, or with one plot. It works offline, and only its own scripts can run."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import platform
import pprint
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from bohb import units
from bohb._version import __version__
from bohb.analysis import verdicts
from bohb.analysis.importance import importance
from bohb.analysis.overview import Overview
from bohb.analysis.questions import answers
from bohb.analysis.trials import failures
from bohb.analysis.why import why
from bohb.core.goals import goals_of
from bohb.core.history import History
from bohb.core.schedule.brackets import plan
from bohb.core.settings import PRESETS, nearest_preset
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.plots.axis import empty
from bohb.plots.choices import CHOICES, PAIR
from bohb.plots.registry import Plot, suitable
from bohb.plots.theme import CONFIG, Figure, get_plotlyjs, label, templates
from bohb.units import command_line, counted, date, number, short

try:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
except ImportError as error:
    raise MissingExtra(f"pages and reports need Jinja2: {install_hint('plot')}") from error

_LIBRARIES = ("numpy", "scipy", "ConfigSpace", "plotly")
_SECTIONS = {
    "summary": "Summary",
    "best": "Best configuration",
    "plots": "Plots",
    "failures": "Failures",
    "plan": "Plan",
    "reproduce": "Settings and versions",
}
_PAIRED = 6  # hyperparameters of which a file has all pairs
_FORMATS = (units.counted, units.date, units.duration, units.grouped, units.number, units.short, units.size)


def write_report(history: History, path: str | Path, *, name: str = "study") -> Path:
    """Write the report of a study to one self-contained HTML file.

    path: the file; it is overwritten.
    name: the name of the study, for the heading.
    """
    target = Path(path)
    target.write_text(report(history, name=name), encoding="utf-8", errors="replace")
    return target


def report(history: History, *, name: str = "study") -> str:
    """Return the report as HTML."""
    if history.created is None:
        raise InvalidArgument("the history is empty: there is no study to report on")
    seen, groups = Overview(history), suitable(history)
    best = seen.best
    plots = [plot for group in groups.values() for plot in group]
    chosen = {plot.key: variants(plot, history) for plot in plots}
    figures = {plot.key: _drawn(plot, history) for plot in plots}
    drawn = {
        plot.key: {
            option: {text: _drawn(plot, history, **options) for text, options in texts.items()}
            for option, texts in chosen[plot.key].items()
        }
        for plot in plots
    }
    shown = {
        title: [(plot, *plot.texts(history), _menus(chosen[plot.key])) for plot in plots]
        for title, plots in groups.items()
    }
    last = history.confirmations[-1] if history.confirmations else None
    return _page(
        "report.html",
        f"{name} – bohb report",
        (figures, drawn),
        name=name,
        sections=_SECTIONS,
        history=history,
        seen=seen,
        answers=answers(seen),
        origins=[(origin.value, count) for origin, count in seen.origins.items()],
        best_text=verdicts.best_text,
        copies=[] if best is None else copies(best.config),
        confirmation=None if last is None else (verdicts.columns(last), verdicts.rows(last)),
        reasons=[] if best is None else _reasons(history, best.trial.number),
        groups=shown,
        causes=failures(history),
        plan=_plan(history),
        **_reproduction(history),
    )


def write_plot(plot: Plot, history: History, path: str | Path, *, name: str = "study", **options: Any) -> Path:
    """Write one plot to a self-contained HTML file, or as plotly's JSON if the file ends in .json.

    path: the file; it is overwritten.
    name: the name of the study, for the title of the page.
    options: of the plot.
    """
    target, figure = Path(path), plot(history, **options)
    if target.suffix == ".json":
        target.write_text(figure.to_json(), encoding="utf-8")
        return target
    title, explanation = plot.texts(history)
    texts = {"heading": title, "explanation": explanation, "name": name}
    page = _page("plot.html", f"{title} – {name}", ({plot.key: _as_json(figure)}, {}), plot=plot, **texts)
    target.write_text(page, encoding="utf-8", errors="replace")
    return target


def variants(plot: Plot, history: History) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the options of a plot for every single choice, by menu and text, because a file has no server.

    Two hyperparameters are one choice, among the most important ones: all pairs would make the file too large.
    """
    choices = plot.choices(history)
    found = {
        option: {text: plot.chosen(history, {option: text}) for text in texts if text != CHOICES[option].default}
        for option, texts in choices.items()
        if option not in ("x", "y")
    }
    if "x" in choices:
        table = importance(history, shuffles=0)
        names = choices["x"] if table is None else [each.name for each in table.rows]
        found[PAIR.name] = {f"{x} and {y}": {"x": x, "y": y} for x, y in itertools.combinations(names[:_PAIRED], 2)}
    return found


def _menus(found: Mapping[str, Mapping[str, Any]]) -> list[tuple[Any, list[str]]]:
    return [(CHOICES.get(option, PAIR), list(texts)) for option, texts in found.items()]


def copies(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a configuration as text to be copied, which has all digits, with a title each."""
    return [
        ("As JSON", json.dumps(config, indent=2, ensure_ascii=False, default=str)),
        ("As a Python dict", pprint.pformat(dict(config), sort_dicts=False, width=88)),
        ("As command-line options", command_line(config)),
    ]


def _plan(history: History) -> tuple[list[str], list[list[object]], str]:
    """Return columns and rows of one round of Hyperband, and the progress of the study."""
    whole = plan(history.schedule.round)
    rows: list[list[object]] = []
    for budget in history.budgets:
        sizes = [{rung.budget: rung.size for rung in bracket.rungs} for bracket in whole.brackets]
        rows.append([number(budget), *(column.get(budget, "·") for column in sizes)])
    opened, still = len(history.brackets), len(history.schedule.open)
    line = (
        f"One round tries {whole.configurations} configurations in {whole.trials} evaluations, which cost "
        f"{whole.cost:.2f} full evaluations, or {whole.continued_cost:.2f} if training continues from checkpoints. "
        f"So far {counted(opened, 'bracket')} opened, {opened - still} complete."
    )
    return ["Budget", *(f"Bracket {index}" for index in range(len(whole.brackets)))], rows, line


def _reproduction(history: History) -> dict[str, Any]:
    """Return settings, seed, space and versions, and how to run the study again."""
    created = history.study
    preset, changes = nearest_preset(history.settings)
    settings = [
        (name, repr(value), repr(getattr(PRESETS[preset], name)) if name in changes else "")
        for name, value in history.settings.to_json().items()
    ]
    facts = [
        ("preset", preset),
        ("seed", created.seed),
        ("budgets", ", ".join(map(number, history.budgets))),
        ("eta", f"{created.eta:g}"),
        ("created", date(created.time)),
        ("sessions", len(history.sessions)),
        ("results of earlier studies", len(history.observed)),
        ("bohb (when the study was created)", created.version or "unknown"),
        ("bohb (this report)", __version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, metadata.version(name)) for name in _LIBRARIES),
    ]
    return {
        "made_by": facts,
        "settings": settings,
        "space": history.space.table(),
        "forbidden": history.space.forbidden,
        "again": _again(history, preset, changes),
        "serialised": json.dumps(created.space, indent=2, ensure_ascii=False, default=str),
    }


def _again(history: History, preset: str, changes: Mapping[str, Any]) -> str:
    """Return the call that runs a study again."""
    created, goals = history.study, history.goals
    named = {"direction": "maximize"} if goals == goals_of(direction="maximize") else goals.to_json()
    arguments = {"budgets": list(history.budgets), "eta": created.eta, "preset": preset, "seed": created.seed}
    arguments |= {**named, **changes}
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


def _drawn(plot: Plot, history: History, **options: Any) -> Any:
    """Return a figure as JSON; one that says what went wrong if the plot fails, which must not cost the report."""
    try:
        return _as_json(plot(history, **options))
    except Exception as error:  # noqa: BLE001
        problem = f"This plot failed, which is a bug of bohb. {type(error).__name__}: {label(error, 120)}"
        return _as_json(empty(problem))


def _reasons(history: History, trial: int) -> tuple[str, ...]:
    """Return why a configuration was chosen; what went wrong if that fails, which must not cost the report."""
    try:
        return why(history, trial).sentences
    except Exception as error:  # noqa: BLE001
        return (f"These sentences failed, which is a bug of bohb. {type(error).__name__}: {short(str(error), 120)}",)


def _as_json(figure: Figure) -> Any:
    """Return a figure without its template, which the page has once."""
    figure.layout.template = None
    return json.loads(figure.to_json())


def _page(template: str, title: str, drawn: tuple[dict[str, Any], dict[str, Any]], **values: Any) -> str:
    """Return the document. Its policy allows no requests and only its own scripts, by their hashes.

    drawn: the figures that the page's script draws, by plot; and those that menus choose instead, by plot, option and
        value. They are compressed, as plotly's script is: it is four fifths of a file.
    """
    figures, chosen = drawn
    data = {"figures": figures, "variants": chosen, "templates": templates(), "config": CONFIG}
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    ours = "".join(map(asset, ("scale.js", "brush.js", "report.js")))
    hashes = " ".join(map(_hash, (asset("theme.js"), ours, get_plotlyjs())))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return render(
        template,
        title=title,
        policy=policy,
        style=Markup(asset("style.css")),
        theme_script=Markup(asset("theme.js")),
        script=Markup(ours),
        data=_compressed(packed),
        plotly=_plotly(),
        **values,
    )


@cache
def _plotly() -> str:
    return _compressed(get_plotlyjs())


def _compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def environment() -> Environment:
    """Return the templates of reports and of the dashboard, with our formats as filters."""
    folders = [PackageLoader("bohb", f"{room}/templates") for room in ("plots", "dashboard")]
    found = Environment(
        loader=ChoiceLoader(folders), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {each.__name__: each for each in _FORMATS}
    found.filters |= {"value_text": units.value_text, "sentence": sentence}
    found.globals["DASH"] = units.DASH
    return found


def render(template: str, **values: Any) -> str:
    """Return a template with these values."""
    return environment().get_template(template).render(values)


def sentence(text: str) -> str:
    """Return a text with a capital letter."""
    return text[:1].upper() + text[1:]


def asset(name: str) -> str:
    """Return the text of a script or style sheet that reports and the dashboard share."""
    return (resources.files("bohb.plots") / "static" / name).read_text(encoding="utf-8")
