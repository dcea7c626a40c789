"""From a request to the version it asks for."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from quipu.errors import ConflictError
from quipu.model.operations import RememberRequest, UpdateStrategy
from quipu.model.principal import Principal
from quipu.model.record import MemoryType, Provenance, Record, State, Trust
from quipu.model.store import Store
from quipu.model.value import JsonObject
from quipu.rules import procedures
from quipu.rules.chain import Canonical, digest
from quipu.rules.expiry import earlier, effective_expiry
from quipu.rules.texts import subject_of

#: Sources whose words are somebody else's, whoever passes them on.
_EXTERNAL_SOURCES = frozenset({"web_page", "document", "tool_result", "import"})
_TRUST_ORDER = tuple(Trust)


def new_record(
    request: RememberRequest,
    *,
    record_id: str,
    store: Store,
    principal: Principal,
    now: int,
    import_id: str | None = None,
    latest: int | None = None,
) -> Record:
    """The first version of a record. Beyond `latest` the operator keeps nothing that is written now."""
    metadata = dict(request.metadata or {})
    details = dict(request.details)
    return Record(
        tenant=principal.tenant,
        id=record_id,
        version=1,
        store_id=store.id,
        agent_id=request.agent_id,
        user_id=request.user_id,
        session_id=request.session_id,
        type=request.type,
        tier=store.tier,
        content=content_text(request.type, request.content),
        metadata=metadata,
        tags=request.tags or (),
        links=request.links or (),
        confidence=1.0 if request.confidence is None else request.confidence,
        importance=request.importance,
        source=request.source,
        provenance=provenance(request, principal, metadata, details, import_id),
        details=details,
        privacy=request.privacy_intent,
        created_at=now,
        updated_at=now,
        expires_at=earlier(effective_expiry(now, request.expires_at, request.privacy_intent), latest),
    )


def changed_record(
    current: Record,
    request: RememberRequest,
    *,
    principal: Principal,
    now: int,
    latest: int | None = None,
) -> Record:
    """The next version, as the update strategy says. `latest` as for a new one."""
    if current.type is not request.type:
        raise ConflictError(
            f"The record is {current.type.value}; its type cannot be changed.", reason="type_mismatch"
        )
    if request.if_version is not None and request.if_version != current.version:
        raise ConflictError(
            f"The record is at version {current.version}.",
            reason="version_mismatch",
            hint="Read it again and repeat the change.",
        )
    is_renewed = request.update_strategy is UpdateStrategy.OVERWRITE or request.privacy_intent is not None
    if request.update_strategy is not UpdateStrategy.OVERWRITE:
        request = _filled(current, request)
    metadata = dict(request.metadata or {})
    details = dict(request.details)
    written = provenance(request, principal, metadata, details, None)
    if request.update_strategy is UpdateStrategy.APPEND:
        # The words that were there stay, and stay as doubtful as they were.
        written = replace(written, trust=least_trusted(written.trust, current.provenance.trust))
    return replace(
        current,
        version=current.version + 1,
        state=State.LIVE,
        content=content_text(request.type, request.content),
        metadata=metadata,
        tags=request.tags or (),
        links=request.links or (),
        confidence=1.0 if request.confidence is None else request.confidence,
        importance=request.importance,
        source=request.source,
        provenance=written,
        details=details,
        privacy=request.privacy_intent,
        updated_at=now,
        expires_at=earlier(_end(current, request, now, is_renewed=is_renewed), latest),
        born=0,
        died=None,
        ending=None,
        merged_into=None,
    )


def _end(current: Record, request: RememberRequest, now: int, *, is_renewed: bool) -> int | None:
    """When the next version ends. A promise that is not renewed reaches as far as it did.

    It may have come by a merge, with a text that was written later than this record: then it counts from that. What is
    kept for a session is written in it now, however old the record is.
    """
    end = effective_expiry(
        current.created_at, request.expires_at, request.privacy_intent, session_written_at=now
    )
    if is_renewed or end is None or request.expires_at is None or current.expires_at is None:
        return end
    return max(end, min(request.expires_at, current.expires_at))


def _filled(current: Record, request: RememberRequest) -> RememberRequest:
    """What the request leaves out stays as it is; metadata is joined key by key, the request wins."""
    text = content_text(request.type, request.content)
    if request.update_strategy is UpdateStrategy.APPEND:
        text = f"{current.content}\n{text}"
    return replace(
        request,
        content=text,
        metadata={**current.metadata, **(request.metadata or {})},
        tags=current.tags if request.tags is None else request.tags,
        links=current.links if request.links is None else request.links,
        confidence=current.confidence if request.confidence is None else request.confidence,
        importance=current.importance if request.importance is None else request.importance,
        source=current.source if request.source is None else request.source,
        expires_at=current.expires_at if request.expires_at is None else request.expires_at,
        details={**current.details, **request.details},
        privacy_intent=current.privacy if request.privacy_intent is None else request.privacy_intent,
    )


def revived(last: Record, *, principal: Principal, now: int, state: State = State.LIVE) -> Record:
    """A version that says what the last one said, in another state."""
    return replace(
        last,
        version=last.version + 1,
        state=state,
        updated_at=now,
        provenance=replace(last.provenance, written_by=principal.name),
        born=0,
        died=None,
        ending=None,
        merged_into=None,
    )


def provenance(
    request: RememberRequest,
    principal: Principal,
    metadata: JsonObject,
    details: JsonObject,
    import_id: str | None,
) -> Provenance:
    trust = principal.trust
    if import_id is not None or request.source in _EXTERNAL_SOURCES:
        trust = least_trusted(trust, Trust.EXTERNAL)
    subject = subject_of(metadata, details)
    if request.run_id is None and request.node_id is None and subject is None and import_id is None:
        return _written(principal.name, trust)
    return Provenance(
        written_by=principal.name,
        trust=trust,
        run_id=request.run_id,
        node_id=request.node_id,
        subject=subject,
        import_id=import_id,
    )


@lru_cache(64)
def _written(by: str, trust: Trust) -> Provenance:
    """Where most versions come from. It is frozen, so that one serves them all."""
    return Provenance(written_by=by, trust=trust)


def least_trusted(*levels: Trust) -> Trust:
    return max(levels, key=_TRUST_ORDER.index)


def content_text(kind: MemoryType, content: str | JsonObject) -> str:
    """Text as it is; a machine as JSON text that always says its current state."""
    if kind is not MemoryType.PROCEDURAL:
        return str(content)
    machine = procedures.kept(json.loads(content) if isinstance(content, str) else content)
    return json.dumps(machine, ensure_ascii=False, separators=(",", ":"))


_COVERED = tuple(field.name for field in fields(Record) if field.name not in ("salt", "digest"))
_covered_values = attrgetter(*_COVERED)


def sealed(record: Record, salt: bytes, canonical: Canonical) -> Record:
    """The version with the digest that the journal will state."""
    # What `dataclasses.replace` does, at a third of its cost: every write comes through here.
    values: dict[str, Any] = dict(zip(_COVERED, _covered_values(record), strict=True))
    return Record(**values, salt=salt, digest=digest(record, salt, canonical))


def seal(record: Record, salt: bytes, canonical: Canonical) -> Record:
    """The same for a version that was just drafted and that nobody else holds: it is completed, not copied."""
    # A version has thirty fields: a copy of it costs as much as its digest.
    object.__setattr__(record, "digest", digest(record, salt, canonical))
    object.__setattr__(record, "salt", salt)
    return record
