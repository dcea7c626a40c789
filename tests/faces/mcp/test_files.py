"""The profile `anthropic`: the memory tool, command by command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client

from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, local
from quipu.model.record import MemoryType
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import body, kept_open, over_http, text
from tests.faces.serving import Served
from tests.requirement import requirement


class Memory:
    """The tool, as a model calls it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, command: str, /, **arguments: Any) -> str:
        result = await self._client.call_tool("memory", {"command": command, **arguments})
        return ("error: " if result.is_error else "") + text(result)


@contextlib.asynccontextmanager
async def memory_of(at: Served, mode: str, agent: str, mint: Mint) -> AsyncIterator[Memory]:
    token = mint(Permission.READ, Permission.WRITE, Permission.DELETE, agents=(agent,))
    async with over_http(at, mode, token, "/mcp?profile=anthropic") as client:
        yield Memory(client)


@pytest.fixture
async def memory(at: Served, mode: str, agent: str, mint: Mint) -> AsyncIterator[Memory]:
    async for tool in kept_open(memory_of(at, mode, agent, mint)):
        yield tool


@requirement("mcp:anthropic.tool")
async def test_there_is_one_tool(at: Served, mode: str) -> None:
    async with over_http(at, mode, path="/mcp?profile=anthropic") as client:
        (tool,) = (await client.list_tools()).tools
        assert (await client.list_resources()).resources == []
        unseen = await client.call_tool("remember", {"type": "semantic", "content": "x"})
    assert tool.name == "memory"
    assert tool.input_schema["properties"]["command"]["enum"] == [
        "view", "create", "str_replace", "insert", "delete", "rename",
    ]  # fmt: skip
    assert unseen.is_error


@requirement("mcp:anthropic.create")
async def test_create(memory: Memory) -> None:
    made = await memory("create", path="/memories/a.txt", file_text="one\ntwo\n")
    assert made == "File created successfully at: /memories/a.txt"
    again = await memory("create", path="/memories/a.txt", file_text="x")
    assert again == "error: File /memories/a.txt already exists"
    assert await memory("create", path="/memories/a.txt/b", file_text="x") == (
        "error: File /memories/a.txt already exists"
    )
    assert await memory("create", path="/memories/empty.txt", file_text="") == (
        "File created successfully at: /memories/empty.txt"
    )
    assert await memory("view", path="/memories/empty.txt") == (
        "Here's the content of /memories/empty.txt with line numbers:\n     1\t"
    )


@requirement("mcp:anthropic.view")
async def test_view(memory: Memory) -> None:
    await memory("create", path="/memories/a.txt", file_text="one\ntwo\nthree")
    await memory("create", path="/memories/d/e/deep.txt", file_text="x" * 2048)
    await memory("create", path="/memories/.hidden", file_text="x")
    head = "Here's the content of /memories/a.txt with line numbers:\n"
    assert await memory("view", path="/memories/a.txt") == head + "     1\tone\n     2\ttwo\n     3\tthree"
    assert await memory("view", path="/memories/a.txt", view_range=[2, 2]) == head + "     2\ttwo"
    assert (
        await memory("view", path="/memories/a.txt", view_range=[2, -1])
        == head + "     2\ttwo\n     3\tthree"
    )
    said = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:"
    assert (await memory("view", path="/memories")).split("\n") == [
        said,
        "2.0K\t/memories",
        "13B\t/memories/a.txt",
        "2K\t/memories/d/",
        "2K\t/memories/d/e/",
    ]
    assert await memory("view", path="/memories/no") == (
        "error: The path /memories/no does not exist. Please provide a valid path."
    )


@requirement("mcp:anthropic.view-root")
async def test_the_root_is_always_there(memory: Memory) -> None:
    assert (await memory("view", path="/memories")).endswith("excluding hidden items:\n0B\t/memories")


@requirement("mcp:anthropic.view-limit")
async def test_a_file_of_too_many_lines_is_not_shown(tmp_path: Any, mode: str) -> None:
    from tests.faces.serving import served

    with served(tmp_path / "long.db", limit_content_bytes=1 << 21) as at:
        async with over_http(at, mode, path="/mcp?profile=anthropic") as client:
            memory = Memory(client)
            await memory("create", path="/memories/long", file_text="\n" * 999_999)
            assert await memory("view", path="/memories/long") == (
                "error: File /memories/long exceeds maximum line limit of 999,999 lines."
            )


@requirement("mcp:anthropic.str-replace")
async def test_str_replace(memory: Memory) -> None:
    await memory("create", path="/memories/a.txt", file_text="one\ntwo\ntwo\nfour\nfive\nsix")
    edited = await memory("str_replace", path="/memories/a.txt", old_str="one", new_str="uno")
    assert edited == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tuno\n     2\ttwo\n     3\ttwo"
    )
    assert await memory("str_replace", path="/memories/a.txt", old_str="nine", new_str="x") == (
        "error: No replacement was performed, old_str `nine` did not appear verbatim in /memories/a.txt."
    )
    assert await memory("str_replace", path="/memories/a.txt", old_str="two", new_str="x") == (
        "error: No replacement was performed. Multiple occurrences of old_str `two` in lines: 2, 3. "
        "Please ensure it is unique"
    )
    assert await memory("str_replace", path="/memories/b.txt", old_str="two", new_str="x") == (
        "error: The path /memories/b.txt does not exist. Please provide a valid path."
    )
    await memory("str_replace", path="/memories/a.txt", old_str="uno\n", new_str="")
    assert "     1\ttwo" in await memory("view", path="/memories/a.txt")


@requirement("mcp:anthropic.insert")
async def test_insert(memory: Memory) -> None:
    await memory("create", path="/memories/a.txt", file_text="one\nthree\n")
    done = await memory("insert", path="/memories/a.txt", insert_line=1, insert_text="two\n")
    assert done == "The file /memories/a.txt has been edited."
    await memory("insert", path="/memories/a.txt", insert_line=0, insert_text="zero")
    shown = await memory("view", path="/memories/a.txt")
    assert shown.endswith("     1\tzero\n     2\tone\n     3\ttwo\n     4\tthree\n     5\t")
    for line in (5, -1):
        wrong = await memory("insert", path="/memories/a.txt", insert_line=line, insert_text="x")
        assert (
            wrong == f"error: Invalid `insert_line` parameter: {line}. It should be within the range [0, 4]"
        )


@requirement("mcp:anthropic.crlf")
async def test_line_endings_are_kept(memory: Memory) -> None:
    await memory("create", path="/memories/a.txt", file_text="one\r\ntwo\r\n")
    await memory("str_replace", path="/memories/a.txt", old_str="one", new_str="uno")
    await memory("insert", path="/memories/a.txt", insert_line=1, insert_text="more")
    shown = await memory("view", path="/memories/a.txt")
    assert shown.endswith("     1\tuno\r\n     2\tmore\r\n     3\ttwo\r\n     4\t")


@requirement("mcp:anthropic.delete")
async def test_delete(memory: Memory) -> None:
    for name in ("a.txt", "d/b.txt", "d/e/c.txt"):
        await memory("create", path=f"/memories/{name}", file_text="x")
    assert await memory("delete", path="/memories/d") == "Successfully deleted /memories/d"
    assert "d/" not in await memory("view", path="/memories")
    assert await memory("delete", path="/memories/d/b.txt") == (
        "error: The path /memories/d/b.txt does not exist. Please provide a valid path."
    )
    for root in ("/memories", "/memories/", "/memories/a/.."):
        assert await memory("delete", path=root) == "error: Cannot delete the /memories directory itself"
    assert "a.txt" in await memory("view", path="/memories")


@requirement("mcp:anthropic.rename")
async def test_rename(memory: Memory) -> None:
    for name in ("a.txt", "d/b.txt", "d/e/c.txt"):
        await memory("create", path=f"/memories/{name}", file_text=name)
    done = await memory("rename", old_path="/memories/d", new_path="/memories/f")
    assert done == "Successfully renamed /memories/d to /memories/f"
    assert "e/c.txt" in (await memory("view", path="/memories/f/e/c.txt"))
    assert await memory("rename", old_path="/memories/a.txt", new_path="/memories/f") == (
        "error: The destination /memories/f already exists"
    )
    assert await memory("rename", old_path="/memories", new_path="/memories/x") == (
        "error: Cannot rename the /memories directory itself"
    )
    assert await memory("rename", old_path="/memories/no", new_path="/memories/x") == (
        "error: The path /memories/no does not exist. Please provide a valid path."
    )
    assert (await memory("rename", old_path="/memories/f", new_path="/memories/f/g")).startswith("error: ")


@requirement("mcp:anthropic.paths")
@pytest.mark.parametrize("command", ["view", "create", "str_replace", "insert", "delete", "rename"])
async def test_no_path_leads_out_of_the_root(memory: Memory, command: str) -> None:
    rest = {
        "create": {"file_text": "x"},
        "str_replace": {"old_str": "x", "new_str": "y"},
        "insert": {"insert_line": 0, "insert_text": "x"},
    }.get(command, {})

    async def tried(path: str) -> str:
        if command == "rename":
            return await memory("rename", old_path=path, new_path="/memories/x")
        return await memory(command, path=path, **rest)

    for path in ("/etc/passwd", "memories/a", "/memoriesx/a", ""):
        assert await tried(path) == "error: Path must start with /memories"
    for path in ("/memories/../etc/passwd", "/memories/a/../../x", "/memories/.."):
        assert await tried(path) == f"error: Path {path} would escape /memories directory"


@requirement("mcp:anthropic.arguments")
async def test_what_a_command_lacks_is_named(memory: Memory) -> None:
    assert "path" in await memory("view")
    assert "file_text accepts string." in await memory("create", path="/memories/a")
    assert "view, create" in await memory("read", path="/memories/a")
    assert "two whole numbers" in await memory("view", path="/memories/a", view_range=[1])
    assert "integer" in await memory("insert", path="/memories/a", insert_line="1", insert_text="x")


@requirement("mcp:anthropic.records")
async def test_a_path_is_one_record_with_a_history(at: Served, mode: str, agent: str, mint: Mint) -> None:
    async with memory_of(at, mode, agent, mint) as memory:
        await memory("create", path="/memories/bees.txt", file_text="Mara keeps bees")
        await memory("str_replace", path="/memories/bees.txt", old_str="bees", new_str="ants")
        await memory("rename", old_path="/memories/bees.txt", new_path="/memories/ants.txt")
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        (hit,) = body(await client.call_tool("recall", {"query": "Mara ants", "agent_id": agent}))["results"]
        versions = body(await client.call_tool("history", {"id": hit["id"]}))["versions"]
    assert [row["content"] for row in versions] == ["Mara keeps bees", "Mara keeps ants", "Mara keeps ants"]
    assert [row["metadata"]["path"] for row in versions] == ["/memories/bees.txt"] * 2 + [
        "/memories/ants.txt"
    ]


@requirement("mcp:anthropic.apart")
async def test_agents_do_not_see_each_others_files(at: Served, mode: str, agent: str, mint: Mint) -> None:
    async with memory_of(at, mode, agent, mint) as mine, memory_of(at, mode, f"{agent}-2", mint) as theirs:
        await mine("create", path="/memories/a.txt", file_text="secret plan")
        assert "does not exist" in await theirs("view", path="/memories/a.txt")
        assert "a.txt" not in await theirs("view", path="/memories")
        assert "created" in await theirs("create", path="/memories/a.txt", file_text="mine")
        assert "secret plan" in await mine("view", path="/memories/a.txt")


@requirement("mcp:anthropic.insert")
async def test_lines_are_counted_as_a_view_numbers_them(memory: Memory) -> None:
    """Other characters that some call line ends do not end a line."""
    await memory("create", path="/memories/a", file_text="one\u2028still one\ntwo\x0cstill two\n")
    assert (await memory("view", path="/memories/a")).count("\t") == 3
    too_far = await memory("insert", path="/memories/a", insert_line=3, insert_text="x")
    assert too_far.endswith("within the range [0, 2]")
    await memory("insert", path="/memories/a", insert_line=1, insert_text="between")
    seen = await memory("view", path="/memories/a")
    assert seen.endswith("     1\tone\u2028still one\n     2\tbetween\n     3\ttwo\x0cstill two\n     4\t")


@requirement("mcp:anthropic.delete")
async def test_a_file_that_two_clients_made_at_the_same_time_goes_as_one(
    at: Served, memory: Memory, agent: str
) -> None:
    """Neither saw the other's when it began to write, so two records have the same path."""

    async def twice(path: str) -> None:
        await memory("create", path=path, file_text="the first")
        request = RememberRequest(
            agent_id=agent,
            type=MemoryType.SEMANTIC,
            content="the second",
            metadata={"memory_file": True, "path": path},
        )
        await asyncio.to_thread(at.do, at.service.remember(local(), request))
        assert (await memory("view", path=path)).endswith("the second")

    await twice("/memories/a")
    assert await memory("delete", path="/memories/a") == "Successfully deleted /memories/a"
    assert "does not exist" in await memory("view", path="/memories/a")
    await twice("/memories/b")
    await memory("rename", old_path="/memories/b", new_path="/memories/c")
    assert "does not exist" in await memory("view", path="/memories/b")
    assert (await memory("view", path="/memories/c")).endswith("the second")


@requirement("mcp:anthropic.arguments")
async def test_a_whole_number_may_come_with_a_point(memory: Memory) -> None:
    await memory("create", path="/memories/a", file_text="one\ntwo\nthree")
    assert (await memory("view", path="/memories/a", view_range=[2.0, 2.0])).endswith("     2\ttwo")
    edited = await memory("insert", path="/memories/a", insert_line=1.0, insert_text="x", view_range=None)
    assert edited == "The file /memories/a has been edited."
    wrong: Any = ["view"]
    refused = await memory(wrong, path="/memories/a")
    assert refused.startswith("error: validation_error: There is no such command.")
