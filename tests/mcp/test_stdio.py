"""`quipu mcp` as a process of its own: few of them, for each takes a second to start."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from quipu.cli.program import run
from quipu.mcp.commands import CLIENTS
from quipu.sync import Memory
from tests.mcp.clients import FACT, MODES, Person, body, fault
from tests.requirement import requirement

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}


def command(folder: Path, *words: str) -> StdioServerParameters:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUIPU_")}
    given = {
        "QUIPU_STORE": f"sqlite://{folder / 'memory.db'}",
        "QUIPU_EMBEDDER": "none",
        "XDG_CONFIG_HOME": str(folder / "no-settings"),
    }
    return StdioServerParameters(
        command=sys.executable, args=["-m", "quipu.cli.program", "mcp", *words], env={**kept, **given}
    )


@requirement("mcp:running.stdio")
@pytest.mark.parametrize("mode", MODES)
async def test_everything_works_on_standard_input_and_output(tmp_path: Path, mode: str) -> None:
    person = Person()
    start = command(tmp_path, "--agent", "helper", "--prefix", "m_")
    async with Client(start, mode=mode, elicitation_callback=person) as client:
        found = (await client.list_tools()).tools
        assert [tool.name for tool in found][:2] == ["m_remember", "m_recall"]
        assert (found[0].description or "").endswith("Agent: helper.")
        kept = body(await client.call_tool("m_remember", FACT))
        done = body(await client.call_tool("m_remember", {**FACT, "approval_required": True}))
        assert (done["pending_approval"], len(person.asked)) == (False, 1)
        hits = body(await client.call_tool("m_recall", {"query": "bees"}))["results"]
        assert {hit["id"] for hit in hits} == {kept["id"], done["id"]}
        # The agent that the command names is the only one there is.
        for name in ("m_remember", "m_recall"):
            given = {"agent_id": "another", **(FACT if name == "m_remember" else {"query": "x"})}
            assert fault(await client.call_tool(name, given)) == "forbidden"


@requirement("mcp:identity.stdio")
async def test_options_narrow_what_the_client_may_do(tmp_path: Path) -> None:
    with Memory(stores=tmp_path / "memory.db", embedder="none") as memory:
        memory.create_store("team")
        outside = memory.remember("Mara keeps bees").id
    words = ("--user", "me", "--scopes", "memory:read,memory:write", "--store", "team")
    async with Client(command(tmp_path, *words), mode="2026-07-28") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["remember", "recall", "merge", "expire", "get", "list"]
        body(await client.call_tool("remember", FACT))
        (hit,) = body(await client.call_tool("recall", {"query": "bees", "detail": "full"}))["results"]
        assert (hit["user_id"], hit["store"]) == ("me", "team")
        assert fault(await client.call_tool("get", {"id": outside})) == "not_found"
        assert fault(await client.call_tool("recall", {"query": "x", "user_id": "you"})) == "forbidden"


def speaking(folder: Path) -> "subprocess.Popen[str]":
    start = command(folder)
    return subprocess.Popen(
        [start.command, *start.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=start.env,
        text=True,
    )


def say(process: "subprocess.Popen[str]", *messages: Any) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    process.stdin.flush()


def heard(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@requirement("mcp:running.stdio")
def test_a_signal_ends_it_in_order_while_its_input_is_open(tmp_path: Path) -> None:
    """Standard output is the protocol alone, and what was read has been noted when it ends."""
    with speaking(tmp_path) as process:
        try:
            say(process, INITIALIZE, READY)
            assert heard(process)["id"] == 1
            say(process, "this is no JSON", {**CALL, "params": {"name": "remember", "arguments": FACT}})
            while (answer := heard(process)).get("id") != 2:
                pass
            assert answer["result"]["structuredContent"]["pending_approval"] is False
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert process.stdout is not None
            assert process.stdout.read() == ""
        finally:
            process.kill()
    with Memory(stores=tmp_path / "memory.db", embedder="none") as memory:
        assert len(memory.recall("bees")) == 1


@requirement("mcp:running.stdio")
def test_a_host_that_reads_no_more_has_hung_up(tmp_path: Path) -> None:
    with speaking(tmp_path) as process:
        try:
            say(process, INITIALIZE, READY)
            assert heard(process)["id"] == 1
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            say(process, {"jsonrpc": "2.0", "id": 3, "method": "ping"})
            process.stdin.close()
            assert (process.wait(30), process.stderr.read()) == (0, "")
        finally:
            process.kill()


# -- the commands -----------------------------------------------------------------------------------------------------


@requirement("mcp:running.stdio")
def test_bad_options_are_told_before_anything_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["mcp", "--profile", "everything"], "readonly, default"),
        (["mcp", "--scopes", "memory:everything"], "memory:read"),
        (["mcp", "install", "emacs"], "claude-desktop"),
        (["mcp", "install", "chatgpt"], "--url"),
        (["mcp", "install", "vscode", "--profile", "most"], "readonly, default"),
    ):
        assert run(words) == 1
        shown = capsys.readouterr()
        assert (shown.out, said in shown.err) == ("", True), shown.err


@requirement("mcp:running.install")
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_is_told_how_to_reach_the_memory(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://memory.example/mcp"
    assert run(["mcp", "install", client, "--url", url, "--profile", "readonly", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert f"{url}?profile=readonly" in told["snippet"]
    if client == "chatgpt":
        return
    given = ["--store-url", "sqlite:///data/mine.db", "--agent", "helper"]
    assert run(["mcp", "install", client, *given, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    for word in ("mcp", "sqlite:///data/mine.db", "helper"):
        assert word in told["snippet"]
    assert "qp_" not in told["snippet"]
