"""The report of an import as sentences, for people at a terminal and on the page."""

from collections.abc import Iterator

from quipu.transfer.model import ImportReport

_SHOWN = 10


def sentences(report: ImportReport) -> Iterator[str]:
    """What would happen, or has happened: the whole of it, in a few lines."""
    is_done = report.status == "done"
    counts = report.counts
    name = report.file_name or "The file"
    yield f"{name}: {counted(counts.read)} as {report.format}, import {report.import_id}."
    if report.signature == "valid":
        yield f"Signed by its owner, {report.owner or 'who is known here'}."
    elif report.signature == "unknown":
        yield "Signed with a key that cannot be had: it is trusted no more than any file."
    yield (
        f"{counted(counts.accepted)} {_are(counts.accepted)} in."
        if is_done
        else (f"{counted(counts.accepted)} would come in.")
    )
    if counts.held:
        waits = "waits" if counts.held == 1 else "wait"
        yield f"{counted(counts.held)} {waits if is_done else 'would wait'} for a person."
    if counts.duplicate:
        yield f"{counted(counts.duplicate)} {_are(counts.duplicate)} here already."
    if counts.updated:
        yield f"Of those, {counts.updated:,} newer than what their owner's last file brought."
    if counts.vectors_used or counts.embedded_anew:
        yield f"{counts.vectors_used:,} with the vectors of the file, {counts.embedded_anew:,} embedded anew."
    if counts.conflict:
        yield f"Of those, {counts.conflict:,} under ids of their own, because theirs say something else here."
    if counts.removed or counts.removals_held:
        gone = counts.removed + counts.removals_held
        yield f"{counted(gone)} that their owner has forgotten since: {counts.removed:,} forgotten here too, {counts.removals_held:,} waiting for a person."
    if counts.kept:
        yield f"{counts.kept:,} deletions are not followed: others brought those memories, or changed them."
    if counts.instruction_like:
        yield f"{counted(counts.instruction_like)} read like instructions to a model."
    if counts.refused:
        yield f"{counted(counts.refused)} {'do' if counts.refused != 1 else 'does'} not come in:"
        for one in report.rejected[:_SHOWN]:
            yield f"  place {one.place}: {one.message}"
        if counts.refused > _SHOWN:
            yield f"  and {counts.refused - min(_SHOWN, len(report.rejected)):,} more"
    for dropped in report.loss.dropped:
        yield f"There is no room for {dropped.field}: left out {_times(dropped.count)}."
    for mapped in report.loss.mapped:
        yield f"{mapped.origin} becomes {mapped.to} {_times(mapped.count)}."


def counted(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
