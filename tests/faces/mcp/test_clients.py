"""What is printed for each client has the shape that the client reads: section 12 of the contract, row by row."""

from __future__ import annotations

import ast
import json
import shlex
import tomllib
from typing import Any

import pytest

from quipu.cli.mcp_clients import snippet
from quipu.errors import InvalidError
from tests.requirement import requirement

URL = "https://memory.example.com/mcp"
ME = {"QUIPU_USER_ID": "me"}
_PROCESS = {"env": ME}

#: Client → what the contract gives it to read, for a process on this machine; `command` and `args` are looked at apart.
LOCAL: dict[str, dict[str, Any]] = {
    "claude-desktop": {"mcpServers": {"quipu": _PROCESS}},
    "cursor": {"mcpServers": {"quipu": _PROCESS}},
    "vscode": {"servers": {"quipu": {"type": "stdio", **_PROCESS}}},
    "codex": {"mcp_servers": {"quipu": _PROCESS}},
    "gemini": {"mcpServers": {"quipu": _PROCESS}},
}
#: And for a server; where a credential can stand in the settings, it is asked for or named, never written out.
REMOTE: dict[str, dict[str, Any]] = {
    "cursor": {
        "mcpServers": {"quipu": {"url": URL, "headers": {"Authorization": "Bearer ${env:QUIPU_TOKEN}"}}}
    },
    "vscode": {
        "inputs": [
            {"type": "promptString", "id": "quipu-token", "description": "Quipu token", "password": True}
        ],
        "servers": {
            "quipu": {
                "type": "http",
                "url": URL,
                "headers": {"Authorization": "Bearer ${input:quipu-token}"},
            }
        },
    },
    "codex": {"mcp_servers": {"quipu": {"url": URL, "bearer_token_env_var": "QUIPU_TOKEN"}}},
    "gemini": {
        "mcpServers": {"quipu": {"httpUrl": URL, "headers": {"Authorization": "Bearer $QUIPU_TOKEN"}}}
    },
}
FILES = {
    "claude-desktop": "claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}


def _parsed(client: str, text: str) -> dict[str, Any]:
    return tomllib.loads(text) if client == "codex" else json.loads(text)


def _entry(body: dict[str, Any]) -> dict[str, Any]:
    (servers,) = (value for key, value in body.items() if key.lower().endswith("servers"))
    return servers["quipu"]


@requirement("mcp:install")
@pytest.mark.parametrize("client", LOCAL)
def test_a_process_of_the_hosts_own(client: str) -> None:
    told = snippet(client, words=["--profile", "readonly"], user="me")
    body = _parsed(client, told.text)
    entry = _entry(body)
    command, args = entry.pop("command"), entry.pop("args")
    assert command.startswith("/"), "a host starts with a bare PATH"
    assert args[-3:] == ["mcp", "--profile", "readonly"]
    assert body == LOCAL[client]
    assert told.where == FILES[client]
    assert len(told.notes) == 3
    assert "env" not in _entry(_parsed(client, snippet(client).text))


@requirement("mcp:install")
@pytest.mark.parametrize("client", REMOTE)
def test_a_servers_address(client: str) -> None:
    assert _parsed(client, snippet(client, url=URL).text) == REMOTE[client]
    narrowed = snippet(client, url=URL, profile="readonly").text
    assert f"{URL}?profile=readonly" in narrowed


@requirement("mcp:install.contract")
def test_claude_code_is_told_by_its_own_command() -> None:
    first, _dash, last = snippet("claude-code", user="me").text.partition(" -- ")
    assert shlex.split(first) == ["claude", "mcp", "add", "quipu", "--env", "QUIPU_USER_ID=me"]
    command, *args = shlex.split(last)
    assert command.startswith("/")
    assert args[-1] == "mcp"
    assert snippet("claude-code", url=URL).text == (
        f'claude mcp add --transport http quipu {URL} --header "Authorization: Bearer $QUIPU_TOKEN"'
    )


@requirement("mcp:install.contract")
def test_python_can_run_it() -> None:
    (_imported, made) = ast.parse(snippet("python", user="me").text).body
    assert isinstance(made, ast.Assign)
    assert isinstance(made.value, ast.Call)
    (server,) = made.value.args
    assert isinstance(server, ast.Call)
    given = {word.arg: ast.literal_eval(word.value) for word in server.keywords}
    assert given["args"][-1] == "mcp"
    assert given["env"] == ME
    assert f"client = Client({URL!r})" in snippet("python", url=URL).text


@requirement("mcp:install.contract")
def test_connectors_are_added_by_address() -> None:
    assert snippet("claude-desktop", url=URL).text == URL
    assert snippet("chatgpt", url=URL).text == f"{URL}?profile=chatgpt"
    assert snippet("chatgpt", url=f"{URL}?profile=readonly").text == f"{URL}?profile=readonly"
    with pytest.raises(InvalidError):
        snippet("chatgpt")
