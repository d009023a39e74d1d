"""Imports point down only, and the core touches nothing outside itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "bohb"

# What each part of the package may import from the package, from the bottom up.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "_version": set(),
    "units": {"errors"},
    "core": {"core", "errors"},
    "journal": {"journal", "core", "errors", "units"},
    "optimizer": {"optimizer", "journal", "core", "errors", "units", "_version"},
    "executors": {"executors", "core", "errors", "units"},
    "running": {"running", "optimizer", "executors", "journal", "core", "errors", "units"},
    "testing": {"testing", "journal", "executors", "core", "errors"},
    "studyfile": {"studyfile", "executors", "core", "errors", "units"},
    "analysis": {"analysis", "core", "errors", "units"},
    "plots": {"plots", "analysis", "core", "errors", "units", "_version"},
    "dashboard": {"dashboard", "plots", "analysis", "journal", "core", "errors", "units", "_version"},
    "integrations": {"integrations", "running", "optimizer", "executors", "journal", "core", "errors", "units"},
    "cli": {
        "cli", "integrations", "dashboard", "plots", "analysis", "studyfile", "running", "optimizer", "journal",
        "core", "errors", "units", "_version",
    },
    "__main__": {"cli"},
}  # fmt: skip
CORE_LIBRARIES = {"numpy", "scipy", "ConfigSpace"}
OUTSIDE = {"time", "datetime", "threading", "asyncio", "os", "socket", "subprocess", "random", "logging", "secrets"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part(dotted: str) -> str:
    return dotted.split(".")[1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path: Path) -> None:
    inside = path.relative_to(ROOT).with_suffix("").parts
    if inside == ("__init__",):
        return
    for name in imports(path):
        if name.startswith("bohb."):
            assert part(name) in ALLOWED[inside[0]], f"{'/'.join(inside)} must not import {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "core").rglob("*.py")), ids=lambda path: path.name)
def test_the_core_has_no_clock_no_thread_and_no_io(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & OUTSIDE
    if "ConfigSpace" in roots:
        assert path.name in {"configspace.py", "compiled.py", "shorthand.py", "describe.py"}
    source = path.read_text()
    assert "np.random.seed" not in source
    assert "open(" not in source.replace("_open(", "")


def test_modules_can_be_read_at_a_sitting() -> None:
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}
