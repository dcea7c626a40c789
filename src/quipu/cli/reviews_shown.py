"""A held write on a terminal: the diff first, what is like it, then the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quipu.cli import output

if TYPE_CHECKING:
    from rich.text import Text

    from quipu.model.governance import Diff, Modified, Review

_STYLES = {"gone": "red strike", "new": "green", "same": "", "skipped": "dim"}


def seen_body(seen: Review) -> dict[str, Any]:
    """What a review says beyond the proposal, as the wire shows it."""
    body: dict[str, Any] = {}
    if seen.diff is not None:
        body["diff"] = _diff(seen.diff)
    if seen.etag is not None:
        body["etag"] = seen.etag
    if seen.problem is not None:
        body["problem"] = seen.problem
    if seen.proposal.approvals > 1:
        given = [one.reviewer for one in seen.proposal.given]
        body["approvals"] = {"needed": seen.proposal.approvals, "given": given}
    return body


def _diff(diff: Diff) -> dict[str, Any]:
    return {
        "added": list(diff.added),
        "removed": list(diff.removed),
        "modified": [
            {"id": one.id, "fields": list(one.after), "before": dict(one.before), "after": dict(one.after)}
            for one in diff.modified
        ],
        "related": [
            {"id": one.id, "content": one.content, "similarity": one.similarity, "kind": one.kind}
            for one in diff.related
        ],
        **({"stays": list(diff.stays)} if diff.stays else {}),
        **({"counts": dict(diff.counts)} if diff.counts else {}),
    }


def shown_review(seen: Review, body: dict[str, Any]) -> None:
    """For people."""
    from rich.table import Table
    from rich.text import Text

    console = output.console()
    if seen.diff is not None:
        for line in _lines(seen.diff):
            console.print(line)
    if seen.problem is not None:
        console.print(
            f"It cannot be carried out as things stand: {seen.problem}", style="yellow", markup=False
        )
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    more = {name: value for name, value in seen_body(seen).items() if name != "diff"}
    for name, value in {**body, **more, **body["request"]}.items():
        if name == "request" or value is None:
            continue
        said = output.when(value) if name.endswith("_at") and isinstance(value, int) else value
        grid.add_row(name, Text(said if isinstance(said, str) else output.json_line(said)))
    console.print(grid)


def _lines(diff: Diff) -> list[Text]:
    from rich.text import Text

    lines = [Text(f"+ {_brief(one)}", style="green") for one in diff.added]
    lines += [Text(f"- {_brief(one)}", style="red") for one in diff.removed]
    lines += [Text(f"= {_brief(one)}") for one in diff.stays]
    for one in diff.modified:
        lines += _changed(one)
    for name, count in diff.counts.items():
        lines.append(Text(f"  {name}: {count} in all", style="dim"))
    for one in diff.related:
        said = f"~ {one.kind} ({one.similarity:.2f})  {one.id}  {output.brief(one.content, 100)}"
        lines.append(Text(said, style="yellow"))
    return lines


def _brief(one: Any) -> str:
    return f"{one['id']}  {output.brief(one.get('content') or '', 200)}"


def _changed(one: Modified) -> list[Text]:
    from rich.text import Text

    lines = [Text(f"~ {one.id}")]
    if one.words is not None:
        lines.append(Text.assemble("  ", *((piece.text, _STYLES[piece.kind]) for piece in one.words)))
    for name in one.after:
        if name != "content" or one.words is None:
            before, after = output.json_line(one.before.get(name)), output.json_line(one.after[name])
            lines.append(Text(f"  {name}: {output.brief(before, 80)} -> {output.brief(after, 80)}"))
    return lines
