"""audit: the journal, its proofs and its keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from quipu.cli import output, proof
from quipu.cli.command import Command, Group
from quipu.cli.exporting import Force, write_journal
from quipu.cli.session import Session
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.journal import Entry

app = typer.Typer(name="audit", cls=Group, no_args_is_help=True)

_PAGE = 1000
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: So much of a hash tells it apart.
_SHOWN = 12


@app.callback(cls=Group, rich_help_panel="Proof")
def audit() -> None:
    """Read the journal, check it, and take it away to be checked elsewhere.

    [bold]Example[/bold]
      quipu audit log --limit 50
      quipu audit verify
      quipu audit export proof/

    The journal holds no memory text; an export holds the memories too.
    """


@app.command("verify", cls=Command)
def verify(
    ctx: typer.Context, export: proof.Export = None, keys: proof.Keys = None, kept: proof.Kept = None
) -> None:
    """Check that nothing was altered; the same as `quipu verify`.

    [bold]Examples[/bold]
      quipu audit verify
      quipu audit verify --export proof/ --keys trusted.json

    Exit codes: 0 all holds, 1 not all could be checked (a key, a signature, the records or the memory is missing), 2 a fault.
    See also: audit export, audit keys, doctor.
    """
    proof.verify(ctx, export, keys, kept)


@app.command("export", cls=Command)
def export(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder to write into.")],
    force: Force = False,
) -> None:
    """Write the journal and its proofs into a folder.

    [bold]Example[/bold]
      quipu audit export proof/
      quipu verify --export proof/

    The same as `quipu export --journal`. See also: audit verify, audit keys.
    """
    write_journal(Session.of(ctx), folder, force=force)


@app.command("keys", cls=Command)
def keys(ctx: typer.Context) -> None:
    """Print the public key that signs the journal, as JSON.

    [bold]Example[/bold]
      quipu audit keys > trusted.json
      quipu verify --export proof/ --keys trusted.json

    Keep it somewhere else. See also: verify, export --journal.
    """
    with Session.of(ctx).memory() as memory:
        output.write_json(dict(memory.signing_keys()))


@app.command("log", cls=Command)
def log(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many entries.")] = 20,
    after: Annotated[
        int | None,
        typer.Option("--after", min=0, help="Begin behind this position; without it the newest are shown."),
    ] = None,
    op: Annotated[str | None, typer.Option("--op", help="Only this operation, such as forget.")] = None,
    record: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Only what concerns this record.")
    ] = None,
) -> None:
    """Show the journal: what happened, who did it, to which records.

    [bold]Examples[/bold]
      quipu audit log
      quipu audit log --op forget --limit 100
      quipu audit log --id mem_... --after 0

    It holds no memory text. See also: history, verify.
    """
    run = Session.of(ctx)
    _check_operation(op)
    with run.memory() as memory:
        head = cast("int", memory.health()["seq"])
        is_narrowed = op is not None or record is not None
        place = after if after is not None else 0 if is_narrowed else max(0, head - limit)
        found: list[Entry] = []
        while place < head and (page := memory.journal(after=place, limit=_PAGE)):
            place = page[-1].seq
            found += [entry for entry in page if _concerns(entry, op, record)]
            if after is not None and len(found) >= limit:
                break
    found = found[:limit] if after is not None else found[-limit:]
    if run.answer_json({"entries": [_body(entry) for entry in found], "head": head}):
        return
    if not found:
        run.note("No entries.")
        return
    columns = ["seq", "when", "op", "actor", "agent", "records", "detail", "hash"]
    rows = [
        [e.seq, output.when(e.at), e.op.value, e.actor, e.agent, _records(e), _detail(e), e.hash[:_SHOWN]]
        for e in found
    ]
    output.console().print(output.table(columns, rows, whole=("seq", "when", "op", "hash")))


def _check_operation(op: str | None) -> None:
    """A word that is no operation would find nothing, and say so as if nothing had happened."""
    from quipu.model.journal import Op
    from quipu.rules.nearest import nearest

    known = [one.value for one in Op]
    if op is not None and op not in known:
        near = nearest(op, known)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Accepted: {', '.join(known)}."
        raise InvalidError.at("/op", "bad_value", "The journal knows no such operation.", hint=hint)


def _concerns(entry: Entry, op: str | None, record: str | None) -> bool:
    return (op is None or entry.op.value == op) and (
        record is None or any(mention.id == record for mention in entry.records)
    )


def _records(entry: Entry) -> str | None:
    ids = [mention.id for mention in entry.records]
    if not ids:
        return None
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def _detail(entry: Entry) -> str | None:
    return ", ".join(f"{name} {_said(value)}" for name, value in entry.detail.items()) or None


def _said(value: object) -> str:
    """A value as a person writes it; a digest by its beginning, as the hash beside it."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value[:_SHOWN]
    if isinstance(value, (list, tuple)):
        return " and ".join(str(one) for one in cast("list[object]", value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _body(entry: Entry) -> dict[str, Any]:
    from quipu.rules.chain import entry_body

    return {**entry_body(entry), "hash": entry.hash}
