"""What undoes a cause, record by record; and what looks as if it should not be there."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from quipu.errors import InvalidError
from quipu.model.governance import Found
from quipu.model.journal import Entry, Op
from quipu.model.operations import RememberRequest
from quipu.model.record import Ending, MemoryType, Record
from quipu.model.recovery import Action, RecoverRequest, Step
from quipu.rules.policy_classes import classes

#: What changes records, and can be undone.
CHANGES = frozenset(
    {Op.REMEMBER, Op.UPDATE, Op.IMPORT, Op.FORGET, Op.MERGE, Op.EXPIRE, Op.ARCHIVE, Op.RESTORE}
)
_SUSPICIOUS = (Found.INSTRUCTION, Found.SECRET, Found.PII)


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is done to a record, and why."""

    step: Step
    why: str
    #: The version that comes back.
    good: Record | None = None


def checked(request: RecoverRequest) -> RecoverRequest:
    """Refuse a request that names neither a cause nor a suspicion: it would be about everything."""
    if not has_cause(request) and not has_suspicion(request):
        raise InvalidError.at(
            "/",
            "no_scope",
            "Nothing says what is to be found.",
            hint="Name a cause (sources, run_id, import_id, proposal_id, principal, since) or a suspicion "
            "(trusted, confidence_below, detectors).",
        )
    return request


def has_cause(request: RecoverRequest) -> bool:
    return bool(request.sources or request.since or request.until) or any(
        name is not None
        for name in (request.run_id, request.import_id, request.proposal_id, request.principal)
    )


def has_suspicion(request: RecoverRequest) -> bool:
    return bool(request.trusted) or request.confidence_below is not None or request.detectors


def is_caused(entry: Entry, request: RecoverRequest) -> bool:
    """Whether the cause, as far as an entry tells it, did this. Sources are told by records."""
    return (
        entry.op in CHANGES
        and entry.agent == request.agent_id
        and request.run_id in (None, entry.run)
        and request.principal in (None, entry.actor)
        and (request.import_id is None or entry.detail.get("import_id") == request.import_id)
        and (request.proposal_id is None or entry.detail.get("proposal") == request.proposal_id)
    )


def is_from(record: Record, sources: Sequence[str]) -> bool:
    """Whether a version came from one of these; one that names no source came from none."""
    if not sources:
        return True
    return record.source is not None and any(fnmatchcase(record.source, glob) for glob in sources)


def remedy(versions: Sequence[Record], caused: Collection[int], request: RecoverRequest) -> Remedy | None:
    """How a record gets over what the entries at these positions did to it; None where they did nothing to it.

    `versions`: all of them, oldest first.
    """
    last = versions[-1]
    if last.is_emptied:
        return None
    bad = {version.version for version in versions if version.born in caused}
    bad = {number for number in bad if is_from(versions[number - versions[0].version], request.sources)}
    if last.died is not None and last.ending is not Ending.REPLACED:
        return _gone(last, bad, caused, request)
    if not bad:
        return None
    if last.version not in bad:
        return Remedy(Step.LEAVE, "It was changed since.")
    if request.action is Action.QUARANTINE:
        return Remedy(Step.QUARANTINE, "It came from the cause.")
    good = next((one for one in reversed(versions) if one.version not in bad), None)
    if good is None:
        step = Step.ERASE if request.hard_delete else Step.FORGET
        return Remedy(step, "The cause made it.")
    if good.ending not in (None, Ending.REPLACED):
        return Remedy(Step.FORGET, "The cause brought it back.")
    if good.is_emptied:
        return Remedy(Step.LEAVE, "What it was before is no longer kept.")
    return Remedy(Step.REVERT, f"The cause changed it; version {good.version} was before.", good)


def _gone(
    last: Record, bad: Collection[int], caused: Collection[int], request: RecoverRequest
) -> Remedy | None:
    if last.version in bad:
        # What the cause made is gone already; erasing it is still something to do.
        return Remedy(Step.ERASE, "The cause made it.") if request.hard_delete else None
    if last.died in caused and not request.sources and request.action is Action.UNDO:
        return Remedy(Step.RESTORE, "The cause took it away.")
    return None


def suspected(record: Record, request: RecoverRequest) -> Remedy | None:
    """What a live memory that looks wrong gets. Nothing is forgotten because it does not say where it came from."""
    if request.trusted and record.source is not None and not is_from(record, request.trusted):
        return Remedy(
            Step.ERASE if request.hard_delete else Step.FORGET, "Its source is none that is trusted."
        )
    if request.trusted and record.source is None:
        return Remedy(Step.QUARANTINE, "It does not say where it came from.")
    if request.detectors:
        found = classes(record.content)
        if named := [one.value for one in _SUSPICIOUS if one in found]:
            return Remedy(Step.QUARANTINE, f"A detector found: {', '.join(named)}.")
    if request.confidence_below is not None and record.confidence < request.confidence_below:
        return Remedy(Step.ARCHIVE, "It is not sure enough.")
    return None


def rewritten(good: Record, last: Record, store: str, reason: str | None) -> RememberRequest:
    """The request that makes a record what it was, and only if nobody has changed it meanwhile."""
    is_machine = good.type is MemoryType.PROCEDURAL
    return RememberRequest(
        agent_id=good.agent_id,
        user_id=good.user_id,
        store=store,
        type=good.type,
        content=json.loads(good.content) if is_machine else good.content,
        id=good.id,
        metadata=good.metadata,
        tags=good.tags,
        links=good.links,
        confidence=good.confidence,
        importance=good.importance,
        source=good.source,
        expires_at=good.expires_at,
        details=good.details,
        privacy_intent=good.privacy,
        if_version=last.version,
        reasoning=reason,
    )
