"""memorywire v0 in plain Python: its closed answers, and worked examples that use every field of it and no other."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

TYPES = ("semantic", "episodic", "procedural", "emotional")
MACHINE = (
    '{"name": "return-parcel", "initial": "asked", "states": ["asked", "labelled", "shipped"],'
    ' "transitions": [{"trigger": "label", "source": "asked", "dest": "labelled"},'
    ' {"trigger": "ship", "source": "labelled", "dest": "shipped"}], "current": "asked"}'
)

#: (operation, request) without agent_id. `$1`, `$2` … are ids that earlier examples were answered with.
EXAMPLES: tuple[tuple[str, Mapping[str, Any]], ...] = (
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
            "expires_at": 4_000_000_000_000,
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
    ("forget", {"filter": {"channel": "phone"}, "user_id": "mara", "hard_delete": False}),
    ("forget", {"ids": ["$4"], "filter": {"channel": "letter"}}),
)
#: The fields of each request; the examples use them all.
FIELDS: Mapping[str, frozenset[str]] = {
    operation: frozenset({"agent_id"}).union(*(body for name, body in EXAMPLES if name == operation))
    for operation, _ in EXAMPLES
}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_maybe_text(value: object) -> bool:
    return value is None or _is_text(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _each(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    """A list of such values."""
    return lambda value: isinstance(value, list) and all(map(is_right, cast("list[object]", value)))


_are_texts = _each(_is_text)


def _members(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_row(value: object) -> bool:
    row = _members(value)
    return (
        row.keys() <= {"store", "count", "error"}
        and _is_text(row.get("store"))
        and _is_count(row.get("count"))
        and _is_maybe_text(row.get("error"))
    )


def _is_hit(value: object) -> bool:
    hit = _members(value)
    score = hit.get("score")
    return (
        _is_text(hit.get("id"))
        and hit.get("type") in TYPES
        and isinstance(hit.get("content"), str | dict)
        and isinstance(score, int | float)
        and not isinstance(score, bool)
        and isinstance(hit.get("metadata"), dict)
        and _is_whole(hit.get("created_at"))
        and _are_texts(hit.get("supporting"))
        and _is_text(hit.get("source_store"))
    )


_HELD: Mapping[str, Callable[[object], bool]] = {
    "pending_approval": _is_bool,
    "approval_url": _is_maybe_text,
}
#: The members of each closed answer: all are sent, and there are no others.
_ANSWERS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "remember": {"id": _is_text, "stored_at": _is_whole, "stores": _are_texts, **_HELD},
    "recall": {
        "results": _each(_is_hit),
        "fusion_used": lambda value: value in ("rrf", "max", "weighted"),
        "stores_queried": _are_texts,
        "latency_ms": _is_count,
    },
    "forget": {"forgotten_ids": _are_texts, "hard_delete": _is_bool, "stores": _each(_is_row), **_HELD},
    "merge": {
        "canonical": _is_text,
        "merged_count": _is_count,
        "strategy_used": _is_text,
        "stores": _are_texts,
        **_HELD,
    },
    "expire": {"matched_count": _is_count, "action_taken": _is_text, "stores": _are_texts, **_HELD},
}


def answer_faults(operation: str, body: Mapping[str, Any]) -> Iterator[str]:
    """What keeps a body from being the closed answer of its operation."""
    shape = _ANSWERS[operation]
    yield from (f"{name} is missing" for name in shape if name not in body)
    yield from (f"{name} is not part of it" for name in body if name not in shape)
    yield from (
        f"{name} is not what it should be"
        for name, is_right in shape.items()
        if name in body and not is_right(body[name])
    )
