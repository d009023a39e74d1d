"""The command line as a whole: its commands, and how every one of them fails.

Start-up is part of the interface: command modules import what is heavy (the search space, plots, servers) only inside
the functions that need it.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from bohb._version import __version__
from bohb.cli import inspect as look
from bohb.cli import maintain as keep
from bohb.cli import plan as choose
from bohb.cli import plots as show
from bohb.cli import run, track
from bohb.cli import transfer as move
from bohb.cli import trials as tables
from bohb.cli.text import clean
from bohb.errors import BohbError

INTERRUPTED = 130


class App(click.Group):
    """A group of commands that says errors in one line on stderr: exit code 1 for failures, 2 for wrong usage."""

    def main(  # type: ignore[override]  # click has an overload that never returns; this one always does, or exits
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit."""
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "bohb"
            _fail(f"{where}: {error.format_message().rstrip('.')} (see '{where} --help')", 2, error)
        except click.ClickException as error:
            _fail(f"bohb: {error.format_message()}", error.exit_code, error)
        except click.Abort as error:
            _fail("bohb: interrupted", INTERRUPTED, error)
        except BohbError as error:
            _fail(f"bohb: {error}", 1, error)
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            _fail(f"bohb: {error.filename or 'the system'}: {error.strerror or error}", 1, error)
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order in which they are used, not of the alphabet."""
        return list(self.commands)


def _fail(message: str, code: int, error: BaseException) -> NoReturn:
    if _debug():
        traceback.print_exception(error)
    click.secho(clean(" ".join(message.split())), err=True, fg="red" if sys.stderr.isatty() else None)
    sys.exit(code)


def _debug() -> bool:
    return "--debug" in sys.argv[1:] or bool(os.environ.get("BOHB_DEBUG"))


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bohb")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Tune hyperparameters with BOHB (Falkner, Klein and Hutter, 2018).

    \b
    Examples:
      bohb init                     write a commented study file, study.toml
      bohb plan study.toml          see what would run, and for how long
      bohb run study.toml           run it; the same command resumes it
      bohb status study.toml        see how far it has come
      bohb best study.toml          the best configuration so far
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


for _command in (
    *choose.COMMANDS,
    *run.COMMANDS,
    *look.COMMANDS,
    *tables.COMMANDS,
    *show.COMMANDS,
    *track.COMMANDS,
    *move.COMMANDS,
    *keep.COMMANDS,
):
    app.add_command(_command)


def main(prog_name: str = "bohb") -> None:
    """The entry point."""
    app.main(prog_name=prog_name)
