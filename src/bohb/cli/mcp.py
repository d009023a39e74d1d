"""`bohb mcp`: a study as tools for AI agents, by the Model Context Protocol over stdin and stdout.

Every tool opens the journal, acts and closes it, as the commands do. All that an agent does is in the journal, so that
the study can be resumed, inspected and replayed without the agent.
"""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bohb._version import __version__
from bohb.analysis.verdicts import remarks, result_data
from bohb.cli.ask import asked, checked, external, store
from bohb.cli.look import best_data, status_of
from bohb.cli.plan import study_plan
from bohb.cli.shared import command, emit, find
from bohb.core.confirm import last_confirmed
from bohb.core.history import History
from bohb.core.trial import jsonable
from bohb.errors import BohbError, InvalidArgument, MissingExtra, NoTrialReady, StudyDone, install_hint
from bohb.studyfile.load import StudyFile, load, parse

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from bohb.running.external import ExternalStudy

Data = dict[str, Any]
Tool = TypeVar("Tool", bound=Callable[..., Data])
_LARGEST = 2**18  # characters of a study file
_WAIT_SECONDS = 10.0  # for a trial, or for another process that uses the journal
_INSTRUCTIONS = """\
bohb finds good hyperparameters: it tries many configurations on a small budget and promotes the promising ones to
larger budgets. Write a study file with write_study, then repeat: ask for a trial, train its config on its budget,
tell its loss (lower is better). Train for `budget` in total; if `previous_budget` is not null, `checkpoint_dir` has
what the same configuration left there after that budget, so continue from it, and leave the new state there.
Use enqueue to have a configuration of your own evaluated next, and why to see how the study came to a decision. A
`study` is the name of a study file, such as study.toml, or of a journal, such as study.db."""
_EXAMPLE = """\
An example: 'seed = 1' and then the tables '[budget]' with 'min = 1', 'max = 27', 'unit = "epochs"'; and '[space]' with
'lr = {float = [1e-5, 0.1], log = true}', 'layers = {int = [1, 4]}', 'activation = ["relu", "tanh"]' and
'dropout = {float = [0.0, 0.5], if = "layers > 1"}'."""


@command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
def mcp(directory: Path, as_json: bool) -> None:
    """Serve the studies of a directory to an AI agent.

    It speaks the Model Context Protocol on stdin and stdout; agents start it themselves. With --json, print the entry
    for the configuration of an agent instead. Only study files and journals in DIRECTORY can be reached.

    \b
    Examples:
      bohb mcp
      bohb mcp experiments
      bohb mcp experiments --json
    """
    if as_json:
        entry = {"command": "bohb", "args": ["mcp", str(directory.absolute())]}
        emit(True, {"mcpServers": {"bohb": entry}}, "")
        return
    mcp_server(directory).run("stdio")


def mcp_server(directory: Path) -> MCPServer[Any]:
    """Return the server for the studies of a directory."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError as error:
        raise MissingExtra(f"bohb mcp needs the package {error.name!r}: {install_hint('mcp')}") from error

    class Server(MCPServer[Any]):
        async def call_tool(self, *arguments: Any, **named: Any) -> Any:
            try:
                return await super().call_tool(*arguments, **named)
            except ToolError as error:  # for wrong arguments, pydantic adds addresses of pages
                lines = str(error).splitlines()
                raise ToolError("\n".join(line for line in lines if "errors.pydantic.dev" not in line)) from error

    server = Server("bohb", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(directory.resolve())
    for name, tool in vars(Tools).items():
        if not name.startswith("_"):
            server.add_tool(_explained(getattr(tools, tool.__name__)))
    return server


def _explained(tool: Tool) -> Callable[..., Data]:
    """Return a tool whose errors reach the agent as one sentence."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def call(*arguments: Any, **named: Any) -> Data:
        try:
            data: Data = jsonable(tool(*arguments, **named))
            return data
        except click.ClickException as error:
            raise ToolError(error.format_message()) from error
        except (BohbError, OSError) as error:
            raise ToolError(str(error)) from error

    return call


class Tools:
    """The tools; their docstrings are what an agent reads.

    directory: the only one whose files they may use.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write_study(self, study: str, toml: str) -> Data:
        """Write a study file, such as study.toml, and return its space and plan as bohb understands them.

        toml: the text of the file; it needs the tables [space] and [budget]. An existing file is not overwritten.
        """
        path = Path(self._path(study))
        if path.suffix != ".toml":
            raise InvalidArgument(f"study={study!r} must end in .toml")
        if len(toml) > _LARGEST:
            raise InvalidArgument(f"toml has {len(toml)} characters; a study file may have {_LARGEST}")
        if path.exists():
            raise InvalidArgument(f"{study} already exists and was not changed; name another file")
        file = parse(toml, path)
        self._check_contained(file)
        planned = study_plan(file)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with draft.open("x", encoding="utf-8") as written:
                written.write(toml)
            os.link(draft, path)  # complete, and never in place of a file that somebody else has just written
        except FileExistsError as error:
            raise InvalidArgument(f"{study} already exists and was not changed; name another file") from error
        finally:
            draft.unlink(missing_ok=True)
        return planned

    def plan(self, study: str) -> Data:
        """Check a study file: return its space, and how many evaluations one round takes on which budget."""
        return study_plan(load(self._path(study)))

    def ask(self, study: str, lease_seconds: float | None = None, client: str | None = None) -> Data:
        """Start the next trial. The answer has `trial`, or null and the `reason` why there is none.

        lease_seconds: hand out trials again whose programs have been silent for so long.
        client: a name for you alone. If you ask again before you have told, you get the same trial.
        """
        try:
            trial = self._askable(study).ask(lease_seconds, client)
        except (NoTrialReady, StudyDone) as error:
            return {"trial": None, "complete": isinstance(error, StudyDone), "reason": str(error)}
        return {"trial": asked(trial)}

    def tell(
        self,
        study: str,
        number: int,
        attempt: int = 1,
        loss: float | None = None,
        losses: dict[str, float] | None = None,
        failed: str | None = None,
        lost: str | None = None,
        retry: str | None = None,
        info: dict[str, Any] | None = None,
        cost: float | None = None,
    ) -> Data:
        """Store how a trial ended: exactly one of loss, losses, failed, lost and retry.

        number, attempt: as ask returned them.
        loss: the result, or losses by name if the study has several objectives.
        failed: why the evaluation failed. lost: why it was cut short; the trial will be handed out again. retry: why it
            should be, after a pause and without counting as failed or lost, such as "no GPU here".
        info: anything to keep. cost: what the evaluation has cost, in a unit of your own.
        """
        given = {
            "loss": loss, "losses": losses, "failed": failed, "lost": lost, "retry": retry, "info": info, "cost": cost,
        }  # fmt: skip
        known = {name: value for name, value in given.items() if value is not None}
        found = store(self._stored(study), checked({"number": number, "attempt": attempt, **known}))
        del found["text"]
        return found

    def report(self, study: str, number: int, step: float, loss: float, attempt: int = 1) -> Data:
        """Store a point of the learning curve of a running trial."""
        self._stored(study).report(number, step, loss, attempt)
        return {"number": number, "step": step}

    def enqueue(self, study: str, config: dict[str, Any], budget: float | None = None) -> Data:
        """Have a configuration of your own evaluated before the study proposes the next one.

        config: a value for every active hyperparameter. It takes the next free place for a new configuration.
        budget: evaluate it directly on this budget of the study instead.
        """
        with self._askable(study).opened() as optimizer:
            added = optimizer.enqueue(config, budget)
        return {"added": added, "waiting": len(optimizer.history.given)}

    def note(self, study: str, text: str, trial: int | None = None, tags: list[str] | None = None) -> Data:
        """Keep a note about the study, or about one of its trials, such as why you enqueued it."""
        with self._stored(study).opened() as optimizer:
            optimizer.note(text, trial=trial, tags=tags or ())
        return {"trial": trial}

    def status(self, study: str) -> Data:
        """Return the progress of a study: trials, failures by kind, brackets, cost and the best result."""
        return status_of(find(self._path(study), None))[0]

    def best(self, study: str) -> Data:
        """Return the best result so far: on the largest budget that has one, or what a confirmation found."""
        seen = self._history(study)
        row, confirmed = seen.require_incumbent(), last_confirmed(seen.confirmations)
        return best_data(seen, row, confirmed, remarks(seen, model=False))

    def front(self, study: str) -> Data:
        """Return the results that no other dominates, if the study has several objectives; otherwise the best one."""
        seen = self._history(study)
        return {"front": [result_data(seen.goals, found) for found in seen.front]}

    def why(self, study: str, number: int) -> Data:
        """Explain in words and numbers why a trial was sampled, promoted or stopped."""
        from bohb.analysis.why import why

        return asdict(why(self._history(study), number))

    def _history(self, study: str) -> History:
        return find(self._path(study), None).history()

    def _askable(self, study: str) -> ExternalStudy:
        return external(self._path(study), None, {}, wait_seconds=_WAIT_SECONDS)

    def _stored(self, study: str) -> ExternalStudy:
        return external(self._path(study), None, wait_seconds=_WAIT_SECONDS)

    def _check_contained(self, file: StudyFile) -> None:
        """Refuse a study file that names code, a server or files elsewhere."""
        if not isinstance(file.values["space"], Mapping):
            raise InvalidArgument(f"space = {file.values['space']!r} must be a table of hyperparameters")
        for key in ("journal", "directory", "warm_start"):
            names = file.values.get(key, [])
            for name in [names] if isinstance(names, str) else names:
                self._path(name)

    def _path(self, study: str) -> str:
        """Return the path of a study file or journal. Raises InvalidArgument if it lies elsewhere."""
        if "://" not in study and study.isprintable():
            path = (self._directory / study).resolve()
            if path.is_relative_to(self._directory):
                return str(path)
        raise InvalidArgument(f"{study!r} must be a file in {self._directory}")


Tools.write_study.__doc__ = f"{Tools.write_study.__doc__}\n{_EXAMPLE}"
