"""Rivals follow the protocol, make legal suggestions and are repeatable; failures are reported.

The protocol is tested with a rival of the standard library; others are skipped if their environment is missing.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmarks.rivals
import pytest
from benchmarks.harness import simulate
from benchmarks.problem import Config, Evaluation, Method, Parameter, Suggestion
from benchmarks.rivals import RIVALS, MissingEnvironment, connect, find, python, version, wire
from benchmarks.rivals.connection import Connection, RivalFailed

ROOT = Path(__file__).parents[2]
# These two need several objectives; tests/benchmarks/test_several.py runs them.
ONE_LOSS = [name for name in RIVALS if name not in ("smac-parego", "synetune-moasha")]
PARAMETERS = (
    Parameter("nesterov", "categorical", choices=(True, False), active_if=(("optimizer", ("sgd",)), ("depth", (2, 8)))),
    Parameter("momentum", "float", 0.0, 0.99, active_if=(("optimizer", ("sgd", "rmsprop")),)),
    Parameter("rate", "float", 1e-5, 1e-1, log=True),
    Parameter("units", "int", 1, 512, log=True),
    Parameter("layers", "int", -2, 3),
    Parameter("optimizer", "categorical", choices=("adam", "sgd", "rmsprop")),
    Parameter("depth", "ordinal", choices=(1, 2, 8)),
    Parameter("scale", "categorical", choices=(1, 10, None)),
)


@dataclass(frozen=True)
class Mixed:
    """A small problem with mixed, conditional parameters and rounded budgets; high rates fail."""

    name: str = "mixed"
    parameters: tuple[Parameter, ...] = PARAMETERS
    budgets: tuple[float, ...] = (2, 6, 17)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        if config["rate"] > 3e-2:
            return Evaluation(None, budget)
        loss = config["rate"] + abs(config["units"] - 64) / 64 + config.get("momentum", 0.5) + config["depth"] / 10
        return Evaluation(loss + abs(config["layers"]) + 1 / budget, budget)

    def regret(self, config: Config, loss: float) -> float:
        return loss


@functools.cache
def asked(name: str, seed: int) -> tuple[Suggestion, ...]:
    """Return the suggestions of a rival: more than one bracket, or more than it draws before it has a model."""
    with closing(connect(name, Mixed(), seed, full_evaluations=4)) as method:
        return tuple(evaluated(method) for _ in range(24 if RIVALS[name].budgets else 4))


def evaluated(method: Method) -> Suggestion:
    suggestion = method.ask()
    assert suggestion is not None
    method.tell(suggestion.number, Mixed().evaluate(suggestion.config, suggestion.budget, 0))
    return suggestion


def legal(config: Config) -> bool:
    """Assert that a configuration has exactly the active parameters, with legal values."""
    known = {parameter.name for parameter in PARAMETERS if parameter.active(config)}
    return set(config) == known and all(in_range(p, config[p.name]) for p in PARAMETERS if p.name in config)


def in_range(parameter: Parameter, value: Any) -> bool:
    if parameter.choices:
        return any(value == choice and type(value) is type(choice) for choice in parameter.choices)
    assert parameter.low is not None
    assert parameter.high is not None
    return type(value) is (int if parameter.kind == "int" else float) and parameter.low <= value <= parameter.high


def needs(name: str) -> None:
    try:
        python(find(name))
    except MissingEnvironment as missing:
        pytest.skip(str(missing))


# --- every rival


@pytest.mark.parametrize("name", ONE_LOSS)
def test_a_rival_asks_for_legal_configurations_on_the_budgets_of_the_problem(name: str) -> None:
    needs(name)
    suggestions = asked(name, 0)
    assert all(legal(suggestion.config) for suggestion in suggestions)
    wanted = Mixed().budgets if RIVALS[name].budgets else Mixed().budgets[-1:]
    assert {suggestion.budget for suggestion in suggestions} == set(wanted)


@pytest.mark.parametrize("name", [name for name in ONE_LOSS if RIVALS[name].budgets])
def test_a_promoted_configuration_continues_from_the_budget_below(name: str) -> None:
    needs(name)
    budgets: dict[str, list[float]] = {}
    promoted = 0
    for suggestion in asked(name, 0):
        reached = budgets.setdefault(json.dumps(suggestion.config, sort_keys=True), [])
        if suggestion.previous is not None:
            promoted += 1
            assert suggestion.previous == max(reached)
            assert suggestion.previous < suggestion.budget
        reached.append(suggestion.budget)
    assert promoted > 0


@pytest.mark.parametrize("name", ONE_LOSS)
def test_the_same_seed_gives_the_same_run_and_another_seed_another(name: str) -> None:
    needs(name)
    assert asked.__wrapped__(name, 0) == asked(name, 0)
    assert asked(name, 1) != asked(name, 0)


@pytest.mark.parametrize("name", ONE_LOSS)
def test_several_workers_are_all_given_something_to_do(name: str) -> None:
    needs(name)
    with closing(connect(name, Mixed(), 0, 4, workers=4)) as method:
        at_once = [method.ask() for _ in range(4)]
        for suggestion in reversed(at_once):
            assert suggestion is not None
            method.tell(suggestion.number, Mixed().evaluate(suggestion.config, suggestion.budget, 0))
        assert method.ask() is not None


@pytest.mark.parametrize("name", RIVALS)
def test_a_version_names_the_rival_and_its_adapter(name: str) -> None:
    needs(name)
    package = RIVALS[name].package
    assert version(name).startswith(f"{package} " if package else "")
    assert len(version(name).split()[-1]) == 12


MASTER = """
import json, sys, threading
import numpy as np
import hpbandster.core.nameserver as names
from hpbandster.core.worker import Worker
from hpbandster.optimizers import BOHB, HyperBand
from benchmarks.rivals.space import configspace
from benchmarks.rivals.wire import Task, translate

first = json.loads(sys.stdin.readline())
parameters = {p["name"]: p for p in first["parameters"]}
task = Task(first["method"], translate(parameters), tuple(first["budgets"]), 3, first["seed"], 1, 1)
done = []

class One(Worker):
    def compute(self, config, budget, **_):
        done.append([{name: config[name] for name in sorted(config)}, budget])
        return {"loss": sum(v for v in config.values() if not isinstance(v, str)) + 1 / budget, "info": {}}

server = names.NameServer(run_id="test", host="127.0.0.1", port=0)
host, port = server.start()
One(run_id="test", nameserver=host, nameserver_port=port, host=host).run(background=True)
np.random.seed(task.seed)
kind = {"hpbandster": BOHB, "hpbandster-hyperband": HyperBand}[task.method]
master = kind(configspace(task), eta=3, min_budget=1, max_budget=9, run_id="test", nameserver=host,
              nameserver_port=port, host=host)
master.run(n_iterations=5)
master.shutdown(shutdown_workers=True)
server.shutdown()
print(json.dumps(done))
"""


@dataclass(frozen=True)
class Floats(Mixed):
    """Three budgets that HpBandSter's own formula gives as well, and a categorical parameter for its imputation."""

    parameters: tuple[Parameter, ...] = (
        Parameter("x", "float", 0.0, 1.0),
        Parameter("kind", "categorical", choices=("a", "b")),
        Parameter("y", "float", 0.0, 1.0, active_if=(("kind", ("a",)),)),
    )
    budgets: tuple[float, ...] = (1.0, 3.0, 9.0)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        return Evaluation(sum(v for v in config.values() if not isinstance(v, str)) + 1 / budget, budget)


@pytest.mark.parametrize("name", ["hpbandster", "hpbandster-hyperband"])
def test_hpbandster_step_by_step_equals_its_own_master_with_one_worker(name: str) -> None:
    needs(name)
    problem = Floats()
    first = {
        "method": name,
        "seed": 5,
        "budgets": problem.budgets,
        "parameters": [p.to_json() for p in problem.parameters],
    }
    ran = subprocess.run(
        [str(python(find(name))), "-W", "ignore", "-c", MASTER],
        input=json.dumps(first),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    expected = json.loads(ran.stdout.splitlines()[-1])
    with closing(connect(name, problem, 5, 10)) as method:
        for config, budget in expected:
            suggestion = method.ask()
            assert suggestion is not None
            decoded = {n: ("a", "b")[int(v)] if n == "kind" else v for n, v in config.items() if v is not None}
            assert (suggestion.config, suggestion.budget) == (decoded, budget)
            method.tell(suggestion.number, problem.evaluate(suggestion.config, suggestion.budget, 0))
    assert len(expected) > 30


# --- the protocol


def test_a_rival_runs_in_the_harness() -> None:
    with closing(connect("uniform-halving", Mixed(), 0, 4)) as method:
        records = simulate(method, Mixed(), seed=0, full_evaluations=4, workers=3, accounting="continue")
    assert {record.budget for record in records} == set(Mixed().budgets)
    assert sum(record.budget > record.cost for record in records) > 0


@contextmanager
def speaking(script: str, seconds: float = 60) -> Iterator[Connection]:
    """Return the command of a rival in a few lines of Python; `build` makes it from a task."""
    first = {
        "method": "short",
        "parameters": [p.to_json() for p in PARAMETERS],
        "budgets": [1, 3],
        "eta": 3,
        "seed": 0,
        "full_evaluations": 1,
        "workers": 1,
        "data": None,
    }
    with closing(Connection([sys.executable, "-c", script], first, ROOT, seconds)) as connection:
        yield connection


SHORT = """
from benchmarks.rivals.wire import Run, serve
CONFIG = {"rate": 5, "units": 7.6, "layers": -9, "momentum": 1}
CONFIG.update({"optimizer": "1", "depth": 1.7, "scale": "2", "nesterov": "0"})
class Short:
    def __init__(self, task): self.told = []
    def ask(self):
        print("noise", flush=True)
        return Run(0, CONFIG, 1, 0) if not self.told else None
    def tell(self, run, loss, cost):
        self.told.append(loss)
        if cost == 13: raise ArithmeticError(f"told {self.told}")
"""


def test_values_are_decoded_kept_in_range_and_what_a_rival_prints_is_no_answer() -> None:
    with speaking(SHORT + "serve(Short)") as rival:
        suggestion = rival.ask()
    assert suggestion is not None
    assert (suggestion.budget, suggestion.previous) == (3, 1)
    assert legal(suggestion.config)
    assert suggestion.config["rate"] == 0.1
    assert (suggestion.config["units"], suggestion.config["layers"]) == (8, -2)
    assert (suggestion.config["depth"], suggestion.config["scale"], suggestion.config["nesterov"]) == (8, None, True)


def test_nothing_is_suggested_while_a_rival_waits() -> None:
    with speaking(SHORT + "serve(Short)") as rival:
        suggestion = rival.ask()
        assert suggestion is not None
        rival.tell(suggestion.number, Evaluation(0.5, 1))
        assert rival.ask() is None


@pytest.mark.parametrize("loss", [None, float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_reaches_a_rival_as_a_failure_and_its_exception_comes_back(
    loss: float | None,
) -> None:
    with speaking(SHORT + "serve(Short)") as rival:
        suggestion = rival.ask()
        assert suggestion is not None
        with pytest.raises(RivalFailed, match=r"(?s)short raised:.*ArithmeticError: told \[None\].*noise"):
            rival.tell(suggestion.number, Evaluation(loss, 13))


def test_a_rival_that_cannot_start_says_why() -> None:
    with speaking("import no_such_rival") as rival, pytest.raises(RivalFailed, match=r"(?s)status 1.*no_such_rival"):
        rival.ask()


def test_a_rival_that_does_not_answer_is_given_up() -> None:
    waits = "import sys; sys.stdin.read()"
    with speaking(waits, seconds=0.1) as rival, pytest.raises(RivalFailed, match=r"did not answer within 0\.1 s"):
        rival.ask()


def test_a_closed_rival_leaves_no_process_and_no_files() -> None:
    with speaking(SHORT + "serve(Short)") as rival:
        rival.ask()
        process, directory = rival._process, Path(rival._directory.name)
        assert directory.exists()
    assert process.returncode == 0
    assert not directory.exists()


def test_a_missing_environment_names_the_target_that_makes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(benchmarks.rivals, "ROOT", tmp_path)
    with pytest.raises(MissingEnvironment, match=r"make smac-env.*make rivals"):
        connect("gp-bo", Mixed(), 0, 1)


def test_an_unknown_rival_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'smack' is none of .*smac"):
        connect("smack", Mixed(), 0, 1)


def test_every_environment_has_pins_and_a_target() -> None:
    made = (ROOT / "benchmarks/rivals/environments.mk").read_text().split("RIVALS := ")[1].splitlines()[0].split()
    assert {rival.environment for rival in RIVALS.values()} == {None, "hpbandster", *made}
    for environment in made:
        pins = (ROOT / f"requirements/rivals/{environment}.txt").read_text().splitlines()
        assert all("==" in line for line in pins if not line.startswith("#"))


def test_the_wire_needs_the_standard_library_alone() -> None:
    source = "import sys; import benchmarks.rivals.wire; print([m for m in ('numpy', 'bohb') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_rung_is_found_although_budgets_are_rounded() -> None:
    task = wire.Task("short", (), (2, 6, 17, 52, 156, 468), 3, 0, 1, 1)
    assert [task.rung(level) for level in (1, 3, 9, 27, 81.0, 243 * (1 - 1e-6))] == [0, 1, 2, 3, 4, 5]


def test_conditions_without_a_parent_are_refused() -> None:
    orphan = Parameter("momentum", "float", 0, 1, active_if=(("optimizer", ("sgd",)),)).to_json()
    with pytest.raises(ValueError, match=r"\['momentum'\].*no parent"):
        wire.translate({"momentum": orphan})
