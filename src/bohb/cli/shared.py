"""What commands share: how they are declared, how they name a study, the types of their options, and their output."""

from __future__ import annotations

import functools
import gc
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from bohb import arguments
from bohb.arguments import BYTES, COUNT, FLAG, GRACE, MOMENT, NUMBER, POSITIVE, TIMEOUT, Kind, declared, summary
from bohb.core.history import History
from bohb.core.limits import Limits
from bohb.errors import InvalidArgument, JournalError
from bohb.journal import only_study, stored_events
from bohb.journal.location import shown_journal
from bohb.journal.records import no_collector
from bohb.studyfile.load import load
from bohb.units import aligned, memory, moment, printable, seconds, short

if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # older versions of click cannot be subscripted

COMMANDS: list[click.Command] = []
DEFAULT = "study.toml"
Command = TypeVar("Command", bound=Callable[..., Any])
Bounds = Sequence[tuple[str, float]]  # what `--max` and `--min` give


def command(name: str | None = None, cls: type[click.Command] = click.Command) -> Callable[[Command], click.Command]:
    """Return a decorator that makes a function one of the commands, with the options that each of them has."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Write only JSON to stdout.")

    def decorate(function: Command) -> click.Command:
        COMMANDS.append(click.command(name, cls=cls)(as_json(debug(function))))
        return COMMANDS[-1]

    return decorate


@dataclass(frozen=True, slots=True)
class Target:
    """A study: its journal, and its name in the journal."""

    journal: str
    study: str

    @property
    def name(self) -> str:
        """How messages name the study."""
        return f"study {self.study!r} in {shown_journal(self.journal)}"

    @property
    def is_file(self) -> bool:
        """Whether the journal is a file of this machine."""
        return not self.journal.startswith("postgresql")

    def history(self) -> History:
        """Read and fold the study. Raises JournalError, with the names of the others, if there is none."""
        events = stored_events(self.journal, self.study)
        with no_collector():
            folded = History().extend(events)
            gc.freeze()  # a command keeps all of it until it ends: collecting it takes time and frees nothing
            return folded


class _StudyArgument(click.Argument):
    """The argument that names a study. It may come before the other argument of the command, too."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        here = self.name
        for there in [other.name for other in ctx.command.params if isinstance(other, click.Argument)]:
            first, last = opts.get(there or ""), opts.get(here or "")
            if _names_a_study(first) and isinstance(last, str) and not _names_a_study(last):
                assert isinstance(opts, dict)  # from which the other argument is read, too
                opts[there], opts[here] = last, first
        return super().handle_parse_result(ctx, opts, args)


def _names_a_study(text: object) -> bool:
    if not isinstance(text, str):
        return False
    with suppress(OSError, ValueError):  # no path at all, such as a long configuration
        return "://" in text or text.endswith((".toml", ".db")) or Path(text).is_file()
    return False


def target_options(command: Command) -> Command:
    """Add the argument and the option that name a study."""
    command = click.option("--study", help="Name of the study, if the journal holds several.")(command)
    metavar = "[JOURNAL|STUDYFILE]"
    return click.argument("target", cls=_StudyArgument, required=False, is_eager=True, metavar=metavar)(command)


def on_study(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument and the option that name a stored study, which it gets as `place`."""

    @functools.wraps(command)
    def on_found(target: str | None, study: str | None, **given: Any) -> None:
        command(place=find(target, study), **given)

    return target_options(on_found)


def find(target: str | None, study: str | None) -> Target:
    """Return the study that the arguments of a command name."""
    journal, named = find_journal(target)
    study = study or named
    return Target(journal, study or only_study(journal))


def find_journal(target: str | None) -> tuple[str, str | None]:
    """Return the journal that the argument of a command names, and the study if it is a study file.

    The default is the study file, study.toml, or else the only journal in this directory.
    """
    journal = given = target or _default()
    study = None
    if given.endswith(".toml"):
        file = load(given)
        journal, study = file.journal, file.study
    if "://" not in journal and not Path(journal).exists():
        if journal is not given:
            raise JournalError(f"the study of {given} has no journal yet; 'bohb run {given}' starts it in {journal}")
        shown = shown_journal(journal)
        raise JournalError(f"there is no journal {shown}; check the path, or start a study with 'bohb run'")
    return journal, study


def _default() -> str:
    if Path(DEFAULT).exists():
        return DEFAULT
    journals = sorted(str(path) for path in Path().glob("*.db") if path.is_file())
    if len(journals) == 1:
        return journals[0]
    if journals:
        raise InvalidArgument(f"there is no {DEFAULT} here, but several journals; name one of {', '.join(journals)}")
    raise InvalidArgument(f"there is no {DEFAULT} here; name a journal such as study.db, or a study file")


class WithNegativeNumbers(click.Command):
    """A command whose arguments may be negative numbers. Unknown options are still named as such."""

    ignore_unknown_options = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = {name: option for option in self.get_params(ctx) for name in option.opts if name.startswith("-")}
        value = False  # whether the argument belongs to the option before it
        for argument in args:
            name, equals, _ = argument.partition("=")
            if not value and argument.startswith("-") and name not in options and not _is_number(argument):
                raise click.NoSuchOption(name, possibilities=sorted(options), ctx=ctx)
            taking = options.get(name)
            value = not value and not equals and isinstance(taking, click.Option) and not taking.is_flag
        return super().parse_args(ctx, args)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("-", "--")
    return True


class Parsed(_Type):
    """A value that `read` parses; its ValueError says which rule the text breaks."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


def _constraint(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"\s*(.+?)\s*([<>]=.+)", text)
    if found is None:
        raise ValueError("must be of the form name<=bound or name>=bound, such as latency<=10ms")
    return found[1], found[2]


def _named_number(text: str) -> tuple[str, float]:
    name, _, amount = (part.strip() for part in text.partition("="))
    with suppress(ValueError):
        if name:
            return name, memory(amount) if name == "memory" else float(amount)
    raise ValueError("must be of the form name=number, such as gpu=1, latency=10 or memory=8GB")


CONSTRAINT = Parsed("name<=bound", _constraint)
RESOURCE = Parsed("name=amount", lambda text: ("gpu", "shared") if text == "gpu=shared" else _named_number(text))
SECONDS = Parsed("seconds", seconds)
NAMED_NUMBER = Parsed("name=number", _named_number)
_TYPES: dict[Kind, Any] = {
    COUNT: click.IntRange(1),
    NUMBER: float,
    POSITIVE: float,
    arguments.SECONDS: SECONDS,
    TIMEOUT: SECONDS,
    GRACE: SECONDS,
    BYTES: Parsed("bytes", memory),
    MOMENT: Parsed("time", moment),
}
_FORMS = {SECONDS: ", such as 90, 30m or 8h", _TYPES[BYTES]: ", such as 4GB", _TYPES[MOMENT]: ", such as 18:00"}


def together(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that applies several, the first one at last."""
    return lambda command: functools.reduce(lambda done, decorate: decorate(done), reversed(decorators), command)


def declared_options(group: type, *names: str, prefix: str = "") -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of these arguments of a group; of all without names.

    prefix: what the help of each begins with.
    """
    kinds, options = declared(group), []
    for name in names or kinds:
        kind = kinds[name][0]
        flag: dict[str, Any] = {"is_flag": True, "default": None} if kind is FLAG else {"type": _TYPES[kind]}
        text = f"{prefix}{summary(group, name)}{_FORMS.get(_TYPES.get(kind), '')}."
        options.append(click.option(f"--{name.replace('_', '-')}", help=text[:1].upper() + text[1:], **flag))
    return together(*options)


limit_options = declared_options(Limits, prefix="Limit: ")
running_options = together(  # where trials run, and where their study is stored
    click.option("--workers", type=click.IntRange(0), help="Trials at once; 0 runs them in this process."),
    click.option("--executor", help="Where trials run: dask://host:8786, ray://auto, or module:name."),
    click.option("--journal", help="A file or a database URL."),
    click.option("--study", help="The name of the study in the journal."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)
_BOUND = "Only results with at {} this value, such as latency=10; a named value or an entry of info. Repeatable."
bound_options = together(  # restrict results to those within bounds
    click.option("--max", "max_bounds", type=NAMED_NUMBER, multiple=True, help=_BOUND.format("most")),
    click.option("--min", "min_bounds", type=NAMED_NUMBER, multiple=True, help=_BOUND.format("least")),
)


def emit(as_json: bool, data: Any, text: str, style: Callable[[str], str] = str) -> None:
    """Write the result of a command: JSON for scripts, or text for people.

    In a terminal, lines are wrapped by words. Control characters are replaced.

    style: adds colours to a line.
    """
    if as_json:
        click.echo(json.dumps(data, indent=2, allow_nan=False, default=str))
    else:
        click.echo("\n".join(style(_wrapped(line)) for line in printable(text).split("\n")))


def emit_data(text: str) -> None:
    """Write text that programs read: exact in a file or a pipe, without control characters in a terminal."""
    click.echo(text if _terminal_width() is None else printable(text))


def note(text: str) -> None:
    """Write a note to stderr, where it does not mix with the result; nobody may be there to read it.

    In a terminal, lines are wrapped by words.
    """
    with suppress(OSError):
        click.echo("\n".join(_wrapped(line, sys.stderr) for line in printable(text).split("\n")), err=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Align columns to the right, those named in `left` to the left. In a terminal, lines are cut to its width."""
    cells = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    align = [str.ljust if name in left else str.rjust for name in head]
    lines = ["  ".join(f(cell, width) for f, cell, width in zip(align, row, widths, strict=True)) for row in cells]
    most = _terminal_width()
    return "\n".join(line.rstrip() if most is None else short(line.rstrip(), most) for line in lines)


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Align names and texts in two columns. In a terminal, texts are wrapped by words."""
    return aligned(rows, _terminal_width())


def _wrapped(line: str, stream: TextIO | None = None) -> str:
    width = _terminal_width(stream)
    if width is None or len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)


def _terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal, by default that of stdout; None for a file or a pipe."""
    stream = stream or sys.stdout
    return shutil.get_terminal_size().columns if stream and stream.isatty() else None
