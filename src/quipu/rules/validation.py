"""What a request must be before anything is done with it. The first fault of each field is told, all fields at once.

Types are the edge's business; here stand the rules that hold for every caller, Python included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from quipu.errors import Fault, InvalidError
from quipu.model.limits import Limits
from quipu.model.operations import (
    CreateStoreRequest,
    ExpireRequest,
    Floor,
    ForgetRequest,
    ListRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.record import DETAIL_FIELDS, MemoryType, Record
from quipu.model.value import Json, JsonObject
from quipu.rules import durations, expiry, filters, procedures, values
from quipu.rules.values import Faults

_SENTIMENTS = ("positive", "negative", "neutral", "mixed")


def checked_remember(request: RememberRequest, limits: Limits) -> RememberRequest:
    """The request with its tags settled and its reasoning cut, or InvalidError."""
    _refuse(_remember_faults(request, limits))
    if request.reasoning is None and not (request.metadata and "tags" in request.metadata):
        return request
    tags, reasoning = settled_tags(request), cut(request.reasoning, limits)
    if tags == request.tags and reasoning == request.reasoning:
        return request
    return replace(request, tags=tags, reasoning=reasoning)


def checked_joined(record: Record, limits: Limits) -> None:
    """What was put together of others must itself be a memory that one could have written."""
    _refuse(joined_faults(record, limits))


def joined_faults(record: Record, limits: Limits) -> Faults:
    yield from values.text_faults("/content", record.content, limits.content_bytes)
    yield from values.json_faults("/metadata", record.metadata, limits)
    yield from values.count_faults("/tags", record.tags, limits.tags)


def _remember_faults(request: RememberRequest, limits: Limits) -> Faults:
    """Field by field. Most requests leave most fields out, and every write pays for what is asked here."""
    if not values.is_plain(request.agent_id, limits.name_length):
        yield from values.name_faults("/agent_id", request.agent_id, limits, least=1)
    if request.user_id is not None and not values.is_plain(request.user_id, limits.name_length):
        yield from values.name_faults("/user_id", request.user_id, limits)
    if request.session_id is not None:
        yield from values.name_faults("/session_id", request.session_id, limits)
    if request.source is not None:
        yield from values.maybe_text_faults("/source", request.source)
    if request.type is MemoryType.PROCEDURAL or not values.is_plain(request.content, limits.content_bytes):
        yield from content_faults(request, limits)
    if request.metadata is not None and not values.is_plain_object(request.metadata, limits):
        yield from values.json_faults("/metadata", request.metadata, limits)
    if request.confidence is not None:
        yield from values.unit_faults("/confidence", request.confidence)
    if request.importance is not None:
        yield from values.unit_faults("/importance", request.importance)
    if request.expires_at is not None:
        yield from values.time_faults("/expires_at", request.expires_at)
    if request.tags is not None or _has_tags(request.metadata):
        yield from tag_faults(request, limits)
    if request.links is not None:
        yield from link_faults(request, limits)
    if request.details:
        yield from detail_faults(request, limits)
    if request.idempotency_key is not None:
        yield from values.name_faults(
            "/idempotency_key", request.idempotency_key, limits, most=limits.key_length
        )
    if request.privacy_intent is not None:
        yield from privacy_faults(request, limits)
    if request.reasoning is not None:
        yield from reason_faults(request)
    if request.approval_required is not False:
        yield from values.truth_faults("/approval_required", request.approval_required)
    yield from values.reference_faults("/store", request.store)
    if request.run_id is not None or request.node_id is not None or request.memory_ref is not None:
        for name in ("run_id", "node_id", "memory_ref"):
            yield from values.maybe_text_faults(f"/{name}", getattr(request, name))
    if (
        request.id is not None
        or request.if_version is not None
        or request.update_strategy is not UpdateStrategy.OVERWRITE
    ):
        yield from update_faults(request)


def checked_recall(request: RecallRequest, limits: Limits) -> None:
    _refuse(
        (
            *scope_faults(request),
            *values.text_faults("/query", request.query, limits.query_bytes, least=1),
            *values.whole_faults("/k", request.k, 1, limits.k),
            *values.whole_faults("/hops", request.hops, 0, 3),
            *values.maybe_whole_faults("/fresher_than_days", request.fresher_than_days, 0, values.INT64 - 1),
            *values.maybe_whole_faults("/max_tokens", request.max_tokens, 1, values.INT64 - 1),
            *values.whole_faults("/quorum_k", request.quorum_k, 1, 16),
            *values.maybe_whole_faults("/deadline_ms", request.deadline_ms, 10, 60_000),
            *(
                []
                if isinstance(request.min_relevance, Floor)
                else values.unit_faults("/min_relevance", request.min_relevance)
            ),
            *values.truth_faults("/explain", request.explain),
            *values.truth_faults("/approval_required", request.approval_required),
        )
    )
    if request.filter is not None:
        filters.checked(request.filter)


def checked_forget(request: ForgetRequest, limits: Limits) -> ForgetRequest:
    if not request.ids and not request.filter:
        raise InvalidError(
            "Say what to forget: ids, or a filter.",
            reason="no_scope",
            hint='Give ids, or a filter such as {"tags": "old"}; there is no way to forget everything at once.',
            faults=[Fault("/ids", "no_scope"), Fault("/filter", "no_scope")],
        )
    _refuse(
        (
            *scope_faults(request),
            *reason_faults(request),
            *values.truth_faults("/hard_delete", request.hard_delete),
            *values.truth_faults("/dry_run", request.dry_run),
            *values.truth_faults("/approval_required", request.approval_required),
            *values.list_faults("/ids", request.ids, limits.ids_per_call),
            *values.maybe_text_faults("/import_id", request.import_id),
            *values.name_faults("/idempotency_key", request.idempotency_key, limits, most=limits.key_length),
        )
    )
    if request.filter is not None:
        filters.checked(request.filter)
    return replace(request, reason=cut(request.reason, limits), reasoning=cut(request.reasoning, limits))


def checked_merge(request: MergeRequest, limits: Limits) -> MergeRequest:
    _refuse(
        (
            *scope_faults(request),
            *reason_faults(request),
            *values.truth_faults("/dry_run", request.dry_run),
            *values.truth_faults("/approval_required", request.approval_required),
            *values.text_faults("/canonical", request.canonical, values.ANY_SIZE),
            *(
                []
                if request.duplicates
                else [values.fault("/duplicates", "bad_value", "Name at least one.", ["at least 1 item"])]
            ),
            *values.list_faults("/duplicates", request.duplicates, limits.ids_per_call),
            *values.name_faults("/idempotency_key", request.idempotency_key, limits, most=limits.key_length),
        )
    )
    return replace(request, reasoning=cut(request.reasoning, limits))


def checked_expire(request: ExpireRequest, limits: Limits) -> ExpireRequest:
    expiry.checked_policy(request.policy)
    _refuse(
        (
            *scope_faults(request),
            *reason_faults(request),
            *values.truth_faults("/dry_run", request.dry_run),
            *values.truth_faults("/approval_required", request.approval_required),
            *values.name_faults("/idempotency_key", request.idempotency_key, limits, most=limits.key_length),
        )
    )
    if request.filter is not None:
        filters.checked(request.filter)
    return replace(request, reason=cut(request.reason, limits))


def checked_list(request: ListRequest, limits: Limits) -> None:
    _refuse(
        (
            *scope_faults(request),
            *values.whole_faults("/limit", request.limit, 1, limits.page),
            *([] if request.cursor is None else values.reference_faults("/cursor", request.cursor)),
        )
    )
    if request.filter is not None:
        filters.checked(request.filter)


def checked_create_store(request: CreateStoreRequest, limits: Limits) -> None:
    _refuse(
        (
            *values.name_faults("/name", request.name, limits, least=1),
            *values.name_faults("/namespace", request.namespace, limits),
            *values.maybe_text_faults("/description", request.description),
        )
    )


def checked_batch(items: Sequence[object], limits: Limits) -> None:
    """How many memories one request may hold."""
    _refuse(values.count_faults("/items", items, limits.batch))


def checked_whole(pointer: str, number: object, least: int, most: int) -> None:
    """One whole number that stands alone."""
    _refuse(values.whole_faults(pointer, number, least, most))


# -- the parts ----------------------------------------------------------------------------------------------------


def _refuse(faults: Iterable[tuple[Fault, str]]) -> None:
    told = list(faults)
    if told:
        first, message = told[0]
        raise InvalidError(message, reason=first.reason, faults=[fault for fault, _ in told])


def scope_faults(request: object) -> Faults:
    """Whose records a request means. A value that no record can have matches nothing."""
    for name in ("agent_id", "user_id", "session_id", "store"):
        yield from values.maybe_text_faults(f"/{name}", getattr(request, name, None))


def reason_faults(request: object) -> Faults:
    """Why something is done: any text, of which `cut` keeps what can be kept."""
    for name in ("reason", "reasoning"):
        said = getattr(request, name, None)
        yield from values.maybe_text_faults(
            f"/{name}", said.replace("\x00", "") if isinstance(said, str) else said
        )


def content_faults(request: RememberRequest, limits: Limits) -> Faults:
    content = request.content
    if isinstance(content, str):
        yield from values.text_faults("/content", content, limits.content_bytes, least=1)
        if request.type is MemoryType.PROCEDURAL and content:
            yield from _machine_faults(_parsed(content), limits)
    elif request.type is not MemoryType.PROCEDURAL:
        yield values.fault("/content", "wrong_type", _misfit(content), ["text"])
    else:
        yield from _machine_faults(content, limits)


def _misfit(content: object) -> str:
    is_object = isinstance(content, Mapping)
    return "Only a procedure's content may be an object." if is_object else "content is not text."


def _machine_faults(machine: object, limits: Limits) -> Faults:
    if not isinstance(machine, Mapping):
        yield from procedures.faults(None)
        return
    content = cast("JsonObject", machine)
    yield from list(values.json_faults("/content", content, limits)) or procedures.faults(content)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def tag_faults(request: RememberRequest, limits: Limits) -> Faults:
    listed = _listed_tags(request.metadata)
    if request.tags is not None and listed is not None and list(request.tags) != listed:
        yield values.fault(
            "/tags", "bad_value", "tags and metadata.tags differ.", ["one of them, or the same list"]
        )
    tags = request.tags if request.tags is not None else listed or ()
    yield from values.count_faults("/tags", tags, limits.tags)
    for index, tag in enumerate(tags):
        yield from values.name_faults(f"/tags/{index}", tag, limits, least=1, most=limits.tag_length)


def _has_tags(metadata: object) -> bool:
    return isinstance(metadata, Mapping) and "tags" in metadata


def _listed_tags(metadata: JsonObject | None) -> list[str] | None:
    """A list of strings at metadata.tags is the record's tags."""
    listed = metadata["tags"] if metadata is not None and _has_tags(metadata) else None
    if isinstance(listed, list | tuple) and all(isinstance(tag, str) for tag in listed):
        return [str(tag) for tag in listed]
    return None


def settled_tags(request: RememberRequest) -> tuple[str, ...] | None:
    listed = _listed_tags(request.metadata)
    return request.tags if request.tags is not None or listed is None else tuple(dict.fromkeys(listed))


def link_faults(request: RememberRequest, limits: Limits) -> Faults:
    links = request.links or ()
    yield from values.count_faults("/links", links, limits.links)
    for index, link in enumerate(links):
        yield from values.name_faults(f"/links/{index}/to", link.to, limits, least=1)
        yield from values.name_faults(
            f"/links/{index}/rel", link.rel, limits, least=1, most=limits.tag_length
        )


def detail_faults(request: RememberRequest, limits: Limits) -> Faults:
    for name, value in request.details.items():
        owner = DETAIL_FIELDS.get(name)
        if owner is None:
            yield values.fault(
                f"/{name[:64]}" if isinstance(cast("object", name), str) else "",
                "unknown_field",
                "There is no such field.",
                sorted(DETAIL_FIELDS),
            )
        elif owner is not request.type:
            yield values.fault(
                f"/{name}", "wrong_type", f"{name} belongs to {owner.value} memories.", [owner.value]
            )
        else:
            yield from _detail_value_faults(name, value, limits)


def _detail_value_faults(name: str, value: Json, limits: Limits) -> Faults:
    pointer = f"/{name}"
    match name:
        case "event_time":
            yield from values.time_faults(pointer, value)
        case "participants":
            if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
                yield values.fault(
                    pointer, "bad_value", "participants is not a list of names.", ["list of text"]
                )
            else:
                yield from values.list_faults(pointer, value, limits.ids_per_call)
        case "sentiment":
            if value not in _SENTIMENTS:
                yield values.fault(pointer, "bad_value", "sentiment is not one of its words.", _SENTIMENTS)
        case "valence" | "arousal":
            least = -1 if name == "valence" else 0
            number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
            if not least <= number <= 1:
                yield values.fault(
                    pointer, "bad_value", f"{name} is not a number from {least} to 1.", [f"{least} … 1"]
                )
        case _:
            if isinstance(value, str):
                yield from values.text_faults(pointer, value, limits.metadata_bytes)
            else:
                yield values.fault(pointer, "bad_value", f"{name} is not text.", ["text"])


def privacy_faults(request: RememberRequest, limits: Limits) -> Faults:
    privacy = request.privacy_intent
    if privacy is None:
        return
    yield from values.name_faults("/privacy_intent/consent_id", privacy.consent_id, limits)
    yield from values.count_faults(
        "/privacy_intent/share_with", privacy.share_with or (), limits.ids_per_call
    )
    for index, agent in enumerate(privacy.share_with or ()):
        yield from values.name_faults(f"/privacy_intent/share_with/{index}", agent, limits, least=1)
    if privacy.retain is not None:
        durations.duration(privacy.retain)


def update_faults(request: RememberRequest) -> Faults:
    if request.id is None:
        if request.update_strategy is not UpdateStrategy.OVERWRITE:
            yield values.fault("/update_strategy", "bad_value", "update_strategy goes with id.")
        if request.if_version is not None:
            yield values.fault(
                "/if_version", "bad_value", "A version can only be expected of a record with an id."
            )
        return
    yield from values.reference_faults("/id", request.id)
    yield from values.maybe_whole_faults("/if_version", request.if_version, 1, values.INT64 - 1)
    if request.update_strategy is UpdateStrategy.APPEND and request.type is MemoryType.PROCEDURAL:
        yield values.fault(
            "/update_strategy", "bad_value", "A procedure cannot be appended to.", ["overwrite"]
        )


def cut(text: str | None, limits: Limits) -> str | None:
    """A reason as it is kept."""
    return None if text is None else text.replace("\x00", "")[: limits.reason_length]
