"""What became of an import or an export as sentences, for people at a terminal and on the page."""

from collections.abc import Iterator, Mapping
from typing import Any

from quipu.transfer.formats.loss import LossReport
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


def export_sentences(file: str, told: Mapping[str, Any]) -> Iterator[str]:
    """What is in a file, and what had no room in it."""
    yield f"{file}: {counted(told['items'])}, {told['size']:,} bytes, sha256 {told['sha256']}"
    if told["tombstones"]:
        yield f"It also names {counted(told['tombstones'], 'deletion', 'deletions')}, without what was said."
    if told["withheld"]:
        yield (
            f"{counted(told['withheld'])} stayed here, marked as not exportable; "
            "a bundle takes them along with --include non_exportable."
        )
    loss = LossReport.model_validate(told["loss"], strict=False)
    for lost in loss.dropped:
        yield f"The format has no room for {lost.field}: left out {_times(lost.count)}."
    for mapped in loss.mapped:
        yield f"{mapped.origin} became {mapped.to} {_times(mapped.count)}."
    if told["signed_by"] is not None:
        yield f"Signed by {told['signed_by']}."
    if told["is_sealed"]:
        yield "Sealed: only who has the key of a recipient, or the passphrase, can read it."
    if told["format"] == "bundle":
        yield f"The next one can go on from here: quipu export NEXT --since {told['position']}"


def counted(count: int, one: str = "memory", many: str = "memories") -> str:
    return f"{count:,} {one if count == 1 else many}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
