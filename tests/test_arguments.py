"""Arguments are declared once; signatures, types, study files, commands and help say the same about them."""

from __future__ import annotations

import datetime
import inspect
import math
import os
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import bohb
from bohb.arguments import (
    BYTES,
    COUNT,
    FLAG,
    GRACE,
    NUMBER,
    POSITIVE,
    SECONDS,
    TIMEOUT,
    Kind,
    argument,
    between,
    check,
    declared,
    helps,
    one_of,
    pick,
    summary,
    whole,
    with_help,
)
from bohb.core.limits import Limits
from bohb.core.settings import Budgets, SettingChanges, Settings
from bohb.errors import InvalidArgument
from bohb.executors.options import TrialOptions
from bohb.optimizer.creation import StudyOptions
from bohb.running.minimize import MinimizeOptions
from bohb.running.run_options import SessionOptions

ROOT = Path(__file__).parent.parent
GROUPS: tuple[type, ...] = (Budgets, Limits, SessionOptions, TrialOptions, Settings)
MOST_NAMES = 22


@dataclass(frozen=True, slots=True)
class Example:
    """A group.

    depth: how deep it is;
        at least one. More text.
    name: its name, such as "a.b".
    """

    depth: int = argument(3, COUNT, "tree.depth")
    name: str | None = argument(None, one_of(["a", "b"]))
    hidden: int = argument(1, COUNT, public=False)

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (NUMBER, [0, -1.5, math.inf], [True, "1", None, math.nan]),
        (POSITIVE, [1, 0.5, math.inf], [0, -1, math.nan, 10**400]),
        (SECONDS, [1, math.inf], [0]),
        (TIMEOUT, [1.5], [0, math.inf]),
        (GRACE, [0, math.inf], [-1, "0"]),
        (BYTES, [1], [0, math.inf]),
        (COUNT, [1], [0, 1.0, True, "1"]),
        (whole(5), [5], [4]),
        (FLAG, [True, False], [0, None]),
        (between(0, 1, ends=True), [0, 1, 0.5], [1.1, True]),
        (between(0, 1, ends=False), [0.5], [0, 1]),
        (one_of(["a", "b"]), ["a"], ["c", 1]),
    ],
)
def test_a_kind_says_which_values_keep_its_rule(kind: Kind, good: list[Any], bad: list[Any]) -> None:
    assert all(kind.holds(value) for value in good)
    assert not any(kind.holds(value) for value in bad)


def test_values_of_a_study_file_are_parsed_and_checked() -> None:
    assert (SECONDS.checked("30m"), BYTES.checked("2kB")) == (1800, 2000)
    for kind, value, rule in ((SECONDS, "soon", "a number or a string"), (SECONDS, 0, "a positive number of seconds")):
        with pytest.raises(ValueError, match=f"must be {rule}"):
            kind.checked(value)


def test_a_group_names_the_value_that_breaks_a_rule() -> None:
    with pytest.raises(InvalidArgument, match=r"^depth=0 must be a whole number of at least 1$"):
        Example(depth=0)
    with pytest.raises(InvalidArgument, match=r"^name='c' must be one of a, b, or None$"):
        Example(name="c")
    with pytest.raises(InvalidArgument, match="hidden=0"):
        Example(hidden=0)


def test_a_group_picks_its_own_arguments() -> None:
    assert pick(Example, {"depth": 5, "other": 1}) == Example(depth=5)


def test_help_comes_from_the_docstring_of_the_group() -> None:
    assert helps(Example) == {
        "depth": "how deep it is; at least one. More text.",
        "name": 'its name, such as "a.b".',
    }
    assert [summary(Example, name) for name in ("depth", "name")] == ["how deep it is", 'its name, such as "a.b"']
    assert declared(Example)["depth"] == (COUNT, "tree.depth")
    assert "hidden" not in declared(Example)

    @with_help({"Examples": Example})
    def function() -> None:
        """Do it."""

    assert (
        function.__doc__
        == 'Do it.\n\nExamples:\n\ndepth: how deep it is; at least one. More text.\nname: its name, such as "a.b".'
    )


@pytest.mark.parametrize("group", GROUPS)
def test_every_argument_has_help(group: type) -> None:
    assert [name for name in declared(group) if not summary(group, name)] == []


def types_of(*groups: type) -> dict[str, Any]:
    """The types of the public arguments of groups, by name."""
    return {name: get_type_hints(group)[name] for group in groups for name in declared(group)}


def test_the_types_of_keywords_are_those_of_the_groups() -> None:
    assert get_type_hints(SettingChanges) == types_of(Settings)
    budgets = {name: kind for name, kind in types_of(Budgets).items() if name in ("eta", "integer_budgets")}
    assert get_type_hints(StudyOptions) == budgets | types_of(Settings)
    expected = budgets | types_of(Settings, Limits, SessionOptions, TrialOptions)
    moment = str | float | datetime.datetime | datetime.time | None  # `Limits` has it in seconds
    assert get_type_hints(MinimizeOptions) == expected | {"until": moment}


def test_signatures_are_short_and_take_the_declared_defaults() -> None:
    parameters = inspect.signature(bohb.minimize).parameters
    assert len(parameters) <= MOST_NAMES
    assert not set(parameters) & set(MinimizeOptions.__optional_keys__), "each is in one of the two"
    for function in (bohb.minimize, bohb.BOHB):
        found = inspect.signature(function).parameters
        assert all(found[name].default is None for name in ("min_budget", "max_budget", "budgets"))
        assert found["preset"].default == "best"
    assert {f.name for f in fields(Budgets)} <= set(parameters) | set(MinimizeOptions.__optional_keys__)


@pytest.mark.parametrize("function", [bohb.minimize, bohb.BOHB])
def test_help_lists_all_arguments(function: Any) -> None:
    groups = GROUPS if function is bohb.minimize else (Budgets, Settings)
    text = inspect.getdoc(function) or ""
    listed = [name for name in inspect.signature(function).parameters if name not in ("options", "space")]
    wanted = {*listed, *(name for group in groups for name in declared(group))}
    assert [name for name in sorted(wanted) if f"{name}:" not in text and f"{name}," not in text] == []


RIGHT = """
import datetime
import bohb

def loss(trial: bohb.Trial) -> float:
    return 1.0

space = {"x": (0.0, 1.0)}
bohb.minimize(loss, space, min_budget=1, max_budget=27, max_cost=15, trial_seconds=30, until="18:00", grace=60)
bohb.minimize(loss, space, budgets=[1, 3], preset="paper", random_fraction=1, until=datetime.datetime.now())
bohb.BOHB(space, min_budget=1, max_budget=9, eta=4, num_samples=5)
"""
WRONG = {
    "n_trials=3": "call-arg",
    "max_cots=3": "call-arg",
    "max_cost='a'": "arg-type",
    "preset='bset'": "arg-type",
    "settings='best'": "call-arg",
    "model='forest'": "arg-type",
}


def test_mypy_accepts_right_calls_and_refuses_misspelt_ones(tmp_path: Path) -> None:
    """As in a user's project: the package's types are read because of its `py.typed`, its own errors are not shown."""
    assert (ROOT / "src" / "bohb" / "py.typed").exists()
    calls = "".join(f"bohb.minimize(loss, space, budgets=[1], {call})\n" for call in WRONG)
    (tmp_path / "use.py").write_text(RIGHT + calls)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "use.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "use")},
        capture_output=True,
        text=True,
        timeout=560,
    )
    first = len(RIGHT.splitlines()) + 1
    found = {line.split(":")[1]: line for line in ran.stdout.splitlines() if ": error: " in line}
    assert found.keys() == {str(first + i) for i in range(len(WRONG))}, ran.stdout + ran.stderr
    for i, code in enumerate(WRONG.values()):
        assert f"[{code}]" in found[str(first + i)]
