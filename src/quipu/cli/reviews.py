"""review: writes that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quipu.cli import options, output
from quipu.cli.command import Command, Group
from quipu.cli.held import proposal_id
from quipu.cli.session import Session
from quipu.errors import NotFoundError

if TYPE_CHECKING:
    from quipu.model.change import Proposal
    from quipu.sync import Memory

app = typer.Typer(name="review", cls=Group, no_args_is_help=True)

ProposalId = Annotated[
    str, typer.Argument(metavar="PROPOSAL", help="prp_..., or the address quipu:proposal/prp_...")
]
#: Of the service alone; the wire does not know them.
_INNER = frozenset({"if_version", "finds_similar", "run_id", "node_id", "details"})


@app.callback(cls=Group, rich_help_panel="Memory")
def review() -> None:
    """Decide on writes that were held for a person.

    [bold]Example[/bold]
      quipu remember "Wire 900 EUR" --approve
      quipu review list
      quipu review approve prp_...

    A held write is in no search and no mirror until it is approved.
    """


@app.command("list", cls=Command)
def list_reviews(
    ctx: typer.Context,
    status: Annotated[
        Literal["pending", "approved", "rejected", "all"], typer.Option("--status", help="How they stand.")
    ] = "pending",
) -> None:
    """List held writes.

    [bold]Examples[/bold]
      quipu review list
      quipu review list --status all

    See also: review show, review approve, review reject.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        found = memory.proposals(None if status == "all" else status)
    if run.answer_json({"reviews": [_body(proposal) for proposal in found], "next_cursor": None}):
        return
    if not found:
        run.note("Nothing waits for approval.")
        return
    columns = ["id", "operation", "agent", "writer", "status", "since", "what"]
    rows = [
        [p.id, p.operation, p.agent_id, p.writer, p.status, output.when(p.created_at), _what(p)]
        for p in found
    ]
    output.console().print(output.table(columns, rows, whole=("id", "operation", "status", "since")))


@app.command("show", cls=Command)
def show(ctx: typer.Context, proposal: ProposalId) -> None:
    """Show one held write: the request, who wants it, and until when it waits.

    [bold]Example[/bold]
      quipu review show prp_...

    See also: review approve, review reject.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        found = _found(memory, proposal_id(proposal))
    body = _body(found)
    if run.answer_json(body):
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in {**body, **body["request"]}.items():
        if name == "request" or value is None:
            continue
        said = output.when(value) if name.endswith("_at") and isinstance(value, int) else value
        grid.add_row(name, Text(said if isinstance(said, str) else output.json_line(said)))
    output.console().print(grid)


@app.command("approve", cls=Command)
def approve(ctx: typer.Context, proposal: ProposalId, reason: options.Reason = None) -> None:
    """Approve a held write, which carries it out.

    [bold]Example[/bold]
      quipu review approve prp_... --reason "checked with Mara"

    See also: review show, review reject.
    """
    _decide(Session.of(ctx), proposal_id(proposal), approved=True, reason=reason)


@app.command("reject", cls=Command)
def reject(ctx: typer.Context, proposal: ProposalId, reason: options.Reason = None) -> None:
    """Reject a held write; nothing is written.

    [bold]Example[/bold]
      quipu review reject prp_... --reason "not ours to keep"

    See also: review show, review approve.
    """
    _decide(Session.of(ctx), proposal_id(proposal), approved=False, reason=reason)


def _decide(run: Session, name: str, *, approved: bool, reason: str | None) -> None:
    with run.memory(model=approved) as memory:
        memory.decide(name, approved=approved, reason=reason)
        settled = _found(memory, name)
    decision = {
        "approved": approved,
        "reviewer": settled.reviewer,
        "reviewed_at": settled.reviewed_at,
        "reason": settled.reason,
    }
    if not run.answer_json(decision):
        word = "Approved" if approved else "Rejected"
        of = f"  {settled.record_id}" if approved and settled.record_id else ""
        output.console().print(f"{word} {settled.operation} {name}{of}", markup=False)


def _found(memory: Memory, name: str) -> Proposal:
    for proposal in memory.proposals(None):
        if proposal.id == name:
            return proposal
    raise NotFoundError("There is no such proposal.", reason="proposal")


def _body(proposal: Proposal) -> dict[str, Any]:
    """A review as the wire shows it."""
    given: dict[str, Any] = dict(proposal.request)
    details: dict[str, Any] = given.get("details") or {}
    request = {name: value for name, value in given.items() if name not in _INNER and value is not None}
    return {
        "id": proposal.id,
        "operation": proposal.operation,
        "agent_id": proposal.agent_id,
        "status": proposal.status,
        "writer": proposal.writer,
        "held_by": list(proposal.held_by),
        "created_at": proposal.created_at,
        "lapses_at": proposal.lapses_at,
        "reasoning": given.get("reasoning"),
        "request": {**request, **details},
    }


def _what(proposal: Proposal) -> str:
    """The request in a few words."""
    request: Any = proposal.request
    match proposal.operation:
        case "remember":
            return output.brief(request.get("content") or "", 80)
        case "merge":
            return f"into {request.get('canonical')}"
        case _:
            ids = output.names(request, "ids")
            return output.counted(len(ids), "record") if ids else output.json_line(request.get("filter"))
