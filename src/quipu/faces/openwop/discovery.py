"""The discovery document: what this host can do, in the published form and in that of the RFC."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.model.runs import HostOptions
from quipu.rules.runs_deriving import MOST_BUDGET
from quipu.rules.runs_options import TOKEN_COUNTER
from quipu.rules.runs_workflows import FIXTURES

_FRESH_S = 60


def document(options: HostOptions, most_sources: int) -> dict[str, Any]:
    """Nothing is told that is switched off. The root comes first for readers that merge the two."""
    attribution = {"supported": True, "emitsWriteEvents": True}
    has_memory = "longTerm" in options.backends
    memory: dict[str, Any] = {
        "supported": has_memory,
        "writable": True,
        "maxEntrySizeBytes": options.entry_bytes,
        "ttlSupported": True,
        "compaction": {"supported": True, "trigger": "host-managed", "maxInputEntries": most_sources},
        "retention": {"ttl": True, "forget": True},
        "search": {"supported": True, "modes": ["semantic", "filter"]},
        "injectionBudget": {"supported": True, "tokenCounter": TOKEN_COUNTER},
        "distillation": {
            "supported": True,
            "maxTokenBudget": MOST_BUDGET,
            "scheduled": False,
            "indexEmitted": True,
            "tokenizerName": TOKEN_COUNTER,
        },
    }
    told = {name: memory[name] for name in ("supported", "maxEntrySizeBytes", "ttlSupported")}
    if options.tells_writes:
        memory["attribution"] = told["attribution"] = attribution
    agents: dict[str, Any] = {
        "supported": True,
        "memoryBackends": ["long-term"] if has_memory else [],
        "manifestRuntime": {"supported": True},
        "memoryConsolidation": {
            "supported": True,
            "schedule": "scheduled" if options.keeps else "on-demand",
        },
        "commitments": {"supported": True, "fireConditions": ["time", "predicate"]},
    }
    backends = [name for name in ("scratchpad", "conversation", "longTerm") if name in options.backends]
    return {
        "protocolVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {"clarificationRounds": 0, "schemaRounds": 0, "envelopesPerTurn": 0},
        **({"fixtures": list(FIXTURES)} if options.has_seams else {}),
        "replay": {
            "supported": True,
            "modes": ["replay", "branch"],
            "sideEffectSuppression": "recorded-outcome",
        },
        "secrets": {
            "supported": True,
            "scopes": ["tenant", "user", "run"],
            "resolution": "host-managed",
        },
        "agents": agents,
        "memory": memory,
        "capabilities": {"agents": {"memoryBackends": backends}, "memory": told},
    }


def advertised(options: HostOptions) -> frozenset[str]:
    """Names of what can be asked for: families, and `family.part` of what is supported."""
    root = document(options, 1)
    names = {name for name in ("replay", "secrets", "agents", "memory") if root[name].get("supported")}
    parts = {
        f"{family}.{name}"
        for family in ("agents", "memory")
        for name, part in root[family].items()
        if isinstance(part, dict)  # a part that is not supported is not told
    }
    return frozenset(names | parts)


class Discovery:
    """`GET /.well-known/openwop`."""

    def __init__(self, options: HostOptions, most_sources: int) -> None:
        self._body = json.dumps(document(options, most_sources), separators=(",", ":")).encode()
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'

    async def show(self, request: Request) -> Response:
        told = {"Cache-Control": f"public, max-age={_FRESH_S}", "ETag": self._tag}
        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if self._tag in known or f"W/{self._tag}" in known or known == ["*"]:
            return Response(status_code=304, headers=told)
        return Response(self._body, headers=told, media_type="application/json")
