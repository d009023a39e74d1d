"""Everything users may import is typed, documented and available in an installation without extras."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import bohb

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
# Only useful to people who change the package. Everything else is in the reference.
INTERNAL = (
    "bohb.__main__", "bohb._version", "bohb.arguments", "bohb.units", "bohb.analysis.", "bohb.cli",
    "bohb.core.space.", "bohb.core.times.durations", "bohb.core.times.deadline", "bohb.core.decider",
    "bohb.dashboard.",
    "bohb.executors.", "bohb.integrations.",
    "bohb.journal.", "bohb.optimizer", "bohb.plots.", "bohb.running", "bohb.studyfile", "bohb.testing.",
)  # fmt: skip
PACKAGES = (  # packages that only contain modules
    "bohb.core", "bohb.core.samplers", "bohb.core.schedule", "bohb.core.space",
    "bohb.core.times", "bohb.executors", "bohb.integrations",
)  # fmt: skip
# documented by the protocol that they implement
FULFILS = {"append", "read", "key", "close", "renew_lease", "end_lease", "live_leases", "again"}
EXTRAS = {  # code that needs the extra, and the package that the extra installs
    "plot": ("from bohb.plots import PLOTS", "plotly"),
    "dashboard": ("import bohb.dashboard", "starlette"),
    "postgres": ("from bohb.journal import open_journal; open_journal('postgresql+psycopg://host/name')", "psycopg"),
    "dask": ("minimize(executor='dask://127.0.0.1:1')", "distributed"),
    "ray": ("minimize(executor='ray://auto')", "ray"),
    "gpu": ("from bohb.executors.local.devices import Driver; Driver()", "pynvml"),
    "sklearn": ("import bohb.integrations.sklearn", "sklearn"),
    "optuna": ("import bohb.integrations.optuna", "optuna"),
    "mlflow": ("from bohb.integrations.trackers import track; track('mlflow', 's.db', to='x').__enter__()", "mlflow"),
    "tensorboard": (
        "from bohb.integrations.trackers import track; track('tensorboard', 's.db', to='x').__enter__()",
        "tensorboardX",
    ),
    "huggingface": ("from bohb.integrations import learners; learners.huggingface_callback(None)", "transformers"),
    "mcp": ("import pathlib; from bohb.cli.mcp import mcp_server; mcp_server(pathlib.Path())", "mcp"),
    "wandb": ("from bohb.integrations.trackers import track; track('wandb', 's.db', to='x').__enter__()", "wandb"),
}
PRELUDE = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {missing!r} else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import bohb
def minimize(**how):
    return bohb.minimize(lambda trial: trial.config["x"], {{"x": (0.0, 1.0)}}, min_budget=1, max_budget=9, **how)
"""
TRY_ALL = """
import json
messages = {{}}
for extra, code in {tried!r}.items():
    try:
        exec(code)
    except bohb.errors.MissingExtra as error:
        messages[extra] = str(error)
print(json.dumps(messages))
"""


def documented_modules() -> dict[str, str]:
    """Return every module in the reference with the text of its page."""
    found = {}
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text()
        found.update(dict.fromkeys(re.findall(r"^\.\. automodule:: (\S+)$", text, flags=re.MULTILINE), text))
    return found


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: its `__all__`, or the classes and functions that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]


def undocumented(owner: str, value: object) -> list[str]:
    """Return the classes, functions and public methods without a docstring."""
    found = [] if inspect.getdoc(value) else [owner]
    if inspect.isclass(value):
        for name, member in vars(value).items():
            public = inspect.isroutine(member) or isinstance(member, property | classmethod | staticmethod)
            claim = name.startswith("test_")  # the name of a contract's test is its documentation
            if public and not name.startswith("_") and not claim and name not in FULFILS:
                found += [] if inspect.getdoc(getattr(value, name)) else [f"{owner}.{name}"]
    return found


def run_without(missing: set[str], code: str, directory: Path, *path: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import the missing packages; path: where bohb is, by default this one."""
    return subprocess.run(
        [sys.executable, "-c", PRELUDE.format(missing=missing) + code],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or [str(Path(bohb.__file__).parents[1])])},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(bohb.__file__).parent / "py.typed").exists()


def test_every_module_is_in_the_reference_or_declared_internal() -> None:
    package = Path(bohb.__file__).parent
    files = (path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    internal = {name for name in names if name.startswith(INTERNAL)}
    assert names - internal - set(PACKAGES) <= set(documented_modules()), "add it to docs/reference or to INTERNAL"


@pytest.mark.parametrize("name", sorted(documented_modules()))
def test_every_public_name_is_documented(name: str) -> None:
    module, page = importlib.import_module(name), documented_modules()[name]
    assert inspect.getdoc(module)
    missing = []
    for public in public_names(module):
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isroutine(value):
            missing += undocumented(public, value)
        elif f".. py:data:: {name}.{public}\n" not in page:
            missing.append(public)
    assert missing == []


def test_what_the_guides_import_is_in_the_reference() -> None:
    documented = set(documented_modules())
    for page in (ROOT / "docs").glob("*.md"):
        for module in re.findall(r"^from (bohb[\w.]*) import", page.read_text(), flags=re.MULTILINE):
            shown = module in documented or module in PACKAGES
            assert shown, f"{page.name} imports from {module}, which the reference does not have"


def test_the_error_names_the_missing_extra(tmp_path: Path) -> None:
    tried = {extra: code for extra, (code, _) in EXTRAS.items()}
    ran = run_without({package for _, package in EXTRAS.values()}, TRY_ALL.format(tried=tried), tmp_path)
    assert ran.returncode == 0, ran.stderr
    messages = json.loads(ran.stdout)
    assert [extra for extra in EXTRAS if f'pip install ".[{extra}]"' not in messages.get(extra, "")] == []


def test_a_wheel_works_without_any_extra(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    needed = runpy.run_path(str(ROOT / "tools" / "release.py"))["needed"]()
    assert {"bohb/py.typed", "bohb/dashboard/static/tabulator.min.js"} <= needed <= names
    licences = [name for name in names if ".dist-info/licenses/" in name]
    assert {Path(name).name for name in licences} == {"LICENSE", "tabulator.LICENSE"}
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)
    code = """
from bohb.cli.app import app
assert "installed" in bohb.__file__
study = minimize(journal="study.db", workers=1)
assert len(study.trials) == 22 and not study.failures
app.main(["status", "study.db"], "bohb")
"""
    ran = run_without({package for _, package in EXTRAS.values()}, code, tmp_path, str(tmp_path / "installed"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "22 finished" in ran.stdout
