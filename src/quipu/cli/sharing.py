"""share: lend a slice of memory to somebody outside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quipu.cli import lending, options, output
from quipu.cli.command import Command
from quipu.cli.session import Session, Use

app = typer.Typer()


@app.command("share", cls=Command, rich_help_panel="Lending")
def share(
    ctx: typer.Context,
    grantee: Annotated[
        str, typer.Argument(metavar="DID", help="Whom to lend to, such as did:web:example.org.")
    ],
    purpose: Annotated[
        str, typer.Option("--purpose", metavar="TEXT", help="What it is for; signed with it.")
    ],
    labels: lending.Labels = None,
    kinds: lending.Kinds = None,
    subjects: lending.Subjects = None,
    everything: lending.Everything = False,
    scope: lending.Scope = "personal",
    level: lending.Level = None,
    profile: lending.Profile = None,
    days: Annotated[int, typer.Option("--days", min=1, max=180, help="How long the grant lasts.")] = 30,
    most: Annotated[
        int, typer.Option("--most", min=1, help="How many different items it shows at most.")
    ] = 500,
    with_vectors: Annotated[
        bool, typer.Option("--vectors", help="Also lend embeddings of what is shown.")
    ] = False,
    bearer: Annotated[
        bool, typer.Option("--bearer", help="Let whoever holds the token use it, without a proof of the key.")
    ] = False,
    dry_run: options.DryRun = False,
) -> None:
    """Lend a slice of memory to somebody outside, until it ends or you take it back.

    [bold]Examples[/bold]
      quipu share did:web:contractor.example --label website_redesign --purpose "Brief the contractor" --dry-run
      quipu share did:web:contractor.example --label website_redesign --purpose "Brief the contractor"

    What is shown depends on --level: without it, 1, structure is shown and free text
    is left out. --dry-run shows exactly what they would see, and signs nothing.
    See also: grant list, grant revoke, grant seen.
    """
    run = Session.of(ctx)
    draft: dict[str, Any] = {
        "grantee": grantee,
        "purpose": purpose,
        "filter": lending.filter_of(labels, kinds, subjects, everything=everything),
        "scope_id": scope,
        "max_items": most,
    }
    if level is not None:
        draft["trust_level"] = level
    if profile is not None:
        draft["redaction_profile"] = profile
    if with_vectors:
        draft["scopes"] = ["memory.query", "memory.embeddings"]
    if bearer:
        draft["binding"] = "bearer"
    if dry_run:
        shown = lending.lending(
            run, lambda sharing, who: sharing.disclosing.preview(who, draft), use=Use.READS
        )
        _tell_preview(run, shown)
        return
    kept = lending.lending(
        run, lambda sharing, who: sharing.grants.issue_for(who, draft, days), use=Use.MAKES
    )
    if run.answer_json({"grant": kept.body, "status": kept.status.value}):
        return
    console = output.console()
    console.print(f"Lent to {grantee} as {kept.id}, until {output.when(kept.expires_at)}", markup=False)
    console.print(f"Take it back: quipu grant revoke {kept.id}", markup=False)


def _tell_preview(run: Session, shown: list[dict[str, Any]]) -> None:
    if run.answer_json({"items": shown}):
        return
    console = output.console()
    console.print(f"They would see {output.counted(len(shown), 'item')}:", markup=False)
    rows = [
        [item["item_id"], item["kind"], output.brief(item["content"].get("text", "(no text)"))]
        for item in shown
    ]
    console.print(output.table(["id", "kind", "as they see it"], rows, empty="They would see nothing."))
