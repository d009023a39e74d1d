"""Messages between processes: lines of JSON, points of curves, and reports of dead workers."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from bohb.core.trial import Lost, Outcome, Status
from bohb.executors.evaluate import POINTS, Point, Reporter, extend
from bohb.executors.local.handle import Death, Stage, interpret
from bohb.executors.local.wire import Lines, encode
from bohb.executors.options import TrialOptions

OPTIONS = TrialOptions(trial_seconds=2.5, trial_memory=300 * 2**20)


def test_lines_cut_anywhere_give_the_same_bodies() -> None:
    bodies: list[dict[str, Any]] = [{"a": 1}, {"text": "line\nbreak é"}, {"nested": {"x": [1.5, None]}}]
    stream = b"".join(map(encode, bodies))
    for size in (1, 2, 7, len(stream)):
        lines = Lines()
        got = [body for at in range(0, len(stream), size) for body in lines.feed(stream[at : at + size])]
        assert got == bodies


def test_a_line_that_is_not_an_object_is_refused() -> None:
    for line in (b"[1]\n", b"{\n", b"\xff\n"):
        with pytest.raises(ValueError):  # noqa: PT011 - from three places
            Lines().feed(line)


def test_a_name_that_is_not_unicode_becomes_text_that_any_database_takes() -> None:
    [body] = Lines().feed(encode({"error": "a file named \udcff"}))
    assert body == {"error": "a file named ?"}


@pytest.mark.parametrize("count", [0, 1, POINTS, POINTS + 1, 2 * POINTS, 2 * POINTS + 3, 70_001])
def test_both_ends_of_the_wire_agree_on_what_to_drop(count: int) -> None:
    received: list[Point] = []
    reporter = Reporter(lambda batch: extend(received, batch))
    for step in range(count):
        reporter.report(float(step), 0.0)
    extend(received, reporter.close())
    steps = [step for step, _ in received]
    assert min(count, POINTS // 2) <= len(steps) <= POINTS
    stride = int(steps[1]) if count > 1 else 1
    assert steps == sorted({*range(0, count, stride), *range(count)[-1:]})


@pytest.mark.parametrize(
    ("death", "expected"),
    [
        (Death(1, 9, -9), Lost("worker 3 (pid 9) was killed by SIGKILL")),
        (Death(1, 9, -15), Lost("worker 3 (pid 9) was killed by SIGTERM")),
        (
            Death(1, 9, -9, oom=True),
            Lost("worker 3 (pid 9) was killed by SIGKILL, probably by the kernel's out-of-memory killer"),
        ),
        (Death(1, 9, 70, "cannot be started: no memory"), Lost("worker 3 (pid 9) cannot be started: no memory")),
        (Death(1, 9, -9, "timeout"), Outcome(Status.TIMEOUT, error="ran longer than trial_seconds=2.5")),
        (
            Death(1, 9, -9, "memory", 400 * 2**20),
            Outcome(Status.MEMORY, error="used 400 MiB of memory, more than trial_memory of 300 MiB"),
        ),
        (Death(1, 9, -11), Outcome(Status.CRASHED, error="killed by SIGSEGV")),
        (Death(1, 9, -signal.SIGRTMIN - 3), Outcome(Status.CRASHED, error=f"killed by signal {signal.SIGRTMIN + 3}")),
        (Death(1, 9, 3), Outcome(Status.CRASHED, error="worker 3 (pid 9) exited with code 3")),
    ],
)
def test_a_death_is_the_objectives_fault_or_a_loss(death: Death, expected: Outcome | Lost) -> None:
    assert interpret(death, 3, OPTIONS, Stage.RUNNING) == expected
