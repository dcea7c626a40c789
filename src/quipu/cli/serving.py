"""serve: the memory for everybody else, over HTTP."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.bootstrap.serving import WebApp
    from quipu.config import Config

app = typer.Typer()

_LEVELS = ("debug", "info", "warning", "error")
_log = logging.getLogger("quipu.server")


@app.command("serve", cls=Command, rich_help_panel="Start here")
def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="Where to listen. QUIPU_HOST, else 127.0.0.1."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, metavar="N", help="QUIPU_PORT, else 8321; 0 takes a free one."
        ),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask nobody who they are; on this machine only.")
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="PEM file with the certificate chain.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM file with its key.")
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of the server speaks TLS.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name the server answers to; may be repeated."),
    ] = None,
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
    before = run.config()
    config = before.with_values(
        host=host,
        port=port,
        tls_cert=None if tls_cert is None else str(tls_cert),
        tls_key=None if tls_key is None else str(tls_key),
        behind_proxy=behind_proxy or None,
        allowed_hosts=",".join([before.allowed_hosts, *allow_host]) if allow_host else None,
    )
    from quipu.rules.exposure import checked_exposure

    checked_exposure(
        config.host, is_open=no_auth, has_tls=bool(config.tls_cert), is_behind_proxy=config.behind_proxy
    )
    with _logging(run, config):
        _serve(run, config, is_open=no_auth, browse=browse)
    run.note("Stopped.")


def _serve(run: Session, config: Config, *, is_open: bool, browse: bool) -> None:
    from quipu.bootstrap import serving, telemetry
    from quipu.faces.http import server

    options = serving.server_options(config)
    server.check_tls(options)
    listening = server.bind(options)
    address = server.address_of(options, listening)

    async def work() -> None:
        made = await serving.web_app(config, is_open=is_open, makes_first_token=True, progress=_BuildNotes())
        running = server.server(made.asgi, made.lifecycle, options)

        def ready() -> None:
            _announce(run, address, made, is_open=is_open)
            if browse:
                _browse(address)

        await server.serve(running, listening, made.lifecycle, ready)

    with telemetry.exported(config), listening:
        server.run(work())


def _announce(run: Session, address: str, made: WebApp, *, is_open: bool) -> None:
    """Tell where the server is, and its first token, to whoever started it. Not to the log."""
    token = None if made.first_token is None else made.first_token.text
    made.first_token = None
    if run.is_json:
        output.write_line({"address": address, **({} if token is None else {"token": token})})
        sys.stdout.flush()
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
        shown.print("Sign in to the page with it, or send it as `Authorization: Bearer`.", markup=False)
        shown.print("`quipu token create` makes more, for agents and reviewers.", markup=False)
    run.note("Ctrl-C stops it.")
    sys.stdout.flush()


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
    loggers = [logging.getLogger("quipu"), logging.getLogger("uvicorn")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level.upper())
        logger.propagate = False
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True
