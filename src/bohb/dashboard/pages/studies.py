"""The first page: the studies of the journal and their state."""

from __future__ import annotations

from bohb.dashboard.layout import Page, ago, link_to, moment
from bohb.dashboard.pages.parts import loss_on_budget
from bohb.dashboard.studies import Card
from bohb.plots.markup import Markup, element, joined, table
from bohb.units import counted, grouped, short


def studies_page(journals: list[str], cards: list[tuple[str, Card | None]], version: str, now: float) -> Page:
    """Return the list of studies; a study that has not been read yet has no card."""
    if not cards:
        main = element("p", "This journal has no study yet. A new study appears here by itself.", class_="lead")
    else:
        columns = ["Study", "State", "Best result", "Trials", "Failed", "Last activity", "Started"]
        body = [_row(name, card, now) for name, card in cards]
        compare = element("p", element("a", "Compare studies", href="/compare")) if len(cards) > 1 else None
        main = joined(table(columns, body, counted(len(cards), "study", "studies")), compare)
    names = [joined(", " if index else "", element("code", name, class_="user")) for index, name in enumerate(journals)]
    where = element("p", "In the journal " if len(names) == 1 else "In the journals ", names, class_="lead")
    return Page("Studies", joined(where, main), version_url="/api/version", version=version)


def _row(name: str, card: Card | None, now: float) -> list[object]:
    link = element("a", short(name, 80), href=link_to("/study", study=name), class_="user", title=name)
    if card is None:
        return [link, element("td", "reading …", colspan="6", class_="quiet")]
    if card.trouble:
        return [link, element("td", short(card.trouble, 300), colspan="6", class_="trouble")]
    return [
        link,
        study_state(card.trials, card.running),
        element("td", loss_on_budget(card.goals, card.best), class_="values"),
        grouped(card.trials),
        grouped(card.failed),
        ago(card.last_activity, now),
        moment(card.started),
    ]


def study_state(trials: int, running: int) -> Markup:
    """Return the state that the journal records; a runner that was killed leaves its trials as running."""
    if running:
        return element("span", f"{running} running", class_="badge running", title=counted(running, "running trial"))
    if trials:
        return element("span", "idle", class_="badge", title="no trial is running")
    return element("span", "not started", class_="badge", title="no trial has been started yet")
