"""An AI agent works on a study through tools, over real pipes, and the journal has all of it."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from bohb.cli.mcp import Tools
from bohb.errors import InvalidArgument
from tests.cli.running import STUDY, answer, call

STUDY_FILE = STUDY.replace('command = "echo {x}"\n', "")
TWO = STUDY_FILE.replace("[budget]", 'objectives = ["error", "-speed"]\n[budget]')


async def work(directory: Path) -> None:
    mcp: Any = importlib.import_module("mcp")  # slow, and collecting the tests should be quick
    parameters = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-W", "error", "-m", "bohb", "mcp", str(directory)],
        cwd=str(directory),
        env=dict(os.environ),
    )
    async with mcp.Client(mcp.stdio_client(parameters)) as client:

        async def use(tool: str, **arguments: Any) -> dict[str, Any]:
            found = await client.call_tool(tool, arguments, read_timeout_seconds=120)
            assert not found.is_error, found.content[0].text
            data: dict[str, Any] = json.loads(found.content[0].text)
            return data

        async def refused(tool: str, **arguments: Any) -> str:
            found = await client.call_tool(tool, arguments, read_timeout_seconds=120)
            assert found.is_error
            return str(found.content[0].text)

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "write_study", "plan", "ask", "tell", "report", "enqueue", "note", "status", "best", "front", "why",
        }  # fmt: skip
        assert all(tool.description for tool in tools.values())
        await the_study(use)
        await the_refusals(use, refused)
        await several_objectives(use)


async def the_study(use: Any) -> None:
    planned = await use("write_study", study="bowl.toml", toml=STUDY_FILE)
    assert planned["space"] == ["x  float     0 to 1"]
    assert planned == await use("plan", study="bowl.toml")
    first = (await use("ask", study="bowl.toml"))["trial"]
    assert await use("report", study="bowl.toml", number=0, step=1, loss=0.7) == {"number": 0, "step": 1}
    assert await use("tell", study="bowl.toml", number=0, loss=first["config"]["x"], info={"by": "me"}) == {
        "number": 0,
        "result": "stored",
    }
    assert await use("enqueue", study="bowl.toml", config={"x": 0.125}) == {"added": True, "waiting": 1}
    assert await use("note", study="bowl.toml", text="a guess", tags=["mine"]) == {"trial": None}
    own = (await use("ask", study="bowl.toml", client="me"))["trial"]
    assert (await use("ask", study="bowl.toml", client="me"))["trial"]["number"] == own["number"]
    assert (own["config"], own["origin"]) == ({"x": 0.125}, "given")
    assert (await use("tell", study="bowl.db", number=1, failed="out of memory"))["result"] == "stored"
    third = (await use("ask", study="bowl.toml"))["trial"]["number"]
    assert (await use("tell", study="bowl.toml", number=third, retry="no GPU here"))["result"] == "stored"
    assert (await use("status", study="bowl.toml"))["trials"]["failed"] == 1
    assert (await use("best", study="bowl.toml"))["trial"] == 0
    assert [row["trial"] for row in (await use("front", study="bowl.toml"))["front"]] == [0]
    assert (await use("why", study="bowl.toml", number=1))["origin"] == "given"


async def the_refusals(use: Any, refused: Any) -> None:
    assert "already exists" in await refused("write_study", study="bowl.toml", toml=STUDY_FILE)
    assert "unknown key 'sed'" in await refused("write_study", study="new.toml", toml=f"sed = 1\n{STUDY_FILE}")
    elsewhere = f'journal = "../other.db"\n{STUDY_FILE}'
    assert "'../other.db' must be a file in" in await refused("write_study", study="new.toml", toml=elsewhere)
    assert "must be a file in" in await refused("status", study="../other.db")
    assert "must be a file in" in await refused("status", study="postgresql+psycopg://host/name")
    assert "there is no journal" in await refused("best", study="none.db")
    assert "exactly one of loss, losses, failed, lost" in await refused("tell", study="bowl.toml", number=0)
    assert "trial 7 was never asked for" in await refused("tell", study="bowl.toml", number=7, loss=1)
    assert "x" in await refused("enqueue", study="bowl.toml", config={"x": 2})
    assert "larger whole number" in await refused("enqueue", study="bowl.toml", config={"x": 10**400})
    assert "must be at least 1 second" in await refused("ask", study="bowl.toml", lease_seconds=0)
    assert "must be a file in" in await refused("status", study="a\0b.db")
    assert "a study file may have 262144" in await refused("write_study", study="big.toml", toml="#" * 2**18 + "\n")
    wrong = await refused("tell", study="bowl.toml", number="seven", loss=1)
    assert "valid integer" in wrong
    assert "pydantic.dev" not in wrong
    assert "at most 100 tags" in await refused("note", study="bowl.toml", text="x", tags=[str(n) for n in range(101)])


async def several_objectives(use: Any) -> None:
    await use("write_study", study="two.toml", toml=TWO + "\n[limits]\nmax_trials = 1\n")
    await use("ask", study="two.toml")
    assert (await use("tell", study="two.toml", number=0, losses={"error": 0.1, "speed": 3}))["result"] == "stored"
    (best,) = (await use("front", study="two.toml"))["front"]
    assert best["values"] == {"error": 0.1, "speed": 3}
    over = await use("ask", study="two.toml", client="me")
    assert (over["trial"], over["complete"]) == (None, True)
    assert "max_trials=1 reached" in over["reason"]


def test_a_study_file_is_written_whole_and_beside_the_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools(tmp_path)
    (tmp_path / "a.draft.toml").write_text("mine")
    tools.write_study("a.toml", STUDY_FILE)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.draft.toml": "mine",
        "a.toml": STUDY_FILE,
    }

    def somebody_else(*_: object) -> dict[str, Any]:
        (tmp_path / "b.toml").write_text("theirs")
        return {}

    monkeypatch.setattr("bohb.cli.mcp.study_plan", somebody_else)
    with pytest.raises(InvalidArgument, match=r"b\.toml already exists and was not changed"):
        tools.write_study("b.toml", STUDY_FILE)
    assert (tmp_path / "b.toml").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_name_that_no_file_can_have_is_refused_by_every_tool(tmp_path: Path) -> None:
    tools, name = Tools(tmp_path), "a\ud800.toml"
    for act in (tools.status, tools.plan, tools.ask, lambda name: tools.write_study(name, STUDY_FILE)):
        with pytest.raises(InvalidArgument, match=r"must be a file in"):
            act(name)


def test_an_agent_writes_asks_tells_and_enqueues_and_the_study_can_be_replayed(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(work, tmp_path)
    assert {path.name for path in tmp_path.glob("*.toml")} == {"bowl.toml", "two.toml"}
    replayed = answer("replay", tmp_path / "bowl.db")
    assert replayed["differences"] == []
    rows = answer("trials", tmp_path / "bowl.db")
    assert [note["text"] for note in answer("status", tmp_path / "bowl.db")["notes"]] == ["a guess"]
    assert [(row["status"], row["origin"]) for row in rows] == [
        ("ok", "random"), ("crashed", "given"), ("waiting", "random"),
    ]  # fmt: skip


def test_the_entry_for_an_agent_s_configuration_is_printed(tmp_path: Path) -> None:
    entry = json.loads(call("mcp", tmp_path, "--json").stdout)
    assert entry["mcpServers"]["bohb"] == {"command": "bohb", "args": ["mcp", str(tmp_path)]}
