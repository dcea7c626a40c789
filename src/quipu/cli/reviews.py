"""review: writes that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quipu.cli import options, output, values
from quipu.cli.command import Command, Group
from quipu.cli.held import proposal_id
from quipu.cli.reviews_shown import seen_body, shown_review
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.model.operations import MergeStrategy

if TYPE_CHECKING:
    from quipu.model.change import Proposal
    from quipu.sync import Memory

app = typer.Typer(name="review", cls=Group, invoke_without_command=True)

ProposalId = Annotated[
    str, typer.Argument(metavar="PROPOSAL", help="prp_..., or the address quipu:proposal/prp_...")
]
ProposalIds = Annotated[
    list[str], typer.Argument(metavar="PROPOSAL...", help="prp_..., or addresses quipu:proposal/prp_...")
]
Etag = Annotated[
    str | None,
    typer.Option("--etag", metavar="ETAG", help="What you saw, as `review show` names it."),
]
#: Of the service alone; the wire does not know them.
_INNER = frozenset({"if_version", "finds_similar", "run_id", "node_id", "details"})


@app.callback(cls=Group, rich_help_panel="Memory", invoke_without_command=True)
def review(ctx: typer.Context) -> None:
    """Decide on writes that were held for a person.

    [bold]Example[/bold]
      quipu remember "Wire 900 EUR" --approve
      quipu review                         one after the other, each decided with a key
      quipu review list
      quipu review approve prp_...

    A held write is in no search and no mirror until it is approved.
    """
    if ctx.invoked_subcommand is not None:
        return
    if not Session.of(ctx).may_ask:
        output.console().print(ctx.get_help(), markup=False)
        return
    _sit(Session.of(ctx))


@app.command("desk", cls=Command)
def desk(ctx: typer.Context) -> None:
    """Work through what waits, one after the other, each decided with a key.

    [bold]Example[/bold]
      quipu review desk

    a approves, r rejects, e edits first, m merges into the first that is alike, s supersedes it, n goes on, q stops.
    On a terminal `quipu review` does the same. See also: review list, review show.
    """
    _sit(Session.of(ctx))


def _sit(run: Session) -> None:
    from quipu.cli.reviews_desk import Desk

    with run.memory(model=True, use=Use.READS) as memory:
        decided = Desk(run, memory, _body).work()
    output.console().print(f"{output.counted(decided, 'decision')} made.", markup=False)


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
    with run.memory(use=Use.READS) as memory:
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
    """Show one held write: what it would change, what is like it, and why it waits.

    [bold]Example[/bold]
      quipu review show prp_...

    The etag names what is shown. Give it to `review approve --etag`, and nothing is decided if that has changed.
    See also: review approve, review edit, review reject.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        seen = memory.review(proposal_id(proposal))
    if run.answer_json({**_body(seen.proposal), **seen_body(seen)}):
        return
    shown_review(seen, _body(seen.proposal))


@app.command("approve", cls=Command)
def approve(
    ctx: typer.Context, proposals: ProposalIds, reason: options.Reason = None, etag: Etag = None
) -> None:
    """Approve held writes, which carries them out.

    [bold]Examples[/bold]
      quipu review approve prp_... --reason "checked with Mara"
      quipu review approve prp_1... prp_2... prp_3...

    Each is decided for itself. See also: review show, review edit, review merge, review supersede.
    """
    _decide_all(Session.of(ctx), proposals, approved=True, reason=reason, etag=etag)


@app.command("reject", cls=Command)
def reject(ctx: typer.Context, proposals: ProposalIds, reason: options.Reason = None) -> None:
    """Reject held writes; nothing is written.

    [bold]Examples[/bold]
      quipu review reject prp_... --reason "not ours to keep"
      quipu review reject prp_1... prp_2...

    See also: review show, review approve.
    """
    _decide_all(Session.of(ctx), proposals, approved=False, reason=reason)


@app.command("edit", cls=Command)
def edit(
    ctx: typer.Context,
    proposal: ProposalId,
    content: Annotated[
        str | None, typer.Option("--content", metavar="TEXT", help="What is remembered instead.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Its tags instead; may be repeated.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", min=0, max=1, help="How sure it is instead.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Its metadata instead.")
    ] = None,
    reason: options.Reason = None,
    etag: Etag = None,
) -> None:
    """Approve a memory with changes of your own.

    [bold]Example[/bold]
      quipu review edit prp_... --content "Mara is vegetarian" --confidence 0.8

    What you do not give stays as it was proposed. It is checked for secrets again.
    See also: review show, review approve.
    """
    from quipu.model.governance import Edit

    changes = Edit(
        content=content,
        tags=None if tags is None else tuple(tags),
        confidence=confidence,
        metadata=None if metadata is None else values.json_object(metadata, "--metadata"),
    )
    if changes == Edit():
        raise InvalidError(
            "Nothing is edited.", reason="usage", hint="Give --content, --tag, --confidence or --metadata."
        )
    _decide(Session.of(ctx), proposal_id(proposal), approved=True, reason=reason, etag=etag, edit=changes)


@app.command("merge", cls=Command)
def merge(
    ctx: typer.Context,
    proposal: ProposalId,
    into: Annotated[str, typer.Argument(metavar="RECORD", help="The memory it is merged into, mem_...")],
    strategy: Annotated[
        MergeStrategy, typer.Option("--strategy", help="What the memory keeps of it.")
    ] = MergeStrategy.MERGE_CONTENT,
    reason: options.Reason = None,
    etag: Etag = None,
) -> None:
    """Approve a memory by merging it into one that is there.

    [bold]Example[/bold]
      quipu review merge prp_... mem_...

    See also: review show, review supersede, merge.
    """
    said: dict[str, Any] = {"merge_into": into, "strategy": strategy}
    _decide(Session.of(ctx), proposal_id(proposal), approved=True, reason=reason, etag=etag, **said)


@app.command("supersede", cls=Command)
def supersede(
    ctx: typer.Context,
    proposal: ProposalId,
    records: Annotated[list[str], typer.Argument(metavar="RECORD...", help="What it takes the place of.")],
    reason: options.Reason = None,
    etag: Etag = None,
) -> None:
    """Approve a memory and forget what it takes the place of, in one step.

    [bold]Example[/bold]
      quipu review supersede prp_... mem_... --reason "she moved"

    What is forgotten can be restored. See also: review show, review merge, restore.
    """
    said: dict[str, Any] = {"supersedes": records}
    _decide(Session.of(ctx), proposal_id(proposal), approved=True, reason=reason, etag=etag, **said)


def _decide_all(run: Session, names: list[str], **said: Any) -> None:
    """Each for itself; the first that fails is told at the end, after the others were tried."""
    if len(names) == 1:
        return _decide(run, proposal_id(names[0]), **said)
    failures: list[QuipuError] = []
    decisions: list[dict[str, Any]] = []
    with run.memory(model=said["approved"]) as memory:
        for name in dict.fromkeys(proposal_id(given) for given in names):
            try:
                memory.decide(name, **said)
            except QuipuError as error:
                failures.append(error)
                decisions.append({"id": name, "error": error.reason or error.code})
            else:
                decisions.append({"id": name, **_decision(_found(memory, name), approved=said["approved"])})
    if not run.answer_json({"decisions": decisions}):
        for one in decisions:
            word = one.get("error") or ("approved" if one["approved"] else "rejected")
            output.console().print(f"{one['id']}  {word}", markup=False)
    if failures:
        raise failures[0]
    return None


def _decide(run: Session, name: str, *, approved: bool, **said: Any) -> None:
    with run.memory(model=approved) as memory:
        memory.decide(name, approved=approved, **said)
        settled = _found(memory, name)
    if run.answer_json(_decision(settled, approved=approved)):
        return
    if settled.status == "pending":
        output.console().print(f"Agreed to {settled.operation} {name}", markup=False)
        run.note(f"It waits for others: {len(settled.given)} of {settled.approvals} have agreed.")
        return
    word = "Approved" if approved else "Rejected"
    of = f"  {settled.record_id}" if approved and settled.record_id else ""
    output.console().print(f"{word} {settled.operation} {name}{of}", markup=False)


def _decision(settled: Proposal, *, approved: bool) -> dict[str, Any]:
    last = settled.given[-1] if settled.status == "pending" and settled.given else None
    return {
        "approved": approved,
        "reviewer": settled.reviewer if last is None else last.reviewer,
        "reviewed_at": settled.reviewed_at if last is None else last.at,
        "reason": settled.reason,
    }


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
        **({} if proposal.because is None else {"because": proposal.because}),
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
