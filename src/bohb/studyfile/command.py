"""Objectives in any language: a command line with placeholders that prints its loss.

The command is split into arguments before values are inserted, so that a value is never interpreted. A value never
becomes part of text that a shell reads either: the whole line with `shell=True`, or the script of `sh -c`. Each
placeholder becomes a reference to an environment variable in double quotes, and a shell does not read again what such a
reference yields. Where a reference would mean something else (inside quotes, in arithmetic, in a here-document), the
placeholder is refused when the command is read.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from bohb.core.trial import Outcome, Status, Trial, jsonable, outcome_of
from bohb.errors import InvalidArgument, InvalidResult, Retry
from bohb.executors.local.processes import signal_name
from bohb.units import option_text

PLACE = re.compile(r"\{\{([^{}\s]+)\}\}|\{([^{}\s]+)\}")  # {{name}} stands for {name} itself
_SHELLS = {"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"}
_SCRIPT_OPTION = re.compile(r"-[a-zA-Z]*c")
_QUOTES = {"'", '"', "$'"}
_COMMENT = r"(?<![^\s;&|()`])#[^\n]*"
_TOKENS = {  # what matters inside each kind of quotes, and outside of them
    "'": re.compile(rf"'|{PLACE.pattern}"),
    "$'": re.compile(rf"\\.|'|{PLACE.pattern}", re.DOTALL),
    '"': re.compile(rf"\\.|\"|`|\$\(\(|\$\(|{PLACE.pattern}", re.DOTALL),
    "": re.compile(rf"\\.|\$'|'|\"|`|\$?\(\(|\$?\(|\)|<<|{_COMMENT}|{PLACE.pattern}", re.DOTALL),
}


def scripts(arguments: Sequence[str]) -> set[int]:
    """Return which arguments are scripts for a shell: `sh -c script`, `env A=1 bash -lc script`."""
    found = set()
    for index in range(1, len(arguments) - 1):
        if _SCRIPT_OPTION.fullmatch(arguments[index]):
            before = [part for part in arguments[:index] if not part.startswith("-")]
            if before and PurePath(before[-1]).name in _SHELLS:
                found.add(index + 1)
    return found


def referenced(text: str, known: Sequence[str]) -> str:
    """Replace the placeholders in the text of a shell by references to environment variables."""
    written: list[str] = []
    open_: list[str] = []  # the quotes and parentheses that enclose the current position
    here_document = False
    position = 0
    while True:
        inner = open_[-1] if open_ else ""
        found = _TOKENS[inner if inner in _QUOTES else ""].search(text, position)
        if found is None:
            return "".join(written) + text[position:]
        token = found[0]
        written.append(text[position : found.start()])
        position = found.end()
        if token == "<<" and "((" not in open_:
            here_document = True
        name = _name(text, found, known)
        if name is not None:
            _refuse(name, text[: found.start() + (token == "\\{")], open_, here_document)
            token = f'"${{{_variable(name, known)}}}"'
        elif found[1] is not None:
            token = f"{{{found[1]}}}"
        elif token == ")" and inner == "((" and text[position : position + 1] == ")":
            token, position = "))", position + 1
        _follow_quotes(token, open_)
        written.append(token)


def _name(text: str, found: re.Match[str], known: Sequence[str]) -> str | None:
    """Return the name of the placeholder that a token is or escapes."""
    if found[0] == "\\{":
        found = PLACE.match(text, found.end() - 1) or found
    return found[2] if found[2] in known else None


def _follow_quotes(token: str, open_: list[str]) -> None:
    """Keep track of quotes and parentheses."""
    inner = open_[-1] if open_ else ""
    closed = {"'": ("'", "$'"), '"': ('"',), "`": ("`",), ")": ("(",), "))": ("((",)}
    if inner in closed.get(token, ()):
        open_.pop()
    elif token in {"'", "$'", '"', "`", "(", "((", "$(", "$(("}:
        open_.append(token if token in _QUOTES else token.removeprefix("$"))


def _refuse(name: str, before: str, open_: Sequence[str], here_document: bool) -> None:
    if _QUOTES.intersection(open_):
        where = "inside quotes"
    elif "((" in open_:
        where = "inside an arithmetic expression"
    elif here_document:
        where = "after <<"
    elif before.endswith("$"):
        where = f"after a $ (write ${{{{{name}}}}} for a variable of the shell)"
    elif before.endswith("\\"):
        where = "after a backslash"
    else:
        return
    raise InvalidArgument(
        f"command: {{{name}}} is {where}, where a shell might run its value or change it; write it without quotes, "
        f"as in --option={{{name}}}: whatever the value is, it stays one argument. A script in quotes can take it as "
        f"an argument: sh -c 'echo \"$1\"' sh {{{name}}}"
    )


def _variable(name: str, known: Sequence[str]) -> str:
    return f"BOHB_VALUE_{known.index(name)}"  # a name may contain characters that a variable must not


PLACEHOLDERS = ("budget", "previous_budget", "checkpoint_dir", "seed", "number", "config_id", "config", "python")
_NAME = re.compile(r"[A-Za-z_][\w.:-]*")
_KEPT = 2**20  # bytes at the end of the output that are searched for the loss
_POLL = 0.05
AGAIN = 75  # exit code of a command whose trial starts again later; EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True, slots=True)
class ShellObjective:
    """Runs a command for each trial and reads the loss from what it prints.

    command: a string, which is split as a shell would, or the list of its arguments.
    names: the hyperparameters of the space; unknown placeholders are refused.
    directory: the working directory of the command.
    shell: let a shell read the whole line, for pipes and redirections.
    """

    command: str | Sequence[str]
    names: Sequence[str] = ()
    directory: str = "."
    shell: bool = False
    _parts: tuple[str, ...] = field(init=False)
    _scripts: frozenset[int] = field(init=False)  # which parts a shell reads

    def __post_init__(self) -> None:
        """Split the command and check its placeholders."""
        try:
            parts = _split(self.command, self.shell)
        except ValueError as error:
            raise InvalidArgument(f"command = {self.command!r} cannot be split into arguments: {error}") from error
        if not parts or not parts[0].strip():
            raise InvalidArgument(f"command = {self.command!r} is empty")
        for part in parts:
            for found in PLACE.finditer(part):
                self._check(found[2])
        read = frozenset({0} if self.shell else scripts(parts))
        parts = [referenced(part, self._known) if n in read else part for n, part in enumerate(parts)]
        object.__setattr__(self, "_parts", tuple(parts))
        object.__setattr__(self, "_scripts", read)

    def _check(self, name: str | None) -> None:
        if name is None or not _NAME.fullmatch(name):
            return  # braces of the command's own, such as those of an awk program
        if name in PLACEHOLDERS and name in self.names:
            raise InvalidArgument(
                f"command: {{{name}}} could be the trial's {name} or the hyperparameter of that name; "
                "rename the hyperparameter"
            )
        if name not in self._known:
            known = ", ".join(self._known)
            raise InvalidArgument(f"command: {{{name}}} is unknown; use {known}, or {{{{{name}}}}} for the text itself")

    def arguments(self, trial: Trial) -> list[str]:
        """Return the arguments for one trial.

        An argument that refers to something absent (an inactive hyperparameter, no previous budget) is left out with
        the option it belongs to: all of `--dropout {dropout}` and `-v dropout={dropout}`.
        """
        values = texts(trial)
        filled: list[str] = []
        for index, part in enumerate(self._parts):
            text = part if index in self._scripts else self._filled(part, values)
            if text is not None:
                filled.append(text)
            elif not part.startswith("-") and filled[-1:] == [self._parts[index - 1]] and filled[-1].startswith("-"):
                filled.pop()
        return filled

    def line(self, trial: Trial) -> str:
        """Return the command for one trial as a line that can be pasted into a shell."""
        arguments = self.arguments(trial)
        command = arguments[0] if self.shell else shlex.join(arguments)
        values = self._environment(trial).items()
        used = " ".join(f"{name}={shlex.quote(value)}" for name, value in values if name in command)
        folder = str(trial.checkpoint_dir)
        steps = [f"cd {shlex.quote(self.directory)}", *([f"export {used}"] if used else [])]
        steps += [f"mkdir -p {shlex.quote(folder)}"] if folder in f"{command}{used}" else []
        return " && ".join([*steps, command])

    def _environment(self, trial: Trial) -> dict[str, str]:
        """Return the values as environment variables, also under the names to which the text of a shell refers.

        Those are empty if the trial lacks the value.
        """
        values = texts(trial)
        known = (name for name in PLACEHOLDERS if name in values and name not in trial.config)
        referred = {_variable(name, self._known): values.get(name, "") for name in self._known} if self._scripts else {}
        return {f"BOHB_{name.upper()}": values[name] for name in known} | referred

    @property
    def _known(self) -> tuple[str, ...]:
        return (*self.names, *PLACEHOLDERS)

    def _filled(self, part: str, values: Mapping[str, str]) -> str | None:
        """Insert values for the placeholders of an argument; return None if a value is absent."""

        def fill(found: re.Match[str]) -> str:
            if found[2] is None:
                return f"{{{found[1]}}}"
            return values[found[2]] if found[2] in self._known else found[0]

        try:
            return PLACE.sub(fill, part)
        except KeyError:
            return None

    def __call__(self, trial: Trial) -> Outcome:
        """Run the command and read the loss from its output."""
        arguments = self.arguments(trial)
        try:
            process = subprocess.Popen(
                arguments[0] if self.shell else arguments,
                shell=self.shell,
                cwd=self.directory,
                env={**os.environ, **self._environment(trial)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the runner
            )
        except OSError as error:
            return Outcome(Status.CRASHED, error=f"cannot start {arguments[0]!r}: {error.strerror}")
        try:
            printed, complaints = _follow(process, trial)
        finally:
            _end(process)
        if process.returncode == AGAIN:
            raise Retry(_failure(process.returncode, complaints))
        if process.returncode != 0:
            return Outcome(Status.CRASHED, error=_failure(process.returncode, complaints), output=complaints[-2000:])
        return outcome_of(result_in(printed), trial.goals)


def texts(trial: Trial) -> dict[str, str]:
    """Return the values of the placeholders, without those that the trial does not have."""
    values: dict[str, Any] = {
        "budget": _whole(trial.budget),
        "previous_budget": _whole(trial.previous_budget),
        "checkpoint_dir": trial.checkpoint_dir,
        "seed": trial.seed,
        "number": trial.number,
        "config_id": trial.config_id,
        "config": json.dumps(jsonable(trial.config)),
        "python": sys.executable,
        **trial.config,
    }
    return {name: option_text(value) for name, value in values.items() if value is not None}


def result_in(printed: str) -> Any:
    """Return the last line that is a JSON object or a number. Raises InvalidResult if there is none."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    for line in reversed(lines):
        found = _parsed(line)
        if found is not None:
            return found
    last = f"its last line is {lines[-1][:200]!r}" if lines else "it printed nothing"
    raise InvalidResult(
        f'the command printed no loss: {last}; print a number or {{"loss": number}} on a line of its own, at the end'
    )


def _parsed(line: str) -> Any:
    """Return the number or JSON object that a line consists of, or None."""
    try:
        return json.loads(line) if line.startswith("{") else float(line)
    except (ValueError, RecursionError):
        return None


def _split(command: str | Sequence[str], shell: bool) -> list[str]:
    if isinstance(command, str):
        return [command] if shell else shlex.split(command)
    if shell:
        raise InvalidArgument(f"command = {command!r} must be one string when shell is true")
    if not all(isinstance(part, str) for part in command):
        raise InvalidArgument(f"command = {command!r} must be a list of strings")
    return list(command)


def _whole(budget: float | None) -> float | None:
    """Return a whole budget as an integer, because most programs expect `--epochs 3`."""
    return int(budget) if budget is not None and float(budget).is_integer() else budget


def _follow(process: subprocess.Popen[bytes], trial: Trial) -> tuple[str, str]:
    """Return the ends of the command's stdout and stderr; copy both to the log of the trial as they come."""
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    unfinished = b""
    with selectors.DefaultSelector() as selector:
        for descriptor in kept:
            selector.register(descriptor, selectors.EVENT_READ)
        over = False
        while selector.get_map() and not over:
            over = process.poll() is not None  # then read once more: a child process may hold the pipes open
            for key, _ in selector.select(0 if over else _POLL):
                data = os.read(key.fd, _KEPT)  # all that is in the pipe
                if not data:
                    selector.unregister(key.fd)
                with suppress(OSError):  # a full disk should not fail the trial
                    os.write(2, data)
                kept[key.fd] = (kept[key.fd] + data)[-_KEPT:]
                if key.fd == process.stdout.fileno():
                    unfinished = _report(unfinished + data, trial)
    process.wait()
    printed, complaints = (data.decode(errors="replace") for data in kept.values())
    return printed, complaints


def _report(printed: bytes, trial: Trial) -> bytes:
    """Report the lines {"step": …, "loss": …} as the learning curve; return the unfinished last line."""
    *lines, unfinished = printed.split(b"\n")
    for line in lines:
        if line.startswith(b"{") and b'"step"' in line:
            found = _parsed(line.decode(errors="replace"))
            with suppress(TypeError, KeyError, InvalidResult):
                trial.report(found["step"], found["loss"])
    return unfinished[-_KEPT:]


def _failure(code: int, complaints: str) -> str:
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    how = f"exit code {code}" if code > 0 else f"killed by {signal_name(-code)}"
    return f"{how}: {lines[-1][:500]}" if lines else f"{how}, nothing on stderr"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group and close the pipes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
