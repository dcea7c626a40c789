"""Bodies that show how each operation is asked for. The tests send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, Any] = {
    "remember": {
        "agent_id": "shop",
        "type": "semantic",
        "content": "Mara is vegetarian.",
        "user_id": "mara",
        "confidence": 0.9,
        "source": "user",
        "tags": ["food"],
    },
    "recall": {"agent_id": "shop", "query": "What does Mara eat?", "user_id": "mara", "k": 3},
    "forget": {
        "agent_id": "shop",
        "filter": {"tags": "food"},
        "user_id": "mara",
        "reason": "She asked us to.",
    },
    "merge": {
        "agent_id": "shop",
        "canonical": "mem_01J00000000000000000000000",
        "duplicates": ["mem_01J00000000000000000000001"],
        "strategy": "merge_content",
    },
    "expire": {"agent_id": "shop", "policy": {"older_than_days": 180}, "action": "archive"},
    "batch": {
        "items": [
            {"agent_id": "shop", "type": "semantic", "content": "Mara is vegetarian."},
            {"agent_id": "shop", "type": "episodic", "content": "Mara cancelled her order by phone."},
        ],
        "atomic": True,
    },
    "step": {"trigger": "ship", "facts": {"label_printed": True}},
    "restore": {"reason": "It was right after all."},
    "decision": {"approved": True, "reason": "She confirmed it."},
    "rules": {
        "rules": [
            {
                "id": "web-pages",
                "when": {"operations": ["remember"], "sources": ["web_*"]},
                "effect": "hold",
                "reason": "Pages can say anything.",
            }
        ]
    },
}

IMPORT_LINES = (
    '{"agent_id": "shop", "type": "semantic", "content": "Mara is vegetarian."}\n'
    '{"agent_id": "shop", "type": "emotional", "content": "Mara likes the new shop.", "sentiment": "positive"}\n'
)
