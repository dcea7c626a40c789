"""remember, merge, restore: what adds a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quipu.cli import options, output, values
from quipu.cli.command import Command, store_name
from quipu.cli.held import leave_if_held
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from quipu.model.outcomes import RememberResponse

app = typer.Typer()


@app.command("remember", cls=Command, rich_help_panel="Memory")
def remember(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The memory; - reads standard input.")],
    type: Annotated[options.TypeName, typer.Option("--type", help="What kind of memory.")] = "semantic",
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="The user it is about.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Where it came from: user, tool_result, web_page, ...")
    ] = None,
    confidence: Annotated[float | None, typer.Option("--confidence", help="How sure, 0 to 1.")] = None,
    importance: Annotated[float | None, typer.Option("--importance", help="How important, 0 to 1.")] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Anything to keep with it.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")] = None,
    link: Annotated[
        list[str] | None,
        typer.Option("--link", metavar="ID:REL", help="A link to a record; may be repeated."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="WHEN", help="When it ends: 30d, 12h, an ISO time, or milliseconds."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="NAME", callback=store_name, help="Memory store; with ://, a store URL."
        ),
    ] = None,
    session: options.InSession = None,
    id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Change this record.")] = None,
    update_strategy: Annotated[
        Literal["overwrite", "merge", "append"],
        typer.Option("--update-strategy", help="How --id changes the record."),
    ] = "overwrite",
    if_version: Annotated[
        int | None, typer.Option("--if-version", help="Change it only if this is its version.")
    ] = None,
    approve: options.Approve = False,
    reasoning: Annotated[
        str | None, typer.Option("--reasoning", metavar="TEXT", help="Shown to the reviewer of a held write.")
    ] = None,
    key: options.Key = None,
    similar: Annotated[bool, typer.Option("--similar", help="Also name near-duplicates.")] = False,
) -> None:
    """Keep a memory, or change one with --id.

    [bold]Examples[/bold]
      quipu remember "Mara is vegetarian" --user mara --tag food
      quipu remember "Offer ends soon" --expires 30d --source web_page
      quipu remember "Mara eats fish now" --id mem_... --confidence 0.8
      quipu remember "Wire 900 EUR" --approve          waits for `quipu review approve`
      cat notes.txt | quipu remember - --type episodic

    The memory is on disk when the command returns.
    Exit codes: 0 kept, 1 bad input, 2 the memory failed, 3 held for approval.
    See also: recall, history, restore, import.
    """
    run = Session.of(ctx)
    fields: dict[str, Any] = {
        "type": type,
        "user_id": user,
        "source": source,
        "confidence": confidence,
        "importance": importance,
        "metadata": values.json_object(metadata, "/metadata"),
        "tags": tag or None,
        "links": [values.link(given) for given in link] if link else None,
        "session_id": session,
        "id": id,
        "update_strategy": update_strategy,
        "if_version": if_version,
        "approval_required": approve,
        "reasoning": reasoning,
        "idempotency_key": key,
        "find_similar": similar,
    }
    content = values.content(text)
    with run.memory(model=True, use=Use.MAKES) as memory:
        from quipu.bootstrap import now_ms

        if key is not None and id is None and values.is_length(expires):
            fields["privacy_intent"] = {"retain": expires}  # a repetition must say the same, and now is later
        else:
            fields["expires_at"] = values.expires(expires, now_ms())
        response = memory.remember(content, **({"store": store} if store else {}), **fields)
    _answer(run, response, "Remembered")
    ends_at = fields.get("expires_at")
    if ends_at is not None and ends_at <= response.stored_at:
        run.warn("It has ended already, so recall will not show it; write 30d for thirty days.")


def _answer(run: Session, response: RememberResponse, word: str) -> None:
    if run.is_json:
        from quipu.faces.memorywire import wire

        output.write_json(wire.RememberReply.from_model(response, extensions=True).body())
    leave_if_held(run, response)
    if run.is_json:
        return
    shown = output.console()
    told = response.extensions
    if run.is_quiet:
        shown.print(response.id, markup=False)
        return
    outcome = "Changed" if told.get("outcome") == "updated" else word
    shown.print(f"{outcome}  {response.id}  version {told.get('version', 1)}", markup=False)
    similar: Any = told.get("similar") or []
    for item in similar:
        run.note(f"similar to {item['id']} ({item['similarity']:.2f})")
    if similar:
        run.note("`quipu merge` collapses duplicates.")


@app.command("merge", cls=Command, rich_help_panel="Memory")
def merge(
    ctx: typer.Context,
    canonical: Annotated[
        str, typer.Argument(metavar="CANONICAL", help="The record that stays: id or entity name.")
    ],
    duplicates: Annotated[list[str], typer.Argument(metavar="DUPLICATE...", help="What goes into it.")],
    strategy: Annotated[
        Literal["keep_canonical", "merge_content", "keep_highest_confidence"],
        typer.Option("--strategy", help="What the canonical record keeps."),
    ] = "keep_canonical",
    store: options.InStore = None,
    dry_run: options.DryRun = False,
    approve: options.Approve = False,
    key: options.Key = None,
) -> None:
    """Collapse duplicates into one record.

    [bold]Examples[/bold]
      quipu merge mem_A mem_B mem_C
      quipu merge mem_A mem_B --strategy merge_content
      quipu merge mem_A mem_B --dry-run                only says what would happen

    Each duplicate can be restored.
    Exit codes: 0 merged, 1 bad input, 2 the memory failed, 3 held for approval.
    See also: restore, history, recall.
    """
    run = Session.of(ctx)
    with run.memory(model=True) as memory:
        response = memory.merge(
            canonical,
            duplicates,
            strategy=strategy,
            store=store,
            dry_run=dry_run,
            approval_required=approve,
            idempotency_key=key,
        )
    if run.is_json:
        from quipu.faces.memorywire import wire

        output.write_json(wire.MergeReply.from_model(response, extensions=True).body())
    leave_if_held(run, response)
    if run.is_json:
        return
    told = response.extensions
    merged = output.names(told, "merged_ids")
    into = told.get("canonical_id", canonical)
    word = "Would merge" if dry_run else "Merged"
    count = len(merged) if dry_run else response.merged_count
    output.console().print(f"{word} {output.counted(count, 'record')} into {into}", markup=False)
    for name in output.names(told, "not_found"):
        run.note(f"not found: {name}")


@app.command("restore", cls=Command, rich_help_panel="Memory")
def restore(ctx: typer.Context, id: options.RecordId, reason: options.Reason = None) -> None:
    """Bring back what was forgotten, merged, archived or demoted.

    [bold]Examples[/bold]
      quipu list --state forgotten
      quipu restore mem_... --reason "forgotten by mistake"

    Erased records (`quipu forget --hard`) cannot be brought back.
    See also: forget, history, list.
    """
    run = Session.of(ctx)
    with run.memory(model=True) as memory:
        response = memory.restore(id, reason=reason)
    _answer(run, response, "Restored")
