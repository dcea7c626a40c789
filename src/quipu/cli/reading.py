"""show, list, history: reads that do not rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import options, output, values
from quipu.cli.command import Command
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quipu.model.record import Record
    from quipu.sync import Memory

app = typer.Typer()


def _store_names(memory: Memory) -> dict[str, str]:
    return {store.id: store.name for store in memory.list_stores()}


@app.command("show", cls=Command, rich_help_panel="Memory")
def show(ctx: typer.Context, id: options.RecordId, as_of: options.AsOf = None) -> None:
    """Show one record whole, as it stands or stood.

    [bold]Examples[/bold]
      quipu show mem_...
      quipu show mem_... --as-of 2026-01-31T09:00
      quipu show mem_... --as-of 42                    at a journal position

    See also: history, list, recall.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        record = memory.get(id, as_of=values.as_of(as_of))
        names = _store_names(memory)
    body = _body(record, names)
    if run.answer_json(body):
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in body.items():
        if value in ({}, []) or name == "content":
            continue
        is_time = name.endswith("_at") or name == "event_time"
        grid.add_row(name, Text(output.when(value) if is_time else _said(value)))
    shown = output.console()
    shown.print(Text(output.text(body["content"])), soft_wrap=not shown.is_terminal)
    shown.print()
    shown.print(grid)


def _said(value: Any) -> str:
    return output.clean(value if isinstance(value, str) else output.json_line(value))


def _body(record: Record, names: Mapping[str, str]) -> dict[str, Any]:
    from quipu.faces.memorywire.wire_shown import record_body

    return dict(record_body(record, names.get(record.store_id, "main")))


@app.command("list", cls=Command, rich_help_panel="Memory")
def list_records(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, 1 to 1000.")] = 20,
    user: options.User = None,
    session: options.InSession = None,
    store: options.InStore = None,
    type: options.Types = None,
    state: Annotated[
        list[options.StateName] | None, typer.Option("--state", help="In this state; may be repeated.")
    ] = None,
    filter: options.Filter = None,
    as_of: options.AsOf = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the last page ended.")
    ] = None,
    all_agents: Annotated[bool, typer.Option("--all-agents", help="Of every agent.")] = False,
) -> None:
    """List records, newest first.

    [bold]Examples[/bold]
      quipu list
      quipu list --user mara --type semantic --limit 100
      quipu list --state forgotten                     what restore can bring back
      quipu list --filter '{"tags": "food"}' --as-of 2026-01-31

    See also: show, recall, export.
    """
    run = Session.of(ctx)
    chosen = values.json_object(filter, "/filter")
    with run.memory(use=Use.READS) as memory:
        page = memory.list(
            limit=limit,
            user_id=user,
            session_id=session,
            store=store,
            types=type,
            states=state or ["live"],
            filter=chosen,
            as_of=values.as_of(as_of),
            cursor=cursor,
            all_agents=all_agents,
        )
        elsewhere: str | None = None
        if not page.records and not all_agents and not run.is_json:
            from quipu.cli import others

            elsewhere = others.advice(run, memory)
    if run.is_json:
        records = [_listed(record, page.store_names) for record in page.records]
        output.write_json({"records": records, "next_cursor": page.next_cursor})
        return
    if not page.records:
        is_narrowed = any((user, session, store, type, state, chosen, as_of, cursor))
        empty = "No records match." if is_narrowed else "No records. `quipu remember` keeps one."
        run.note(elsewhere or empty)
        return
    columns = ["id", "type", "memory", "user", "created", "state", "agent"]
    hidden = {name for name, is_shown in (("state", state), ("agent", all_agents)) if not is_shown}
    columns = [name for name in columns if name not in hidden]
    rows = [[_column(record, name) for name in columns] for record in page.records]
    output.console().print(output.table(columns, rows, whole=("id", "type", "created")))
    if page.next_cursor:
        run.note(f"There are more: --cursor {page.next_cursor}")


def _listed(record: Record, names: Mapping[str, str]) -> dict[str, Any]:
    return {**_body(record, names), "state": record.standing.value}


def _column(record: Record, name: str) -> str | None:
    match name:
        case "memory":
            return output.brief(_content(record))
        case "created":
            return output.when(record.created_at)
        case "state":
            return record.standing.value
        case "agent":
            return record.agent_id
        case "user":
            return record.user_id
        case _:
            return str(getattr(record, name))


def _content(record: Record) -> str:
    return "(erased)" if record.is_emptied else record.content


@app.command("history", cls=Command, rich_help_panel="Memory")
def history(ctx: typer.Context, id: options.RecordId) -> None:
    """Show every version of a record, oldest first.

    [bold]Examples[/bold]
      quipu history mem_...
      quipu show mem_... --as-of 17                    at a position shown

    See also: show, restore, audit log.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        versions = memory.history(id)
        names = _store_names(memory)
    if run.is_json:
        from quipu.faces.memorywire.wire_past import version_body

        told = [version_body(version, names.get(version.record.store_id, "main")) for version in versions]
        output.write_json({"id": id, "versions": told})
        return
    rows = [
        [
            version.record.version,
            version.record.standing.value
            if version.record.died is None
            else version.record.ending or "replaced",
            version.record.born,
            version.record.died,
            output.when(version.record.updated_at),
            output.brief(_content(version.record)),
            version.reason,
        ]
        for version in versions
    ]
    columns = ["version", "state", "from", "until", "written", "memory", "why"]
    shown = output.console()
    shown.print(id, markup=False)
    shown.print(output.table(columns, rows, whole=("version", "state", "from", "until", "written")))
