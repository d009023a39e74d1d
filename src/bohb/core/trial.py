"""Trial: one configuration at one budget. Outcome: how its evaluation ended."""

from __future__ import annotations

import math
import numbers
import sys
import traceback as _traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from bohb.core.goals import PLAIN, Goals
from bohb.errors import InvalidArgument, InvalidResult, Retry

_LARGEST_BITS = 14_284  # any integer of so many bits has at most 4300 digits, which Python's own JSON reader accepts


class Origin(StrEnum):
    """Why a trial runs the configuration it runs."""

    RANDOM = "random"  # drawn from the space's prior (Alg. 2, lines 1 and 3)
    MODEL = "model"  # the best of N_s candidates (Alg. 2, line 6)
    GIVEN = "given"  # handed in by the user
    PROMOTED = "promoted"  # survived the rung below (Alg. 3, line 4)


class Status(StrEnum):
    """How an evaluation ended."""

    OK = "ok"
    DIVERGED = "diverged"  # the loss is NaN or infinite
    CRASHED = "crashed"  # an exception, an exit or a signal
    TIMEOUT = "timeout"  # ran past `trial_seconds`
    MEMORY = "memory"  # grew past `trial_memory`, or raised MemoryError
    DEVICE_MEMORY = "device_memory"  # needed more memory than a device has
    BAD_RESULT = "bad_result"  # returned something that is not a loss
    LOST = "lost"  # its worker disappeared in every attempt; not the fault of the objective
    RETRY = "retry"  # raised `bohb.Retry`: the trial has not ended, and starts again


STATES = (*(status.value for status in Status if status is not Status.RETRY), "running", "waiting")
RETRIES = 20  # how often a trial may ask for another try, before it fails
LONGEST_DELAY = 300.0  # seconds before the next try


def retry_delay(n: int) -> float:
    """Return the seconds before a trial starts again that has asked for it n times."""
    return min(LONGEST_DELAY, 2.0 ** (n - 1))


Explains = Literal["density", "process", "function"]
"""What explains a proposal: the densities l and g, a Gaussian process, or nothing but a function of the user."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration at one budget; the argument of an objective.

    number: position among all trials of the study, from 0.
    config: hyperparameter values by name; inactive ones are absent.
    budget: what to spend on this evaluation, in the user's unit.
    config_id: the number of the trial that first ran this configuration.
    bracket, rung: the place in the schedule, both from 0.
    seed: the same for a configuration on every budget, so that training can be continued.
    origin: why this configuration was chosen; `reason` has the numbers behind it.
    previous_budget: the largest budget this configuration has finished, or None.
    attempt: 1, or more after a worker was lost.
    from_trial: number of the trial that this one was promoted from, or None.
    reuses: number of the trial whose result this one reuses instead of running, or None.
    explains: what explains the configuration; None if no sampler has proposed it for this trial.
    checkpoint_dir: a directory of this configuration, which is kept from one budget to the next.
    goals: the study's objectives and constraints, by which the result is read.
    """

    number: int
    config: dict[str, Any] = field(hash=False)
    budget: float
    config_id: int
    bracket: int
    rung: int
    seed: int
    origin: Origin
    previous_budget: float | None = None
    attempt: int = 1
    from_trial: int | None = None
    reuses: int | None = None
    explains: Explains | None = None
    reason: dict[str, Any] = field(default_factory=dict, hash=False, repr=False)
    checkpoint_dir: Path | None = field(default=None, compare=False, repr=False)
    reporter: Callable[[float, float], None] | None = field(default=None, compare=False, repr=False)
    goals: Goals = field(default=PLAIN, compare=False, repr=False)

    def report(self, step: float, loss: float) -> None:
        """Record one point of the learning curve. It is stored with the outcome and never used in a decision.

        step: a finite number; the loss may be NaN or infinite, as when training diverges.
        """
        place = _real(step, "step")
        if not math.isfinite(place):
            raise InvalidResult(f"step={place} of a learning curve must be a finite number")
        if self.reporter is not None:
            self.reporter(place, _real(loss))


def first_trial(
    number: int,
    config: dict[str, Any],
    budget: float,
    bracket: int = 0,
    rung: int = 0,
    seed: int = 0,
    origin: Origin = Origin.RANDOM,
) -> Trial:
    """Return the trial that runs a new configuration."""
    return Trial(number, config, budget, number, bracket, rung, seed, origin)


def promoted_trial(before: Trial, number: int, budget: float, bracket: int, rung: int) -> Trial:
    """Return the trial that continues the configuration of another one on a larger budget."""
    moved = replace(before, number=number, budget=budget, bracket=bracket, rung=rung, origin=Origin.PROMOTED, attempt=1)
    return replace(
        moved, previous_budget=before.budget, from_trial=before.number, reuses=None, explains=None, reason={}
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one evaluation: a finite loss, or the cause of its failure.

    loss: to be minimised; finite if and only if `status` is ok. With named objectives it is the first one's, with the
        opposite sign if that one is maximised.
    values: the named values of a study with objectives or constraints, as the objective returned them.
    error: what went wrong, in one line; `traceback` and `output` have the details.
    info: anything that the objective wants to keep, as JSON.
    cost: the cost of the evaluation in the objective's own unit, if it returned one.
    started, finished: seconds since the epoch.
    curve: the (step, loss) pairs that the objective reported.
    worker: the slot or machine that ran it.
    """

    status: Status
    loss: float | None = None
    error: str | None = None
    traceback: str | None = None
    info: dict[str, Any] = field(default_factory=dict, hash=False)
    cost: float | None = None
    started: float | None = None
    finished: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    output: str | None = None
    worker: str | None = None
    values: dict[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check that the loss is finite exactly if the evaluation succeeded."""
        finite = self.loss is not None and math.isfinite(self.loss)
        if finite != (self.status is Status.OK):
            raise InvalidArgument(
                f"Outcome(status={self.status.value!r}, loss={self.loss!r}): a loss must be finite "
                "when the status is 'ok', and None otherwise"
            )

    @property
    def ok(self) -> bool:
        """Whether there is a finite loss."""
        return self.status is Status.OK

    @property
    def seconds(self) -> float | None:
        """How long the objective ran; None if that is unknown."""
        return None if self.started is None or self.finished is None else self.finished - self.started

    @property
    def ranking_loss(self) -> float:
        """The loss, or +inf for a failed evaluation, which ranks behind all others."""
        return math.inf if self.loss is None else self.loss

    def same_effect(self, other: Outcome) -> bool:
        """Whether two reports of one evaluation agree in status and values, the only fields that decisions use."""
        return (self.status, self.loss, self.values) == (other.status, other.loss, other.values)


@dataclass(frozen=True, slots=True)
class Lost:
    """A trial should be started again: its worker disappeared, or others had taken the memory that it needed.

    charged: whether this counts as an attempt of the trial. It does not if the trial had not begun, or if the worker's
        machine loses other trials, too.
    outage: whether workers may be at fault, so that nothing should start for a while if more trials are lost.
    """

    reason: str
    charged: bool = True
    outage: bool = True


def outcome_of(result: object, goals: Goals = PLAIN) -> Outcome:
    """Turn the return value of an objective, or an argument of `tell`, into an Outcome.

    Accepts a real number (Python's or numpy's), a dict with a 'loss', an Outcome or an exception. NaN and
    infinities are failed evaluations; anything else raises InvalidResult.

    goals: the values that a dict must have, in its table 'losses' or beside it; `info` is not searched.
    """
    match result:
        case Outcome():
            return checked_outcome(result, goals)
        case BaseException():
            return failure(result)
        case Mapping():
            return _outcome_of_mapping(result, goals)
        case _ if len(goals.names) == 1:
            return _outcome_of_values({goals.label: _real(result, goals.label)}, goals)
        case _:
            raise InvalidResult(f"the result {_short(result)} must be a dict: {_expected(goals)}")


def failure(error: BaseException, status: Status = Status.CRASHED) -> Outcome:
    """Return the Outcome of an evaluation that raised."""
    if isinstance(error, Retry):
        return Outcome(Status.RETRY, error=" ".join(str(error).split())[:2000] or "no reason was given")
    lines = _traceback.format_exception(type(error), error, error.__traceback__)
    return Outcome(status, error=_one_line(error), traceback="".join(lines))


def last_try(outcome: Outcome, before: int) -> Outcome:
    """Return an outcome; a trial that asks for another try fails if it has done so too often.

    before: how often it has asked before.
    """
    if outcome.status is not Status.RETRY or before + 1 < RETRIES:
        return outcome
    error = f"asked {RETRIES} times to be started again, at last: {outcome.error}"
    return replace(outcome, status=Status.CRASHED, error=error)


def checked_outcome(outcome: Outcome, goals: Goals) -> Outcome:
    """Return an Outcome that somebody else made, with the values that the study decides by and no others."""
    names = () if goals.plain else goals.names
    given = {name: _real(outcome.values[name], name) for name in names if name in outcome.values}
    values = {name: value for name, value in given.items() if math.isfinite(value)}
    if outcome.ok and names:
        for name in names:
            if name not in values:
                raise InvalidResult(f"the Outcome must have a finite {name!r} among its values {outcome.values}")
        if outcome.loss != goals.losses(values)[0]:
            raise InvalidResult(
                f"the Outcome has loss={outcome.loss!r}, which must be {goals.losses(values)[0]!r}: "
                f"the first objective of {values}, to be minimised"
            )
    return outcome if values == outcome.values else replace(outcome, values=values)


def _outcome_of_mapping(result: Mapping[Any, Any], goals: Goals) -> Outcome:
    nested = {} if goals.plain else result.get("losses", {})
    if not isinstance(nested, Mapping):
        raise InvalidResult(f"losses={_short(nested)} must be a dict: {_expected(goals)}")
    known = {**result, **nested}
    for name in goals.names:
        if name not in known:
            keys = ", ".join(sorted(map(_short, known))) or "no keys"
            raise InvalidResult(f"the result {_short(result)} has no {name!r} (it has {keys}); {_expected(goals)}")
    cost = result.get("cost")
    if cost is not None:
        cost = _real(cost, "cost")
        if not (math.isfinite(cost) and cost >= 0):
            raise InvalidResult(f"cost={cost!r} must be a finite number, at least 0")
    taken = ("info", "cost", *goals.names, *(() if goals.plain else ("losses",)))
    extra = {k: v for k, v in known.items() if k not in taken}
    info = result.get("info")
    if info is not None and not isinstance(info, Mapping):
        info = {"info": info}
    values = {name: _real(known[name], name) for name in goals.names}
    return replace(_outcome_of_values(values, goals), info=jsonable({**(info or {}), **extra}), cost=cost)


def _outcome_of_values(values: dict[str, float], goals: Goals) -> Outcome:
    """Return the outcome of all values that the goals name; the finite ones are kept if another is not finite."""
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    kept = {} if goals.plain else finite
    for name, value in values.items():
        if name not in finite:
            return Outcome(Status.DIVERGED, error=f"the {name} is {value}, not a finite number", values=kept)
    return Outcome(Status.OK, loss=goals.losses(values)[0], values=kept)


def _expected(goals: Goals) -> str:
    """Return what an objective should return, for messages."""
    if goals.plain:
        return "return a number or {'loss': number, 'info': {…}, 'cost': number}"
    names = [f"{name!r}: number" for name in goals.names]
    if goals.several:
        losses = [f"{objective.name!r}: number" for objective in goals.objectives]
        names = [f"'losses': {{{', '.join(losses)}}}", *names[len(losses) :]]
    number = "a number or " if len(goals.names) == 1 else ""
    return f"return {number}{{{', '.join(names)}, 'info': {{…}}}}"


def _real(value: object, name: str = "loss") -> float:
    """Return a real number as a float; refuse bool, None, text, complex numbers and arrays."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf  # an integer larger than all floats; the evaluation fails, whatever its sign
    hint = ""
    if value is None:
        hint = " (does the objective end without a return?)"
    elif hasattr(value, "item"):
        hint = "; call .item() on a tensor or array that holds one number"
    raise InvalidResult(f"{name}={_short(value)} is of type {type(value).__name__}; it must be one real number{hint}")


def jsonable(value: Any, depth: int = 0) -> Any:
    """Return a copy of `value` for JSON; objects that JSON does not have become their shortened repr.

    Raises InvalidResult for an integer that JSON readers refuse.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:  # the most frequent types
        return value
    match value:
        case bool() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case int():
            return _storable_integer(value)
        case _ if _is_numpy(value) and value.size <= 10_000 and depth < 8:
            plain = value.tolist()
            if _is_numpy(plain):  # np.longdouble, and an array that contains itself
                return jsonable(float(plain), depth) if isinstance(plain, numbers.Real) else _short(plain)
            return jsonable(plain, depth)
        case Mapping() if depth < 8:
            return {_key(k): jsonable(v, depth + 1) for k, v in value.items()}
        case list() | tuple() | set() | frozenset() if depth < 8:
            return [jsonable(v, depth + 1) for v in value]
        case _:
            return _short(value)


def _storable_integer(value: int) -> int:
    if value.bit_length() > _LARGEST_BITS:
        raise InvalidResult(
            f"an integer of {value.bit_length():,} bits cannot be stored: JSON readers accept at most "
            f"{_LARGEST_BITS:,} bits (4,300 digits); store it as text, such as hex(value)"
        )
    return int(value)


def _key(key: object) -> str:
    if isinstance(key, int):
        _storable_integer(key)
    return _text(str, key)


def _is_numpy(value: object) -> bool:
    """Whether a value is a number or an array of numpy (numpy is not imported just to check)."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic | numpy.ndarray)


def _one_line(error: BaseException) -> str:
    text, name = " ".join(_text(str, error).split()), type(error).__name__
    return f"{name}: {text}"[:2000] if text else name


def _short(value: object, limit: int = 200) -> str:
    text = _text(repr, value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _text(convert: Callable[[Any], str], value: object) -> str:
    """Return `str` or `repr` of a user's object."""
    try:
        return convert(value)
    except Exception as broken:  # noqa: BLE001 - a user's class may raise anything
        return f"<{type(value).__name__} whose {convert.__name__} raises {type(broken).__name__}>"
