"""The script a fresh interpreter of ours runs: takes over the coordinator's search path, then becomes guard or worker.

It is run by its path and not as a module of the package, for the package's `__init__` imports the search space and all
that goes with it: more than a second for each spawned worker, and nothing a worker needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from typing import Any


def main(argument: str) -> None:
    """Run `main` of the module that `setup.command` named."""
    arguments: dict[str, Any] = json.loads(argument)
    # before the first import, so that whatever the coordinator can import, its workers can
    sys.path[:] = arguments["path"]
    load_on_use("bohb")
    importlib.import_module(arguments["module"]).main(arguments)


def load_on_use(package: str) -> None:
    """Make submodules importable at once, and run the package's own code when one of its names is first asked for.

    importlib's LazyLoader would not do: importing a submodule reads `__path__`, which counts as use.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.loader is None:
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader

    def load(name: str) -> Any:
        vars(module).pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, name)

    vars(module)["__getattr__"] = load
    sys.modules[package] = module


if __name__ == "__main__":
    main(sys.argv[1])
