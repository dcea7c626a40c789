"""Commands that take the same options everywhere, before the command and after it."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from quipu.cli.session import Session

PANEL = "Everywhere"
EMBEDDERS = ("onnx", "fast", "openai", "none")


def _kept(ctx: typer.Context, param: Any, value: Any) -> None:
    """Put a given value into the session; what is said later wins."""
    if value in (None, False, (), []) or ctx.resilient_parsing:
        return
    if param.name == "embedder" and value not in EMBEDDERS:
        raise typer.BadParameter(f"choose from {', '.join(EMBEDDERS)}.", param_hint="--embedder")
    setattr(Session.of(ctx), param.name, value)


def _url(ctx: typer.Context, param: Any, value: str | None) -> None:
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


def _urls(ctx: typer.Context, _param: Any, value: Any) -> None:
    if value and not ctx.resilient_parsing:
        session = Session.of(ctx)
        session.store_urls = (*session.store_urls, *value)


def _embedders(_ctx: Any, _args: list[str], _incomplete: str) -> list[tuple[str, str] | str]:
    return list(EMBEDDERS)


def shared_options() -> list[TyperOption]:
    """Agent, place and manner: the options of every command."""
    shared: dict[str, Any] = {"expose_value": False, "rich_help_panel": PANEL}
    flag: dict[str, Any] = {**shared, "is_flag": True, "default": False, "callback": _kept}
    return [
        TyperOption(
            param_decls=["agent", "--agent"],
            callback=_kept,
            metavar="NAME",
            help="Whose memory. QUIPU_AGENT, else `default`.",
            **shared,
        ),
        TyperOption(
            param_decls=["store_urls", "--store-url"],
            callback=_urls,
            metavar="URL",
            multiple=True,
            help="Where memory is kept, such as sqlite:///path/memory.db. QUIPU_STORE, else the user's data directory.",
            **shared,
        ),
        TyperOption(
            param_decls=["server", "--server"],
            callback=_kept,
            metavar="URL",
            help="Speak to this server instead, such as https://memory.example.org. QUIPU_SERVER.",
            **shared,
        ),
        TyperOption(
            param_decls=["token_file", "--token-file"],
            callback=_kept,
            metavar="FILE",
            help="The file that holds the server's token. QUIPU_TOKEN, else the settings file.",
            **shared,
        ),
        TyperOption(
            param_decls=["embedder", "--embedder"],
            callback=_kept,
            metavar="KIND",
            autocompletion=_embedders,
            help="onnx (on this machine), fast (cruder, far quicker), openai (any compatible endpoint) or none (words only).",
            **shared,
        ),
        TyperOption(param_decls=["is_json", "--json"], help="Answer in JSON.", **flag),
        TyperOption(param_decls=["is_quiet", "--quiet", "-q"], help="No notes, no progress.", **flag),
        TyperOption(param_decls=["is_verbose", "--verbose", "-v"], help="Say more; show tracebacks.", **flag),
    ]


def _with_shared(params: list[Any] | None) -> list[Any]:
    """A command's own parameters and the shared ones; `--store` is understood even where it names no store."""
    own = list(params or [])
    taken = {name for param in own for name in param.opts}
    # What a command calls by the same name it means in its own way.
    extra = [option for option in shared_options() if not taken.intersection(option.opts)]
    if "--store" not in taken:
        extra.append(
            TyperOption(
                param_decls=["--store"], callback=_url, expose_value=False, hidden=True, metavar="URL"
            )
        )
    return own + extra


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
