"""Build a release, try its wheel as a user would, and say what is still missing before it can be published.

    python tools/release.py build      wheel and sdist in dist/, twice: both times the same bytes
    python tools/release.py wheel      the wheel alone
    python tools/release.py try        the wheel in an empty environment, as a new user: from `bohb init` to a report
    python tools/release.py describe   licences and SBOM of what a user installs, in dist/
    python tools/release.py missing    what the owner still has to write

`build` and `describe` need requirements/release.txt; `make release-check` does everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
MOST_BYTES = 3_000_000
TRAIN = """import sys, time
lr, budget = float(sys.argv[1]), float(sys.argv[2])
time.sleep(0.05)
print(abs(lr - 0.3) + 1 / budget)
"""
STUDY = """study = "tried"
journal = "study.db"
command = "python train.py {lr} {budget}"
workers = 2
seed = 1
[budget]
min = 1
max = 9
[space]
lr = {float = [0.01, 1.0], log = true}
[limits]
max_trials = 60
"""
TYPED = """import bohb
def objective(trial: bohb.Trial) -> float:
    return float(trial.config["x"])
study = bohb.minimize(objective, {"x": (0.0, 1.0)}, min_budget=1, max_budget=9, max_trials=3)
print(study.best_config)
"""
MISTYPED = "    study.nothing\nbohb.minimize(objective, {'x': (0.0, 1.0)}, max_cots=3)\n"


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, ok: bool = True) -> str:
    """Run a command and return what it prints; end with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    if ok and done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def built(directory: Path) -> list[Path]:
    """Build sdist and wheel; the time of the last commit stands for all times, so that the bytes can be repeated."""
    moment = run("git", "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "hatchling", "build", "-d", directory, env={"SOURCE_DATE_EPOCH": moment})
    return sorted(path for path in directory.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def build() -> None:
    """Build twice, compare, and check sizes, contents and metadata."""
    for old in DIST.glob("bohb-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as again:
        pairs = list(zip(built(DIST), built(Path(again)), strict=True))
        for first, second in pairs:
            assert first.name == second.name
            if hashlib.sha256(first.read_bytes()).digest() != hashlib.sha256(second.read_bytes()).digest():
                raise SystemExit(f"{first.name} differs between two builds of the same commit")
            if first.stat().st_size > MOST_BYTES:
                raise SystemExit(f"{first.name} has {first.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
            print(f"{first.name}: {first.stat().st_size / 1e6:.2f} MB, the same bytes in two builds")
        source, wheel = sorted((first for first, _ in pairs), key=lambda path: path.suffix)
        with tarfile.open(source) as archive:
            archive.extractall(again, filter="data")
        unpacked = Path(again) / source.name.removesuffix(".tar.gz")
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", again, cwd=unpacked)
        assert names(wheel) == names(Path(again) / wheel.name), "the sdist builds another wheel"
    missing = needed() - names(wheel)
    assert not missing, f"the wheel lacks {missing}"
    print(run(sys.executable, "-m", "twine", "check", "--strict", source, wheel).strip())


def wheel() -> None:
    """Build the wheel."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", DIST)


def needed() -> set[str]:
    """Return the files of the package that git knows, with templates, scripts and py.typed."""
    return {name.removeprefix("src/") for name in run("git", "ls-files", "src").splitlines()}


def names(wheel: Path) -> set[str]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def environment(directory: Path, extras: str = "plot") -> Path:
    """Install the wheel with its dependencies into a new environment; return its folder of programs."""
    [wheel] = DIST.glob("bohb-*.whl")
    venv.create(directory, with_pip=True)
    programs = directory / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extras}]")
    return programs


def try_wheel() -> None:
    """Do what a new user does, outside the checkout and without its environment."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        programs = environment(place / "env")
        work = place / "work"
        work.mkdir()
        clean = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "", "PYTHONWARNINGS": "error"}

        def bohb(*arguments: str, ok: bool = True) -> str:
            return run(programs / "bohb", *arguments, cwd=work, env=clean, ok=ok)

        where = run(programs / "python", "-c", "import bohb; print(bohb.__file__)", cwd=work, env=clean)
        assert str(place) in where, f"imported from {where}"
        bohb("init")
        assert "bracket 0" in bohb("plan", "study.toml")
        (work / "train.py").write_text(TRAIN)
        (work / "study.toml").write_text(STUDY)
        assert "deterministic" in bohb("check", "study.toml")
        code = interrupted([str(programs / "bohb"), "run", "study.toml"], work, clean)
        before = json.loads(bohb("status", "study.toml", "--json"))["trials"]["finished"]
        assert code == 130, f"`bohb run` ended with {code} after Ctrl-C"
        bohb("run", "study.toml")
        after = json.loads(bohb("status", "study.toml", "--json"))["trials"]["finished"]
        assert 0 < before < after == 60, f"{before} trials before Ctrl-C, {after} in the end"
        assert "lr" in bohb("best", "study.toml")
        assert "exact" in bohb("replay", "study.toml")
        bohb("report", "study.toml")
        assert list(work.glob("*.html"))
        check_types(work, programs)
    print(
        "the wheel works in an empty environment: init, plan, check, run, Ctrl-C, resume, best, replay, report, types"
    )


def interrupted(command: list[str], work: Path, environ: dict[str, str]) -> int:
    """Start a command, press Ctrl-C once trials have finished, and return its exit code."""
    process = subprocess.Popen(
        command, cwd=work, env={**os.environ, **environ}, start_new_session=True, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if (work / "study.db").exists():
            shown = run(command[0], "status", "study.toml", "--json", cwd=work, env=environ, ok=False)
            if re.search(r'"finished": [1-9]', shown):
                break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    return process.wait(120)


def check_types(work: Path, programs: Path) -> None:
    """Check with mypy that users of the wheel get its types, because it carries py.typed."""
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(programs / "python")]
    (work / "typed.py").write_text(TYPED)
    run(*mypy, "typed.py", cwd=work, env={"PYTHONPATH": "", "MYPYPATH": ""})
    (work / "mistyped.py").write_text(TYPED + MISTYPED.lstrip())
    said = run(*mypy, "mistyped.py", cwd=work, env={"PYTHONPATH": "", "MYPYPATH": ""}, ok=False)
    assert '"nothing"' in said, said
    assert "max_cots" in said, said


def describe() -> None:
    """Write the licences and the SBOM of what `pip install bohb` installs."""
    with tempfile.TemporaryDirectory() as name:
        programs = environment(Path(name) / "env")
        run(programs / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools", ok=False)
        python = str(programs / "python")
        table = run(sys.executable, "-m", "piplicenses", "--python", python, "--format", "markdown", "--with-urls")
        (DIST / "licences.md").write_text(table)
        run(sys.executable, "-m", "cyclonedx_py", "environment", python, "-o", DIST / "sbom.json")
    unknown = [line for line in table.splitlines() if "UNKNOWN" in line.split("|")[3:4]]
    assert not unknown, unknown
    print(f"{len(table.splitlines()) - 2} packages in dist/licences.md and dist/sbom.json")


def missing() -> None:
    """Name what only the owner can write."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    address = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["address"]
    found = [] if address else ["the project's address: `address` in pyproject.toml"]
    version = project["project"]["version"]
    if f'__version__ = "{version}"' not in (ROOT / "src" / "bohb" / "_version.py").read_text():
        found.append("one version: those of pyproject.toml and src/bohb/_version.py differ")
    if f"## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        found.append(f"a section of CHANGELOG.md for version {version}")
    for line in found:
        print(f"missing: {line}")
    if found:
        raise SystemExit(1)


STEPS: dict[str, Callable[[], None]] = {
    "build": build,
    "wheel": wheel,
    "try": try_wheel,
    "describe": describe,
    "missing": missing,
}

if __name__ == "__main__":
    for step in sys.argv[1:]:
        STEPS[step]()
