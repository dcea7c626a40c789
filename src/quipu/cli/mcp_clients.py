"""What each host wants to read in its settings."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import InvalidError

_RESTART = "Restart the host completely after the change."
_FAULTS = (
    "If the host does not find the command: it starts with a bare PATH, so the full path stands above.",
    _RESTART,
    "If it cannot read what the command says: something printed to standard output, such as a shell's start-up file.",
)
_USER = "QUIPU_USER_ID"
_TOKEN = "QUIPU_TOKEN"  # noqa: S105  the name of a variable, not a token


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of settings, and where it goes."""

    client: str
    where: str
    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    command: str
    args: tuple[str, ...]
    url: str | None
    env: Mapping[str, str]


def snippet(
    client: str,
    *,
    url: str | None = None,
    words: Sequence[str] = (),
    profile: str | None = None,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Snippet:
    """The settings of one host: for a process of its own, or for a server's address."""
    make = CLIENTS.get(client)
    if make is None:
        raise InvalidError.at(
            "/client",
            "bad_value",
            f"There is no client {client!r}.",
            accepted=list(CLIENTS),
            hint=f"Choose from {', '.join(CLIENTS)}.",
        )
    if url is not None and profile is None and client == "chatgpt" and "profile=" not in url:
        profile = "chatgpt"  # the only tools it knows
    if url is not None and profile is not None:
        url = f"{url}{'&' if '?' in url else '?'}profile={profile}"
    command, *first = _command()
    given = {**(env or {}), **({} if user is None else {_USER: user})}
    shown = make(client, _Asked(command, (*first, "mcp", *words), url, given))
    return shown if url is None else replace(shown, notes=_of_a_server(shown))


def _of_a_server(shown: Snippet) -> tuple[str, ...]:
    """There is no command to be found; but who is asked for a token has to have one."""
    token = f"Set {_TOKEN} where the host starts; `quipu token create` makes a token."
    return ((token,) if _TOKEN in shown.text else ()) + ((_RESTART,) if _RESTART in shown.notes else ())


def _command() -> list[str]:
    found = shutil.which("quipu")
    return [found] if found else [sys.executable, "-m", "quipu"]


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, indent=2)


def _stdio(asked: _Asked) -> dict[str, Any]:
    return {
        "command": asked.command,
        "args": list(asked.args),
        **({"env": dict(asked.env)} if asked.env else {}),
    }


def _claude_desktop(client: str, asked: _Asked) -> Snippet:
    if asked.url is not None:
        return Snippet(client, "Settings, Connectors, Add custom connector", asked.url)
    return Snippet(
        client, "claude_desktop_config.json", _json({"mcpServers": {"quipu": _stdio(asked)}}), _FAULTS
    )


def _cursor(client: str, asked: _Asked) -> Snippet:
    entry = _stdio(asked)
    if asked.url is not None:
        entry = {"url": asked.url, "headers": {"Authorization": f"Bearer ${{env:{_TOKEN}}}"}}
    return Snippet(client, ".cursor/mcp.json", _json({"mcpServers": {"quipu": entry}}), _FAULTS)


def _claude_code(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        given = "".join(f"--env {shlex.quote(f'{name}={value}')} " for name, value in asked.env.items())
        line = f"claude mcp add quipu {given}-- {shlex.join([asked.command, *asked.args])}"
    else:
        header = f'--header "Authorization: Bearer ${_TOKEN}"'
        line = f"claude mcp add --transport http quipu {shlex.quote(asked.url)} {header}"
    return Snippet(client, "Run in a shell", line)


def _vscode(client: str, asked: _Asked) -> Snippet:
    entry = {"type": "stdio", **_stdio(asked)}
    body: dict[str, Any] = {"servers": {"quipu": entry}}
    if asked.url is not None:
        token = {"type": "promptString", "id": "quipu-token", "description": "Quipu token", "password": True}
        headers = {"Authorization": "Bearer ${input:quipu-token}"}
        body = {
            "inputs": [token],
            "servers": {"quipu": {"type": "http", "url": asked.url, "headers": headers}},
        }
    return Snippet(client, ".vscode/mcp.json", _json(body), _FAULTS)


def _codex(client: str, asked: _Asked) -> Snippet:
    # A JSON text or list of texts is TOML too.
    lines = ["[mcp_servers.quipu]"]
    if asked.url is None:
        lines += [f"{name} = {json.dumps(_stdio(asked)[name])}" for name in ("command", "args")]
        if asked.env:
            lines += ["", "[mcp_servers.quipu.env]"]
            lines += [f"{name} = {json.dumps(value)}" for name, value in asked.env.items()]
    else:
        lines += [f"url = {json.dumps(asked.url)}", f'bearer_token_env_var = "{_TOKEN}"']
    return Snippet(client, ".codex/config.toml", "\n".join(lines), _FAULTS)


def _gemini(client: str, asked: _Asked) -> Snippet:
    entry = _stdio(asked)
    if asked.url is not None:
        entry = {"httpUrl": asked.url, "headers": {"Authorization": f"Bearer ${_TOKEN}"}}
    return Snippet(client, ".gemini/settings.json", _json({"mcpServers": {"quipu": entry}}), _FAULTS)


def _chatgpt(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        raise InvalidError(
            "ChatGPT reaches servers only by a public address.",
            reason="usage",
            hint="Give --url https://…/mcp?profile=chatgpt of a `quipu serve` that is reachable.",
        )
    return Snippet(client, "Settings, Connectors, Create", asked.url)


def _python(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        words = ", ".join(f"{name}={value!r}" for name, value in _stdio(asked).items())
        server = f"StdioServerParameters({words})"
        lines = ["from mcp import Client, StdioServerParameters", "", f"client = Client({server})"]
    else:
        lines = ["from mcp import Client", "", f"client = Client({asked.url!r})"]
    return Snippet(client, "Python", "\n".join(lines))


CLIENTS: Mapping[str, Callable[[str, _Asked], Snippet]] = {
    "claude-desktop": _claude_desktop,
    "claude-code": _claude_code,
    "cursor": _cursor,
    "vscode": _vscode,
    "codex": _codex,
    "gemini": _gemini,
    "chatgpt": _chatgpt,
    "python": _python,
}
