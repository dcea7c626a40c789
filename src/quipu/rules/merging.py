"""What becomes of a canonical record when duplicates are merged into it.

- Nothing is merged across tenants, users or stores; across types only with `keep_canonical`;
  procedures are never joined.
- A text keeps the promises made for it: where the text of a duplicate lives on, the earliest expiry and
  the strictest privacy count, and the lowest trust among the rows whose text survives.
- Links to a row that goes point to the canonical; a link of the canonical to itself is dropped.
- The order in which duplicates are given never matters: they are taken by `created_at`, then id.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar, assert_never, cast

from quipu.errors import ConflictError
from quipu.model.operations import MergeStrategy
from quipu.model.record import Link, MemoryType, PrivacyIntent, Record, Sensitivity, Trust
from quipu.model.value import Json, JsonObject
from quipu.rules.durations import SESSION_MS, Span, duration
from quipu.rules.filter_trees import token

EVERYONE: Final = "*"

_TRUSTS: Final = tuple(Trust)
_SENSITIVITIES: Final = tuple(Sensitivity)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge comes to."""

    #: The next version of the canonical record; None when nothing of it changes.
    record: Record | None
    #: Its text is another one, so its vector and search terms must be made anew.
    is_text_new: bool
    #: The duplicates that go, by `created_at`, then id.
    collapsed: tuple[Record, ...]


def merged(canonical: Record, duplicates: Sequence[Record], strategy: MergeStrategy, now: int) -> Merged:
    """The canonical after the merge and the duplicates that collapse into it; the given records stay as they are."""
    others = _by_age({row.id: row for row in duplicates if row.id != canonical.id}.values())
    if not others:
        return Merged(record=None, is_text_new=False, collapsed=())
    _checked(canonical, others, strategy)
    match strategy:
        case MergeStrategy.KEEP_CANONICAL:
            draft = canonical
        case MergeStrategy.MERGE_CONTENT:
            draft = _joined(canonical, others)
        case MergeStrategy.KEEP_HIGHEST_CONFIDENCE:
            draft = _taken_over(canonical, others)
        case _:
            assert_never(strategy)
    draft = replace(draft, links=_links(draft.links, canonical.id, {row.id for row in others}))
    return Merged(
        record=None if _is_same(draft, canonical) else _next_version(draft, now),
        is_text_new=draft.content != canonical.content,
        collapsed=tuple(others),
    )


def _checked(canonical: Record, others: Sequence[Record], strategy: MergeStrategy) -> None:
    scopes = {(row.tenant, row.store_id, row.user_id) for row in (canonical, *others)}
    if len(scopes) > 1:
        raise ConflictError("Records of different users or stores cannot be merged.", reason="scope_mismatch")
    if strategy is MergeStrategy.KEEP_CANONICAL:
        return
    if any(row.type != canonical.type for row in others):
        raise ConflictError(
            "Records of different types cannot be merged this way.",
            reason="type_mismatch",
            hint="The strategy keep_canonical merges across types.",
        )
    if canonical.type is MemoryType.PROCEDURAL and strategy is MergeStrategy.MERGE_CONTENT:
        raise ConflictError(
            "Procedures cannot be joined.",
            reason="type_mismatch",
            hint="Use keep_canonical or keep_highest_confidence.",
        )


def _joined(canonical: Record, others: Sequence[Record]) -> Record:
    rows = [canonical, *others]
    text, authors = canonical.content, [canonical]
    for row in others:
        if not _contains(text, row.content):
            text = f"{text}\n{row.content}"
            authors.append(row)
    tags = _distinct(tag for row in rows for tag in row.tags)
    return replace(
        canonical,
        content=text,
        metadata=_metadata(_by_age(rows), tags),
        tags=tags,
        links=tuple(link for row in rows for link in row.links),
        confidence=max(row.confidence for row in rows),
        importance=max((row.importance for row in rows if row.importance is not None), default=None),
        expires_at=_earliest_expiry(rows),
        privacy=_strictest([row.privacy for row in rows]),
        provenance=replace(canonical.provenance, trust=_lowest_trust(authors)),
    )


def _taken_over(canonical: Record, others: Sequence[Record]) -> Record:
    """The most confident row's content under the canonical's id; links of all rows are kept."""
    rows = [canonical, *others]
    best = min(rows, key=lambda row: (-row.confidence, row.created_at, row.id))
    links = tuple(link for row in rows for link in row.links)
    if best is canonical:
        return replace(canonical, links=links)
    return replace(
        canonical,
        content=best.content,
        metadata=best.metadata,
        tags=best.tags,
        links=links,
        details=best.details,
        confidence=best.confidence,
        expires_at=_earliest_expiry([canonical, best]),
        privacy=_strictest([canonical.privacy, best.privacy]),
        provenance=replace(canonical.provenance, trust=best.provenance.trust),
    )


def _is_same(draft: Record, canonical: Record) -> bool:
    """Equal, also as JSON: Python takes true for 1."""
    return draft == canonical and all(
        token(mine) == token(theirs)
        for mine, theirs in ((draft.metadata, canonical.metadata), (draft.details, canonical.details))
    )


def _next_version(draft: Record, now: int) -> Record:
    return replace(
        draft, version=draft.version + 1, updated_at=now, born=0, died=None, ending=None, salt=b"", digest=""
    )


def _by_age(rows: Iterable[Record]) -> list[Record]:
    return sorted(rows, key=lambda row: (row.created_at, row.id))


def _contains(text: str, part: str) -> bool:
    """Whether the part stands in the text as whole words: `likes Ana` is not in `likes Anastasia`."""
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def _metadata(rows: Sequence[Record], tags: tuple[str, ...]) -> JsonObject:
    """The union, a later row's key replacing an earlier one's; a list of tags in it follows the tags."""
    union: dict[str, Json] = {}
    for row in rows:
        union.update(row.metadata)
    if _is_text_list(union.get("tags")):
        union["tags"] = list(tags)
    return union


def _is_text_list(value: object) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(item, str) for item in cast(Sequence[object], value)
    )


def _links(links: Iterable[Link], canonical_id: str, gone: set[str]) -> tuple[Link, ...]:
    pointed = (replace(link, to=canonical_id) if link.to in gone else link for link in links)
    return _distinct(link for link in pointed if link.to != canonical_id)


def _distinct(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))


def _earliest_expiry(rows: Iterable[Record]) -> int | None:
    return min((row.expires_at for row in rows if row.expires_at is not None), default=None)


def _lowest_trust(rows: Iterable[Record]) -> Trust:
    return max((row.provenance.trust for row in rows), key=_TRUSTS.index)


def _strictest(intents: Sequence[PrivacyIntent | None]) -> PrivacyIntent | None:
    """The tightest bound of each member; an absent intent bounds nothing, and its sensitivity is `internal`."""
    if all(intent is None for intent in intents):
        return None
    filled = [intent or PrivacyIntent() for intent in intents]
    retains = [intent.retain for intent in filled if intent.retain is not None]
    consents = [intent.consent_id for intent in filled if intent.consent_id is not None]
    levels = [intent.sensitivity or Sensitivity.INTERNAL for intent in filled]
    is_level_set = any(intent.sensitivity for intent in filled)
    return PrivacyIntent(
        retain=min(retains, key=_length, default=None),
        share_with=_shared_by_all([intent.share_with for intent in filled]),
        consent_id=consents[0] if consents else None,
        sensitivity=max(levels, key=_SENSITIVITIES.index) if is_level_set else None,
    )


def _length(retain: str) -> float:
    length_ms = duration(retain)
    if isinstance(length_ms, Span):
        return SESSION_MS if length_ms is Span.SESSION else math.inf
    return length_ms


def _shared_by_all(bounds: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """The agents that every bound names. No bound and `*` name everybody, and `*` never replaces no bound."""
    narrow = [bound for bound in bounds if bound is not None and EVERYONE not in bound]
    if not narrow:
        return None if None in bounds else (EVERYONE,)
    return tuple(agent for agent in narrow[0] if all(agent in bound for bound in narrow[1:]))
