"""changes: what happens to memories, as it happens."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import options, output, streams
from quipu.cli.command import Command
from quipu.cli.session import Session

if TYPE_CHECKING:
    from quipu.model.feed import FeedEvent

app = typer.Typer()

_SHOWN = 3


@app.command("changes", cls=Command, rich_help_panel="Memory")
def changes(
    ctx: typer.Context,
    since: Annotated[
        int | None,
        typer.Option(
            "--since", min=0, metavar="SEQ", help="The last position you have seen; else from now on."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="End after so many changes.")
    ] = None,
    type: options.Types = None,
    store: options.InStore = None,
    all_agents: Annotated[bool, typer.Option("--all-agents", help="Of every agent.")] = False,
) -> None:
    """Follow what happens to memories, until you press Ctrl-C.

    [bold]Examples[/bold]
      quipu changes
      quipu changes --since 42 --limit 10 --json
      quipu changes --server https://memory.example.org --all-agents

    Changes are told without their text; `quipu show` reads it. Go on later with --since and the last
    position that was shown: nothing is lost, nothing is repeated.
    See also: audit log, history, show.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        for event in islice(
            memory.changes(since=since, store=store, types=type, all_agents=all_agents), limit
        ):
            if run.is_json:
                output.write_line(_body(event))
            else:
                output.console().print(_said(event), markup=False, highlight=False)
            streams.flush()
            streams.check_reader()


def _said(event: FeedEvent) -> str:
    ids = [record.id for record in event.records]
    more = [f"and {len(ids) - _SHOWN} more"] if len(ids) > _SHOWN else []
    facts = [
        f"{event.seq:>6}",
        output.when(event.at),
        event.op.value,
        event.agent_id or "several agents",
        *([] if event.store in (None, "main") else [f"store {event.store}"]),
        *ids[:_SHOWN],
        *more,
        *([] if event.cause is None else [f"({event.cause})"]),
    ]
    return output.clean("  ".join(facts))


def _body(event: FeedEvent) -> dict[str, Any]:
    """An event as the wire has it."""
    return {
        "seq": event.seq,
        "at": event.at,
        "op": event.op.value,
        "agent_id": event.agent_id,
        "store": event.store,
        "records": [
            {"id": record.id, "version": record.version, "type": record.type.value}
            for record in event.records
        ],
        "cause": event.cause,
    }
