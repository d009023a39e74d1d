"""What one trial needs: cores, GPUs, memory, and whatever else an engine's own scheduler knows by name."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bohb.errors import InvalidArgument

DEVICES = "CUDA_VISIBLE_DEVICES"
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What each trial asks for.

    cpu: cores; None leaves it to the engine.
    gpu: devices; a share of one only where the engine can share it.
    memory: bytes.
    others: further resources by the names that the engine's administrator gave them.
    """

    cpu: float | None = None
    gpu: float = 0
    memory: int | None = None
    others: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Resources:
        """From what the user wrote, such as {"gpu": 1, "cpu": 2, "memory": 8_000_000_000}."""
        for name, value in (given or {}).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InvalidArgument(f"resources[{name!r}]={value!r} must be a positive number")
        others = dict(given or {})
        cpu, gpu, memory = others.pop("cpu", None), others.pop("gpu", 0), others.pop("memory", None)
        return cls(cpu, gpu, None if memory is None else int(memory), others)

    @property
    def env(self) -> dict[str, str]:
        """The variables by which numeric libraries learn how many threads to use."""
        return {} if self.cpu is None else dict.fromkeys(THREADS, str(max(1, int(self.cpu))))

    @property
    def whole_gpus(self) -> int:
        """The GPUs of a trial where they cannot be shared."""
        if self.gpu != int(self.gpu):
            raise InvalidArgument(f"resources['gpu']={self.gpu!r} must be a whole number here; Ray can share a GPU")
        return int(self.gpu)

    def only(self, engine: str, *known: str) -> None:
        """Refuse what an engine has no notion of."""
        asked = {"cpu": self.cpu, "gpu": self.gpu, "memory": self.memory, **self.others}
        for name, value in asked.items():
            if value and name not in known:
                raise InvalidArgument(
                    f"resources[{name!r}]={value!r} cannot be had from {engine}, which schedules no such thing; "
                    "Dask and Ray do (docs/cluster.md)"
                )


def visible_devices() -> list[str]:
    """The GPUs that a process started here would see, by the names that CUDA_VISIBLE_DEVICES uses."""
    listed = os.environ.get(DEVICES)
    if listed is None:
        return [str(number) for number in range(_count_devices())]
    found: list[str] = []
    for name in (part.strip() for part in listed.split(",")):
        if not re.fullmatch(r"\d+|GPU-.+|MIG-.+", name):
            break  # CUDA ignores what follows an invalid name
        found.append(name)
    return found


def _count_devices() -> int:
    """How many NVIDIA GPUs the driver shows; without a driver none. Importing torch to ask would take seconds."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        try:
            listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return 0
        return sum(line.startswith("GPU ") for line in listed.splitlines())
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir("/dev"))


def own_devices(wanted: int, leased: Collection[str]) -> tuple[str, ...]:
    """Devices for one more child of this process; none if it sees no more than one trial needs, or not enough."""
    if wanted == 0:
        return ()
    visible = visible_devices()
    free = [device for device in visible if device not in leased]
    return tuple(free[:wanted]) if len(visible) > wanted <= len(free) else ()


def slot_environment(workers: int, resources: Resources) -> Callable[[int], Mapping[str, str]] | None:
    """The variables of each local slot: its threads, and GPUs that no other slot has."""
    gpus, threads = resources.whole_gpus, resources.env
    if gpus == 0:
        return (lambda _: threads) if threads else None
    devices = visible_devices()
    if workers * gpus > len(devices):
        seen = f"{DEVICES}={os.environ[DEVICES]!r}" if DEVICES in os.environ else "no limit by " + DEVICES
        raise InvalidArgument(
            f"workers={workers} with resources['gpu']={gpus} need {workers * gpus} GPUs, but {len(devices)} can be "
            f"seen here ({seen}); at most workers={len(devices) // gpus} have enough"
        )
    return lambda slot: {**threads, DEVICES: ",".join(devices[slot * gpus : (slot + 1) * gpus])}
