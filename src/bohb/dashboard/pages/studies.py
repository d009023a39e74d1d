"""The first page: which studies there are, and how they stand."""

from __future__ import annotations

from bohb.dashboard.layout import Page, table
from bohb.dashboard.markup import Html, el, markup, short
from bohb.dashboard.pages.parts import loss_on_budget
from bohb.dashboard.studies import Card
from bohb.dashboard.words import DASH, ago, count, link_to, moment


def studies_page(journal: str, cards: list[tuple[str, Card | None]], version: str, now: float) -> Page:
    """All studies of the journal; a study that was not read yet has no card."""
    if not cards:
        main = el("p", "This journal has no study yet. As soon as one is started, it appears here.", class_="lead")
    else:
        columns: list[object] = ["Study", "State", "Best loss", "Trials", "Failed", "Last activity", "Begun"]
        body = [_row(name, card, now) for name, card in cards]
        compare = el("p", el("a", "Compare two studies", href="/compare")) if len(cards) > 1 else None
        main = markup(table(count(len(cards), "study", "studies"), columns, body), compare)
    where = el("p", "In the journal ", el("code", journal, class_="user"), class_="lead")
    return Page("Studies", markup(where, main), version_url="/api/version", version=version, now=now)


def _row(name: str, card: Card | None, now: float) -> list[object]:
    link = el("td", el("a", short(name, 80), href=link_to("/study", study=name), class_="user", title=name))
    if card is None:
        return [link, el("td", "being read …", colspan="6", class_="quiet")]
    if card.trouble:
        return [link, el("td", short(card.trouble, 300), colspan="6", class_="trouble")]
    best: object = DASH
    if card.loss is not None and card.budget is not None:
        best = loss_on_budget(card.loss, card.budget)
    return [
        link,
        study_state(card.trials, card.running),
        best,
        f"{card.trials:,}",
        f"{card.failed:,}",
        ago(card.last_activity, now),
        moment(card.begun),
    ]


def study_state(trials: int, running: int) -> Html:
    """What the journal knows about who is at work; a runner that was killed leaves its trials as running."""
    if running:
        return el("span", f"{running} running", class_="badge running", title=count(running, "trial") + " at work")
    if trials:
        return el("span", "at rest", class_="badge", title="no trial is running")
    return el("span", "not begun", class_="badge", title="no trial was started yet")
