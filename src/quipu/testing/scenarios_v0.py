"""memorywire v0 in plain Python: the three closed responses, and worked examples of every request.

The examples stand for v0's own: between them they use every field of v0, and no field of anybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

TYPES: Final = ("semantic", "episodic", "procedural", "emotional")
MACHINE: Final = (
    '{"name": "return-parcel", "initial": "asked", "states": ["asked", "labelled", "shipped"],'
    ' "transitions": [{"trigger": "label", "source": "asked", "dest": "labelled"},'
    ' {"trigger": "ship", "source": "labelled", "dest": "shipped"}], "current": "asked"}'
)

#: (operation, request) without agent_id. `$1`, `$2` … are ids that earlier examples were answered with.
EXAMPLES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("remember", {"type": "semantic", "content": "Mara is vegetarian."}),
    (
        "remember",
        {
            "type": "episodic",
            "content": "Mara cancelled her order by phone.",
            "user_id": "mara",
            "metadata": {"channel": "phone", "tags": ["order", "support"], "entity_name": "order 7"},
            "confidence": 0.9,
            "source": "tool_result",
            "expires_at": 1_600_000_000_000,
        },
    ),
    (
        "remember",
        {
            "type": "emotional",
            "content": "Mara gets annoyed when deliveries come up.",
            "user_id": "mara",
            "confidence": 1,
            "approval_required": False,
        },
    ),
    ("remember", {"type": "procedural", "content": MACHINE}),
    ("remember", {"type": "semantic", "content": "Mara eats no meat.", "metadata": {"entity_name": "Mara"}}),
    ("recall", {"query": "What does Mara eat?"}),
    ("recall", {"query": "deliveries", "user_id": "mara", "k": 3, "types": ["emotional"], "hops": 1}),
    (
        "recall",
        {
            "query": "order",
            "fusion": "max",
            "filter": {"channel": "phone", "tags": ["order"]},
            "fresher_than_days": 30,
        },
    ),
    ("merge", {"canonical": "$1", "duplicates": ["$5"]}),
    ("merge", {"canonical": "$1", "duplicates": ["nobody"], "strategy": "keep_highest_confidence"}),
    ("expire", {"policy": {"older_than_days": 365, "type": "episodic"}}),
    ("expire", {"policy": {"confidence_below": 0.3, "no_recall_in_days": 90}, "action": "demote"}),
    ("forget", {"ids": ["$3"], "reason": "the person asked for it"}),
    ("forget", {"filter": {"channel": "phone"}, "user_id": "mara", "hard_delete": True}),
    ("forget", {"ids": ["$4"], "filter": {"channel": "letter"}}),
)

Shape = Mapping[str, Callable[[object], bool]]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _each(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    """A list of such values."""
    return lambda value: isinstance(value, list) and all(map(is_right, cast("list[object]", value)))


_is_texts = _each(_is_text)


def _members(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_row(value: object) -> bool:
    row = _members(value)
    return (
        row.keys() <= {"store", "count", "error"}
        and _is_text(row.get("store"))
        and _is_whole(row.get("count"))
        and (row.get("error") is None or _is_text(row["error"]))
    )


def _is_hit(value: object) -> bool:
    hit = _members(value)
    return (
        _is_text(hit.get("id"))
        and hit.get("type") in TYPES
        and isinstance(hit.get("content"), str | dict)
        and _is_number(hit.get("score"))
        and isinstance(hit.get("metadata"), dict)
        and _is_whole(hit.get("created_at"))
        and _is_texts(hit.get("supporting"))
        and _is_text(hit.get("source_store"))
    )


def _is_maybe_text(value: object) -> bool:
    return value is None or _is_text(value)


#: The members of each closed response: all are sent, and there are no others.
RESPONSES: Final[Mapping[str, Shape]] = {
    "remember": {
        "id": _is_text,
        "stored_at": _is_whole,
        "stores": _is_texts,
        "pending_approval": _is_bool,
        "approval_url": _is_maybe_text,
    },
    "recall": {
        "results": _each(_is_hit),
        "fusion_used": lambda value: value in ("rrf", "max", "weighted"),
        "stores_queried": _is_texts,
        "latency_ms": lambda value: isinstance(value, int) and value >= 0,
    },
    "forget": {
        "forgotten_ids": _is_texts,
        "hard_delete": _is_bool,
        "stores": _each(_is_row),
        "pending_approval": _is_bool,
        "approval_url": _is_maybe_text,
    },
    "merge": {
        "canonical": _is_text,
        "merged_count": _is_whole,
        "strategy_used": _is_text,
        "stores": _is_texts,
        "pending_approval": _is_bool,
        "approval_url": _is_maybe_text,
    },
    "expire": {
        "matched_count": _is_whole,
        "action_taken": _is_text,
        "stores": _is_texts,
        "pending_approval": _is_bool,
        "approval_url": _is_maybe_text,
    },
}


def response_faults(operation: str, body: Mapping[str, Any]) -> Iterator[str]:
    """What keeps a body from being the closed response of its operation."""
    shape = RESPONSES[operation]
    yield from (f"{name} is missing" for name in shape if name not in body)
    yield from (f"{name} is not part of it" for name in body if name not in shape)
    yield from (
        f"{name} is not what it should be"
        for name, is_right in shape.items()
        if name in body and not is_right(body[name])
    )
