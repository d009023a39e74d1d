"""Print the import graph of the package: modules, edges, the most connected modules, and cycles.

python tools/import_graph.py                # src/bohb
python tools/import_graph.py other/bohb     # another version of the package
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "bohb"
Graph = Mapping[str, set[str]]


def import_graph(package: Path) -> Graph:
    """Return the modules that each module of a package imports, including imports inside functions."""
    files = {_name(path, package): path for path in sorted(package.rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        imported = imports(path)
        # "from a.b import c" imports the module a.b.c if it exists, and the name c of a.b otherwise.
        targets = {target if target in files else target.rpartition(".")[0] for target in imported}
        graph[name] = {target for target in targets if target in files} - {name}
    return graph


def imports(path: Path) -> set[str]:
    """Return the dotted names that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports must be absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def cycle(graph: Graph) -> list[str]:
    """Return the modules of one import cycle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def report(graph: Graph, most: int = 5) -> str:
    """Return the facts about a graph as text."""
    fan_out = Counter({name: len(targets) for name, targets in graph.items()})
    fan_in = Counter(target for targets in graph.values() for target in targets)
    lines = [f"modules: {len(graph)}", f"edges: {sum(fan_out.values())}"]
    for title, counts in (("imported by most", fan_in), ("importing most", fan_out)):
        lines.append(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common(most)))
    lines.append(f"cycle: {' -> '.join(cycle(graph)) or 'none'}")
    return "\n".join(lines)


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


if __name__ == "__main__":
    sys.stdout.write(report(import_graph(Path(sys.argv[1]) if sys.argv[1:] else PACKAGE)) + "\n")
