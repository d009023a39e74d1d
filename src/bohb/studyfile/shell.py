"""Placeholders in text that a shell reads: a pipeline, or the script of `sh -c`.

A value never becomes part of that text. Each placeholder becomes a reference to an environment variable in double
quotes, and a shell does not read again what such a reference yields. Where a reference would mean something else
(inside quotes, in arithmetic, in a here-document), the placeholder is refused when the command is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from bohb.errors import InvalidArgument

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


def variables(values: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Return the environment variables that the references name; a value that the trial lacks is empty."""
    return {_variable(name, known): values.get(name, "") for name in known}


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
        _follow(token, open_)
        written.append(token)


def _name(text: str, found: re.Match[str], known: Sequence[str]) -> str | None:
    """Return the name of the placeholder that a token is or escapes."""
    if found[0] == "\\{":
        found = PLACE.match(text, found.end() - 1) or found
    return found[2] if found[2] in known else None


def _follow(token: str, open_: list[str]) -> None:
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
