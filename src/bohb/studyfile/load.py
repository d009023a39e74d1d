"""The study file: a whole study as TOML, checked key by key before anything is loaded or run."""

from __future__ import annotations

import difflib
import importlib
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.arguments import FLAG, LIST, TABLE, TEXT, Kind, declared, one_of, pick, whole
from bohb.core.goals import Goals, goals_of
from bohb.core.limits import Limits
from bohb.core.settings import PRESETS, Budgets, Settings
from bohb.errors import InvalidArgument, MissingExtra
from bohb.executors.options import TrialOptions
from bohb.running.run_options import SessionOptions


class StudyFileError(InvalidArgument):
    """A study file breaks a rule; the message names file, key, value and rule."""


# The table, the key in it and the kind of every declared argument that a study file can have, by name.
PLACES: dict[str, tuple[str, str, Kind]] = {
    name: (key.rpartition(".")[0], key.rpartition(".")[2], kind)
    for group in (Budgets, Limits, SessionOptions, TrialOptions)
    for name, (kind, key) in declared(group).items()
    if key is not None
}
_TEXTS = Kind("must be a list of strings", lambda value: isinstance(value, list) and all(map(TEXT.holds, value)))


def _either(rule: str, *types: type) -> Kind:
    return Kind(rule, lambda value: isinstance(value, types))


def _table(name: str) -> dict[str, Kind]:
    return {key: kind for table, key, kind in PLACES.values() if table == name}


TABLES: dict[str, dict[str, Kind]] = {
    "budget": {**_table("budget"), "unit": TEXT},
    "limits": _table("limits"),
    "trial": _table("trial"),
    "settings": {name: kind for name, (kind, _) in declared(Settings).items()},
}
# Arguments of `bohb.minimize` that a study file gives as they are.
SAME: dict[str, Kind] = {
    "preset": one_of(PRESETS),
    "objectives": _either("must be a list of names or a table of directions", list, dict),
    "constraints": TABLE,
    "direction": TEXT,
    "seed": whole(0),
    "executor": TEXT,
    "resources": TABLE,
    "initial_configs": LIST,
}
TOP: dict[str, Kind] = {
    "study": TEXT,
    "journal": TEXT,
    "directory": TEXT,
    "objective": TEXT,
    "command": _either("must be a string or a list of strings", str, list),
    "shell": FLAG,
    "space": _either("must be a table, 'module:object' or a JSON file", str, dict),
    "workers": whole(0),
    "warm_start": _TEXTS,
    **SAME,
    **_table(""),
    **dict.fromkeys(TABLES, TABLE),
    "settings": _either("must be a table of single settings; a preset has the key 'preset'", dict),
}
_MISPLACED = {
    "settings.preset": "it belongs at the top of the file, before the first table: write preset = …",
    "forbidden": "it belongs into the table [space]",
}


def check_keys(path: Path, prefix: str, table: Mapping[str, Any], known: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the table with every value checked; refuse unknown keys with a guess at what was meant."""
    checked = {}
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            hint = _MISPLACED.get(f"{prefix}{key}", hint)
            raise StudyFileError(f"{path}: unknown key '{prefix}{key}' = {shown(value)}; {hint}")
        try:
            checked[key] = known[key].checked(value)
        except ValueError as error:
            raise wrong(path, f"{prefix}{key}", value, str(error)) from error
    return checked


def wrong(path: Path, key: str, value: object, rule: str) -> StudyFileError:
    """Return the error for a value that breaks a rule."""
    return StudyFileError(f"{path}: {key} = {shown(value)} {rule}")


def shown(value: object) -> str:
    """Format a value as in the file, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from bohb.core.space import Space
    from bohb.executors.base import Objective
    from bohb.running.run_options import RunSetup

_SQLITE = b"SQLite format 3\0"  # how every SQLite file, and so every journal, begins


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A study file with known keys and values of the right types; other rules are checked where values are used.

    path: the file; relative paths in it are relative to its directory.
    values: its contents.
    """

    path: Path
    values: Mapping[str, Any] = field(repr=False)

    @property
    def directory(self) -> Path:
        """The directory that contains the file."""
        return self.path.parent

    @property
    def study(self) -> str:
        """The name of the study in its journal."""
        return str(self.values.get("study", "study"))

    @property
    def journal(self) -> str:
        """The journal as a path or URL; by default beside the study file."""
        return self.absolute(self.values.get("journal", f"{self.path.stem}.db"))

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments of `minimize` except the objective and the space."""
        found: dict[str, Any] = {"study": self.study, "journal": self.journal}
        found["workers"] = self.values.get("workers", None if "executor" in self.values else 1) or None
        if "directory" in self.values:
            found["directory"] = self.absolute(self.values["directory"])
        found["warm_start"] = [self.absolute(name) for name in self.values.get("warm_start", ())]
        found |= {name: self.values[name] for name in SAME if name in self.values}
        for name, (table, key, _) in PLACES.items():
            values = self.values[table] if table else self.values
            if key in values:
                found[name] = values[key]
        found |= self.values["settings"]
        return found

    @property
    def goals(self) -> Goals:
        """The objectives and constraints."""
        given = ("objectives", "constraints", "direction")
        return goals_of(**{name: self.values[name] for name in given if name in self.values})

    def setup(self, objective: Objective, **given: Any) -> RunSetup:
        """Return how the trials of the study are evaluated; `given` replaces values of the file, as for `minimize`."""
        from bohb.executors.options import trial_options
        from bohb.running.run_options import RunSetup

        found = self.arguments | given
        if "executor" in found:
            found["executor"] = self.executor(found["executor"])
        groups = {"trials": trial_options(found), "session": pick(SessionOptions, found)}
        return pick(RunSetup, {**found, **groups, "objective": objective})

    def space(self) -> Space:
        """Build or load the search space and compile it."""
        from bohb.core.space import Space

        given = self._given_space()
        with self.named_in_errors():
            return given if isinstance(given, Space) else Space(given)

    def _given_space(self) -> Any:
        value = self.values["space"]
        if isinstance(value, dict):
            from bohb.core.space.shorthand import read_space

            with self.named_in_errors():
                return read_space(value, toml=True)
        if value.endswith(".json"):
            return self._space_of(Path(self.absolute(value)))
        found = self._loaded("space", value)
        return found() if callable(found) else found

    def objective(self, names: tuple[str, ...]) -> Objective:
        """Return the objective: the user's function, or one that runs the command.

        names: the hyperparameters that the command may refer to.
        """
        if "objective" in self.values:
            found: Objective = self._loaded("objective", self.values["objective"])
            if not callable(found):
                raise wrong(
                    self.path, "objective", self.values["objective"], f"must be callable, but it is {found!r:.80}"
                )
            return found
        if "command" not in self.values:
            raise StudyFileError(
                f"{self.path}: one of the keys 'objective' and 'command' must be given, "
                "unless a program of your own asks for trials ('bohb ask')"
            )
        from bohb.studyfile.command import ShellObjective

        with self.named_in_errors():
            return ShellObjective(self.values["command"], names, str(self.directory), self.values.get("shell", False))

    def executor(self, value: str) -> Any:
        """Return an address as it is, or the object that "module:name" refers to or creates."""
        if "://" in value:
            return value
        found = self._loaded("executor", value)
        return found() if callable(found) else found

    def absolute(self, value: str) -> str:
        """Return a journal or file named in this file as an absolute path or URL."""
        return value if "://" in value or value == ":memory:" else str(self.directory / value)

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Put the name of this file in front of the messages of errors."""
        try:
            yield
        except InvalidArgument as error:
            raise StudyFileError(f"{self.path}: {error}") from error

    def _space_of(self, path: Path) -> ConfigurationSpace:
        from bohb.core.space.configspace import from_serialised

        try:
            return from_serialised(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            rule = f"must be a JSON file as ConfigSpace writes it: {type(error).__name__}: {error}"
            raise wrong(self.path, "space", self.values["space"], rule) from error

    def _loaded(self, key: str, value: str) -> Any:
        """Import an object named "module:name"; the module may lie beside the study file."""
        from bohb.core.trial import Outcome
        from bohb.executors.evaluate import attempt

        module, colon, name = value.partition(":")
        if not (colon and module and name):
            raise wrong(self.path, key, value, "must be of the form 'module:name'")
        if str(self.directory) not in sys.path:
            sys.path.insert(0, str(self.directory))
        found: Any = attempt(lambda: importlib.import_module(module), propagate=(KeyboardInterrupt, MissingExtra))
        if isinstance(found, Outcome):
            error = wrong(self.path, key, value, f"cannot be imported: {found.error}")
            error.add_note(found.traceback or "")
            raise error
        for part in name.split("."):
            if not hasattr(found, part):
                raise wrong(self.path, key, value, f"cannot be found: {module!r} has no {part!r}")
            found = getattr(found, part)
        return found


def load(path: str | Path) -> StudyFile:
    """Read and check a study file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise StudyFileError(
            f"{path}: {(error.strerror or str(error)).lower()}; 'bohb init' writes a study file"
        ) from error
    if data.startswith(_SQLITE):
        raise StudyFileError(f"{path} is a journal, not a study file; 'bohb status {path}' shows its study")
    try:
        return parse(data.decode(), path)
    except UnicodeDecodeError as error:
        raise StudyFileError(f"{path}: not a TOML file: {error}") from error


def parse(text: str, path: str | Path) -> StudyFile:
    """Check the text of a study file.

    path: where it is, or will be.
    """
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise StudyFileError(f"{path}: its arrays or tables are nested too deeply; use few levels") from error
    except ValueError as error:  # not TOML, or a number that is too long
        raise StudyFileError(f"{path}: not a TOML file: {error}") from error
    place = Path(path).absolute()
    checked = check_keys(place, "", values, TOP)
    for name, known in TABLES.items():
        checked[name] = check_keys(place, f"{name}.", checked.get(name, {}), known)
    for name in ("space", "budget"):
        if not checked.get(name):
            raise StudyFileError(f"{path}: the key '{name}' is missing")
    if "objective" in checked and "command" in checked:
        raise StudyFileError(f"{path}: only one of the keys 'objective' and 'command' can be given")
    return StudyFile(place, checked)
