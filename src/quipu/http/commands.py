"""The command that serves a memory over HTTP."""

import asyncio
import ipaddress
import json
import logging
import ssl
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from quipu.access.rules import solo_mode
from quipu.command import HandCommand, Session
from quipu.config import Settings, collected
from quipu.errors import InvalidError, QuipuError
from quipu.model.principal import DEFAULT_TENANT, local
from quipu.telemetry.export import exporting

#: Libraries that speak up when something is wrong: in lines like ours, or whoever collects them cannot read them.
_OTHERS = ("uvicorn", "psycopg")
#: Whose lines are JSON objects.
_ACCESS = "quipu.access"
_SIGNIN = "/signin"
_log = logging.getLogger("quipu.server")


def _serve(session: Session, *, no_auth: bool, only: str | None, **given: Any) -> None:
    session.stay_here("serve")
    settings = session.settings.with_values(**{name: value for name, value in given.items() if value != ()})
    check_exposure(settings, is_open=no_auth)
    check_certificate(settings)
    with _json_log(session, settings):
        import uvicorn  # help is shown without it

        # The fastest loop that is installed.
        factory = uvicorn.Config("", log_config=None).get_loop_factory()
        with exporting(collected(settings)), asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve_until_stopped(session, settings, is_open=no_auth, only=only))
    session.note("Stopped.")


async def _serve_until_stopped(
    session: Session, settings: Settings, *, is_open: bool, only: str | None
) -> None:
    # By name: this module stands below the one that puts all capabilities together.
    bootstrap = import_module("quipu.bootstrap")
    from quipu.http import server

    address = session.store_address()
    if bootstrap.is_memory(address):
        _log.warning("Nothing is kept: this memory is in memory only, and gone when this stops.")
    # First of all, so that a port that is taken is reported before anything is opened.
    with closing(server.bound_socket(settings)) as listening:
        container = await bootstrap.open_container(settings, stores=[address])
        try:
            app = bootstrap.http_app(container, is_open=is_open, only=only)
            has_page = any(getattr(route, "path", None) == _SIGNIN for route in app.routes)

            async def started(url: str) -> None:
                # Last of all: a token that is made must be shown, so nothing that can fail comes between.
                issued = None if is_open else await container.access.tokens.first(local(), container.clock())
                link: str | None = None
                try:
                    if issued is not None and has_page:
                        link = await signin_link(container, issued.token.id, url)
                finally:
                    _announce(session, url, None if issued is None else issued.text, link, is_open=is_open)

            readying = asyncio.create_task(_make_ready(container))
            server.settle()
            try:
                await server.serve(app, settings, listening, started)
            finally:
                readying.cancel()
                await asyncio.wait({readying})
        finally:
            await container.close()


async def signin_link(container: Any, token_id: str, url: str) -> str | None:
    """A link that signs in to the page once; None where it cannot be made, which is no reason not to serve."""
    with suppress(QuipuError):
        made = await container.access.signin_links.made(local(), token_id, container.clock())
        return made.url if "://" in made.url else url + made.url
    return None


async def _make_ready(container: Any) -> None:
    """Find out before the first caller does: does the model load, and is the key of the secrets there?"""
    try:
        await container.secrets.guard(DEFAULT_TENANT, None)
    except QuipuError as error:
        _log.error("%s %s", error.message, error.hint or "")
    if container.embedder is not None:
        try:
            await container.embedder.embed(["ready"])
        except QuipuError as error:
            _log.warning("Recall goes by words alone: %s", error.message)


def _announce(session: Session, url: str, token: str | None, link: str | None, *, is_open: bool) -> None:
    """Say where the server is, and its first token, to whoever started it. Not to the log."""
    body: dict[str, Any] = {"address": url}
    if token is not None:
        body["token"] = token
    if link is not None:
        body["signin_url"] = link
    if session.is_json:
        session.answer(body)
        return
    session.say(f"Quipu listens on {url}", style="bold")
    if is_open:
        session.say(
            "Nobody is asked for a token: everybody on this machine may do everything.", style="yellow"
        )
    session.note("Ctrl-C stops it.")
    if token is not None:
        session.say("\nYour administrator's token, shown this once:", style="bold")
        session.say(f"  {token}")
        session.say(
            "Send it as `Authorization: Bearer`. `quipu token create` makes more, for agents and reviewers."
        )
        session.say(f"\n{solo_mode(session.store_urls)}", style="yellow")
    if link is not None:
        session.say(f"Sign in to the page, once and within 15 minutes:\n  {link}")


# -- where it may listen ----------------------------------------------------------------------------------------------


def check_exposure(settings: Settings, *, is_open: bool) -> None:
    """Refuse an address where others could read along, or come in without a word."""
    is_behind_proxy = bool(settings.trusted_proxies)
    if is_open and (is_behind_proxy or not _is_loopback(settings.host)):
        raise InvalidError(
            "Without tokens the server listens on this machine only, and stands behind no proxy.",
            reason="open_to_all",
            hint="Leave out --no-auth, or use --host 127.0.0.1.",
        )
    if not (_is_loopback(settings.host) or settings.tls_cert or is_behind_proxy):
        raise InvalidError(
            "Beyond this machine tokens and memories would travel unencrypted.",
            reason="no_tls",
            hint="Give --tls-cert and --tls-key, or --trusted-proxy with the address of a proxy that speaks TLS.",
        )


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_certificate(settings: Settings) -> None:
    """Refuse a certificate that cannot be used, before anything is opened."""
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise InvalidError(
            "The certificate and its key cannot be used.",
            reason="bad_certificate",
            hint="--tls-cert takes a PEM file with the certificate chain, --tls-key the key that belongs to it.",
        ) from error


# -- the log ----------------------------------------------------------------------------------------------------------


class JsonLines(logging.Formatter):
    """One JSON document a line, on standard error, for whoever collects logs."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        message = record.getMessage()
        if record.name == _ACCESS:  # it is a JSON object already
            return f"{json.dumps(line)[:-1]}, {message[1:]}"
        return json.dumps({**line, "message": message})


@contextmanager
def _json_log(session: Session, settings: Settings) -> Generator[None]:
    level = "debug" if session.is_verbose else "warning" if session.is_quiet else settings.log_level
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    ours, others = logging.getLogger("quipu"), [logging.getLogger(name) for name in _OTHERS]
    before = [(logger, logger.level, logger.propagate) for logger in (ours, *others)]
    for logger, *_ in before:
        logger.addHandler(handler)
        logger.setLevel(level.upper() if logger is ours else logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, former, propagates in before:
            logger.removeHandler(handler)
            logger.setLevel(former)
            logger.propagate = propagates


SERVE = HandCommand(
    name="serve",
    help="""Serve the memory over HTTP, for everybody else.

    The first run makes a token for an administrator and shows it once. Ctrl-C and SIGTERM stop it in order: what is at
    work is finished. /healthz, /readyz and /openapi.json are for machines.""",
    run=_serve,
    parameters=(
        click.Option(["--host"], metavar="ADDRESS", help="Where to listen. Else QUIPU_HOST, else 127.0.0.1."),
        click.Option(
            ["--port"],
            type=click.IntRange(0, 65_535),
            metavar="N",
            help="Else QUIPU_PORT, else 8321; 0 takes one that is free.",
        ),
        click.Option(["--only"], type=click.Choice(["mcp"]), help="Serve /mcp and nothing else."),
        click.Option(
            ["--no-auth"],
            is_flag=True,
            help="Ask nobody for a token; on this machine only, to try things out.",
        ),
        click.Option(
            ["--tls-cert"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="PEM file with the certificate chain.",
        ),
        click.Option(
            ["--tls-key"], type=click.Path(path_type=Path), metavar="FILE", help="PEM file with its key."
        ),
        click.Option(
            ["--trusted-proxy", "trusted_proxies"],
            multiple=True,
            metavar="ADDRESS",
            help="A proxy in front of the server that speaks TLS. May be repeated.",
        ),
        click.Option(
            ["--allow-host", "allowed_hosts"],
            multiple=True,
            metavar="NAME",
            help="A name that the server answers to. May be repeated.",
        ),
    ),
    examples=(
        "quipu serve",
        "quipu serve --no-auth --port 0",
        "quipu serve --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem",
        "quipu serve --host 0.0.0.0 --trusted-proxy 10.0.0.2 --allow-host memory.example",
    ),
    logs_itself=True,
)
