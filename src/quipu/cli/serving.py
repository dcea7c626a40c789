"""serve: the memory for everybody else, over HTTP."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from quipu.cli import output, streams
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import InvalidError, QuipuError

if TYPE_CHECKING:
    from quipu.bootstrap.mcp import Alone
    from quipu.bootstrap.serving import WebApp
    from quipu.config import Config

app = typer.Typer()

#: Libraries that speak up when something is wrong: in lines like ours, or whoever collects them cannot read them.
_OTHERS = ("uvicorn", "psycopg")
_LEVELS = ("debug", "info", "warning", "error")
_log = logging.getLogger("quipu.server")


#: Where and how a server listens.
Host: TypeAlias = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Where to listen. QUIPU_HOST, else 127.0.0.1."),
]
Port: TypeAlias = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65535, metavar="N", help="QUIPU_PORT, else 8321; 0 takes a free one."),
]
NoAuth: TypeAlias = Annotated[
    bool, typer.Option("--no-auth", help="Ask nobody who they are; on this machine only.")
]
TlsCert: TypeAlias = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="PEM file with the certificate chain.")
]
TlsKey: TypeAlias = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM file with its key.")
]
BehindProxy: TypeAlias = Annotated[
    bool, typer.Option("--behind-proxy", help="A proxy in front of the server speaks TLS.")
]
AllowHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A name the server answers to; may be repeated."),
]


def listening_at(
    config: Config,
    host: str | None,
    port: int | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    allow_host: list[str] | None,
) -> Config:
    """The settings, with what the command line says about where to listen."""
    return config.with_values(
        host=host,
        port=port,
        tls_cert=None if tls_cert is None else str(tls_cert),
        tls_key=None if tls_key is None else str(tls_key),
        behind_proxy=behind_proxy or None,
        allowed_hosts=",".join([config.allowed_hosts, *allow_host]) if allow_host else None,
    )


@app.command("serve", cls=Command, rich_help_panel="Start here")
def serve(
    ctx: typer.Context,
    host: Host = None,
    port: Port = None,
    no_auth: NoAuth = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    behind_proxy: BehindProxy = False,
    allow_host: AllowHost = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve the memory over HTTP: page, API and docs.

    [bold]Examples[/bold]
      quipu serve                                      on this machine, port 8321
      quipu serve --open                               and show the page
      quipu serve --no-auth                            nobody is asked for a token
      quipu serve --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem
      quipu serve --host 0.0.0.0 --behind-proxy --allow-host memory.example

    The first run makes a token for an administrator and shows it once. Ctrl-C stops politely: what is at work is
    finished, and the journal is signed. /healthz, /readyz and /metrics are for machines.
    See also: token, config, doctor.
    """
    run = Session.of(ctx)
    run.stay_here("serve")
    config = listening_at(run.config(), host, port, tls_cert, tls_key, behind_proxy, allow_host)
    serve_until_stopped(run, config, is_open=no_auth, browse=browse)


def serve_until_stopped(
    run: Session, config: Config, *, is_open: bool, browse: bool = False, alone: Alone | None = None
) -> None:
    """A server in this process, if it may listen where it shall; with `alone` it shows nothing but MCP."""
    from quipu.rules.exposure import checked_address, checked_exposure

    checked_address(config.public_url)
    checked_exposure(
        config.host, is_open=is_open, has_tls=bool(config.tls_cert), is_behind_proxy=config.behind_proxy
    )
    with _logging(run, config):
        warn_of_misspelt()
        warn_if_nothing_is_kept(config)
        warn_of_published(config)
        _serve(run, config, is_open=is_open, browse=browse, alone=alone)
    run.note("Stopped.")


def warn_of_misspelt() -> None:
    """Name the variables that look like settings and are none; to the log, since nobody may sit before it."""
    from quipu.config import misspelt

    for one in misspelt():
        _log.warning("%s %s", one.said, one.advice)


def warn_if_nothing_is_kept(config: Config) -> None:
    """Say that a memory in memory only ends with this process; what is a test for one is a loss for another."""
    from quipu.bootstrap.addresses import address

    if address(config.store_url).is_fleeting:
        _log.warning(
            "Nothing is kept: this memory is in memory only, and gone when this stops. "
            "Name a file with --store-url to keep it."
        )


def warn_of_published(config: Config) -> None:
    """Name the limits that were raised in vain: over the wire they are what the published schemas say."""
    from quipu.config import PUBLISHED_LIMITS
    from quipu.model.limits import Limits

    usual = Limits()
    for name in sorted(PUBLISHED_LIMITS):
        if getattr(config.limits, name) > getattr(usual, name):
            _log.warning(
                "QUIPU_LIMIT_%s is raised for this process only: over HTTP and MCP it stays %d, as published.",
                name.upper(),
                getattr(usual, name),
            )


def _serve(run: Session, config: Config, *, is_open: bool, browse: bool, alone: Alone | None) -> None:
    import asyncio

    from quipu.bootstrap import serving, telemetry
    from quipu.faces.http import server

    options = serving.server_options(config)
    server.check_tls(options)
    listening = server.bind(options)
    address = server.address_of(options, listening)

    async def work() -> None:
        made = await serving.web_app(
            config, is_open=is_open, makes_first_token=True, progress=_BuildNotes(), alone=alone
        )
        running = server.server(made.asgi, made.lifecycle, options)

        def ready() -> None:
            _announce(run, address, made, is_open=is_open)
            if browse:
                _browse(address)
            serving.settle()
            looking.append(asyncio.create_task(_warn_of_lost_key(made)))

        looking: list[asyncio.Task[None]] = []
        await server.serve(running, listening, made.lifecycle, ready)

    with telemetry.exported(config), listening:
        server.run(work())


async def _warn_of_lost_key(made: WebApp) -> None:
    """Say at once what the first writer would find out: a copy was brought back without its key."""
    from quipu.service.sealed import unopened

    try:
        found = await unopened(made.running.parts)
    except QuipuError as error:
        _log.warning("What is sealed could not be looked at: %s", error.message)
        return
    if found is not None:
        _log.error("%s %s", found.said, found.advice)


def _announce(run: Session, address: str, made: WebApp, *, is_open: bool) -> None:
    """Tell where the server is, and its first token, to whoever started it. Not to the log."""
    token = None if made.first_token is None else made.first_token.text
    made.first_token = None
    if run.is_json:
        output.write_line({"address": address, **({} if token is None else {"token": token})})
        streams.flush()
        return
    shown = output.console()
    shown.print(f"Quipu listens on {address}", style="bold", markup=False, soft_wrap=True)
    width = max(map(len, made.addresses), default=0)
    for name, path in made.addresses.items():
        shown.print(f"  {name:<{width}}  {address}{path}", markup=False, soft_wrap=True)
    if is_open:
        shown.print(
            "Nobody is asked for a token: everybody on this machine may do everything.", style="yellow"
        )
    if token is not None:
        shown.print("\nYour administrator's token, shown this once:", style="bold")
        shown.print(f"  {token}", markup=False, soft_wrap=True)
        sign_in = "Sign in to the page with it, or send it" if "page" in made.addresses else "Send it"
        shown.print(f"{sign_in} as `Authorization: Bearer`.", markup=False)
        shown.print("`quipu token create` makes more, for agents and reviewers.", markup=False)
    run.note("Ctrl-C stops it.")
    streams.flush()


def _browse(address: str) -> None:
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


class _BuildNotes:
    """Logs each step of building the model, the first time the embedder is used on a machine."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, what: str, _share: float) -> None:
        if what != self._step:
            self._step = what
            _log.info("%s", what)


@contextmanager
def _logging(run: Session, config: Config) -> Generator[None]:
    """Log lines as JSON on standard error."""
    from quipu.faces.http.access_log import JsonLines

    if config.log_level.lower() not in _LEVELS:
        raise InvalidError(
            "There is no such log level.", reason="bad_setting", hint=f"Choose from {', '.join(_LEVELS)}."
        )
    level = "debug" if run.is_verbose else "warning" if run.is_quiet else config.log_level
    handler: Any = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    ours, others = logging.getLogger("quipu"), [logging.getLogger(name) for name in _OTHERS]
    loggers = [ours, *others]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level.upper() if logger is ours else logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True
