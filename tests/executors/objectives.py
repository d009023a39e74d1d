"""Objectives that workers import; imports are few, because every worker repeats them."""

# ruff: noqa: T201 - printing is what is tested

from __future__ import annotations

import ctypes
import functools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bohb.core.trial import Trial
from bohb.testing.executors import until

POOL = ThreadPoolExecutor(1, thread_name_prefix="pool")  # starts its thread with the first piece of work


class TwoArguments(Exception):
    """Cannot be unpickled: its arguments are not those of its constructor."""

    def __init__(self, code: int, place: str) -> None:
        super().__init__(f"code {code} at {place}")


class Unspeakable(Exception):
    """Raises when its message is formatted."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Rootless(BaseException):
    """Not a subclass of Exception."""


def loss(trial: Trial) -> float:
    return float(trial.config.get("x", trial.number))


def anything(trial: Trial) -> Any:
    """Do what the configuration asks for: one of `Acts`."""
    act = getattr(Acts, trial.config["act"])
    return act(trial)


class Acts:
    """What an objective may do, one method each."""

    @staticmethod
    def fine(trial: Trial) -> float:
        return loss(trial)

    @staticmethod
    def pid(trial: Trial) -> dict[str, Any]:
        return {"loss": 0.0, "pid": os.getpid(), "session": os.getsid(0)}

    @staticmethod
    def environment(trial: Trial) -> dict[str, Any]:
        info = {"gpu": os.environ.get("GPU"), "cwd": os.getcwd(), "path": sys.path, "argv": sys.argv}
        return {"loss": 0.0, "pid": os.getpid(), **info}

    @staticmethod
    def descriptors(trial: Trial) -> dict[str, Any]:
        targets = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                targets[name] = os.readlink(f"/proc/self/fd/{name}")
            except FileNotFoundError:
                continue
        return {"loss": 0.0, "descriptors": targets}

    @staticmethod
    def draws(trial: Trial) -> dict[str, Any]:
        Path(trial.config["where"], str(os.getpid())).touch()
        until(lambda: len(os.listdir(trial.config["where"])) == 2, "both workers draw")
        return {"loss": 0.0, "drawn": [random.random(), float(np.random.random())], "pid": os.getpid()}  # noqa: NPY002

    @staticmethod
    def reports(trial: Trial) -> float:
        for step in range(trial.config["points"]):
            trial.report(step, 1.0 / (1 + step))
        return 0.0

    @staticmethod
    def reports_then_dies(trial: Trial) -> float:
        for step in range(5):
            trial.report(step, float("nan") if step == 1 else 10.0 - step)
            time.sleep(0.15)
        os.kill(os.getpid(), signal.SIGSEGV)
        return 0.0

    @staticmethod
    def raises(trial: Trial) -> NoReturn:
        raise ValueError("this\nis bad")

    @staticmethod
    def two_arguments(trial: Trial) -> NoReturn:
        raise TwoArguments(3, "home")

    @staticmethod
    def unspeakable(trial: Trial) -> NoReturn:
        raise Unspeakable

    @staticmethod
    def rootless(trial: Trial) -> NoReturn:
        raise Rootless("odd")

    @staticmethod
    def interrupts_itself(trial: Trial) -> NoReturn:
        raise KeyboardInterrupt

    @staticmethod
    def surrogate(trial: Trial) -> NoReturn:
        raise OSError("cannot open a file named \udcff")

    @staticmethod
    def huge_message(trial: Trial) -> NoReturn:
        raise ValueError("x" * 10_000_000)

    @staticmethod
    def recursion(trial: Trial) -> Any:
        return Acts.recursion(trial)

    @staticmethod
    def memory_error(trial: Trial) -> NoReturn:
        raise MemoryError("no room")

    @staticmethod
    def sys_exit(trial: Trial) -> NoReturn:
        sys.exit(3)

    @staticmethod
    def os_exit(trial: Trial) -> NoReturn:
        print("last words", flush=True)
        os._exit(3)

    @staticmethod
    def signals_itself(trial: Trial) -> float:
        os.kill(os.getpid(), trial.config["signal"])
        time.sleep(60)
        return 0.0

    @staticmethod
    def null_pointer(trial: Trial) -> float:
        ctypes.string_at(0)
        return 0.0

    @staticmethod
    def closes_everything(trial: Trial) -> float:
        os.closerange(0, 4096)
        return 0.0

    @staticmethod
    def closes_everything_and_stays(trial: Trial) -> float:
        os.closerange(0, 4096)
        time.sleep(600)
        return 0.0

    @staticmethod
    def closes_everything_and_opens(trial: Trial) -> float:
        os.closerange(0, 4096)
        for index in range(64):  # one of these has the number of the worker's socket
            os.open(f"{trial.config['where']}/{index}", os.O_RDWR | os.O_CREAT)
        return 0.0

    @staticmethod
    def bad(trial: Trial) -> Any:
        return BAD[trial.config["value"]]

    @staticmethod
    def large_info(trial: Trial) -> dict[str, Any]:
        return {"loss": 0.0, "info": {"text": "x" * trial.config["size"]}}

    @staticmethod
    def hangs(trial: Trial) -> float:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code])
        daemon = subprocess.Popen(["setsid", "sleep", "600"])
        note(trial, os.getpid(), child.pid, daemon.pid)
        print("hanging", flush=True)
        time.sleep(600)
        return 0.0

    @staticmethod
    def hog(trial: Trial) -> float:
        kept = []
        for _ in range(400):
            kept.append(bytearray(os.urandom(16) * (2**20)))  # 16 MiB, written to
            time.sleep(0.02)
        return float(len(kept))

    @staticmethod
    def hog_in_child(trial: Trial) -> float:
        code = "import os, time\nx = []\nwhile True: x.append(bytearray(os.urandom(16) * 2**20)); time.sleep(0.02)"
        subprocess.run([sys.executable, "-c", code], check=True)
        return 0.0

    @staticmethod
    def leaves_processes(trial: Trial) -> float:
        child = subprocess.Popen(["sleep", "600"])
        # a daemon: its parent ends at once, and it leads its own session
        script = "setsid sleep 600 >/dev/null 2>&1 & echo $!"
        daemon = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True)
        note(trial, os.getpid(), child.pid, int(daemon.stdout))
        return 0.0

    @staticmethod
    def leaves_thread(trial: Trial) -> dict[str, Any]:
        threading.Thread(target=time.sleep, args=(600,), daemon=trial.config["daemon"]).start()
        return {"loss": 0.0, "pid": os.getpid()}

    @staticmethod
    def draws_bar(trial: Trial) -> dict[str, Any]:
        """Draw a progress bar of tqdm, which starts a thread that watches all bars and never ends."""
        from tqdm import tqdm  # no other objective needs it

        with tqdm(total=3, mininterval=0.0) as bar:
            bar.update(3)
        return {"loss": 0.0, "pid": os.getpid(), "threads": [thread.name for thread in threading.enumerate()]}

    @staticmethod
    def keeps_pool(trial: Trial) -> dict[str, Any]:
        """Use a pool that is kept in a global, and perhaps leave work in it."""
        assert POOL.submit(abs, -3).result() == 3
        if trial.config.get("busy"):
            POOL.submit(time.sleep, 600)
        return {"loss": 0.0, "pid": os.getpid(), "threads": [thread.name for thread in threading.enumerate()]}

    @staticmethod
    def forks(trial: Trial) -> float:
        """Fork a process that returns through the objective, or raises through it."""
        child = os.fork()
        if child == 0:
            trial.report(1, -1000.0)
            if trial.config.get("raise"):
                raise ValueError("in the child")
            return -1000.0
        os.waitpid(child, 0)
        return loss(trial)

    @staticmethod
    def leaves_timer(trial: Trial) -> dict[str, Any]:
        """Leave a timer, a handler and a blocked signal behind."""
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(9))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        signal.setitimer(signal.ITIMER_PROF, 0.2)
        return {"loss": 0.0, "pid": os.getpid()}

    @staticmethod
    def works_on(trial: Trial) -> dict[str, Any]:
        """Use the processor for longer than a timer of `leaves_timer`."""
        until = time.process_time() + 0.4
        while time.process_time() < until:
            pass
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        handler = signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        return {"loss": 0.0, "pid": os.getpid(), "clean": handler and not blocked}

    @staticmethod
    def loads_data(trial: Trial) -> float:
        """Load data, and fork processes that only read it."""
        data = os.urandom(16) * (10 * 2**20)  # 160 MiB
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                time.sleep(1)  # long enough for the memory to be checked
                os._exit(0 if data else 1)
            children.append(child)
        return float(sum(os.waitpid(child, 0)[1] for child in children))

    @staticmethod
    def spoils_process(trial: Trial) -> float:
        os.chdir("/")
        sys.stdout.close()
        sys.stderr = None
        os.close(2)
        return 0.0

    @staticmethod
    def prints(trial: Trial) -> float:
        print("by Python")
        os.write(2, b"by descriptor\n")
        subprocess.run(["sh", "-c", "echo by grandchild"], check=True)
        if trial.config.get("fail"):
            raise ValueError("after printing")
        return 0.0

    @staticmethod
    def floods(trial: Trial) -> float:
        print("the beginning")
        outcome = {"status": "ok", "loss": -1000.0}
        forged = json.dumps({"number": trial.number, "outcome": outcome, "points": [], "retire": False}) + "\n"
        size = trial.config.get("size", 5_000_000)
        for _ in range(size // len(forged)):
            sys.stdout.write(forged)
        sys.stdout.flush()
        if "cut_to" in trial.config:  # what is written in the moment of the cut may be lost
            until(lambda: os.fstat(1).st_size <= trial.config["cut_to"], "the guard has cut the log")
        print("the end")
        if trial.config.get("fail"):
            raise ValueError("after a flood")
        return 1.0

    @staticmethod
    def waits(trial: Trial) -> float:
        note(trial, os.getpid())
        while not os.path.exists(trial.config["go"]):
            time.sleep(0.005)
        return 0.0

    @staticmethod
    def sleeps(trial: Trial) -> float:
        note(trial, os.getpid())
        time.sleep(trial.config.get("seconds", 600))
        return 0.0


BAD: dict[str, Any] = {
    "None": None,
    "str": "0.5",
    "bool": True,
    "array": np.zeros(2),
    "complex": 1 + 2j,
    "list": [1.0],
    "no loss": {"accuracy": 1.0},
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "numpy nan": np.float32("nan"),
}


def note(trial: Trial, *pids: int) -> None:
    """Write process ids for the test; the file appears when it is complete."""
    path = Path(trial.config["note"])
    part = path.with_suffix(".part")
    part.write_text(" ".join(map(str, pids)))
    part.rename(path)


def short_work(trial: Trial) -> float:
    time.sleep(0.01 * (1 + trial.number % 5))
    return float(trial.number)


@functools.cache
def loaded_once() -> float:
    """Different in each process, the same for all its trials."""
    return random.random()


def warm(trial: Trial) -> dict[str, Any]:
    return {"loss": 0.0, "loaded": loaded_once(), "pid": os.getpid()}
