"""Options that several commands share. Choices are written out so that a shell can complete them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import typer

from quipu.cli.command import store_name
from quipu.model.record import MemoryType

TypeName: TypeAlias = Literal["semantic", "episodic", "procedural", "emotional"]


class StateName(StrEnum):
    """The states a record can be listed in; of an erased one there is nothing to list."""

    LIVE = "live"
    ARCHIVED = "archived"
    FORGOTTEN = "forgotten"


User: TypeAlias = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Only this user's memories.")
]
InStore: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="NAME",
        callback=store_name,
        help="Memory store (`quipu store list`); with ://, a store URL.",
    ),
]
InSession: TypeAlias = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Conversation or thread.")
]
Types: TypeAlias = Annotated[
    list[MemoryType] | None, typer.Option("--type", help="Only this type; may be repeated.")
]
Filter: TypeAlias = Annotated[
    str | None,
    typer.Option("--filter", metavar="JSON", help='Only what matches, such as \'{"topic": "food"}\'.'),
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option("--as-of", metavar="WHEN", help="As it stood: a moment, a journal position, or a run id."),
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
Approve: TypeAlias = Annotated[
    bool, typer.Option("--approve", help="Hold it until a person approves (exit code 3).")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Reason: TypeAlias = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the journal.")
]
Key: TypeAlias = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Makes a repetition harmless: same key, one effect."),
]
RecordId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="A record's id, mem_...")]
