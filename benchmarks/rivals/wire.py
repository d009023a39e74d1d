"""What every rival's process shares: JSON lines in and out, and a plain description of the space.

Only the standard library, from Python 3.9 on: it runs in every rival's environment. The lines are described in
README.md. A rival sees ordinals as whole numbers and categorical values as tokens ("0", "1", …), so that one that knows
neither, or that sorts, averages or converts them, still works; what it answers is decoded, kept within its bounds and
freed of inactive parameters here.
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol

Config = dict[str, Any]
Key = Any  # what a rival knows a configuration by


class Parameter(NamedTuple):
    """One hyperparameter as a rival sees it.

    kind: "float", "int" or "categorical".
    choices: the tokens of a categorical one.
    active_if: pairs of a parent's name and those of its values (tokens, whole numbers) of which one must hold.
    """

    name: str
    kind: str
    low: float
    high: float
    log: bool
    choices: tuple[str, ...]
    active_if: tuple[tuple[str, tuple[Any, ...]], ...]

    def nearest(self, value: Any) -> Any:
        """A legal value: a token, or a number within the bounds that rounding may have left."""
        if self.kind == "categorical":
            return str(value)
        number = min(max(float(value), self.low), self.high)
        return round(number) if self.kind == "int" else number


class Task(NamedTuple):
    """What a rival is to do.

    parameters: parents before their children.
    budgets: increasing; by convention each `eta` times the one before.
    full_evaluations: how much the caller means to spend, in evaluations on the largest budget.
    objectives, constraints: how many losses and bounds a result has.
    """

    method: str
    parameters: tuple[Parameter, ...]
    budgets: tuple[float, ...]
    eta: int
    seed: int
    full_evaluations: int
    workers: int
    objectives: int = 1
    constraints: int = 0

    def rung(self, level: float) -> int:
        """The rung of a rival that counts budgets as 1, eta, eta², …: budgets here may be rounded, its own not."""
        return round(math.log(level) / math.log(self.eta))

    def settle(self, config: Config) -> Config:
        """The legal configuration that a rival means: nearest values, and no inactive parameters."""
        settled: Config = {}
        for parameter in self.parameters:
            if is_active(parameter, settled):
                settled[parameter.name] = parameter.nearest(config[parameter.name])
        return settled


class Run(NamedTuple):
    """One evaluation: a configuration on a rung, and the rung it has been on before (None: it is new)."""

    key: Key
    config: Config
    rung: int
    previous: int | None = None


class Rival(Protocol):
    """What an adapter has to offer."""

    def ask(self) -> Run | None:
        """The next evaluation, or None if there is none before something is told."""

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        """What an evaluation gave; a loss of None means that it failed."""


class SeveralRival(Rival, Protocol):
    """What an adapter for several objectives has to offer in addition."""

    def tell_several(self, run: Run, losses: list[float], excesses: list[float], cost: float) -> None:
        """What an evaluation gave; an excess above 0 breaks a constraint."""


class Sampler(Protocol):
    """A rival that knows of one budget only."""

    def suggest(self) -> tuple[Key, Config] | None: ...

    def observe(self, key: Key, loss: float | None, cost: float) -> None: ...


class Stopper(Protocol):
    """A rival that evaluates a configuration on rung after rung until it is stopped."""

    def suggest(self) -> tuple[Key, Config] | None: ...

    def goes_on(self, key: Key, rung: int, loss: float | None, cost: float) -> bool: ...


class BlackBox:
    """Every configuration on the largest budget."""

    def __init__(self, task: Task, sampler: Sampler) -> None:
        self._top = len(task.budgets) - 1
        self._sampler = sampler

    def ask(self) -> Run | None:
        suggested = self._sampler.suggest()
        return None if suggested is None else Run(*suggested, self._top)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        self._sampler.observe(run.key, loss, cost)


class Climber:
    """Every configuration from the smallest budget upwards, at once, until the rival stops it."""

    def __init__(self, task: Task, stopper: Stopper) -> None:
        self._top = len(task.budgets) - 1
        self._stopper = stopper
        self._going_on: deque[Run] = deque()

    def ask(self) -> Run | None:
        if self._going_on:
            return self._going_on.popleft()
        suggested = self._stopper.suggest()
        return None if suggested is None else Run(*suggested, 0)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        if self._stopper.goes_on(run.key, run.rung, loss, cost) and run.rung < self._top:
            self._going_on.append(run._replace(rung=run.rung + 1, previous=run.rung))


def is_active(parameter: Parameter, config: Config) -> bool:
    """Whether all conditions hold; those of an inactive parent do not."""
    return all(parent in config and config[parent] in values for parent, values in parameter.active_if)


def token(parameter: dict[str, Any], value: Any) -> Any:
    """A value as the rival sees it; 1, 1.0 and True are told apart."""
    if not parameter["choices"]:
        return value
    index = [(type(c), c) for c in parameter["choices"]].index((type(value), value))
    return str(index) if parameter["kind"] == "categorical" else index


def untoken(parameter: dict[str, Any], seen: Any) -> Any:
    """What a value that a rival sees stands for, as plain JSON."""
    return parameter["choices"][int(seen)] if parameter["choices"] else seen


def translate(parameters: dict[str, dict[str, Any]]) -> tuple[Parameter, ...]:
    """The parameters as a rival sees them, parents first."""
    translated: dict[str, Parameter] = {}
    while len(translated) < len(parameters):
        ready = [
            p
            for p in parameters.values()
            if p["name"] not in translated and all(parent in translated for parent, _ in p["active_if"])
        ]
        if not ready:
            raise ValueError(
                f"conditions of {sorted(set(parameters) - set(translated))} have no parent or are circular"
            )
        for p in ready:
            conditions = tuple(
                (parent, tuple(token(parameters[parent], v) for v in values)) for parent, values in p["active_if"]
            )
            ordinal, categorical = p["kind"] == "ordinal", p["kind"] == "categorical"
            translated[p["name"]] = Parameter(
                p["name"],
                "int" if ordinal else p["kind"],
                0 if ordinal or categorical else p["low"],
                len(p["choices"]) - 1 if ordinal or categorical else p["high"],
                bool(p["log"]),
                tuple(str(i) for i in range(len(p["choices"]))) if categorical else (),
                conditions,
            )
    return tuple(translated.values())


class Server:
    """One rival behind the lines of the protocol.

    first: the first line, which says what is to be done.
    build: makes the rival of a task.
    """

    def __init__(self, first: dict[str, Any], build: Callable[[Task], Rival]) -> None:
        self._parameters = {p["name"]: p for p in first["parameters"]}
        self._task = Task(
            first["method"],
            translate(self._parameters),
            tuple(first["budgets"]),
            first["eta"],
            first["seed"],
            first["full_evaluations"],
            first["workers"],
            **first.get("goals", {}),
        )
        self._rival = build(self._task)
        self._open: dict[int, Run] = {}
        self._asked = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one line."""
        if "tell" in request:
            run = self._open.pop(request["tell"])
            if "losses" in request:
                rival: Any = self._rival  # a SeveralRival
                rival.tell_several(run, request["losses"], request["excesses"], float(request["cost"]))
                return {"ok": True}
            loss = request["loss"]
            failed = loss is None or not math.isfinite(loss)
            self._rival.tell(run, None if failed else float(loss), float(request["cost"]))
            return {"ok": True}
        asked = self._rival.ask()
        if asked is None:
            return {"wait": True} if self._open else {"done": True}
        number = self._asked
        self._asked += 1
        self._open[number] = asked
        budgets = self._task.budgets
        return {
            "number": number,
            "config": {name: untoken(self._parameters[name], v) for name, v in self._task.settle(asked.config).items()},
            "budget": budgets[asked.rung],
            "previous": None if asked.previous is None else budgets[asked.previous],
        }


def serve(build: Callable[[Task], Rival]) -> None:
    """Answer lines from standard input until it ends; whatever a rival prints goes to standard error.

    An exception becomes the answer, and the process ends with status 1.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer, allow_nan=False), file=answers, flush=True)

    def give_up(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        say({"error": "".join(traceback.format_exception(kind, error, trace))[-4000:]})
        os._exit(1)

    sys.excepthook = give_up
    server = Server(json.loads(sys.stdin.readline()), build)
    for line in sys.stdin:
        say(server.answer(json.loads(line)))
    os._exit(0)  # at once: rivals may have threads or files that they would wait for
