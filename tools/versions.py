"""Run the tests with other versions: the lowest dependencies that pyproject.toml allows, or other versions of Python.

    python tools/versions.py lowest              with the Python of .venv, and the lowest version of each dependency
    python tools/versions.py pythons             with every Python of NEWER that this machine has
    python tools/versions.py pythons 3.13        with this one

Each has its environment in .venvs/. Extras whose engines are large are left out: EXTRAS lists those that are tested.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = ROOT / ".venv" / "bin" / "uv"
NEWER = ("3.12", "3.13", "3.14")
EXTRAS = "plot,dashboard,postgres,sklearn,optuna,mcp,hydra,tensorboard"
TOOLS = (
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "httpx",
    "hatchling",
    "editables",
    "apsw",
    "statsmodels",
    "mypy",
)
TESTS = ("core", "journal", "optimizer", "running", "studyfile", "analysis", "plots", "cli", "integrations", "replays")


def found(version: str) -> Path | None:
    """Return an interpreter of this version that runs: from the path, or one that pyenv has installed."""
    names = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for name in names:
        if name is not None and subprocess.run([name, "-c", ""], capture_output=True).returncode == 0:
            return Path(name)
    return None


def test(name: str, python: Path, *resolution: str) -> int:
    """Install into .venvs/<name>, and run the tests there; return the exit status."""
    programs = ROOT / ".venvs" / name / "bin"
    install: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", programs / "python"]
    pins = dict(line.split("==") for line in (ROOT / "requirements" / "dev.txt").read_text().split() if "==" in line)
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", python, programs.parent], check=True)
    # All at once: what the tools bring would otherwise hide the lowest versions.
    tools = [f"{tool}=={pins[tool]}" for tool in TOOLS]
    subprocess.run([*install, *resolution, *tools, "--editable", f"{ROOT}[{EXTRAS}]"], check=True)
    tests = [f"tests/{folder}" for folder in TESTS]
    command: list[str | Path] = [programs / "python", "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(what: str, *versions: str) -> int:
    """Run what was asked for; return whether anything failed."""
    if what == "lowest":
        return test("lowest", ROOT / ".venv" / "bin" / "python", "--resolution", "lowest-direct")
    status = 0
    for version in versions or NEWER:
        python = found(version)
        if python is None:
            sys.stdout.write(f"Python {version}: not on this machine\n")
        else:
            status |= test(f"python{version}", python)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
