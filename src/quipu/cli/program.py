"""The tree of commands, each loaded when it is needed, and what happens around every one of them."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from quipu import catalogue
from quipu._version import __version__
from quipu.cli import errors, streams
from quipu.cli.options import format_examples, format_options, with_shared
from quipu.cli.session import Session, Surroundings

if TYPE_CHECKING:
    from quipu.cli.options import RenderedCommand
    from quipu.command import HandCommand


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command that is written by hand stands: its words, `module:NAME` of its HandCommand, what it does."""

    words: str
    place: str
    summary: str

    def loaded(self) -> "HandCommand":
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)


#: Commands that are more than an operation. Each stands in the `commands.py` of its capability; add a line here.
HAND_COMMANDS: tuple[Place, ...] = (
    Place("demo", "quipu.cli.demo:DEMO", "Take a tour on a memory that is thrown away."),
    Place("serve", "quipu.http.commands:SERVE", "Serve the memory over HTTP, for everybody else."),
    Place(
        "mcp", "quipu.mcp.commands:MCP", "Serve the memory to one MCP client, on standard input and output."
    ),
    Place("mcp install", "quipu.mcp.commands:INSTALL", "Say how to tell an MCP client about it."),
    Place("init", "quipu.cli.commands:INIT", "Make a memory ready: its file, its model, its first token."),
    Place("doctor", "quipu.cli.doctor:DOCTOR", "Examine a memory, or a server, and say what to type."),
    Place("config", "quipu.cli.commands:CONFIG", "Show what is set, and where each value came from."),
    Place("review", "quipu.governance.commands:DESK", "Go through what waits, and decide."),
    Place("review show", "quipu.governance.commands:SHOW", "Show a held write, and what it would change."),
    Place("review approve", "quipu.governance.commands:APPROVE", "Approve held writes."),
    Place("review reject", "quipu.governance.commands:REJECT", "Reject held writes."),
    Place("rules show", "quipu.governance.commands:RULES_SHOW", "Show the rules that decide on writes."),
    Place("rules set", "quipu.governance.commands:RULES_SET", "Replace the rules with those of a file."),
    Place("rules test", "quipu.governance.commands:RULES_TEST", "Say what rules would do; nothing changes."),
    Place("borrow", "quipu.sharing.commands:BORROW", "Show what somebody shares with you."),
    Place("verify", "quipu.audit.commands:VERIFY", "Check that everything is what was written."),
    Place("audit export", "quipu.audit.commands:EXPORT", "Export the journal, to be verified elsewhere."),
    Place(
        "conformance", "quipu.testing.commands:CONFORMANCE", "Play memorywire's scenarios, and Quipu's own."
    ),
    Place(
        "telemetry check",
        "quipu.telemetry.commands:CHECK",
        "Check exported spans and metrics against OpenTelemetry's conventions for memory.",
    ),
    Place("import", "quipu.transfer.commands:IMPORT", "Bring in a file; it is tried first."),
    Place("export", "quipu.transfer.commands:EXPORT", "Take memories out into a file, signed."),
    Place("db copy", "quipu.upkeep.commands:DB_COPY", "Copy a memory into another file or database."),
)

#: The first words of commands in the order of `quipu --help`; what is not named here comes last.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Start": ("demo", "serve", "init", "doctor", "config", "whoami", "mcp"),
    "Memory": (
        *("remember", "add", "recall", "context", "update", "forget", "merge", "expire", "show", "list"),
        *("history", "restore", "changes", "consolidate", "erase", "erasures", "undo"),
    ),
    "Stores, procedures, runs": ("store", "procedure", "run"),
    "Review": ("review", "rules", "suggestions", "webhook"),
    "Moving": ("import", "export", "backup", "db"),
    "Sharing": ("share", "borrow", "borrowed", "grant", "did"),
    "Proof": ("verify", "audit", "conformance", "telemetry"),
    "Mirrors and index": ("mirror", "reindex", "vacuum"),
    "Access": ("tenant", "token", "secret"),
}

_HELP = """One memory for every agent: typed, versioned, searchable, and provable afterwards.

\b
quipu remember "Ana lives in Lisbon"     keep a fact
quipu recall "where does Ana live?"      find it again
quipu recall --server URL "..."          use a memory that others serve

Memory lives in one file. A command that puts something in creates it; one that only reads creates nothing.
Options of every command may stand before or after it.
"""
_EPILOG = (
    "Exit codes: 0 done, 1 bad input, 2 the memory or a server failed, 3 held for approval, "
    "130 interrupted, 143 terminated."
)


def commands() -> dict[str, str]:
    """The words of every command, and what it does; loads none of them."""
    found = {place.words: place.summary for place in HAND_COMMANDS}
    return {**found, **{words: summary for words, (_, summary) in catalogue.COMMANDS.items()}}


class _Interrupted(Exception):
    """Ctrl-C, or a signal that is answered like it."""


class Commands(click.Group):
    """Commands that begin with the same words; the program itself begins with none."""

    def __init__(self, words: tuple[str, ...] = (), **given: Any) -> None:
        params = with_shared(given.pop("params", ()))
        self._examples: Sequence[str] = given.pop("examples", ())
        options: dict[str, Any] = {"no_args_is_help": True, **given}
        super().__init__(" ".join(words) or "quipu", params=params, **options)
        self._words = words

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:  # click would write to a terminal that may be gone
            raise _Interrupted from interrupt

    def list_commands(self, ctx: click.Context) -> list[str]:
        order = [word for section in SECTIONS.values() for word in section] if not self._words else []
        names = dict.fromkeys(words[0] for words, _ in self._below())
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        words = (*self._words, cmd_name)
        found, typed = _command(words), " ".join(words)
        if not any(other.startswith(f"{typed} ") for other in commands()):
            return found
        if found is not None:
            return _with_more(words, found)
        return Commands(words, help=f"Commands of {typed}.")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        format_examples(self._examples, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Out of the catalogue: help is shown without loading a single command."""
        shown: dict[str, list[tuple[str, str]]] = {}
        for words, summary in self._below():
            name = words[0] if len(words) == 1 else f"{words[0]} …"
            title = next((title for title, found in SECTIONS.items() if words[0] in found), "More")
            rows = shown.setdefault("Commands" if self._words else title, [])
            if name not in dict(rows):
                rows.append((name, summary if len(words) == 1 else ""))
        for title in ("Commands", *SECTIONS, "More"):
            if title in shown:
                order = self.list_commands(ctx)
                rows = sorted(shown[title], key=lambda row: order.index(row[0].removesuffix(" …")))
                with formatter.section(title):
                    formatter.write_dl([(name, text or self._members(name)) for name, text in rows])

    def _members(self, name: str) -> str:
        """What stands behind the first word of several commands."""
        first = name.removesuffix(" …")
        return ", ".join(" ".join(words[1:]) for words, _ in self._below() if words[0] == first and words[1:])

    def _below(self) -> Iterator[tuple[list[str], str]]:
        for words, summary in commands().items():
            parts = words.split()
            if tuple(parts[: len(self._words)]) == self._words and len(parts) > len(self._words):
                yield parts[len(self._words) :], summary


def _command(words: tuple[str, ...]) -> "RenderedCommand | None":
    """The command of exactly these words."""
    typed = " ".join(words)
    if typed in catalogue.COMMANDS:
        from quipu.cli.render import command

        return command(catalogue.operation(catalogue.COMMANDS[typed][0]), words[-1])
    for place in HAND_COMMANDS:
        if place.words == typed:
            from quipu.cli.render import hand_command

            return hand_command(place.loaded(), words[-1])
    return None


def _with_more(words: tuple[str, ...], found: "RenderedCommand") -> Commands:
    """A command whose words others begin with: `quipu mcp` beside `quipu mcp install`."""

    def run(**given: Any) -> Any:
        is_another = click.get_current_context().invoked_subcommand is not None
        return None if is_another or found.callback is None else found.callback(**given)

    return Commands(
        words,
        params=found.params,
        callback=run,
        help=found.help,
        examples=found.examples,
        invoke_without_command=True,
        no_args_is_help=False,
    )


def program() -> Commands:
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_version,
        help="Show the version and exit.",
    )
    return Commands(
        params=[version],
        help=_HELP,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def _show_version(ctx: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        streams.write(f"quipu {__version__}\n")
        ctx.exit()


def run(arguments: Sequence[str], surroundings: Surroundings | None = None) -> int:
    """Run one command line; the exit code. Whatever it raises becomes a message and a hint."""
    session = Session(surroundings=surroundings or Surroundings())
    try:
        code = program().main(list(arguments), prog_name="quipu", standalone_mode=False, obj=session)
        streams.flush()
    except BrokenPipeError:  # the reader has seen enough: `quipu changes | head`
        streams.leave(sys.stdout)
        return 0
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        streams.write_error("Interrupted\n")
        return streams.interrupted_code()
    except click.exceptions.NoArgsIsHelpError as error:
        streams.write(error.format_message() + "\n")
        streams.flush()
        return 0
    except Exception as error:  # noqa: BLE001  the last place that can explain it
        words = list(arguments)
        words = words[: words.index("--")] if "--" in words else words
        # What cannot be parsed may have its options after the word that makes no sense.
        session.is_json = session.is_json or "--json" in words
        session.is_verbose = session.is_verbose or "--verbose" in words or "-v" in words
        with session.logging():  # what nobody foresaw is logged, in the form of everything else
            return errors.explain(
                error,
                is_json=session.is_json,
                is_verbose=session.is_verbose,
                operation=session.operation,
            )
    return code if isinstance(code, int) else 0


def main() -> None:
    """The command line of this process."""
    streams.ready()
    code = run(sys.argv[1:])
    if code == streams.interrupted_code():
        # A thread may still wait for input that will never come; do not wait for it.
        streams.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
