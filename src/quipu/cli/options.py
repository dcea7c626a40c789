"""The options that every command has, and how help shows them. Loads nothing of the product, so that help is quick."""

from collections.abc import Sequence
from typing import Any

import click

from quipu.cli.session import Session


class RenderedCommand(click.Command):
    """A command with the options that every command has, and its examples."""

    def __init__(
        self, name: str, *, params: Sequence[click.Parameter], examples: Sequence[str], **given: Any
    ) -> None:
        super().__init__(name, params=with_shared(params), **given)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        format_options(self, ctx, formatter)
        format_examples(self.examples, formatter)


def format_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The command's own options first, then those of every command."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for param in command.get_params(ctx):
        record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
        if record is not None:
            (shared if isinstance(param, SharedOption) or "--help" in param.opts else own).append(record)
    for title, records in (("Options", own), ("Options of every command", shared)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def format_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """As they are typed: never broken."""
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class SharedOption(click.Option):
    """An option that may stand before and after the command; what is said later wins."""

    def __init__(self, *names: str, **given: Any) -> None:
        super().__init__(list(names), expose_value=False, callback=self._keep, **given)

    def _keep(self, ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value not in (None, False, ()) and not ctx.resilient_parsing:
            setattr(Session.of(ctx), str(param.name), value)


def shared_options() -> list[click.Parameter]:
    return [
        SharedOption(
            *("--store-url", "store_urls"),
            multiple=True,
            metavar="URL",
            help="Where memory is kept: a file, or a URL such as sqlite:///path/memory.db. Else QUIPU_STORE.",
        ),
        SharedOption(
            "--server",
            metavar="URL",
            help="Speak to this server instead, such as https://memory.example.org. Else QUIPU_SERVER.",
        ),
        SharedOption(
            "--token-file", metavar="FILE", help="The file that holds the server's token. Else QUIPU_TOKEN."
        ),
        SharedOption("--json", "is_json", is_flag=True, help="Answer in JSON."),
        SharedOption("--quiet", "-q", "is_quiet", is_flag=True, help="No notes, no progress."),
        SharedOption("--verbose", "-v", "is_verbose", is_flag=True, help="Say more; show tracebacks."),
    ]


def with_shared(params: Sequence[click.Parameter]) -> list[click.Parameter]:
    """A command's own parameters and the shared ones; what a command calls by the same name it means in its own way."""
    taken = {name for param in params for name in param.opts}
    return [*params, *(option for option in shared_options() if not taken.intersection(option.opts))]
