"""The tree of commands, loaded one at a time, and what happens around every one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.main import get_command, get_command_from_info, get_group

from quipu._version import __version__
from quipu.cli import faults, signals, streams
from quipu.cli.command import Group

#: Command → module of this folder. The order is that of `quipu --help`.
CATALOGUE: Mapping[str, str] = {
    "demo": "demo",
    "serve": "serving",
    "mcp": "mcp",
    "init": "upkeep",
    "remember": "writing",
    "recall": "recalling",
    "forget": "removing",
    "merge": "writing",
    "expire": "removing",
    "show": "reading",
    "list": "reading",
    "history": "reading",
    "restore": "writing",
    "graph": "graph",
    "procedure": "procedures",
    "run": "runs",
    "store": "stores",
    "review": "reviews",
    "rules": "rules",
    "recover": "recovery",
    "changes": "following",
    "import": "importing",
    "imports": "imports",
    "export": "exporting",
    "bundle": "bundles",
    "share": "sharing",
    "grant": "grants",
    "did": "dids",
    "erase": "erasing",
    "verify": "proof",
    "audit": "audits",
    "conformance": "conformance",
    "backup": "upkeep",
    "vacuum": "upkeep",
    "reembed": "upkeep",
    "sweep": "removing",
    "consolidate": "consolidating",
    "mirror": "mirrors",
    "db": "database",
    "tenant": "tenants",
    "token": "tokens",
    "secret": "secrets",
    "webhook": "webhooks",
    "whoami": "about",
    "telemetry": "telemetry",
    "doctor": "doctor",
    "health": "about",
    "capabilities": "about",
    "config": "settings",
}


def loaded(name: str) -> Any:
    """A command, or a group of them, from its module."""
    module = import_module(f"quipu.cli.{CATALOGUE[name]}")
    given: typer.Typer = module.app
    if given.info.name == name:
        return get_group(given)
    info = next(info for info in given.registered_commands if info.name == name)
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode="rich")


class Program(Group):
    """The root: it finds commands by name and turns what they raise into a message and an exit code."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("Any", dict.fromkeys(CATALOGUE))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            return None
        if self.commands[cmd_name] is cast("Any", None):
            self.commands[cmd_name] = loaded(cmd_name)
        return self.commands[cmd_name]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has seen enough: `quipu export | head`
            streams.leave(sys.stdout)
            raise typer.Exit(0) from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)

        def work() -> Any:
            return super(Program, self).main(
                given, prog_name or "quipu", complete_var, False, windows_expand_args, **extra
            )

        return sys.exit(ended(work, given)) if standalone_mode else work()


def ended(work: Callable[[], Any], given: Sequence[str]) -> int:
    """The exit code of a run; whatever it raises is told in one line and a hint."""
    words = given[: given.index("--")] if "--" in given else given
    is_json, is_verbose = "--json" in words, "--verbose" in words or "-v" in words
    try:
        code = work()
        streams.flush()
    except BrokenPipeError:
        streams.leave(sys.stdout)
        return 0
    except typer.Abort:
        code = signals.INTERRUPTED
    except Exception as error:  # noqa: BLE001  the last line of defence: no user sees a traceback unasked
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been shown
            return 0
        return faults.told(error, is_json=is_json, is_verbose=is_verbose)
    if code == signals.INTERRUPTED:
        streams.tell("Interrupted\n")
        return signals.exit_code()
    return code if isinstance(code, int) else 0


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"quipu {__version__}")
        raise typer.Exit


app = typer.Typer(cls=Program, name="quipu", no_args_is_help=True, rich_markup_mode="rich")

_EPILOG = """\
[bold]Exit codes[/bold]: 0 done · 1 bad input · 2 the memory or a server failed · 3 held for approval · 130 interrupted, 143 terminated

[bold]Completion[/bold]: `quipu --install-completion` sets it up for your shell.
"""


@app.callback(cls=Program, epilog=_EPILOG, context_settings={"help_option_names": ["--help", "-h"]})
def quipu(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """One memory for every agent: typed, versioned, searchable, and provable afterwards.

    [bold]Start here[/bold]
      quipu demo                                   a tour on a throw-away memory
      quipu remember "Mara is vegetarian"          keep a fact
      quipu recall "what does Mara eat?"           find it again
      quipu history mem_...                        every version it ever had
      quipu verify                                 prove that nothing was altered
      quipu serve                                  let others use it
      quipu recall --server URL "..."              use one that others serve

    Memory lives in one file; `quipu config` says where. Who puts something in makes
    it; commands that only look make nothing. `quipu COMMAND --help`
    explains a command with examples. Options under Everywhere may stand before
    or after the command.
    """


def run() -> None:
    """Run the command line of this process and end it."""
    streams.ready()
    signals.ready()
    try:
        get_command(app)()
    except SystemExit as exit:
        if exit.code == signals.exit_code():
            # A thread may still wait for input that will never come; do not wait for it.
            streams.flush()
            os._exit(signals.exit_code())
        raise
