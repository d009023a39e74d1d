"""A quick look at a stored study: what `status`, `best` and `trials` need, without compiling its search space.

`History` is the fold that decides; it needs the space, and importing what reads a space takes seconds. This is the part
of it that only counts and compares, over the stored JSON itself. A test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bohb.core.schedule.brackets import Bracket, Rung, hyperband, published_before
from bohb.core.schedule.halving import Halving
from bohb.core.schedule.promotion import Promotions
from bohb.core.settings import Settings

RUNNING, WAITING = "running", "waiting"  # besides the statuses of an outcome
STATUSES = ("ok", "diverged", "crashed", "timeout", "memory", "bad_result", "lost", RUNNING, WAITING)
ORIGINS = ("random", "model", "given", "promoted")  # as in core.trial, which takes half a second to import


@dataclass(slots=True)
class Row:
    """One trial with what became of it."""

    number: int
    status: str
    loss: float | None
    budget: float
    bracket: int
    rung: int
    origin: str
    config_id: int
    seed: int
    previous_budget: float | None
    attempt: int
    config: dict[str, Any]
    reason: dict[str, Any]
    reuses: int | None
    started: float | None = None
    finished: float | None = None
    cost: float | None = None
    worker: str | None = None
    error: str | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """How long it ran."""
        return None if self.started is None or self.finished is None else self.finished - self.started


class Glance:
    """The trials of a study and the state of its brackets, folded from (kind, body) pairs."""

    KINDS = frozenset(
        "created given observed budgets bracket started finished lost late cut session".split()  # noqa: SIM905
    )

    def __init__(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self.created: Mapping[str, Any] = {}
        self.rows: list[Row] = []
        self.brackets: list[Halving] = []
        self.sessions: list[Mapping[str, Any]] = []
        self.incumbents: list[Row] = []
        self.best: dict[float, Row] = {}
        self.n_observed = self.n_failed = self.n_finished = self.n_late = 0
        self.seconds = self.budget_spent = self.cost_reported = 0.0
        self._round: tuple[Bracket, ...] = ()
        self._first = 0
        self._planned: dict[int, Bracket] = {}
        for kind, body in events:
            getattr(self, f"_{kind}")(body)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets now in force."""
        return tuple(rung.budget for rung in self._round[0].rungs) if self._round else ()

    @property
    def cost(self) -> float:
        """The budget spent, in full evaluations."""
        return self.budget_spent / self.budgets[-1] if self._round else 0.0

    @property
    def incumbent(self) -> Row | None:
        """The best configuration so far: the largest budget counts first, then the lowest loss."""
        return self.incumbents[-1] if self.incumbents else None

    @property
    def running(self) -> list[Row]:
        """The trials that somebody is working on."""
        return [row for row in self.rows if row.status == RUNNING]

    def _created(self, body: Mapping[str, Any]) -> None:
        self.created = body
        self._settings = Settings.from_json(body["settings"])
        self._promotions = Promotions(self._settings, lambda *_place: 0)  # how many go on counts here, not who
        self._budgets({"budgets": body["budgets"], "first_bracket": 0})

    def _budgets(self, body: Mapping[str, Any]) -> None:
        self._round = hyperband(body["budgets"], self.created["eta"], self._settings.bracket_sizes)
        self._first = body["first_bracket"]

    def _given(self, _body: Mapping[str, Any]) -> None:
        pass

    def _observed(self, _body: Mapping[str, Any]) -> None:
        self.n_observed += 1

    def _session(self, body: Mapping[str, Any]) -> None:
        self.sessions.append(body)

    def _started(self, body: Mapping[str, Any]) -> None:
        trial = body["trial"]
        number = trial["number"]
        self.seconds = max(self.seconds, body.get("elapsed") or 0.0)
        if number < len(self.rows):  # started again after its worker was lost
            row = self.rows[number]
            row.status, row.attempt, row.started = RUNNING, trial.get("attempt", 1), body.get("time")
            return
        row = Row(
            number=number,
            status=RUNNING,
            loss=None,
            budget=trial["budget"],
            bracket=trial["bracket"],
            rung=trial["rung"],
            origin=trial["origin"],
            config_id=trial["config_id"],
            seed=trial["seed"],
            previous_budget=trial.get("previous_budget"),
            attempt=trial.get("attempt", 1),
            config=trial["config"],
            reason=trial.get("reason", {}),
            reuses=trial.get("reuses", trial.get("reason", {}).get("reuses")),
            started=body.get("time"),
        )
        self.rows.append(row)
        self._open(row.bracket).start(number)
        if row.reuses is None:
            self.budget_spent += row.budget - (row.previous_budget or 0.0)

    def _open(self, index: int) -> Halving:
        if index == len(self.brackets):
            self.brackets.append(Halving(self._plan(index), self._settings.refill, self._promotions.chooser(index)))
        return self.brackets[index]

    def _plan(self, index: int) -> Bracket:
        if index in self._planned:
            return self._planned[index]
        place = index - self._first
        if self._settings.schedule == "adaptive":
            place = published_before(index) - published_before(self._first)
        return self._round[place % len(self._round)]

    def _bracket(self, body: Mapping[str, Any]) -> None:
        self._planned[body["index"]] = Bracket(tuple(Rung(budget, size) for budget, size in body["rungs"]))

    def _lost(self, body: Mapping[str, Any]) -> None:
        self.rows[body["number"]].status = WAITING

    def _late(self, _body: Mapping[str, Any]) -> None:
        self.n_late += 1

    def _cut(self, body: Mapping[str, Any]) -> None:
        self._open(body["bracket"]).cut()

    def _finished(self, body: Mapping[str, Any]) -> None:
        outcome = body["outcome"]
        row = self.rows[body["number"]]
        row.status, row.loss, row.error = outcome["status"], outcome.get("loss"), outcome.get("error")
        row.started, row.finished = outcome.get("started", row.started), outcome.get("finished")
        row.cost, row.worker, row.info = outcome.get("cost"), outcome.get("worker"), outcome.get("info", {})
        self.seconds = max(self.seconds, body.get("elapsed") or 0.0)
        self.cost_reported += row.cost or 0.0
        self.n_finished += 1
        loss = float("inf") if row.loss is None else row.loss
        self.n_failed += row.loss is None
        self.brackets[row.bracket].finish(row.number, loss)
        if row.loss is not None:
            self._compare(row, row.loss)

    def _compare(self, row: Row, loss: float) -> None:
        best = self.best.get(row.budget)
        if best is None or best.loss is None or loss < best.loss:
            self.best[row.budget] = row
        now = self.incumbent
        if now is None or now.loss is None or (-row.budget, loss) < (-now.budget, now.loss):
            self.incumbents.append(row)
