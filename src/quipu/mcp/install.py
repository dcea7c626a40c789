"""What each MCP client wants to read in its settings."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import Fault, InvalidError
from quipu.operation import invalid

_RESTART = "Restart the client completely after the change."
_TOKEN = "QUIPU_TOKEN"  # noqa: S105  the name of a variable, not a token


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of settings, and where it goes."""

    client: str
    where: str
    text: str
    notes: tuple[str, ...] = (_RESTART,)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A process of the client's own, or a server's address."""

    command: str
    args: tuple[str, ...]
    url: str | None

    @property
    def process(self) -> dict[str, Any]:
        return {"command": self.command, "args": list(self.args)}


def snippet(
    client: str, *, words: Sequence[str], url: str | None = None, profile: str | None = None
) -> Snippet:
    """The settings of one client. `words`: the options of `quipu mcp` that name the memory of this machine."""
    if client not in _CLIENTS:
        raise invalid([Fault("/client", "bad_value", f"one of {', '.join(_CLIENTS)}")])
    if url is not None and profile is None and client == "chatgpt" and "profile=" not in url:
        profile = "chatgpt"  # the only tools that it knows
    if profile is not None:
        words = [*words, "--profile", profile]
        url = None if url is None else f"{url}{'&' if '?' in url else '?'}profile={profile}"
    command, *first = _command()
    return _CLIENTS[client](client, _Asked(command, (*first, "mcp", *words), url))


def _command() -> list[str]:
    """A client starts with a bare PATH, so the whole path is written."""
    found = shutil.which("quipu")
    return [found] if found else [sys.executable, "-m", "quipu.cli.program"]


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, indent=2)


def _claude_desktop(client: str, asked: _Asked) -> Snippet:
    if asked.url is not None:
        return Snippet(client, "Settings, Connectors, Add custom connector", asked.url, ())
    return Snippet(client, "claude_desktop_config.json", _json({"mcpServers": {"quipu": asked.process}}))


def _claude_code(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        line = f"claude mcp add quipu -- {shlex.join([asked.command, *asked.args])}"
    else:
        header = f'--header "Authorization: Bearer ${_TOKEN}"'
        line = f"claude mcp add --transport http quipu {shlex.quote(asked.url)} {header}"
    return Snippet(client, "Run in a shell", line, ())


def _cursor(client: str, asked: _Asked) -> Snippet:
    entry = asked.process
    if asked.url is not None:
        entry = {"url": asked.url, "headers": {"Authorization": f"Bearer ${{env:{_TOKEN}}}"}}
    return Snippet(client, ".cursor/mcp.json", _json({"mcpServers": {"quipu": entry}}))


def _vscode(client: str, asked: _Asked) -> Snippet:
    body: dict[str, Any] = {"servers": {"quipu": {"type": "stdio", **asked.process}}}
    if asked.url is not None:
        token = {"type": "promptString", "id": "quipu-token", "description": "Quipu token", "password": True}
        headers = {"Authorization": "Bearer ${input:quipu-token}"}
        server = {"type": "http", "url": asked.url, "headers": headers}
        body = {"inputs": [token], "servers": {"quipu": server}}
    return Snippet(client, ".vscode/mcp.json", _json(body))


def _codex(client: str, asked: _Asked) -> Snippet:
    # A JSON text or list of texts is TOML too.
    lines = ["[mcp_servers.quipu]"]
    if asked.url is None:
        lines += [f"{name} = {json.dumps(value)}" for name, value in asked.process.items()]
    else:
        lines += [f"url = {json.dumps(asked.url)}", f'bearer_token_env_var = "{_TOKEN}"']
    return Snippet(client, ".codex/config.toml", "\n".join(lines))


def _gemini(client: str, asked: _Asked) -> Snippet:
    entry = asked.process
    if asked.url is not None:
        entry = {"httpUrl": asked.url, "headers": {"Authorization": f"Bearer ${_TOKEN}"}}
    return Snippet(client, ".gemini/settings.json", _json({"mcpServers": {"quipu": entry}}))


def _chatgpt(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        raise InvalidError(
            "ChatGPT reaches servers by a public address only.",
            reason="usage",
            hint="Give --url https://…/mcp of a `quipu serve` that is reachable.",
        )
    return Snippet(client, "Settings, Connectors, Create", asked.url, ())


def _python(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        words = ", ".join(f"{name}={value!r}" for name, value in asked.process.items())
        lines = [
            "from mcp import Client, StdioServerParameters",
            "",
            f"client = Client(StdioServerParameters({words}))",
        ]
    else:
        lines = ["from mcp import Client", "", f"client = Client({asked.url!r})"]
    return Snippet(client, "Python", "\n".join(lines), ())


_CLIENTS: Mapping[str, Callable[[str, _Asked], Snippet]] = {
    "claude-desktop": _claude_desktop,
    "claude-code": _claude_code,
    "cursor": _cursor,
    "vscode": _vscode,
    "codex": _codex,
    "gemini": _gemini,
    "chatgpt": _chatgpt,
    "python": _python,
}
CLIENTS = tuple(_CLIENTS)
