"""The GPUs of this machine: which worker uses which of them, and how many trials may share one now."""

from __future__ import annotations

import importlib
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from bohb.core.goals import Goals
from bohb.core.trial import Lost, Outcome, Status, Trial
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.base import ran_out_beside_others
from bohb.executors.local.handle import WorkerHandle
from bohb.executors.options import SHARED, Resources

PEAK = "device_memory"  # the name of the most bytes of a device that a trial has used
DEVICES = "CUDA_VISIBLE_DEVICES"
LOOK_SECONDS = 0.25  # between two questions for the memory of the devices
_SETTLED_SECONDS = 30.0  # after which what a running trial has used until now counts as its peak
_PEAKS = 50  # finished trials from whose peaks the next one's is expected
_SPARE = 0.04  # of a device's memory stays free: allocators leave gaps
# Frameworks that take all memory at once would leave none for others.
_MODEST = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def visible_devices() -> list[str]:
    """Return the GPUs that a child of this process would see, named as in CUDA_VISIBLE_DEVICES."""
    listed = os.environ.get(DEVICES)
    if listed is None:
        return [str(number) for number in range(_count_devices())]
    found: list[str] = []
    for name in (part.strip() for part in listed.split(",")):
        if not re.fullmatch(r"\d+|GPU-.+|MIG-.+", name):
            break  # CUDA ignores everything after an invalid name
        found.append(name)
    return found


def _count_devices() -> int:
    """Count the NVIDIA GPUs that the driver shows. Importing torch to count them would take seconds."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        try:
            listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return 0
        return sum(line.startswith("GPU ") for line in listed.splitlines())
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir("/dev"))


def free_devices(wanted: int, leased: Collection[str]) -> tuple[str, ...]:
    """Choose GPUs for one more child of this process.

    The result is empty if there is nothing to choose: this process sees no more GPUs than one trial needs, or too few
    are free.
    """
    if wanted == 0:
        return ()
    visible = visible_devices()
    free = [device for device in visible if device not in leased]
    return tuple(free[:wanted]) if len(visible) > wanted <= len(free) else ()


@dataclass(frozen=True, slots=True)
class Reading:
    """The memory of a device in bytes; `used` is that of each session of processes, as far as the driver knows it."""

    total: int
    free: int
    used: Mapping[int, int]


class Driver:
    """NVIDIA's driver, asked through nvidia-ml-py."""

    def __init__(self) -> None:
        try:
            self._nvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise MissingExtra(f"sharing GPUs needs nvidia-ml-py ({error}): {install_hint('gpu')}") from error
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise InvalidArgument(f"the memory of the GPUs is not known: NVIDIA's driver says {error}") from error

    def read(self, names: Iterable[str]) -> Reading | None:
        """Return the memory of devices, all together; None if the driver does not answer now."""
        total, free, used = 0, 0, Counter[int]()
        for name in names:
            try:
                by_number = name.isdecimal()
                find = self._nvml.nvmlDeviceGetHandleByIndex if by_number else self._nvml.nvmlDeviceGetHandleByUUID
                handle = find(int(name) if by_number else name)
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._nvml.NVMLError:
                return None
            total, free = total + memory.total, free + memory.free
            with suppress(self._nvml.NVMLError):  # not every container and every device tells it
                for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                    with suppress(OSError):  # it has ended, or is another container's
                        used[os.getsid(process.pid)] += process.usedGpuMemory or 0
        return Reading(total, free, used)


def room(free: float, running: Sequence[int], idle: Sequence[int], expected: int) -> int:
    """Return how many of the idle slots of a device may start a trial.

    free: bytes that can be given away.
    running, idle: bytes that the workers of these slots hold now; a worker keeps what it has for its next trial.
    expected: bytes that a trial needs at its peak; those that run may still grow to that.
    """
    left = free - sum(max(0, expected - used) for used in running)
    for count, used in enumerate(idle):
        left -= max(0, expected - used)
        if left < 0:
            return count
    return len(idle)


class Devices:
    """Which slots of an executor use which devices, and how many trials may run on one now.

    A device stands for several if a trial needs several. The methods get all workers whose end is not known.
    """

    def __init__(self, workers: int, resources: Resources) -> None:
        resources.allow_only("local workers", "cpu", "gpu", "memory")
        self.adapts = resources.gpu == SHARED
        self._threads, self._modest = resources.env, _MODEST if resources.shares else {}
        self._names = _divided(workers, resources) if resources.gpu else []  # of the devices, which slots use in turn
        self.alone: set[int] = set()  # trials that ran out of memory beside others
        self._peaks: deque[int] = deque(maxlen=_PEAKS)  # of finished trials
        self._driver = _driver(required=self.adapts) if self._names else None
        self._looked = -math.inf
        self._readings: dict[int, Reading] = {}
        self.look(())
        self._unused = {index: reading.free for index, reading in self._readings.items()}  # before the first worker
        if self.adapts and len(self._readings) < len(self._names):
            raise InvalidArgument(f"NVIDIA's driver does not know all devices of {DEVICES}={','.join(self._names)}")

    def environment(self, slot: int) -> dict[str, str]:
        """Return the environment variables of a slot's worker: its number of threads, and its devices."""
        if not self._names:
            return self._threads
        modest = {name: value for name, value in self._modest.items() if name not in os.environ}
        return {**self._threads, **modest, DEVICES: self._names[slot % len(self._names)]}

    def on(self, slot: int, workers: Iterable[WorkerHandle]) -> list[WorkerHandle]:
        """Return the workers on the device of a slot."""
        n = len(self._names)
        return [worker for worker in workers if n and worker.slot % n == slot % n]

    def startable(self, free: Iterable[int], workers: Collection[WorkerHandle], number: int | None) -> list[int]:
        """Return those of the free slots in which a trial may start now, on the least used devices first.

        number: of the trial; None for one that is not known yet.
        """
        slots = list(free)
        found: list[tuple[int, int]] = []
        for index in range(len(self._names)):
            running = [worker for worker in self.on(index, workers) if worker.trial is not None]
            if running and not self.alone.isdisjoint([number, *(worker.number for worker in running)]):
                continue
            members = [slot for slot in slots if slot % len(self._names) == index]
            if self.adapts:
                members = members[: self._fitting(index, running, members, workers)]
            found += [(len(running) + n, slot) for n, slot in enumerate(members)]
        return [slot for _, slot in sorted(found, key=lambda pair: pair[0])] if self._names else slots

    def sent(self, trial: Trial) -> Trial:
        """Return the trial as its worker gets it: the driver answers for a bound on the peak of its memory."""
        if self._driver is None or PEAK not in trial.goals.names:
            return trial
        others = tuple(constraint for constraint in trial.goals.constraints if constraint.name != PEAK)
        return replace(trial, goals=replace(trial.goals, constraints=others))

    def ended(self, worker: WorkerHandle, trial: Trial, outcome: Outcome) -> Outcome | Lost:
        """Return the result of a trial, with its peak of memory; a loss if it ran out of memory beside others."""
        full = outcome.status is Status.DEVICE_MEMORY
        if full and worker.beside:
            self.alone.add(trial.number)
            return ran_out_beside_others(outcome)
        self.alone.discard(trial.number)
        if worker.peak is not None and not full:
            self._peaks.append(worker.peak)
        return outcome if self._driver is None else _with_peak(outcome, trial.goals, worker)

    def look(self, workers: Collection[WorkerHandle]) -> None:
        """Ask the driver for the memory of devices and workers, unless it was asked a moment ago."""
        now = time.monotonic()
        if self._driver is None or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for index, names in enumerate(self._names):
            reading = self._driver.read(names.split(","))
            if reading is None:
                continue
            self._readings[index] = reading
            here = self.on(index, workers)
            known = any(worker.pid in reading.used for worker in here)
            for worker in here:
                # if it is not known whose it is, all have the same share of what is used since the first one started
                share = max(0, self._unused[index] - reading.free) // len(here)
                worker.used = reading.used.get(worker.pid or 0, 0) if known else share
                worker.peak = max(worker.peak or 0, worker.used)
                worker.measured = known or len(here) == 1

    def _fitting(
        self, index: int, running: Collection[WorkerHandle], slots: Sequence[int], workers: Iterable[WorkerHandle]
    ) -> int:
        """Return how many of these free slots of a device may start a trial."""
        reading, now = self._readings[index], time.monotonic()
        peaks = [*self._peaks, *(w.peak for w in running if w.peak is not None and now - w.began > _SETTLED_SECONDS)]
        if not peaks:  # one trial shows what a trial needs
            return 0 if running else 1
        expected = sorted(peaks)[math.ceil(0.9 * len(peaks)) - 1]
        held = {worker.slot: worker.used for worker in workers if worker.is_idle}
        idle = [held.get(slot, 0) for slot in slots]
        fitting = room(reading.free - _SPARE * reading.total, [worker.used for worker in running], idle, expected)
        return fitting if running else max(1, fitting)


def _with_peak(outcome: Outcome, goals: Goals, worker: WorkerHandle) -> Outcome:
    """Return the outcome with the peak of device memory that the objective reported, or else the driver."""
    peak = outcome.info.get(PEAK, worker.peak if worker.measured else None)
    if peak is not None:
        outcome = replace(outcome, info={**outcome.info, PEAK: peak})
    if not outcome.ok or PEAK not in goals.names:
        return outcome
    if not isinstance(peak, int | float) or isinstance(peak, bool) or not 0 <= peak < 2**63:
        error = f"nobody knows the {PEAK} that the study bounds; return it with the loss, in bytes"
        return replace(outcome, status=Status.BAD_RESULT, loss=None, values={}, error=error)
    first = {} if outcome.loss is None else {goals.label: goals.objectives[0].loss(outcome.loss)}
    return replace(outcome, values={**first, **outcome.values, PEAK: float(peak)})


def _driver(required: bool) -> Driver | None:
    try:
        return Driver()
    except (MissingExtra, InvalidArgument):
        if required:
            raise
        return None


def _divided(workers: int, resources: Resources) -> list[str]:
    """Return the devices that so many workers use, each as it is written in CUDA_VISIBLE_DEVICES."""
    visible, gpu = visible_devices(), resources.gpu
    each = 1 if resources.shares else resources.whole_gpus
    devices = [",".join(visible[first : first + each]) for first in range(0, len(visible) - each + 1, each)]
    per_device = workers if gpu == SHARED else int(1 / min(gpu, 1) + 1e-9)
    if workers > len(devices) * per_device:
        seen = f"{DEVICES}={os.environ[DEVICES]!r}" if DEVICES in os.environ else f"{DEVICES} is not set"
        hint = "" if visible else _other_makes()
        raise InvalidArgument(
            f"workers={workers} with resources['gpu']={gpu!r} need {math.ceil(workers / per_device) * each} GPUs, but "
            f"{len(visible)} are visible here ({seen}), enough for workers={len(devices) * per_device}{hint}"
        )
    return devices


def _other_makes() -> str:
    """Return what to do with a GPU that is not NVIDIA's."""
    if sys.platform == "darwin":
        return "; all processes share Apple's GPU: leave out resources['gpu'], and choose workers so that they fit"
    if os.path.exists("/dev/kfd"):
        return "; AMD's GPUs are not divided: leave out resources['gpu'], and see docs/gpus.md"
    return ""
