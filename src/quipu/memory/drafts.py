"""From a request to the version it asks for. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from quipu.errors import ConflictError, Fault
from quipu.fields import DAY_MS, duration_ms
from quipu.memory.model import Privacy, RememberRequest, UpdateRequest
from quipu.memory.pipeline import Planning
from quipu.model import machine
from quipu.model.record import (
    DETAIL_FIELDS,
    TRUST_ORDER,
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    State,
    Trust,
)
from quipu.model.store import Store
from quipu.operation import invalid
from quipu.search.text import subject_of

Changing: TypeAlias = RememberRequest | UpdateRequest

#: Sources whose words are somebody else's, whoever passes them on.
_EXTERNAL_SOURCES = frozenset({"web_page", "document", "tool_result", "import"})
#: Links that say that a memory was made here out of another, and so says what that says; by what made it.
_DERIVED = {
    "consolidation": ("derived_from", "compacted_from"),
    "extraction": ("derived_from", "compacted_from"),
}
_ALWAYS_DERIVED = ("compacted_from",)
#: A session ends so long after its last write.
_SESSION_MS = DAY_MS
#: The last moment that a ledger keeps.
_LAST_MOMENT = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an operator sets: sizes in bytes of UTF-8, and how long anything is kept at most."""

    content_bytes: int = 1 << 20
    metadata_bytes: int = 256 << 10
    max_retain_ms: int | None = None

    def latest_end(self, now: int) -> int | None:
        """Beyond this moment the operator keeps nothing that is written now."""
        return None if self.max_retain_ms is None else now + self.max_retain_ms


def new_record(
    request: RememberRequest,
    planning: Planning,
    limits: Limits,
    *,
    store: Store,
    record_id: str,
    import_id: str | None = None,
    created_at: int | None = None,
    captured_at: int | None = None,
) -> Record:
    """The first version of a record."""
    created = planning.now if created_at is None else created_at
    metadata, details = dict(request.metadata or {}), request.details
    privacy = _intent(request.privacy_intent)
    record = Record(
        id=record_id,
        version=1,
        store_id=store.id,
        agent_id=request.agent,
        user_id=request.user_id,
        session_id=request.session_id,
        type=request.type,
        tier=store.tier,
        content=content_text(request.type, request.content),
        metadata=metadata,
        tags=_tags(request, metadata) or (),
        links=tuple(Link(link.to, link.rel) for link in request.links or ()),
        confidence=1.0 if request.confidence is None else request.confidence,
        importance=request.importance,
        source=request.source,
        provenance=_provenance(request, planning, metadata, details, import_id, captured_at),
        details=details,
        privacy=privacy,
        created_at=created,
        updated_at=created,
        expires_at=_earlier(
            _expiry(created, _moment(request.expires_at, planning.now), privacy),
            limits.latest_end(planning.now),
        ),
        key=request.key,
        valid_from=request.valid_from
        if request.valid_from is not None or request.key is None
        else planning.now,
        valid_until=request.valid_until,
    )
    check_size(record, limits)
    return record


def changed_record(current: Record, request: Changing, planning: Planning, limits: Limits) -> Record:
    """The next version, as the update strategy says: what is left out stays, unless it overwrites."""
    if isinstance(request, RememberRequest) and request.states_type and request.type != current.type:
        raise ConflictError(
            f"The memory is {current.type}; its type cannot be changed.",
            reason="type_mismatch",
            hint="Leave out `type`, or remember a new memory.",
        )
    for name in request.details:
        if DETAIL_FIELDS[name] != current.type:
            raise invalid(
                [Fault(f"/{name}", "wrong_type", f"{name} only for {DETAIL_FIELDS[name]} memories")]
            )
    if request.if_version is not None and request.if_version != current.version:
        raise ConflictError(
            f"The memory is at version {current.version}.",
            reason="version_mismatch",
            hint="Read it again and repeat the change.",
        )
    strategy, keeps = request.strategy, request.strategy != "overwrite"
    metadata = {**(current.metadata if keeps else {}), **(request.metadata or {})}
    details = {**(current.details if keeps else {}), **request.details}
    privacy = _intent(request.privacy_intent)
    if privacy is None and keeps:
        privacy = current.privacy
    links = None if request.links is None else tuple(Link(link.to, link.rel) for link in request.links)
    written = _provenance(request, planning, metadata, details)
    if strategy == "append":
        # The words that were there stay, and stay as doubtful as they were.
        written = replace(written, trust=least_trusted([written.trust, current.provenance.trust]))
    record = replace(
        current,
        version=current.version + 1,
        state="live",
        content=_changed_content(current, request),
        metadata=metadata,
        tags=_given(_tags(request, request.metadata or {}), current.tags, (), keeps),
        links=_given(links, current.links, (), keeps),
        confidence=_given(request.confidence, current.confidence, 1.0, keeps),
        importance=_given(request.importance, current.importance, None, keeps),
        source=_given(request.source, current.source, None, keeps),
        provenance=written,
        details=details,
        privacy=privacy,
        updated_at=planning.now,
        expires_at=_earlier(
            _changed_expiry(current, request, privacy, planning.now), limits.latest_end(planning.now)
        ),
        key=_given(request.key, current.key, None, keeps),
        valid_from=_given(request.valid_from, current.valid_from, None, keeps),
        valid_until=_given(request.valid_until, current.valid_until, None, keeps),
        **_UNCOMMITTED,
    )
    check_size(record, limits)
    return record


def revived(last: Record, planning: Planning, state: State = "live") -> Record:
    """A version that says what the last one said, in another state."""
    return replace(
        last,
        version=last.version + 1,
        state=state,
        updated_at=planning.now,
        provenance=replace(last.provenance, written_by=planning.author),
        **_UNCOMMITTED,
    )


def outdated(current: Record, planning: Planning, since: int) -> Record:
    """The version that says that a fact was true until then."""
    return replace(
        current,
        version=current.version + 1,
        updated_at=planning.now,
        valid_until=since,
        provenance=replace(current.provenance, written_by=planning.author),
        **_UNCOMMITTED,
    )


def check_size(record: Record, limits: Limits) -> None:
    """What an operator allows; also for text that was joined of several."""
    if len(record.content.encode()) > limits.content_bytes:
        raise invalid([Fault("/content", "too_large", f"at most {limits.content_bytes:,} bytes")])
    metadata = record.metadata
    if metadata and len(json.dumps(metadata, ensure_ascii=False).encode()) > limits.metadata_bytes:
        raise invalid([Fault("/metadata", "too_large", f"at most {limits.metadata_bytes:,} bytes")])


def least_trusted(levels: Sequence[Trust]) -> Trust:
    return max(levels, key=TRUST_ORDER.index)


def sources_of(record: Record) -> frozenset[str]:
    """What a memory was made of, if it was made here."""
    return made_of(record.source, ((link.to, link.rel) for link in record.links))


def made_of(source: str | None, links: Iterable[tuple[str, str]]) -> frozenset[str]:
    """What a memory from this source, with links to these ids by these names, is made of."""
    rels = _DERIVED.get(source or "", _ALWAYS_DERIVED)
    return frozenset(to for to, rel in links if rel in rels)


#: What the ledger sets anew for each version.
_UNCOMMITTED: Mapping[str, Any] = {
    **{"born": 0, "died": None, "ending": None, "merged_into": None},
    **{"salt": b"", "digest": ""},
}


def _given(given: Any, current: Any, default: Any, keeps: bool) -> Any:
    if given is not None:
        return given
    return current if keeps else default


def content_text(kind: MemoryType, content: str | Mapping[str, Any]) -> str:
    """What is kept of a content: text as it is; a machine as JSON text that always says its current state."""
    if kind != "procedural":
        return str(content)
    value: Any = machine.parsed(content)
    if found := machine.faults(value):
        raise invalid(found)
    return machine.kept_text(value)


def _changed_content(current: Record, request: Changing) -> str:
    if request.content is None:
        return current.content
    if isinstance(request.content, dict) and current.type != "procedural":
        raise invalid([Fault("/content", "bad_value", "text; only a procedure's content may be an object")])
    text = content_text(current.type, request.content)
    if request.strategy != "append":
        return text
    if current.type == "procedural":
        raise invalid([Fault("/update_strategy", "bad_value", "merge or overwrite for a procedure")])
    return f"{current.content}\n{text}"


def _tags(request: Changing, metadata: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The tags that were given; a list of text at metadata.tags counts as them, as in memorywire."""
    listed = metadata.get("tags")
    if request.tags is not None or not isinstance(listed, list | tuple):
        return request.tags
    if all(isinstance(tag, str) and 0 < len(tag) <= 128 for tag in listed) and len(listed) <= 64:  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return tuple(dict.fromkeys(str(tag) for tag in listed))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return None


def _intent(given: Privacy | None) -> PrivacyIntent | None:
    if given is None:
        return None
    return PrivacyIntent(
        retain=given.retain,
        share_with=given.share_with,
        consent_id=given.consent_id,
        sensitivity=given.sensitivity,
    )


def _provenance(
    request: Changing,
    planning: Planning,
    metadata: Mapping[str, Any],
    details: Mapping[str, Any],
    import_id: str | None = None,
    captured_at: int | None = None,
) -> Provenance:
    return Provenance(
        written_by=planning.author,
        trust=trust_of(planning.trust, request.source, is_imported=import_id is not None),
        run_id=request.run_id,
        node_id=request.node_id,
        subject=subject_of(metadata, details),
        import_id=import_id,
        captured_at=captured_at,
    )


def trust_of(writer: Trust, source: str | None, *, is_imported: bool = False) -> Trust:
    """How far a memory is trusted: as far as its writer, but somebody else's words no further than those."""
    is_external = is_imported or source in _EXTERNAL_SOURCES
    return least_trusted([writer, "external"]) if is_external else writer


def _moment(given: int | str | None, now: int) -> int | None:
    """`expires_at` as a moment: a duration counts from now."""
    if isinstance(given, str):
        return now + (duration_ms(given) or 0)
    return given


def _expiry(
    created_at: int, expires_at: int | None, privacy: PrivacyIntent | None, *, written_at: int | None = None
) -> int | None:
    """The earlier of the moment asked for and the end of `retain`.

    `written_at` is when the record is written once more: what is kept for a session is written in it now.
    """
    if privacy is None or privacy.retain in (None, "forever"):
        return expires_at
    if privacy.retain == "session":
        return _earlier(expires_at, max(created_at, written_at or created_at) + _SESSION_MS)
    return _earlier(expires_at, min(created_at + (duration_ms(privacy.retain) or 0), _LAST_MOMENT))


def _changed_expiry(
    current: Record, request: Changing, privacy: PrivacyIntent | None, now: int
) -> int | None:
    """When the next version ends. A retention that is not renewed reaches as far as it did.

    It may have come by a merge, with a text that was written later than this record: then it counts from that.
    """
    keeps = request.strategy != "overwrite"
    asked = _moment(request.expires_at, now)
    if asked is None and keeps:
        asked = current.expires_at
    end = _expiry(current.created_at, asked, privacy, written_at=now)
    is_renewed = not keeps or request.privacy_intent is not None
    if is_renewed or end is None or asked is None or current.expires_at is None:
        return end
    return max(end, min(asked, current.expires_at))


def _earlier(end: int | None, other: int | None) -> int | None:
    """The one that comes first; None never comes."""
    return other if end is None else end if other is None else min(end, other)
