"""One HTML file with everything about a study, or with one plot. It works offline, and only its own scripts can run."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.axis import empty
from bohb.plots.markup import Markup, element, embedded, escaped, joined
from bohb.plots.menus import menus, variants
from bohb.plots.registry import Plot, suitable
from bohb.plots.sections import best_section, failures_section, plan_section, reproduction_section, summary_section
from bohb.plots.theme import CONFIG, Figure, get_plotlyjs, label, templates

_THEME = element("button", "Theme", type="button", id="theme", hidden=True, title="Light, dark or as the system")


def write_report(history: History, path: str | Path, *, name: str = "study") -> Path:
    """Write the report of a study to one self-contained HTML file.

    path: the file; it is overwritten.
    name: the name of the study, for the heading.
    """
    target = Path(path)
    target.write_text(report(history, name=name), encoding="utf-8")
    return target


def report(history: History, *, name: str = "study") -> str:
    """Return the report as HTML."""
    if history.created is None:
        raise InvalidArgument("the history is empty: there is no study to report on")
    sections = (
        ("summary", "Summary", summary_section(history)),
        ("best", "Best configuration", best_section(history)),
        ("plots", "Plots", joined(_group(history, title, plots) for title, plots in suitable(history).items())),
        ("failures", "Failures", failures_section(history)),
        ("plan", "Plan", plan_section(history)),
        ("reproduce", "Settings and versions", reproduction_section(history)),
    )
    links = [element("li", element("a", title, href=f"#{key}")) for key, title, _ in sections]
    body = joined(
        [
            element("a", "Skip to the content", href="#content", class_="skip"),
            element("header", element("h1", name), element("p", "A report by bohb ", _THEME)),
            element("nav", element("ul", *links), aria_label="Sections"),
            element("main", *(_section(key, title, content) for key, title, content in sections), id="content"),
        ]
    )
    return _page(f"{name} – bohb report", body, *_figures(history))


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
    head = element("header", element("h1", title), element("p", name, " ", _THEME))
    body = joined(head, element("main", _canvas(plot, title, explanation, menus(plot, {}))))
    target.write_text(_page(f"{title} – {name}", body, {plot.key: _as_json(figure)}, {}), encoding="utf-8")
    return target


def _figures(history: History) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures that the page's script draws, and those that the menus choose instead of them."""
    plots = [plot for group in suitable(history).values() for plot in group]
    chosen = {
        plot.key: {
            option: {text: _drawn(plot, history, **options) for text, options in texts.items()}
            for option, texts in variants(plot, history).items()
        }
        for plot in plots
    }
    return {plot.key: _drawn(plot, history) for plot in plots}, chosen


def _drawn(plot: Plot, history: History, **options: Any) -> Any:
    """Return a figure as JSON; one that says what went wrong if the plot fails, which must not cost the report."""
    try:
        return _as_json(plot(history, **options))
    except Exception as error:  # noqa: BLE001
        problem = f"This plot failed, which is a bug of bohb. {type(error).__name__}: {label(error, 120)}"
        return _as_json(empty(problem))


def _as_json(figure: Figure) -> Any:
    """Return a figure without its template, which the page has once."""
    figure.layout.template = None
    return json.loads(figure.to_json())


def _section(key: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title, id=f"{key}-title"), content, id=key, aria_labelledby=f"{key}-title")


def _group(history: History, title: str, plots: list[Plot]) -> Markup:
    return joined(element("h3", title), *(_figure(history, plot) for plot in plots))


def _figure(history: History, plot: Plot) -> Markup:
    title, explanation = plot.texts(history)
    return _canvas(plot, title, explanation, menus(plot, variants(plot, history)), element("h4", title))


def _canvas(plot: Plot, title: str, explanation: str, choices: Markup | None, heading: Markup | None = None) -> Markup:
    """Return the menus of a plot and a placeholder, in which the page's script draws it."""
    canvas = element("div", id=f"plot-{plot.key}", class_="plot wide" if plot.wide else "plot", role="img",
                     aria_label=title)  # fmt: skip
    box = element("div", canvas, class_="scroll", tabindex="0" if plot.wide else None)
    return element("figure", heading, element("figcaption", explanation), choices, box, id=plot.key)


def _page(title: str, body: Markup, figures: dict[str, Any], chosen: dict[str, Any]) -> str:
    """Return the document. Its policy allows no requests and only the three scripts below, by their hashes.

    figures: what the page's script draws, by plot.
    chosen: the figures that menus choose instead, by plot, option and value.
    """
    data = {"figures": figures, "variants": chosen, "templates": templates(), "config": CONFIG}
    ours = "".join(map(asset, ("brush.js", "scale.js", "report.js")))
    theme, plotly, script = (Markup(text.replace("\r\n", "\n")) for text in (asset("theme.js"), get_plotlyjs(), ours))
    hashes = " ".join(map(_hash, (theme, plotly, script)))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            element("title", title),
            element("style", Markup(asset("report.css"))),
            element("script", theme),  # before anything is drawn
            "</head>",
            "<body>",
            body,
            "<noscript><p>The plots need JavaScript; everything else is readable without it.</p></noscript>",
            element("script", embedded(data), type="application/json", id="data"),
            element("script", plotly),
            element("script", script),
            "</body>",
            "</html>",
            "",
        ]
    )


def asset(name: str) -> str:
    """Return the text of a script or style sheet of this folder."""
    return resources.files("bohb.plots").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
