"""A version that was put together of others: what held no secret in either may hold one in both.

1. It is read as a request would be that says all of it at once.
2. Texts are joined by a line break, and a secret that is cut there begins at the end of one line and goes on in the
   next: lines are also read one after the other.
3. What was read before is not read again, but for as much of it as a secret can reach back.
"""

from __future__ import annotations

from dataclasses import replace

from quipu.errors import SecretLeakageError
from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType, Record
from quipu.rules import redaction
from quipu.rules.redaction import Redaction
from quipu.rules.registered import LONGEST
from quipu.rules.texts import subject_of

#: The longest value that can be registered, in hex.
_REACH = 4 * LONGEST


def guarded(record: Record, given: Redaction, before: Record | None = None) -> Record:
    """The version as it may be kept, the same one where nothing was found; or SecretLeakageError.

    `before`: the version that it changes, where something was added to that; without it all of the text is read.
    """
    # A machine is never joined: whoever wrote it wrote all of it.
    is_joined = record.type is not MemoryType.PROCEDURAL
    start = _unread(record.content, before) if is_joined else len(record.content)
    said = RememberRequest(
        agent_id="",
        type=MemoryType.SEMANTIC,
        content=record.content[start:],
        metadata=record.metadata,
        tags=record.tags,
        source=record.source,
        details=record.details,
    )
    try:
        clean, found = redaction.guarded_request(said, given)
        content = record.content[:start] + redaction.guarded_lines(str(clean.content), given, "/content")
    except SecretLeakageError as error:
        raise SecretLeakageError(
            "Together with what is there already it holds a secret.",
            reason=error.reason,
            hint="Leave the secret out, or overwrite what is there; nothing was kept.",
            faults=error.faults,
        ) from None
    if not found and content == record.content:
        return record
    metadata, details = clean.metadata or {}, clean.details
    provenance = record.provenance
    if provenance.subject == subject_of(record.metadata, record.details):
        provenance = replace(provenance, subject=subject_of(metadata, details))
    return replace(
        record,
        content=content,
        metadata=metadata,
        tags=clean.tags or (),
        source=clean.source,
        details=details,
        provenance=provenance,
    )


def _unread(text: str, before: Record | None) -> int:
    """Where the first line begins that has to be read."""
    if before is None:
        return 0
    known = len(before.content) if text.startswith(before.content) else len(text)
    return text.rfind("\n", 0, max(0, known - _REACH)) + 1
