"""recall: find what answers a question, or say that nothing does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quipu.cli import options, output, values
from quipu.cli.command import Command
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from quipu.model.outcomes import Hit, RecallResponse

app = typer.Typer()


def _floors() -> list[str]:
    return ["auto", "strict", "off"]


@app.command("recall", cls=Command, rich_help_panel="Memory")
def recall(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="TEXT", help="The question; - reads standard input.")],
    k: Annotated[int, typer.Option("-k", help="At most so many, 1 to 1000.")] = 5,
    type: options.Types = None,
    user: options.User = None,
    filter: options.Filter = None,
    min_relevance: Annotated[
        str,
        typer.Option(
            "--min-relevance",
            metavar="FLOOR",
            autocompletion=_floors,
            help="Leave weaker hits out: auto, strict, off, or 0 to 1.",
        ),
    ] = "auto",
    as_of: options.AsOf = None,
    fusion: Annotated[
        Literal["rrf", "max", "weighted"], typer.Option("--fusion", help="How rankings become one.")
    ] = "rrf",
    hops: Annotated[int, typer.Option("--hops", help="Lift hits linked to others, 0 to 3 steps.")] = 0,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Budget for the text.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each hit is there.")] = False,
    session: options.InSession = None,
    store: options.InStore = None,
    fresher_than_days: Annotated[
        int | None, typer.Option("--fresher-than-days", help="Only what is younger.")
    ] = None,
) -> None:
    """Find the memories that answer a question, best first.

    [bold]Examples[/bold]
      quipu recall "what does Mara eat?"
      quipu recall "deliveries" -k 20 --type emotional --user mara
      quipu recall "budget" --filter '{"year": {"$gte": 2025}}'
      quipu recall "address" --as-of 2026-01-31        what was known then
      quipu recall "plan" --explain --min-relevance off

    Relevance runs from 0 to 1. That nothing matches is an answer: exit code 0.
    See also: remember, list, show.
    """
    run = Session.of(ctx)
    question = values.content(query)
    chosen = values.json_object(filter, "/filter")
    with run.memory(model=True, use=Use.READS) as memory:
        response = memory.recall(
            question,
            k=k,
            types=type,
            user_id=user,
            filter=chosen,
            min_relevance=values.floor(min_relevance),
            as_of=values.as_of(as_of),
            fusion=fusion,
            hops=hops,
            max_tokens=max_tokens,
            explain=explain,
            session_id=session,
            store=store,
            fresher_than_days=fresher_than_days,
        )
        elsewhere: str | None = None
        if not response.results and not run.is_json:
            from quipu.cli import others

            elsewhere = others.advice(run, memory)
    if run.is_json:
        from quipu.faces.memorywire import wire

        output.write_json(wire.RecallReply.from_model(response, extensions=True).body())
        return
    show_hits(output.console(), response)
    if not response.results and not run.is_quiet:
        below: Any = response.extensions.get("below_floor") or 0
        if below:
            run.note(
                f"{output.counted(below, 'weaker memory', 'weaker memories')}: see them with --min-relevance off."
            )
        elif elsewhere is not None:
            run.note(elsewhere)


def show_hits(shown: Console, response: RecallResponse) -> None:
    """Hits with a relevance bar each, or the plain word that there are none."""
    from rich.table import Table

    if not response.results:
        shown.print("Nothing matches.", style="yellow")
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for hit in response.results:
        grid.add_row(str(hit.rank), output.share_bar(hit.relevance), _memory_of(hit))
    shown.print(grid)


def _memory_of(hit: Hit) -> Text:
    """The text, and under it where it comes from."""
    from rich.text import Text

    facts = [
        hit.id,
        hit.type.value,
        f"user {hit.user_id}" if hit.user_id is not None else "",
        output.when(hit.created_at),
    ]
    facts += [
        f"source {hit.source}" if hit.source else "",
        f"store {hit.store}" if hit.store != "main" else "",
    ]
    facts += [word for word in ("demoted", "redacted", "truncated") if getattr(hit, word)]
    if hit.confidence < 1:
        facts.append(f"confidence {hit.confidence:g}")
    if hit.supporting:
        facts.append(f"supported by {', '.join(hit.supporting)}")
    lines = Text(output.text(hit.content))
    lines.append("\n" + output.clean(" · ".join(fact for fact in facts if fact)), style="dim")
    if hit.why is not None:
        lines.append("\n" + _why(hit.why), style="cyan")
    return lines


def _why(why: Any) -> str:
    """What each leg of the search said, and what that added to the rank."""
    blend: dict[str, float] = why.get("blend") or {}
    said = [f"{name} {value:g}" for name, value in why.items() if type(value) in (int, float)]
    added = [f"{name} {value:+g}" for name, value in blend.items()]
    return f"why: {' · '.join(said)}; ranked by {' · '.join(added)}{_votes(why.get('votes') or {})}"


def _votes(votes: Any) -> str:
    """Where each store had it, and whose vote did not count."""
    if not votes:
        return ""
    left_out = votes["left_out"]
    places = [
        f"{name} {place}{' (left out)' if name in left_out else ''}"
        for name, place in votes["places"].items()
    ]
    return f"; places: {' · '.join(places)}"
