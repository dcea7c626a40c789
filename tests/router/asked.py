"""What the tests of routers write and ask."""

from __future__ import annotations

from typing import Any

from quipu.model.operations import RecallRequest, RememberRequest
from quipu.model.record import MemoryType


def fact(text: str, **fields: Any) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text, **fields)


def query(text: str, **fields: Any) -> RecallRequest:
    return RecallRequest(agent_id="ana", query=text, **{"min_relevance": 0.0, **fields})
