"""A host that is set up here uses the memory which this shell uses."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.cli.conftest import Cli


def entry(cli: Cli, *words: str) -> dict[str, Any]:
    """What goes into a host's settings."""
    made: dict[str, Any] = json.loads(cli.json("mcp", "install", "cursor", *words)["snippet"])
    return made["mcpServers"]["quipu"]


def test_what_the_environment_says_is_what_the_host_is_told(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host does not start in this folder, nor with the variables of this shell."""
    monkeypatch.setenv("QUIPU_STORE", "team.db")
    monkeypatch.setenv("MEMORYWIRE_AGENT", "planner")
    monkeypatch.setenv("QUIPU_RULES", "rules.json")
    monkeypatch.setenv("QUIPU_PORT", "9000")
    told = entry(cli)
    assert told["args"][-1] == "mcp"
    assert told["env"]["QUIPU_STORE"] == str(home / "team.db")
    assert told["env"]["MEMORYWIRE_AGENT"] == "planner"
    assert told["env"]["QUIPU_RULES"] == str(home / "rules.json")
    assert "QUIPU_PORT" not in told["env"], "it is no server"


def test_an_option_wins_over_the_environment(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIPU_AGENT", "planner")
    monkeypatch.setenv("QUIPU_USER_ID", "otis")
    told = entry(cli, "--agent", "coder", "--store-url", "own.db", "--user", "mara")
    assert told["args"][-4:] == ["--agent", "coder", "--store-url", str(home / "own.db")]
    assert not told["env"].keys() & {"QUIPU_AGENT", "QUIPU_STORE"}
    assert told["env"]["QUIPU_USER_ID"] == "mara"


def test_a_host_that_is_set_up_so_finds_what_was_remembered_here(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_STORE", "here.db")
    monkeypatch.setenv("QUIPU_AGENT", "planner")
    cli.remember("The build server is kestrel")
    snippet = tomllib.loads(cli.json("mcp", "install", "codex")["snippet"])["mcp_servers"]["quipu"]
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()

    async def asked() -> str:
        server = StdioServerParameters(**snippet, cwd=elsewhere)
        async with Client(server) as host:
            return str(await host.call_tool("recall", {"query": "build server"}))

    for name in ("QUIPU_STORE", "QUIPU_AGENT"):
        monkeypatch.delenv(name)
    assert "kestrel" in asyncio.run(asked())


@pytest.mark.parametrize(
    ("name", "value"),
    [("QUIPU_EMBEDDER_KEY", "sk-kept-quiet"), ("QUIPU_STORE", "postgresql://u:kept-quiet@h/d")],
)
def test_a_secret_is_named_and_not_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    told = cli.json("mcp", "install", "claude-code")
    assert "kept-quiet" not in json.dumps(told)
    assert any(note.startswith(f"{name} is set here") for note in told["notes"])


def test_who_speaks_to_a_server_sends_the_host_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIPU_SERVER", "https://memory.example.org/")
    assert entry(cli, "--profile", "readonly")["url"] == "https://memory.example.org/mcp?profile=readonly"
    assert entry(cli, "--url", "https://other.example/mcp")["url"] == "https://other.example/mcp"
    assert "url" not in entry(cli, "--store-url", "own.db")


@pytest.mark.parametrize(("client", "is_told"), [("cursor", True), ("claude-code", True), ("vscode", False)])
def test_who_sends_a_host_to_a_server_is_told_where_the_token_goes(
    cli: Cli, client: str, is_told: bool
) -> None:
    """And nothing of a command, as there is none."""
    notes = cli.json("mcp", "install", client, "--url", "https://memory.example.org/mcp")["notes"]
    assert any("Set QUIPU_TOKEN where the host starts" in note for note in notes) is is_told
    assert not any("PATH" in note for note in notes)


def test_a_profile_that_is_none_is_told_at_once(cli: Cli) -> None:
    problem = cli.problem("mcp", "install", "cursor", "--profile", "everything")
    assert problem["errors"][0]["pointer"] == "/profile"
    assert "readonly" in problem["errors"][0]["accepted"]
