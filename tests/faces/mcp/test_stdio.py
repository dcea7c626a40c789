"""`quipu mcp`: one host at this machine, while a server has the same memory open."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError

from quipu.faces.mcp.extension import ID
from quipu.model.principal import local
from quipu.sync import Memory
from tests.embed.server import Reply, serving
from tests.faces.mcp.hosts import Person, body, fault, over_http, stdio
from tests.faces.mcp.test_extension import ask
from tests.faces.serving import served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara is vegetarian"}


@requirement("mcp:stdio.whole")
async def test_everything_works_on_standard_input_and_output(tmp_path: Path, mode: str) -> None:
    person = Person()
    words = stdio(tmp_path / "m.db", "--extension")
    async with Client(words, mode=mode, elicitation_callback=person, extensions=[advertise(ID)]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "remember", "recall", "forget", "merge", "expire",
        ]  # fmt: skip
        one = body(await client.call_tool("remember", FACT))
        two = body(await client.call_tool("remember", {**FACT, "approval_required": True}))
        found = body(await client.call_tool("recall", {"query": "Mara"}))
        merged = body(await client.call_tool("merge", {"canonical": one["id"], "duplicates": [two["id"]]}))
        expired = body(await client.call_tool("expire", {"policy": {"older_than_days": 1}}))
        wrong = await client.call_tool("recall", {"qury": "x"})
        (record,) = (await client.read_resource(f"memory://records/{one['id']}")).contents
        with pytest.raises(MCPError):
            await client.read_resource("memory://records/mem_nothing")
        gone = body(await client.call_tool("forget", {"ids": [one["id"]]}))
        if mode != "legacy":
            assert (await ask(client, "recall", query="Mara"))["results"] == []
    assert {hit["id"] for hit in found["results"]} == {one["id"], two["id"]}
    assert found["results"][0]["provenance"] == {"written_by": "local", "trust": "user"}
    assert (len(person.asked), merged["merged_count"], expired["matched_count"]) == (1, 1, 0)
    assert fault(wrong) == "validation_error"
    assert json.loads(record.text)["content"] == "Mara is vegetarian"
    assert gone["forgotten_ids"] == [one["id"]]


@requirement("mcp:stdio.beside-a-server")
async def test_a_memory_opened_by_stdio_and_by_a_server_at_once_stays_correct(
    tmp_path: Path, mode: str
) -> None:
    store = tmp_path / "m.db"
    with served(store) as at:
        async with (
            Client(stdio(store), mode=mode) as here,
            over_http(at, mode) as there,
            over_http(at) as ear,
        ):
            async with ear.listen(resource_subscriptions=["memory://stores"]) as heard:

                async def write(client: Client, name: str) -> list[str]:
                    return [
                        body(await client.call_tool("remember", {**FACT, "content": f"{name} fact {count}"}))[
                            "id"
                        ]
                        for count in range(10)
                    ]

                mine, theirs = await asyncio.gather(write(here, "stdio"), write(there, "server"))
                async with asyncio.timeout(20):
                    assert (await anext(aiter(heard))).uri == "memory://stores"
            query = {"query": "fact", "k": 100, "min_relevance": 0}
            seen = [
                {hit["id"] for hit in body(await client.call_tool("recall", query))["results"]}
                for client in (here, there)
            ]
            changed = {**FACT, "content": "stdio has changed it", "id": theirs[0]}
            body(await here.call_tool("remember", changed))
            after = body(await there.call_tool("recall", {"query": "changed"}))["results"]
        verified = at.do(at.service.audit.verify(local()))
    assert seen[0] == seen[1] == {*mine, *theirs}
    assert [hit["id"] for hit in after] == [theirs[0]]
    assert verified.holds


@requirement("mcp:stdio.identity")
async def test_the_settings_say_who_it_is(tmp_path: Path, mode: str) -> None:
    store = tmp_path / "m.db"
    given = {"QUIPU_USER_ID": "u1", "QUIPU_SCOPES": "memory:read,memory:write", "QUIPU_AGENT": "helper"}
    async with Client(stdio(store, **given), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "remember",
            "recall",
            "merge",
            "expire",
        ]
        body(await client.call_tool("remember", FACT))
        (hit,) = body(await client.call_tool("recall", {"query": "Mara"}))["results"]
        refused = await client.call_tool("forget", {"ids": [hit["id"]]})
        other = await client.call_tool("recall", {"query": "Mara", "user_id": "u2"})
    assert (hit["agent_id"], hit["user_id"]) == ("helper", "u1")
    assert fault(refused) == fault(other) == "forbidden"
    async with Client(stdio(store, "--agent", "helper", "--read-only"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["recall"]
        assert len(body(await client.call_tool("recall", {"query": "Mara"}))["results"]) == 1


def run(store: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    start = stdio(store, *words)
    line: list[str] = [start.command, *start.args]
    return subprocess.run(
        line, input=given, capture_output=True, text=True, env=start.env, timeout=60, check=False
    )


WIRE = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "recall", "arguments": {"query": "x"}}},
]  # fmt: skip


@requirement("mcp:stdio.clean")
def test_standard_output_is_the_protocol_alone(tmp_path: Path) -> None:
    lines = [*(json.dumps(row) for row in WIRE), "this is not JSON", ""]
    ended = run(tmp_path / "m.db", "--verbose", given="\n".join(lines))
    assert ended.returncode == 0, ended.stderr
    answers: list[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {1, 2} <= {row.get("id") for row in answers}


@contextlib.contextmanager
def speaking(store: Path) -> Iterator[subprocess.Popen[str]]:
    """`quipu mcp` that has answered a recall, with its input still open."""
    start = stdio(store)
    line: list[str] = [start.command, *start.args]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(line, text=True, env=start.env, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for row in WIRE:
                print(json.dumps(row), file=process.stdin, flush=True)
            assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 2]
            yield process
        finally:
            process.kill()


@requirement("mcp:stdio.clean")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order_while_its_input_is_open(tmp_path: Path, number: signal.Signals) -> None:
    with speaking(tmp_path / "m.db") as process:
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == ("", "")
    with Memory(stores=f"sqlite://{tmp_path / 'm.db'}", embedder="none") as memory:
        assert "recall" in [entry.op for entry in memory.journal()]  # what was read had been noted by then


@requirement("mcp:stdio.clean")
def test_a_host_that_reads_no_more_has_hung_up(tmp_path: Path) -> None:
    with speaking(tmp_path / "m.db") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        print(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "ping"}), file=process.stdin, flush=True)
        process.stdin.close()
        assert (process.wait(60), process.stderr.read()) == (0, "")


@requirement("mcp:stdio.bad-settings")
def test_bad_settings_are_told_before_anything_is_served(tmp_path: Path) -> None:
    ended = run(tmp_path / "m.db", "--profile", "everything")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "readonly, default" in ended.stderr
    start = stdio(tmp_path / "m.db", QUIPU_SCOPES="memory:everything")
    ended = subprocess.run(
        [start.command, *start.args],
        capture_output=True,
        text=True,
        env=start.env,
        timeout=60,
        check=False,
        input="",
    )
    assert ended.returncode == 1
    assert "memory:read" in ended.stderr


@requirement("mcp:install.starts")
async def test_what_a_snippet_says_can_be_started(tmp_path: Path) -> None:
    from mcp import StdioServerParameters

    start = stdio(tmp_path / "m.db")
    told = json.loads(json.loads(run(tmp_path / "m.db", "install", "cursor", "--json").stdout)["snippet"])
    entry = told["mcpServers"]["quipu"]
    line = StdioServerParameters(command=entry["command"], args=entry["args"], env=start.env)
    async with Client(line) as client:
        assert len((await client.list_tools()).tools) == 5


@requirement("mcp:install.unknown")
def test_an_unknown_client_is_named_with_those_there_are(tmp_path: Path) -> None:
    ended = run(tmp_path / "m.db", "install", "emacs")
    assert ended.returncode == 1
    assert "claude-desktop" in ended.stderr
    ended = run(tmp_path / "m.db", "install", "chatgpt")
    assert ended.returncode == 1
    assert "--url" in ended.stderr


@requirement("mcp:install.contract")
def test_both_commands_print_the_same(tmp_path: Path) -> None:
    words = ["--url", "https://m.example/mcp", "--profile", "readonly", "--json"]
    install = run(tmp_path / "m.db", "install", "vscode", *words)
    config = run(tmp_path / "m.db", "config", "--client", "vscode", *words)
    assert install.returncode == config.returncode == 0, config.stderr
    assert install.stdout == config.stdout


@requirement("mcp:cancellation")
async def test_a_cancelled_call_is_not_carried_on_over_stdio(tmp_path: Path, mode: str) -> None:
    asked = threading.Event()

    def embedded(_path: str, sent: bytes) -> Reply:
        texts = json.loads(sent)["input"]
        if any(FACT["content"] in text for text in texts):
            asked.set()
            vectors.released.wait(20)
        rows = [{"index": place, "embedding": [1.0, 0.0, 0.0]} for place in range(len(texts))]
        return 200, {"Content-Type": "application/json"}, json.dumps({"data": rows, "model": "slow"}).encode()

    with serving() as vectors:
        vectors.replies.append(embedded)
        words = stdio(
            tmp_path / "m.db",
            QUIPU_EMBEDDER="openai",
            QUIPU_EMBEDDER_URL=vectors.url,
            QUIPU_EMBEDDER_MODEL="slow",
        )
        async with Client(words, mode=mode) as client:
            calling = asyncio.create_task(client.call_tool("remember", FACT))
            assert await asyncio.to_thread(asked.wait, 20)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await client.list_tools()  # the notice of the cancellation has been read before this is answered
            vectors.released.set()
            await client.call_tool("remember", {**FACT, "content": "Luis plays the cello"})
            stores = (await client.read_resource("memory://stores")).contents[0].text
    assert [row["record_count"] for row in json.loads(stores)["stores"]] == [1]


@requirement("mcp:install.starts")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("notes.db", "{here}/notes.db"),
        ("sqlite://./notes.db?name=mine", "sqlite://{here}/notes.db?name=mine"),
        ("sqlite:///data/notes.db", "sqlite:///data/notes.db"),
        ("postgresql://me@host/memory", "postgresql://me@host/memory"),
    ],
)
def test_a_snippet_names_a_file_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    """A host starts in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    ended = run(tmp_path / "m.db", "install", "codex", "--store-url", given, "--json")
    words = tomllib.loads(json.loads(ended.stdout)["snippet"])["mcp_servers"]["quipu"]["args"]
    assert words[-2:] == ["--store-url", told.format(here=tmp_path)]
