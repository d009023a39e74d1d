"""Fingerprints of the code that decides a result, by which stored results are found again.

Stored runs take hours, so a fingerprint changes only if a result could change: comments, docstrings, layout, the place
of a module in the package and the modules that names are imported from do not count.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import bohb

PACKAGE = Path(bohb.__file__).parent


def deciding_files() -> tuple[Path, ...]:
    """Return the files of the package that decide which trials a study runs."""
    return tuple(path for folder in ("core", "optimizer") for path in sorted((PACKAGE / folder).rglob("*.py")))


def code_digest(files: Iterable[Path]) -> str:
    """Return the fingerprint of some files, in whatever order they are given."""
    digests = sorted(_digest(file) for file in files)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


@cache
def _digest(file: Path) -> str:
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        elif isinstance(node, ast.ImportFrom):
            node.module = None
            node.names.sort(key=lambda alias: alias.name)
    tree.body.sort(key=_import_order)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _import_order(node: ast.stmt) -> tuple[bool, str]:
    """Sort key that puts imports first, in an order that does not depend on module names, and keeps the rest."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return False, ast.dump(node)
    return True, ""
