"""Commands that take the same options everywhere, before the command and after it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from quipu.cli.session import Session

PANEL = "Everywhere"
EMBEDDERS = ("onnx", "fast", "openai", "none")


def _kept(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Put a given value into the session; what is said later wins."""
    if value in (None, False, (), []) or ctx.resilient_parsing:
        return
    if param.name == "embedder" and value not in EMBEDDERS:
        raise typer.BadParameter(f"choose from {', '.join(EMBEDDERS)}.", param_hint="--embedder")
    setattr(Session.of(ctx), str(param.name), value)


def _url(ctx: typer.Context, value: str | None) -> None:
    """`--store` where no memory store can be named: only a store URL makes sense."""
    if value is not None and store_name(ctx, value) is not None:
        raise typer.BadParameter("this command takes a store URL, with ://.", param_hint="--store")


def store_name(ctx: typer.Context, value: str | None) -> str | None:
    """The memory store a command names; a value with :// is a store URL instead."""
    if value is None or "://" not in value:
        return value
    if not ctx.resilient_parsing:
        session = Session.of(ctx)
        session.store_urls = (*session.store_urls, value)
    return None


def _urls(ctx: typer.Context, value: Any) -> None:
    if value and not ctx.resilient_parsing:
        session = Session.of(ctx)
        session.store_urls = (*session.store_urls, *value)


def _shared(*names: str, **attributes: Any) -> Any:
    return typer.Option(*names, expose_value=False, rich_help_panel=PANEL, **attributes)


def _embedders(incomplete: str) -> list[str]:
    return [name for name in EMBEDDERS if name.startswith(incomplete)]


def _everywhere(
    agent: Annotated[
        str | None,
        _shared("--agent", callback=_kept, metavar="NAME", help="Whose memory. QUIPU_AGENT, else `default`."),
    ] = None,
    store_urls: Annotated[
        list[str] | None,
        _shared(
            "--store-url",
            callback=_urls,
            metavar="URL",
            help="Where memory is kept, such as sqlite:///path/memory.db. QUIPU_STORE, else the user's data directory.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        _shared(
            "--server",
            callback=_kept,
            metavar="URL",
            help="Speak to this server instead, such as https://memory.example.org. QUIPU_SERVER.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        _shared(
            "--token-file",
            callback=_kept,
            metavar="FILE",
            help="The file that holds the server's token. QUIPU_TOKEN, else the settings file.",
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        _shared(
            "--embedder",
            callback=_kept,
            metavar="KIND",
            autocompletion=_embedders,
            help="onnx (on this machine), fast (cruder, far quicker), openai (any compatible endpoint) or none (words only).",
        ),
    ] = None,
    is_json: Annotated[bool, _shared("--json", callback=_kept, help="Answer in JSON.")] = False,
    is_quiet: Annotated[
        bool, _shared("--quiet", "-q", callback=_kept, help="No notes, no progress.")
    ] = False,
    is_verbose: Annotated[
        bool, _shared("--verbose", "-v", callback=_kept, help="Say more; show tracebacks.")
    ] = False,
    store: Annotated[str | None, _shared("--store", callback=_url, hidden=True, metavar="URL")] = None,
) -> None:
    """Agent, place and manner: the options of every command, `--store` even where it names no store."""


@cache
def _shared_options() -> Sequence[Any]:
    """The options of every command, made by typer: how it builds one differs between its versions."""
    program = typer.Typer(add_completion=False)
    program.command()(_everywhere)
    return get_command(program).params


def _with_shared(params: list[Any] | None) -> list[Any]:
    """A command's own parameters and the shared ones."""
    own = list(params or [])
    taken = {name for param in own for name in param.opts}
    # What a command calls by the same name it means in its own way.
    return own + [option for option in _shared_options() if not taken.intersection(option.opts)]


def _reads_well(command: TyperCommand | TyperGroup) -> None:
    """Before help is shown it is made to fit."""
    from quipu.cli.help_text import flowed

    command.help = flowed(command.help or "")


def _in_a_line(suggested: list[Any]) -> list[Any]:
    """A shell reads one suggestion a line, so what is said of each is short enough not to be broken."""
    import textwrap

    for one in suggested:
        one.help = one.help and textwrap.shorten(one.help, 60, placeholder="...")
    return suggested


class Command(TyperCommand):
    """A command with the shared options."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **attributes: Any) -> None:
        super().__init__(name, params=_with_shared(params), **attributes)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return _in_a_line(super().shell_complete(ctx, incomplete))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _reads_well(self)
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A group of commands with the shared options."""

    def __init__(self, *, params: list[Any] | None = None, **attributes: Any) -> None:
        super().__init__(params=_with_shared(params), **attributes)
        self.suggest_commands = False  # by likeness alone; `meant` knows better

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return _in_a_line(super().shell_complete(ctx, incomplete))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _reads_well(self)
        super().format_help(ctx, formatter)
