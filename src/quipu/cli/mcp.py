"""mcp: the memory for hosts that speak the Model Context Protocol, and how to set them up."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from quipu.cli import options, output, serving
from quipu.cli.command import Command, Group
from quipu.cli.session import Session
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.config import Config


def _profiles() -> list[str]:
    from quipu.faces.mcp.profiles import PROFILES

    return list(PROFILES)


def _hosts() -> list[str]:
    from quipu.cli.mcp_clients import CLIENTS

    return list(CLIENTS)


app = typer.Typer(name="mcp", cls=Group, invoke_without_command=True, rich_help_panel="Start here")


@app.callback(rich_help_panel="Start here")
def mcp(
    ctx: typer.Context,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            autocompletion=_profiles,
            help="readonly, default, admin, graph, anthropic or chatgpt. QUIPU_MCP_PROFILE.",
        ),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option("--prefix", metavar="TEXT", help="Stands before each tool's name, such as memory_."),
    ] = "",
    store: options.InStore = None,
    user: options.User = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Nothing can be written, and no tool that would is shown.")
    ] = False,
    extension: Annotated[
        bool, typer.Option("--extension", help="Also offer the experimental memory methods.")
    ] = False,
    http: Annotated[
        bool, typer.Option("--http", help="Serve it over streamable HTTP at /mcp, and nothing else.")
    ] = False,
    host: serving.Host = None,
    port: serving.Port = None,
    no_auth: serving.NoAuth = False,
    tls_cert: serving.TlsCert = None,
    tls_key: serving.TlsKey = None,
    behind_proxy: serving.BehindProxy = False,
    allow_host: serving.AllowHost = None,
) -> None:
    """Speak MCP on standard input and output: the host starts this, not you.

    [bold]Examples[/bold]
      quipu mcp                                  what a host runs
      quipu mcp --profile readonly               recall only
      quipu mcp --profile anthropic              the `memory` tool with files
      quipu mcp --agent support --store team     one agent, one memory store
      quipu mcp install claude-code              how to tell your host about it
      quipu mcp --http --port 8765               a server for several hosts, with tokens
      quipu mcp --http --no-auth --read-only     for whoever is at this machine, to recall only

    The memory may be used by a server and by other hosts at the same time. Standard output belongs to the protocol;
    what there is to log goes to standard error.

    With --http it is a server like `quipu serve`, with the same tokens, limits and /healthz, but /mcp is all that it
    shows; --host and the options after it are for --http. Beyond this machine it listens only with TLS, and never with
    --no-auth. `quipu serve` offers the same at /mcp, beside the page and the API.

    It is one process, since sessions of older clients and questions that wait for an answer live in it. Further ones over
    the same memory may run beside it, if whoever spreads the requests sends a client to the same one each time.
    """
    if ctx.invoked_subcommand is not None:
        return
    run = Session.of(ctx)
    run.stay_here("mcp")
    config = run.config().with_values(
        mcp_profile="readonly" if read_only and profile is None else profile,
        mcp_scopes="memory:read" if read_only else None,
        mcp_user=user,
        mcp_extension=extension or None,
    )
    at = serving.listening_at(config, host, port, tls_cert, tls_key, behind_proxy, allow_host)
    _check_words(is_http=http, is_placed=no_auth or at != config, has_user=user is not None)
    if http:
        from quipu.bootstrap.mcp import Alone

        alone = Alone(prefix=prefix, store=store, read_only=read_only)
        serving.serve_until_stopped(run, at, is_open=no_auth, alone=alone)
        return
    with _logging(run):
        serving.warn_of_misspelt()
        serving.warn_if_nothing_is_kept(config)
        _speak(config, prefix=prefix, store=store)


def _check_words(*, is_http: bool, is_placed: bool, has_user: bool) -> None:
    if is_placed and not is_http:
        raise InvalidError(
            "On standard input and output there is nothing to listen at.",
            reason="usage",
            hint="Add --http, or leave out --host, --port and what belongs to them.",
        )
    if has_user and is_http:
        raise InvalidError(
            "Over HTTP everybody is who their token says.",
            reason="usage",
            hint="Leave out --user; `quipu token create --user NAME` makes a token for one person.",
        )


def _speak(config: Config, *, prefix: str, store: str | None) -> None:
    import asyncio

    from quipu.bootstrap import telemetry
    from quipu.bootstrap.mcp import speak

    with telemetry.exported(config):
        asyncio.run(speak(config, prefix=prefix, store=store))


@contextmanager
def _logging(run: Session) -> Generator[None]:
    """Warnings on standard error, ours and the SDK's: on standard output they would break the protocol."""
    handler: Any = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    loggers = [logging.getLogger("quipu"), logging.getLogger("mcp")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if run.is_verbose else logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True


_CLIENTS = "claude-desktop, claude-code, cursor, vscode, codex, gemini, chatgpt or python."
_Url: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="A server's /mcp, instead of a process on this machine."),
]
_Profile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", autocompletion=_profiles, help="Which tools the client shall see."
    ),
]
_User: TypeAlias = Annotated[
    str | None,
    typer.Option("--user", metavar="ID", help="Whose memories they are; on this machine only."),
]


@app.command("install", cls=Command)
def install(
    ctx: typer.Context,
    client: Annotated[str, typer.Argument(metavar="CLIENT", autocompletion=_hosts, help=_CLIENTS)],
    url: _Url = None,
    profile: _Profile = None,
    user: _User = None,
) -> None:
    """Print what to put into a host's settings. Nothing is changed.

    [bold]Examples[/bold]
      quipu mcp install claude-desktop
      quipu mcp install claude-code --profile readonly
      quipu mcp install cursor --url https://memory.example.org/mcp
      quipu mcp install codex --agent coder --store-url ~/memory.db

    The host will use the memory that this shell uses: what options and QUIPU_ variables
    say here is written into its settings, or the address of the server that is spoken to.
    See also: mcp, mcp config, serve, token create.
    """
    _show(Session.of(ctx), client, url, profile, user)


@app.command("config", cls=Command)
def config(
    ctx: typer.Context,
    client: Annotated[str, typer.Option("--client", metavar="CLIENT", autocompletion=_hosts, help=_CLIENTS)],
    url: _Url = None,
    profile: _Profile = None,
    user: _User = None,
) -> None:
    """Print what to put into a host's settings: `mcp install`, with the host as an option.

    [bold]Examples[/bold]
      quipu mcp config --client claude-desktop
      quipu mcp config --client vscode --url https://memory.example.org/mcp

    See also: mcp, mcp install.
    """
    _show(Session.of(ctx), client, url, profile, user)


def _show(run: Session, client: str, url: str | None, profile: str | None, user: str | None) -> None:
    from quipu.cli import mcp_told
    from quipu.cli.mcp_clients import snippet

    if profile is not None and profile not in _profiles():
        raise InvalidError.at("/profile", "bad_value", "There is no such MCP profile.", accepted=_profiles())
    if url is None and (server := run.server_of(run.config())) is not None:
        url = f"{server.rstrip('/')}/mcp"  # the memory that this shell uses is there
    env, kept_back = ({}, []) if url is not None else mcp_told.surroundings(run, profile)
    words = mcp_told.words(run, profile)
    shown = snippet(client, url=url, words=words, profile=profile, user=user, env=env)
    notes = [*shown.notes, *(_unsaid(name) for name in kept_back)]
    body = {"client": shown.client, "where": shown.where, "snippet": shown.text, "notes": notes}
    if run.answer_json(body):
        return
    run.note(f"{shown.where}:")
    output.console().print(shown.text, markup=False, highlight=False, soft_wrap=True)
    for note in notes:
        run.note(note)


def _unsaid(name: str) -> str:
    return f"{name} is set here and may hold a secret, so it is not shown: give it to the host yourself, or the settings file."
