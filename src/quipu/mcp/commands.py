"""The commands `mcp` and `mcp install`."""

import json
import logging
import shlex
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import click

from quipu.command import HandCommand, Session
from quipu.config import collected
from quipu.errors import Fault, InvalidError
from quipu.mcp.settings import PROFILES, McpSettings
from quipu.model.principal import DEFAULT_TENANT, Permission, Principal, local
from quipu.operation import invalid
from quipu.telemetry.export import exporting

# -- what each client wants to read in its settings ------------------------------------------------------------------

_RESTART = "Restart the client completely after the change."
_SIGNS_IN = (
    "It sends no token: it signs in at the identity provider that the server names in QUIPU_OIDC_ISSUER."
)
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
        return Snippet(client, "Settings, Connectors, Add custom connector", asked.url, (_SIGNS_IN,))
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
    return Snippet(client, "Settings, Connectors, Create", asked.url, (_SIGNS_IN,))


def _python(client: str, asked: _Asked) -> Snippet:
    if asked.url is None:
        words = ", ".join(f"{name}={value!r}" for name, value in asked.process.items())
        lines = [
            "from mcp import Client, StdioServerParameters",
            "",
            f"client = Client(StdioServerParameters({words}))",
        ]
    else:
        lines = [
            "import os",
            "",
            "import httpx2",
            "from mcp import Client",
            "from mcp.client.streamable_http import streamable_http_client",
            "",
            f"""http = httpx2.AsyncClient(headers={{"Authorization": f"Bearer {{os.environ['{_TOKEN}']}}"}}, timeout=300)""",
            f"client = Client(streamable_http_client({asked.url!r}, http_client=http))",
        ]
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


# -- the commands ---------------------------------------------------------------------------------------------------


async def _mcp(
    session: Session,
    *,
    agent: str | None,
    tenant: str | None,
    user: str | None,
    scopes: str | None,
    profile: str | None,
    **shown: Any,
) -> None:
    session.stay_here("mcp")
    settings = session.settings
    if "agent" in settings.model_fields_set:
        agent = agent or settings.agent
    principal = _person(
        local(tenant or DEFAULT_TENANT, settings.agent),
        only_agent=agent,
        user_id=user,
        scopes=_scopes(scopes),
    )
    chosen = McpSettings(profile=_profile(profile or settings.mcp_profile), **shown)
    # By name: this module stands below the one that puts all capabilities together.
    bootstrap = import_module("quipu.bootstrap")
    with _logging(is_verbose=session.is_verbose), exporting(collected(settings)):
        async with session.container("creates") as container:
            await bootstrap.speak_mcp(container, principal, chosen)


def _person(
    whole: Principal, *, only_agent: str | None, user_id: str | None, scopes: frozenset[Permission]
) -> Principal:
    """The person at this machine, as far as they lend their memory to the client."""
    agents = ("*",) if only_agent is None else (only_agent,)
    default = only_agent or whole.default_agent
    return replace(whole, permissions=scopes, agents=agents, default_agent=default, user_id=user_id)


def _scopes(text: str | None) -> frozenset[Permission]:
    """Everything, unless said otherwise."""
    named = (text or "").replace(",", " ").split()
    known = {permission.value: permission for permission in Permission}
    if any(name not in known for name in named):
        raise invalid([Fault("/scopes", "bad_value", f"some of {', '.join(known)}")])
    return frozenset(known[name] for name in named) or frozenset(known.values())


def _profile(name: str) -> str:
    if name not in PROFILES:
        raise invalid([Fault("/profile", "bad_value", f"one of {', '.join(PROFILES)}")])
    return name


@contextmanager
def _logging(*, is_verbose: bool) -> Generator[None]:
    """Warnings on standard error, ours and the SDK's: on standard output they would break the protocol."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    loggers = [logging.getLogger("quipu"), logging.getLogger("mcp")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if is_verbose else logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True


def _install(
    session: Session, *, client: str, url: str | None, agent: str | None, profile: str | None
) -> None:
    """The client will use the memory that this command would use."""
    server = session.server_of()
    if url is None and server is not None:
        url = f"{server.rstrip('/')}/mcp"
    words: list[str] = []
    if url is None:
        words = ["--store-url", session.store_address()]
        words += [] if agent is None else ["--agent", agent]
    found = snippet(client, url=url, words=words, profile=None if profile is None else _profile(profile))
    notes = [*found.notes]
    if _TOKEN in found.text:
        notes.insert(0, f"Set {_TOKEN} where the client starts; `quipu token create` makes a token.")
    body = {"client": found.client, "where": found.where, "snippet": found.text, "notes": notes}
    session.note(f"{found.where}:")
    session.answer(body, found.text)
    for note in notes:
        session.note(note)


_PROFILE = click.Option(
    ["--profile"],
    metavar="NAME",
    help=f"Which tools the client sees: {', '.join(PROFILES)}. Else QUIPU_MCP_PROFILE, else default.",
)
MCP = HandCommand(
    name="mcp",
    help="""Serve the memory to one MCP client, on standard input and output.

    The client starts this command itself: `quipu mcp install` says what to tell it. It acts as the person at this
    machine, as far as the options let it.""",
    run=_mcp,
    parameters=(
        click.Option(
            ["--agent"],
            metavar="NAME",
            help="The only agent there is. Left out: QUIPU_AGENT, and any that is named.",
        ),
        click.Option(["--tenant"], metavar="NAME", help="Whose memory. Else default."),
        click.Option(["--user"], metavar="NAME", help="The only person whose memories there are."),
        click.Option(
            ["--scopes"],
            metavar="WORDS",
            help="What it may do, such as `memory:read,memory:write`. Else everything.",
        ),
        click.Option(["--store"], metavar="NAME", help="The only memory store there is."),
        _PROFILE,
        click.Option(
            ["--prefix"], metavar="TEXT", default="", help="Stands before each tool's name, such as memory_."
        ),
        click.Option(["--read-only"], is_flag=True, help="Nothing can be changed."),
        click.Option(
            ["--extension", "has_extension"],
            is_flag=True,
            help="Also offer the experimental methods memory/…",
        ),
    ),
    examples=("quipu mcp", "quipu mcp --agent helper --read-only"),
    logs_itself=True,
)
INSTALL = HandCommand(
    name="mcp install",
    help=f"""Say how to tell an MCP client about this memory: {", ".join(CLIENTS)}.

    Nothing is changed: copy what is shown to where it says.""",
    run=_install,
    parameters=(
        click.Argument(["client"], metavar="CLIENT", help="Which client, of those above."),
        click.Option(
            ["--url"], metavar="URL", help="A server's /mcp address, instead of a command on this machine."
        ),
        click.Option(["--agent"], metavar="NAME", help="The only agent there is."),
        _PROFILE,
    ),
    examples=(
        "quipu mcp install claude-desktop",
        "quipu mcp install cursor --url https://memory.example/mcp",
    ),
)
