"""GPUs that exist as files: trials reserve memory in them, and a module in place of pynvml reads them as a driver."""

from __future__ import annotations

import fcntl
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bohb.testing.executors import alive, until

GB = 10**9
CONTEXT = GB // 5  # what a process keeps of a device that it has used


class OutOfMemoryError(RuntimeError):
    """As PyTorch's."""


class Gpus:
    """Devices with the same memory, in a directory. What a process has reserved ends with it.

    tells: whether the driver says which process uses how much.
    """

    def __init__(self, directory: Path, count: int, total: int = 10 * GB, tells: bool = True) -> None:
        self.directory, self.count, self.total, self.tells = directory, count, total, tells
        for device in range(count):
            (directory / str(device)).mkdir(parents=True)
        (directory / "asked").touch()

    @contextmanager
    def locked(self) -> Iterator[None]:
        with open(self.directory / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def used(self, device: int) -> dict[int, int]:
        """Return the bytes of each living process."""
        found = {int(path.name): int(path.read_text() or 0) for path in (self.directory / str(device)).iterdir()}
        return {pid: n_bytes for pid, n_bytes in found.items() if alive(pid)}

    def reserve(self, n_bytes: int) -> None:
        """Let this process have so much of the device that it sees, and note who else has some."""
        device = int(os.environ["CUDA_VISIBLE_DEVICES"])
        with self.locked():
            others = {pid: n for pid, n in self.used(device).items() if pid != os.getpid()}
            if sum(others.values()) + n_bytes > self.total:
                raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {n_bytes} beside {others}")
            (self.directory / str(device) / str(os.getpid())).write_text(str(n_bytes))
            with open(self.directory / "log", "a") as file:
                file.write(f"{n_bytes} {len(others)} {sum(n > CONTEXT for n in others.values())}\n")

    def asked(self) -> int:
        """Return how often the driver was asked."""
        return (self.directory / "asked").stat().st_size

    def notes(self) -> list[list[int]]:
        """Return what each trial has reserved, beside how many processes, and how many of these ran a trial."""
        lines = (self.directory / "log").read_text().splitlines()
        return [numbers for line in lines if (numbers := [int(word) for word in line.split()])[0] > CONTEXT]

    def together(self) -> int:
        """Return how many trials have had memory of one device at the same time."""
        return 1 + max(running for _, _, running in self.notes())

    def module(self) -> types.ModuleType:
        """Return what `import pynvml` should find."""
        return _nvml(self)


def _nvml(gpus: Gpus) -> types.ModuleType:
    class NVMLError(Exception):
        pass

    def handle(name: Any) -> int:
        if not (isinstance(name, int) and name < gpus.count):
            raise NVMLError("Not Found")
        return name

    def memory(device: int) -> Any:
        with gpus.locked():
            used = sum(gpus.used(device).values())
        return types.SimpleNamespace(total=gpus.total, free=gpus.total - used, used=used)

    def processes(device: int) -> list[Any]:
        with gpus.locked(), open(gpus.directory / "asked", "a") as asked:  # the last question of each look
            asked.write("x")
            if not gpus.tells:
                raise NVMLError("Not Supported")
            return [types.SimpleNamespace(pid=pid, usedGpuMemory=n) for pid, n in gpus.used(device).items()]

    module = types.ModuleType("pynvml")
    vars(module).update(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetComputeRunningProcesses=processes,
    )
    return module


def training(gpus: Gpus) -> Callable[[Any], dict[str, Any]]:
    """Return an objective that takes `config["gb"]` gigabytes of its device until the driver was asked.

    With `config["beside"]` it also waits until a trial has run beside so many others.
    """

    def objective(trial: Any) -> dict[str, Any]:
        gpus.reserve(int(trial.config["gb"] * GB))
        asked = gpus.asked()
        until(lambda: gpus.asked() > asked, "the driver is asked")
        until(lambda: gpus.together() > trial.config.get("beside", 0), "others run")
        gpus.reserve(CONTEXT)
        return {"loss": trial.config["gb"], "pid": os.getpid(), "device": os.environ["CUDA_VISIBLE_DEVICES"]}

    return objective
