"""Print what every module of the package is for, as Markdown: the first paragraph of each docstring, by folder.

The site shows these tables on the page docs/architecture.md.

python tools/architecture.py
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "bohb"


def purposes(package: Path = PACKAGE) -> dict[str, str]:
    """Return the first paragraph of the docstring of each module by the module's name; empty if it has none."""
    found: dict[str, str] = {}
    for path in sorted(package.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = " ".join(docstring.split("\n\n")[0].split())
    return found


def tables(package: Path = PACKAGE) -> str:
    """Return one heading and one table for each folder of the package."""
    known = purposes(package)
    folders = sorted({name for name in known if (package.parent / Path(*name.split("."))).is_dir()})
    parts: list[str] = []
    for folder in folders:
        inside = [name for name in known if name.rpartition(".")[0] == folder and name not in folders]
        rows = [f"| `{name}` | {known[name].replace('|', chr(92) + '|')} |" for name in inside]
        parts.append(f"### {folder}\n\n{known[folder]}\n")
        parts += ["\n".join(["| module | contents |", "|---|---|", *rows]) + "\n"] if rows else []
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(tables())
