"""memorywire v0 in plain Python: its closed answers, and worked examples that use every field of it and no other."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

_Name: TypeAlias = Literal["semantic", "episodic", "procedural", "emotional"]
TYPES: tuple[str, ...] = get_args(_Name)
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


class _Closed(BaseModel):
    """All members are sent, and there are no others."""

    model_config = ConfigDict(strict=True, extra="forbid")


class _Row(_Closed):
    """What a store did; it may leave out that nothing went wrong."""

    store: str
    count: NonNegativeInt
    error: str | None = None


class _Hit(BaseModel):
    """One hit, which may have further members."""

    model_config = ConfigDict(strict=True, extra="allow")
    id: str
    type: _Name
    content: str | dict[str, Any]
    score: float
    metadata: dict[str, Any]
    created_at: int
    supporting: list[str]
    source_store: str


class _Held(_Closed):
    pending_approval: bool
    approval_url: str | None


class _Remember(_Held):
    id: str
    stored_at: int
    stores: list[str]


class _Recall(_Closed):
    results: list[_Hit]
    fusion_used: Literal["rrf", "max", "weighted"]
    stores_queried: list[str]
    latency_ms: NonNegativeInt


class _Forget(_Held):
    forgotten_ids: list[str]
    hard_delete: bool
    stores: list[_Row]


class _Merge(_Held):
    canonical: str
    merged_count: NonNegativeInt
    strategy_used: str
    stores: list[str]


class _Expire(_Held):
    matched_count: NonNegativeInt
    action_taken: str
    stores: list[str]


_ANSWERS: Mapping[str, type[_Closed]] = {
    **{"remember": _Remember, "recall": _Recall, "forget": _Forget, "merge": _Merge, "expire": _Expire}
}
_SAID = {"missing": "is missing", "extra_forbidden": "is not part of it"}
_WRONG = "is not what it should be"


def answer_faults(operation: str, body: Mapping[str, Any]) -> list[str]:
    """What keeps a body from being the closed answer of its operation, by its member."""
    try:
        _ANSWERS[operation].model_validate(body)
    except ValidationError as error:
        found = [(one["loc"], one["type"]) for one in error.errors(include_input=False)]
        said = [f"{at[0]} {_WRONG if len(at) > 1 else _SAID.get(kind, _WRONG)}" for at, kind in found]
        return list(dict.fromkeys(said))
    return []
