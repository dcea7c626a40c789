"""What undoes a cause, memory by memory; and what looks as if it should not be there. Pure."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from quipu.audit.model import Step, UndoRequest
from quipu.memory.model import RememberRequest
from quipu.model.journal import Entry
from quipu.model.record import Record

#: A text → what is found in it, in fixed words.
Detect = Callable[[str], Collection[str]]
#: Entries of reads change nothing.
_READS = frozenset({"recall", "read"})


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is done to a memory, and why."""

    step: Step
    why: str
    #: The version that comes back.
    good: Record | None = None


def is_caused(entry: Entry, request: UndoRequest) -> bool:
    """Whether the cause did this, as far as an entry says. Whose work it is in whose run, the journal was asked for."""
    named = (
        ("import_id", request.import_id),
        ("pass_id", request.pass_id),
        ("proposal", request.proposal_id),
    )
    return entry.op not in _READS and all(
        wanted is None or entry.detail.get(name) == wanted for name, wanted in named
    )


def is_from(record: Record, sources: Sequence[str]) -> bool:
    """Whether a version came from one of these; one that names no source came from none."""
    return record.source is not None and any(fnmatchcase(record.source, glob) for glob in sources)


def remedy(versions: Sequence[Record], caused: Collection[int], request: UndoRequest) -> Remedy | None:
    """How a memory gets over what the entries at these positions did to it; None where they did nothing to it.

    `versions`: all of them, the oldest first.
    """
    last = versions[-1]
    if last.is_emptied:
        return None
    came = [version for version in versions if version.born in caused]
    if request.source is not None:
        came = [version for version in came if is_from(version, (request.source,))]
    bad = {version.version for version in came}
    if last.ending not in (None, "replaced"):
        return _gone(last, bad, caused, request)
    if not bad:
        return None
    if last.version not in bad:
        return Remedy("leave", "It was changed since.")
    if request.action == "quarantine":
        return Remedy("quarantine", "It came from the cause.")
    good = next((one for one in reversed(versions) if one.version not in bad), None)
    if good is None:
        return Remedy("erase" if request.hard_delete else "forget", "The cause made it.")
    if good.ending not in (None, "replaced"):
        return Remedy("forget", "The cause brought it back.")
    if good.is_emptied:
        return Remedy("leave", "What it was before is no longer kept.")
    return Remedy("revert", f"The cause changed it; version {good.version} was before.", good)


def _gone(last: Record, bad: Collection[int], caused: Collection[int], request: UndoRequest) -> Remedy | None:
    if last.version in bad:
        # What the cause made is gone already; erasing it is still something to do.
        return Remedy("erase", "The cause made it.") if request.hard_delete else None
    if last.died in caused and request.source is None and request.action == "undo":
        return Remedy("restore", "The cause took it away.")
    return None


def suspected(record: Record, request: UndoRequest, detect: Detect) -> Remedy | None:
    """What a live memory that looks wrong gets. Nothing is forgotten because it does not say where it came from."""
    if request.trusted and record.source is not None and not is_from(record, request.trusted):
        return Remedy("erase" if request.hard_delete else "forget", "Its source is none that is trusted.")
    if request.trusted and record.source is None:
        return Remedy("quarantine", "It does not say where it came from.")
    if request.detectors and (found := sorted(detect(record.content))):
        return Remedy("quarantine", f"A detector found: {', '.join(found)}.")
    if request.confidence_below is not None and record.confidence < request.confidence_below:
        return Remedy("archive", "It is not sure enough.")
    return None


def rewritten(good: Record, last: Record, store: str, reason: str) -> RememberRequest:
    """The request that makes a memory what it was, and only if nobody has changed it meanwhile."""
    privacy = good.privacy
    given: dict[str, Any] = {
        "id": last.id,
        "agent_id": last.agent_id,
        "user_id": last.user_id,
        "store": store,
        "content": json.loads(good.content) if good.type == "procedural" else good.content,
        "update_strategy": "overwrite",
        "if_version": last.version,
        "metadata": dict(good.metadata),
        "tags": good.tags,
        "links": [{"to": link.to, "rel": link.rel} for link in good.links],
        "confidence": good.confidence,
        "importance": good.importance,
        "source": good.source,
        "expires_at": good.expires_at,
        "key": good.key,
        "valid_from": good.valid_from,
        "valid_until": good.valid_until,
        **good.details,
        "privacy_intent": None
        if privacy is None
        else {
            "retain": privacy.retain,
            "share_with": privacy.share_with,
            "consent_id": privacy.consent_id,
            "sensitivity": privacy.sensitivity,
        },
        "reasoning": reason,
    }
    return RememberRequest.parse(given)
