"""The command `bohb`: the list of its subcommands, and error handling for all of them.

To start quickly, command modules import what needs numpy, or takes long, inside functions.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import ShellComplete, get_completion_class

from bohb._version import __version__
from bohb.cli import ask, lists, look, mcp, plan, plots, run, shared, stored
from bohb.cli.shared import emit_data, table
from bohb.errors import BohbError, StudyMismatch
from bohb.units import printable


class App(click.Group):
    """A group of commands that writes an error as one line to stderr: exit code 1 for failures, 2 for wrong usage."""

    def main(  # type: ignore[override]  # click has an overload that never returns
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
            _fail("bohb: interrupted", run.INTERRUPTED, error)
        except StudyMismatch as error:
            first, *_, last = str(error).splitlines()
            head = ("what", "stored", "given")
            _fail(f"bohb: {first}\n{table(head, error.differences, left=head)}\n{last}", 1, error)
        except BohbError as error:
            _fail(f"bohb: {error}", 1, error)
        except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            _fail(f"bohb: {error.filename or 'the system'}: {error.strerror or error}", 1, error)
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands in the order in which they are used."""
        return list(self.commands)


def _fail(message: str, code: int, error: BaseException) -> NoReturn:
    if "--debug" in sys.argv[1:] or os.environ.get("BOHB_DEBUG"):
        click.echo(printable("".join(traceback.format_exception(error))), err=True, nl=False)
    if not isinstance(error, StudyMismatch):
        message = " ".join(message.split())
    click.secho(printable(message), err=True, fg="red" if sys.stderr.isatty() else None)
    sys.exit(code)


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bohb")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Tune hyperparameters with BOHB (Falkner, Klein and Hutter, 2018).

    \b
    Examples:
      bohb init                     write a commented study file, study.toml
      bohb plan study.toml          show what would run, and how long it would take
      bohb run study.toml           run the study; the same command resumes it
      bohb status study.toml        show its progress
      bohb best study.toml          show the best configuration so far
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


@shared.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str, as_json: bool) -> None:
    """Print a script that completes commands in a shell.

    \b
    Examples:
      bohb completion bash >> ~/.bashrc
      bohb completion zsh >> ~/.zshrc
      bohb completion fish > ~/.config/fish/completions/bohb.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None
    script = ShellComplete.source(complete(app, {}, "bohb", "_BOHB_COMPLETE"))
    emit_data(json.dumps({"shell": shell, "script": script}) if as_json else script)


_ORDER = [module.__name__ for module in (plan, run, ask, look, lists, plots, mcp, stored)] + [__name__]
for _command in sorted(shared.COMMANDS, key=lambda command: _ORDER.index(command.callback.__module__)):
    app.add_command(_command)


def main(prog_name: str = "bohb") -> None:
    """Run the command line and exit."""
    app.main(prog_name=prog_name)
