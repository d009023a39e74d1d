"""The package keeps its layers: imports point downwards, and the core has no input, output, clock or thread."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from bohb.core.events import BracketPlanned, Event, ObservationAdded, StudyCreated, TrialFinished, TrialStarted
from bohb.core.settings import MODELS

REPOSITORY = Path(__file__).parent.parent
ROOT = REPOSITORY / "src" / "bohb"
TOOL: Mapping[str, Any] = runpy.run_path(str(REPOSITORY / "tools" / "import_graph.py"))
LIST: Mapping[str, Any] = runpy.run_path(str(REPOSITORY / "tools" / "architecture.py"))
imports: Callable[[Path], set[str]] = TOOL["imports"]
graph: Mapping[str, set[str]] = TOOL["import_graph"](ROOT)

# What each part of the package may import from the rest of it, from the bottom upwards.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "_version": set(),
    "units": {"errors"},
    "arguments": {"errors", "units"},
    "core": {"arguments", "core", "errors", "units"},
    "journal": {"journal", "core", "errors", "units"},
    "optimizer": {"arguments", "optimizer", "journal", "core", "errors", "units", "_version"},
    "executors": {"arguments", "executors", "core", "errors", "units"},
    "analysis": {"analysis", "core", "errors", "units"},  # facts and words without I/O: a runner shows them, too
    "running": {"arguments", "running", "analysis", "optimizer", "executors", "journal", "core", "errors", "units"},
    "testing": {"testing", "journal", "executors", "core", "errors"},
    "studyfile": {"arguments", "studyfile", "running", "executors", "core", "errors", "units"},
    "plots": {"plots", "analysis", "core", "errors", "units", "_version"},
    "dashboard": {"dashboard", "plots", "analysis", "optimizer", "journal", "core", "errors", "units", "_version"},
    "integrations": {"integrations", "running", "optimizer", "executors", "journal", "core", "errors", "units"},
    "cli": {
        "arguments", "cli", "integrations", "dashboard", "plots", "analysis", "studyfile", "running", "optimizer",
        "executors", "journal", "core", "errors", "units", "_version",
    },
    "__main__": {"cli"},
}  # fmt: skip
OUTSIDE = {"time", "datetime", "threading", "asyncio", "os", "socket", "subprocess", "random", "logging", "secrets"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def test_imports_point_down_only() -> None:
    wrong = [
        f"{name} must not import {target}"
        for name, targets in graph.items()
        for target in targets
        if name != "bohb" and (target == "bohb" or target.split(".")[1] not in ALLOWED[name.split(".")[1]])
    ]
    assert wrong == []


def test_there_are_no_import_cycles() -> None:
    assert TOOL["cycle"](graph) == []
    assert TOOL["cycle"]({"a": {"b"}, "b": {"a"}})


def test_the_core_has_no_clock_no_thread_and_no_io() -> None:
    for path in (ROOT / "core").rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & OUTSIDE, path
        assert roots - sys.stdlib_module_names <= {"bohb", "numpy", "scipy", "ConfigSpace"}, path
        assert "ConfigSpace" not in roots or path.parent.name == "space", path
        source = path.read_text()
        assert "np.random.seed" not in source, path
        assert not re.search(r"(?<![\w.])open\(", source), path


def test_nothing_that_decides_reads_a_reason() -> None:
    """A reason explains to people; what steers is a typed field."""
    for folder in ("core", "optimizer", "running", "executors", "integrations"):
        for path in (ROOT / folder).rglob("*.py"):
            assert list(reasons_read(ast.parse(path.read_text()))) == [], path
    for wrong in ('e.reason["a"]', 'e.reason.get("a")', '"a" in e.reason', "if e.reason: pass", 'reason["a"]'):
        assert list(reasons_read(ast.parse(wrong))), wrong
    assert not list(reasons_read(ast.parse("f(e.reason); reason = e.reason; reason['a'] = 1")))


def reasons_read(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that look into a reason."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id="reason"), ctx=ast.Load()):
                yield node.lineno
            case (
                ast.Subscript(value=ast.Attribute(attr="reason"))
                | ast.Attribute(value=ast.Attribute(attr="reason"))
                | ast.Compare(comparators=[ast.Attribute(attr="reason")])
                | ast.If(test=ast.Attribute(attr="reason"))
                | ast.IfExp(test=ast.Attribute(attr="reason"))
            ):
                yield node.lineno


def test_histories_change_by_events_only_and_trials_are_made_in_the_core() -> None:
    for path in modules():
        inside = path.relative_to(ROOT).parts[0] in ("core", "testing")
        found = list(forged(ast.parse(path.read_text())))
        assert [what for what in found if not (inside and what == "Trial")] == [], path
    for wrong in ("history.n = 1", "a.history.n += 1", "setattr(history, 'n', 1)", "trial = Trial(1)"):
        assert list(forged(ast.parse(wrong))), wrong


def forged(tree: ast.AST) -> Iterator[str]:
    """Yield what makes a trial or changes a history."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="history") | ast.Attribute(attr="history"), ctx=ast.Store()):
                yield node.attr
            case ast.Call(
                func=ast.Name(id="setattr"), args=[ast.Name(id="history") | ast.Attribute(attr="history"), *_]
            ):
                yield "setattr"
            case ast.Call(func=ast.Name(id="Trial")):
                yield "Trial"


def test_only_the_settings_know_the_models_by_name() -> None:
    """A new model of the built-in sampler costs its module, its name there, a case in `samplers.chain`, and words."""
    names = MODELS.keys() - set(MODELS.values())
    assert names
    for path in modules():
        constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert path.name == "settings.py" or not names & constants, path


def test_a_kind_of_event_is_known_in_few_modules() -> None:
    """Those that brackets and trials consist of are known in more."""
    texts = [path.read_text() for path in modules()]
    known = {cls: sum(bool(re.search(rf"\b{cls.__name__}\b", text)) for text in texts) for cls in get_args(Event)}
    central = (StudyCreated, ObservationAdded, BracketPlanned, TrialStarted, TrialFinished)
    assert {cls.__name__: n for cls, n in known.items() if n > (12 if cls in central else 8)} == {}


def test_no_module_is_too_long_to_read_at_a_sitting() -> None:
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}


def test_the_list_of_modules_says_what_every_module_is_for() -> None:
    purposes: Mapping[str, str] = LIST["purposes"]()
    assert set(purposes) == set(graph)
    assert [name for name, text in purposes.items() if not text] == [], "say in the docstring what the module is for"
    tables: str = LIST["tables"]()
    assert all(f"### {name}\n" in tables or f"| `{name}` | " in tables for name in graph)
    assert "<!-- modules -->" in (REPOSITORY / "docs" / "architecture.md").read_text()
