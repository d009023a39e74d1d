"""Record studies whose decisions later versions must make again: `python -m tests.replays.record [NAME …]`.

A recorded study is replayed by `test_replays.py`: every change that may not change decisions has to leave all of them
as they are. Record a study again only if its decisions are meant to change, and say why in the commit.

Most studies run on simulated workers and are the same each time; those of real processes differ in the order in which
trials end.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ConfigSpace import ConfigurationSpace, Float, Integer, Normal

import bohb
from bohb import BOHB, History, Limits, Trial, minimize
from bohb.core.events import Event
from bohb.errors import StudyDone
from bohb.executors.evaluate import SimulatedExecutor, attempt
from bohb.journal import Journal, MemoryJournal, SqlJournal, export_jsonl, import_jsonl, stored_events
from bohb.running.external import ExternalStudy
from bohb.running.run_options import SessionOptions
from bohb.testing.executors import until
from tests.core import spaces
from tests.postgres import postgres_server
from tests.replays.stored import SAMPLERS, STUDIES, store

MIXED: dict[str, Any] = {"lr": (1e-5, 1e-1, "log"), "momentum": (0.0, 1.0), "units": (8, 512, "log"), "act": ["a", "b"]}
PLANE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
FINITE: dict[str, Any] = {"a": (1, 4), "b": ["u", "v"]}
SMALL: dict[str, Any] = {"min_budget": 1, "max_budget": 9}
LARGE: dict[str, Any] = {"min_budget": 1, "max_budget": 27}
FIRST: dict[str, Any] = {"x": 0.25, "y": 0.5}
SECOND: dict[str, Any] = {"x": 0.9, "y": 0.1}
PAPER: dict[str, Any] = {"preset": "paper"}

Record = Callable[[], Sequence[Event]]


# Objectives


def noise(trial: Trial) -> float:
    """A number between 0 and 1 that depends on the seed and the budget."""
    return (trial.seed * 2654435761 + int(trial.budget) * 40503) % 1000 / 1000


def bowl(trial: Trial) -> float:
    """A loss for any space: every value counts; larger budgets are better and less noisy."""
    total = 0.0
    for index, value in enumerate(trial.config.values()):
        number = float(value) if isinstance(value, int | float) else len(str(value)) / 10
        total += (math.atan(number) - 0.3 * index) ** 2 / (index + 1)
    return total + (0.5 + 0.2 * noise(trial)) / trial.budget


def misled(trial: Trial) -> float:
    """A loss of which budgets below the largest say nothing."""
    bottom = 0.3 if trial.budget >= 9 else 5 * noise(trial)
    return float((trial.config["x"] - bottom) ** 2 + (trial.config["y"] - 0.6) ** 2)


def steady(trial: Trial) -> float:
    """A loss of which all budgets say the same."""
    return float((trial.config["x"] - 0.3) ** 2 + (trial.config["y"] - 0.6) ** 2 + 1 / trial.budget)


def fragile(trial: Trial) -> float:
    """A loss with failures of two kinds: in a corner of the space, and one evaluation in twenty."""
    if trial.config["x"] > 0.7:
        raise ValueError(f"no convergence with x = {trial.config['x']:.3f}")
    return math.nan if noise(trial) < 0.05 else steady(trial) + 0.1 * noise(trial)


def broken(trial: Trial) -> float:
    """An objective that does not run at all."""
    raise FileNotFoundError("data.csv")


def score(trial: Trial) -> float:
    """A score to be maximised."""
    return 1 - steady(trial)


def values(trial: Trial) -> dict[str, Any]:
    """Values that contradict each other."""
    x, y = trial.config["x"], trial.config["y"]
    loss = (x - 0.2) ** 2 + 0.3 * (1 - y) + 0.2 / trial.budget
    return {"losses": {"loss": loss, "speed": x**0.5 + 0.01 * noise(trial), "memory": y, "latency": 0.01 + 0.1 * x}}


def every_end(trial: Trial) -> object:
    """A loss, unless a trial ends in another way; some ask for another try."""
    match trial.number:
        case 3:
            time.sleep(600)
        case 5:
            return float(len(b"x" * 1_500_000_000))
        case 8:
            raise bohb.DeviceMemory("CUDA out of memory")
        case 11:
            return "nothing"
        case 14:
            os.kill(os.getpid(), signal.SIGKILL)
        case 17 | 18 | 19 if trial.attempt == 1:
            raise bohb.Retry("no GPU here")
    return fragile(trial)


def slow(trial: Trial) -> float:
    """A loss that takes a moment."""
    time.sleep(0.3)
    return steady(trial)


# How studies run


def simulated(
    objective: Callable[[Trial], object],
    space: Any,
    n: int | None,
    *,
    workers: int = 1,
    journal: Journal | None = None,
    begin: float = 0.0,
    losses: float = 0.0,
    straggling: float = 0.0,
    limits: dict[str, Any] | None = None,
    forget_failures: bool = False,
    seed: int = 1,
    **options: Any,
) -> Sequence[Event]:
    """One session on simulated workers; an evaluation takes a second per unit of its budget.

    n: the number of trials; None for limits alone.
    begin: the time at which the session begins.
    losses, straggling: as for `SimulatedExecutor`.
    """
    given = {**({} if n is None else {"max_trials": n}), **(limits or {})}
    end = min(given.get("until", math.inf), begin + given.get("max_seconds", math.inf))
    executor = SimulatedExecutor(objective, workers, loss_rate=losses, straggling=straggling, seed=seed, until=end)
    executor.now = begin
    clock = executor.clock
    study = BOHB(space, seed=seed, journal=journal, clock=clock, stopwatch=clock, **PAPER | options)
    bohb.run(study, executor, Limits(**given), session=SessionOptions(forget_failures=forget_failures))
    return study.events


def here(objective: Callable[[Trial], object], space: Any, n: int, **options: Any) -> Sequence[Event]:
    """A study of `minimize`, in this process or with real workers."""
    journal = MemoryJournal()
    minimize(objective, space, journal=journal, max_trials=n, seed=1, progress=False, **PAPER | options)
    return journal.read()


def confirmed(objective: Callable[[Trial], object], space: Any, n: int, **options: Any) -> Sequence[Event]:
    """A study whose best configurations were evaluated again, beside a default."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "study.db"
        study = minimize(objective, space, journal=path, max_trials=n, seed=1, progress=False, **PAPER | options)
        study.confirm(top=3, repeats=3, default=FIRST, progress=False)
        study.confirm(top=2, repeats=4, progress=False)
        with SqlJournal(path) as journal:
            return list(journal.read())


def asked(study: BOHB, n: int, objective: Callable[[Trial], object], parallel: int = 1) -> None:
    """Ask and tell n trials; the oldest of those that run is told first."""
    running: list[Trial] = []
    for _ in range(n):
        running += study.ask_many(parallel - len(running))
        trial = running.pop(0)
        study.tell(trial, result_of(objective, trial))
    for trial in running:
        study.tell(trial, result_of(objective, trial))


def result_of(objective: Callable[[Trial], object], trial: Trial) -> object:
    """What an objective returns, or how it failed."""
    return attempt(lambda: objective(trial))


def clocked(space: Any, journal: Journal | None = None, **options: Any) -> BOHB:
    """A study to be asked and told, with a clock that advances by a second whenever it is read."""
    ticks = map(float, count(1))
    return BOHB(space, journal=journal, clock=lambda: next(ticks), **PAPER | {"seed": 1} | options)


def enqueued(**options: Any) -> Sequence[Event]:
    """The user's configurations come between others: for the next place, and on budgets of their own."""
    study = clocked(PLANE, **SMALL, initial_configs=[FIRST], **options)
    for i in range(5):
        asked(study, 7, steady, parallel=3)
        study.enqueue({"x": 0.1 * i, "y": 0.4}, budget=(1, 3, 9)[i % 3])
        study.enqueue({"x": 0.1 * i, "y": 0.5})
    asked(study, 20, fragile, parallel=3)
    return study.events


def noted() -> Sequence[Event]:
    """Notes on the study and on trials."""
    study = clocked(PLANE, **SMALL)
    study.note("before the first trial", tags=["new"])
    asked(study, 12, steady)
    study.note("looks good", trial=3, tags=["keep", "new"])
    asked(study, 12, steady)
    study.note("the data was shuffled")
    asked(study, 6, steady)
    return study.events


def sessions(space: Any, objective: Callable[[Trial], object], **options: Any) -> Sequence[Event]:
    """Three sessions on unreliable workers, of which the second ends while trials run."""
    journal = MemoryJournal()
    simulated(objective, space, 20, workers=4, journal=journal, losses=0.05, **SMALL, **options)
    study = BOHB.from_journal(journal, clock=lambda: 100.0)
    study.session.begin("machine")
    first, second, third, *_ = study.ask_many(4)
    study.lose(second, "the worker was killed")
    study.tell(second, objective(second))  # too late
    study.tell(first, objective(first))
    study.lose(third, "the runner stopped", counts=False)
    return simulated(
        objective, space, 60, workers=3, journal=journal, begin=200.0, losses=0.02, straggling=0.5, **SMALL, **options
    )


def repaired(forget: bool, **options: Any) -> Sequence[Event]:
    """An objective that was broken in the first session, or whose failures the user wants to be forgotten."""
    journal = MemoryJournal()
    simulated(fragile if forget else broken, PLANE, 20, journal=journal, workers=2, **SMALL, **options)
    again = partial(simulated, steady, PLANE, 60, journal=journal, begin=1000.0, workers=2, **SMALL, **options)
    return again(forget_failures=forget)


def raised(**options: Any) -> Sequence[Event]:
    """Budgets up to 9, later up to 27."""
    journal = MemoryJournal()
    simulated(bowl, MIXED, 35, journal=journal, workers=2, **SMALL, **options)
    return simulated(bowl, MIXED, 65, journal=journal, begin=500.0, workers=2, **LARGE, **options)


def warm(space: Any, **options: Any) -> Sequence[Event]:
    """A study that begins with the results of two others, one of them in a smaller space."""
    old = clocked(PLANE, **SMALL)
    asked(old, 25, fragile)
    older = clocked({"x": (0.2, 0.9), "y": (0.0, 1.0)}, budgets=[3, 9], seed=5)
    asked(older, 15, steady)
    return simulated(fragile, space, 40, workers=2, warm_start=[old.history, older.history], **SMALL, **options)


def in_process(*role: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start one of `ROLES` in a process of its own."""
    return subprocess.Popen([*before, sys.executable, "-m", "tests.replays.record", *role])


def wait_for(*runners: subprocess.Popen[bytes]) -> None:
    """Wait until all runners have ended as they should."""
    codes = [runner.wait() for runner in runners]
    if any(codes):
        raise SystemExit("a runner failed")


def shared(preset: str) -> Sequence[Event]:
    """Two processes that share a file."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "study.db"
        wait_for(*(in_process("--share", str(path), preset) for _ in range(2)))
        return stored_events(path, "study")


def share(path: str, preset: Any) -> None:
    """One of the processes that share a file."""
    minimize(steady, PLANE, **SMALL, preset=preset, seed=1, journal=path, max_trials=50, workers=2, progress=False)


def taken_over(preset: str) -> Sequence[Event]:
    """Three runners on a server: one is killed, one is suspended for longer than its lease."""
    with postgres_server() as url:
        SqlJournal(url).close()
        with SqlJournal(url, read_only=True) as journal:
            runners = [in_process("--share-slowly", url, preset) for _ in range(3)]
            until(lambda: len(journal.live_leases()) == 3, "three runners")
            until(lambda: len(journal.read()) > 30, "some trials")
            runners.pop().kill()
            runners[0].send_signal(signal.SIGSTOP)
            until(lambda: len(journal.live_leases()) == 1, "two leases that expire")
            runners[0].send_signal(signal.SIGCONT)
            wait_for(*runners)
            return list(journal.read())


def share_slowly(url: str, preset: Any) -> None:
    """One of the runners on a server."""
    minimize(
        slow, PLANE, **SMALL, preset=preset, seed=1, journal=url, max_trials=60, workers=2, progress=False,
        lease_seconds=1.5,
    )  # fmt: skip


@contextmanager
def engine(name: str) -> Iterator[Any]:
    """Something with two workers that `minimize` takes as its executor."""
    with tempfile.TemporaryDirectory() as directory:
        match name:
            case "pool":
                with futures.ProcessPoolExecutor(2) as pool:
                    yield pool
            case "dask":
                from distributed import Client

                cluster: Any = Client
                given = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
                with cluster(**given, local_directory=directory) as dask:
                    yield dask
            case "slurm":
                import submitit

                yield submitit.AutoExecutor(directory, cluster="local")
            case _:
                import ray

                ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
                yield "ray://auto"


def on_engine(name: str, n: int, **options: Any) -> Sequence[Event]:
    """A study on an engine."""
    with engine(name) as where, tempfile.TemporaryDirectory() as directory:
        return here(fragile, PLANE, n, executor=where, workers=2, directory=directory, **SMALL, **options)


def on_ray() -> Sequence[Event]:
    """A study on Ray, which binds to every network there is: it is given loopback only."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/study.jsonl"
        apart = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        wait_for(in_process("--ray", path, before=[*apart, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]))
        return import_jsonl(path).events


def ray(path: str) -> None:
    """The process in which Ray runs."""
    export_jsonl(MemoryJournal(on_engine("ray", 30, **BEST)), path)


def asked_by_clients(preset: Any) -> Sequence[Event]:
    """Three programs with names; each crashes now and then, asks again, and asks for another try."""
    with tempfile.TemporaryDirectory() as directory:
        create = partial(BOHB, PLANE, seed=1, preset=preset, **SMALL)
        study = ExternalStudy(
            f"{directory}/study.db", "study", lambda journal: create(journal=journal), limits=Limits(max_trials=45)
        )
        running: dict[str, Trial] = {}
        for n in count():
            name = f"program {n % 3}"
            if (trial := running.pop(name, None)) is not None:
                again = trial.number % 11 == 6 and trial.attempt == 1
                result = bohb.Retry("no licence") if again else result_of(fragile, trial)
                study.tell(trial.number, result, trial.attempt)
            try:
                running[name] = study.ask(client=name)
                if n % 5 == 4:  # it has crashed
                    running[name] = study.ask(client=name)
            except StudyDone:
                if not running:
                    break
        return stored_events(f"{directory}/study.db", "study")


def asked_by_programs(preset: Any) -> Sequence[Event]:
    """Other programs ask and tell, report learning curves, and one in seven of them dies."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/study.db"
        create = partial(BOHB, PLANE, seed=1, preset=preset, **SMALL)
        study = ExternalStudy(path, "study", lambda journal: create(journal=journal), limits=Limits(max_trials=45))
        running: list[Trial] = []
        with suppress(StudyDone):
            while True:
                running += [study.ask() for _ in range(3 - len(running))]
                trial = running.pop(len(running) // 2)
                study.report(trial.number, 1, 2.0, trial.attempt)
                if trial.number % 7 == 3 and trial.attempt == 1:
                    study.lose(trial.number, "its program has died", trial.attempt)
                else:
                    study.tell(trial.number, result_of(fragile, trial), trial.attempt)
        for trial in running:
            study.tell(trial.number, result_of(fragile, trial), trial.attempt)
        return stored_events(path, "study")


def conditional() -> ConfigurationSpace:
    """Nested conditions of every kind."""
    return spaces.conditional()


def with_priors() -> ConfigurationSpace:
    """A space whose user has an idea where the optimum is."""
    return ConfigurationSpace(
        {
            "x": Float("x", (0.0, 1.0), distribution=Normal(0.4, 0.2), default=0.4),
            "y": Float("y", (0.0, 1.0), distribution=Normal(0.5, 0.1), default=0.5),
            "z": Integer("z", (1, 20), default=3),
        }
    )


BEST: dict[str, Any] = {"preset": "best"}
ENDS: dict[str, Any] = {"workers": 2, "trial_seconds": 2.0, "trial_memory": 500_000_000}
HPBANDSTER: dict[str, Any] = {"preset": "hpbandster"}
TWO: dict[str, Any] = {"objectives": ["loss", "-speed"]}
BOUND: dict[str, Any] = {"constraints": {"latency": "<= 60ms", "memory": "<= 0.8"}, "objectives": ["loss"]}

RECORDED: dict[str, Record] = {
    "paper": lambda: here(bowl, MIXED, 60, **SMALL),
    "paper-local-workers": lambda: here(bowl, MIXED, 60, workers=2, **SMALL),
    "paper-parallel": lambda: simulated(bowl, MIXED, 90, workers=8, losses=0.01, straggling=0.5, **LARGE),
    "paper-conditional": lambda: simulated(bowl, conditional(), 80, workers=3, **LARGE),
    "paper-constrained-space": lambda: simulated(bowl, spaces.constrained(), 40, **SMALL),
    "paper-every-kind": lambda: simulated(bowl, spaces.mixed(), 70, **SMALL),
    "paper-finite": lambda: simulated(bowl, FINITE, None, workers=2, limits={"max_brackets": 30}, **SMALL),
    "paper-reused": lambda: simulated(bowl, {"a": (1, 25)}, None, limits={"max_brackets": 12}, **SMALL),
    "paper-integer-budgets": lambda: simulated(
        bowl, MIXED, 70, min_budget=2, max_budget=50, eta=2.5, integer_budgets=True
    ),
    "paper-listed-budgets": lambda: simulated(bowl, MIXED, 50, workers=2, budgets=[1, 5, 8, 30]),
    "paper-one-budget": lambda: simulated(bowl, MIXED, 40, workers=2, budgets=[5]),
    "paper-failures": lambda: simulated(fragile, PLANE, 70, workers=2, **SMALL),
    "paper-maximised": lambda: simulated(score, PLANE, 50, workers=2, direction="maximize", **SMALL),
    "paper-objectives": lambda: simulated(values, PLANE, 60, workers=2, **TWO, **SMALL),
    "paper-constraints": lambda: simulated(values, PLANE, 60, workers=2, **BOUND, **SMALL),
    "paper-initial-configs": lambda: simulated(steady, PLANE, 40, initial_configs=[FIRST, SECOND], **SMALL),
    "paper-enqueued": lambda: enqueued(),
    "paper-warm-start": lambda: warm(PLANE),
    "paper-sessions": lambda: sessions(MIXED, bowl),
    "paper-repaired": lambda: repaired(forget=False),
    "paper-forgotten": lambda: repaired(forget=True),
    "paper-raised": lambda: raised(),
    "paper-deadline": lambda: simulated(bowl, MIXED, None, workers=4, straggling=0.2, limits={"until": 100.0}, **LARGE),
    "paper-seconds": lambda: simulated(fragile, PLANE, None, workers=1, limits={"max_seconds": 150.0}, **LARGE),
    "paper-confirmed": lambda: confirmed(fragile, PLANE, 30, **SMALL),
    "paper-shared-file": lambda: shared("paper"),
    "paper-notes": noted,
    "hyperband": lambda: simulated(bowl, MIXED, 60, workers=4, random_fraction=1, **SMALL),
    "random-search": lambda: simulated(bowl, MIXED, 20, budgets=[9], random_fraction=1),
    "paper-changed-settings": lambda: simulated(
        bowl, MIXED, 50, num_samples=20, good_fraction=0.3, min_points=4, widen_categorical=True, overlap=False, **SMALL
    ),
    "hpbandster": lambda: simulated(bowl, MIXED, 60, **HPBANDSTER, **SMALL),
    "hpbandster-failures": lambda: simulated(fragile, PLANE, 80, workers=4, **HPBANDSTER, **LARGE),
    "hpbandster-finite": lambda: simulated(bowl, FINITE, 50, workers=2, **HPBANDSTER, **SMALL),
    "own-sampler": lambda: simulated(steady, PLANE, 40, sampler=SAMPLERS["own-sampler"], **SMALL),
    "own-sampler-parallel": lambda: simulated(
        fragile, PLANE, 40, workers=3, sampler=SAMPLERS["own-sampler-parallel"], **BEST, **SMALL
    ),
    "best": lambda: here(bowl, MIXED, 60, **BEST, **SMALL),
    "best-local-workers": lambda: here(bowl, MIXED, 50, workers=2, **BEST, **SMALL),
    "best-parallel": lambda: simulated(misled, PLANE, 80, workers=4, straggling=0.5, seed=2, **BEST, **SMALL),
    "best-many-workers": lambda: simulated(bowl, MIXED, 90, workers=16, losses=0.01, straggling=0.5, **BEST, **LARGE),
    "best-misled": lambda: simulated(misled, PLANE, 70, **BEST, **SMALL),
    "best-conditional": lambda: simulated(bowl, conditional(), 60, workers=2, **BEST, **SMALL),
    "best-finite": lambda: simulated(bowl, FINITE, 50, workers=2, **BEST, **SMALL),
    "best-one-budget": lambda: simulated(bowl, MIXED, 40, workers=2, budgets=[5], **BEST),
    "best-failures": lambda: simulated(fragile, PLANE, 60, workers=2, **BEST, **SMALL),
    "best-priors": lambda: simulated(bowl, with_priors(), 40, **BEST, **SMALL),
    "best-maximised": lambda: simulated(score, PLANE, 40, workers=2, direction="maximize", **BEST, **SMALL),
    "best-objectives": lambda: simulated(values, PLANE, 50, workers=2, **TWO, **BEST, **SMALL),
    "best-constraints": lambda: simulated(values, PLANE, 50, workers=2, **BOUND, **BEST, **SMALL),
    "best-enqueued": lambda: enqueued(**BEST),
    "best-warm-start": lambda: warm({**PLANE, "z": [1, 2, 3]}, **BEST),
    "best-sessions": lambda: sessions(MIXED, bowl, **BEST),
    "best-repaired": lambda: repaired(forget=False, **BEST),
    "best-raised": lambda: raised(**BEST),
    "best-deadline": lambda: simulated(steady, PLANE, None, workers=4, limits={"until": 70.0}, **BEST, **LARGE),
    "best-confirmed": lambda: confirmed(fragile, PLANE, 25, **BEST, **SMALL),
    "best-shared-file": lambda: shared("best"),
    "paper-pool": lambda: on_engine("pool", 40),
    "paper-slurm": lambda: on_engine("slurm", 25),
    "best-dask": lambda: on_engine("dask", 40, **BEST),
    "best-ray": on_ray,
    "paper-programs": lambda: asked_by_programs("paper"),
    "best-programs": lambda: asked_by_programs("best"),
    "paper-clients": lambda: asked_by_clients("paper"),
    "best-clients": lambda: asked_by_clients("best"),
    "paper-every-end": lambda: here(every_end, PLANE, 40, **ENDS, **SMALL),
    "best-every-end": lambda: here(every_end, PLANE, 40, **ENDS, **BEST, **SMALL),
    "paper-taken-over": lambda: taken_over("paper"),
    "best-taken-over": lambda: taken_over("best"),
}
ROLES: dict[str, Callable[..., None]] = {"--share": share, "--share-slowly": share_slowly, "--ray": ray}


def main() -> None:
    """Record the studies that the command line names, or all of them."""
    logging.disable(logging.WARNING)
    if (role := ROLES.get("".join(sys.argv[1:2]))) is not None:
        role(*sys.argv[2:])
        return
    for name in sys.argv[1:] or RECORDED:
        events = RECORDED[name]()
        store(name, events)
        history = History().extend(events)
        size = (STUDIES / f"{name}.jsonl.xz").stat().st_size
        sys.stdout.write(f"{name:<26}{len(history.trials):>4} trials{len(events):>5} events{size:>7} bytes\n")


if __name__ == "__main__":
    main()
