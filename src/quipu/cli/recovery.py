"""recover: find and undo what a cause has done to memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import options, output
from quipu.cli.command import Command
from quipu.cli.session import HELD, Session

if TYPE_CHECKING:
    from quipu.model.recovery import Finding, RecoverResponse

app = typer.Typer()

_WORDS = {
    "forget": "forgotten",
    "erase": "erased",
    "revert": "as before",
    "restore": "restored",
    "quarantine": "quarantined",
    "archive": "archived",
    "leave": "left alone",
}


@app.command("recover", cls=Command, rich_help_panel="Memory")
def recover(
    ctx: typer.Context,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source", metavar="PATTERN", help="What came from there, such as 'web_*'; may be repeated."
        ),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="What a run wrote.")] = None,
    import_id: Annotated[
        str | None, typer.Option("--import", metavar="ID", help="What an import brought, imp_...")
    ] = None,
    proposal: Annotated[
        str | None, typer.Option("--proposal", metavar="ID", help="What an approved proposal did, prp_...")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="What a token or a person did, by its name.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="From then on: ISO 8601 with zone, or milliseconds."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Up to then.")] = None,
    trusted: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted", metavar="PATTERN", help="Sources that are fine; others are not. May be repeated."
        ),
    ] = None,
    confidence_below: Annotated[
        float | None, typer.Option("--confidence-below", min=0, max=1, help="Archive what is less sure.")
    ] = None,
    detectors: Annotated[
        bool,
        typer.Option("--detectors", help="Quarantine what holds instructions, secrets or personal data."),
    ] = False,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Out of sight, and a person decides whether it comes back.")
    ] = False,
    hard: Annotated[bool, typer.Option("--hard", help="Erase for good what would be forgotten.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without this, it is only shown.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="So many memories at most.")
    ] = 1_000,
    reason: options.Reason = None,
) -> None:
    """Find what a source, a run, an import, a token or a time did, and undo it.

    [bold]Examples[/bold]
      quipu recover --import imp_...                       what an import brought, only shown
      quipu recover --source 'web_*' --quarantine --apply  out of sight until a person has looked
      quipu recover --by stolen-token --since 2026-03-01T00:00:00Z --apply
      quipu recover --trusted user --trusted system --detectors

    A dry run unless --apply is given. What came is forgotten, what was changed is as before, what was taken away
    comes back; what somebody else has changed since is left alone. Causes are ANDed. Without a cause, live memories
    are looked through: a source that is not trusted is forgotten, one that is unknown or suspicious is quarantined.
    All but --hard can be undone: `quipu restore`. See also: review, history, restore.
    """
    run_of = Session.of(ctx)
    with run_of.memory(model=apply) as memory:
        answer = memory.recover(
            sources=source or (),
            run_id=run,
            import_id=import_id,
            proposal_id=proposal,
            principal=by,
            since=since,
            until=until,
            trusted=trusted or (),
            confidence_below=confidence_below,
            detectors=detectors,
            quarantine=quarantine,
            hard=hard,
            apply=apply,
            reason=reason,
            limit=limit,
        )
    if not run_of.answer_json(_body(answer)):
        _show(run_of, answer)
    if any(one.outcome == "held" and one.step.value != "quarantine" for one in answer.findings):
        raise typer.Exit(HELD)


def _body(answer: RecoverResponse) -> dict[str, Any]:
    return {
        "dry_run": answer.dry_run,
        "is_cut": answer.is_cut,
        "findings": [_finding(one) for one in answer.findings],
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "id": one.id,
        "version": one.version,
        "type": one.type,
        "content": one.content,
        "source": one.source,
        "written_by": one.written_by,
        "step": one.step.value,
        "why": one.why,
        "back_to": one.back_to,
        "outcome": one.outcome,
        "detail": one.detail,
    }


def _show(run: Session, answer: RecoverResponse) -> None:
    if not answer.findings:
        run.note("There is nothing to undo.")
        return
    columns = ["id", "step", "by", "source", "what", "why", "outcome"]
    rows = [
        [
            one.id,
            one.step.value,
            one.written_by,
            one.source or "",
            output.brief(one.content, 60),
            one.why,
            " ".join(filter(None, (one.outcome, one.detail))),
        ]
        for one in answer.findings
    ]
    columns, rows = (columns, rows) if not answer.dry_run else (columns[:-1], [row[:-1] for row in rows])
    output.console().print(output.table(columns, rows, whole=("id", "step")))
    counts = Counter(one.step.value for one in answer.findings)
    said = ", ".join(f"{counts[step]} {word}" for step, word in _WORDS.items() if counts[step])
    output.console().print(f"{'Would be' if answer.dry_run else 'Now'}: {said}.", markup=False)
    if answer.is_cut:
        run.note("There are more; run it again, or give a higher --limit.")
    if answer.dry_run:
        run.note("Nothing was changed. Add --apply to do it.")
