"""How it is and what it promises, told to whoever may know."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from quipu.errors import BackendUnavailableError, NotFoundError
from quipu.model.principal import DEFAULT_TENANT, Permission, Principal
from quipu.model.record import MemoryType
from quipu.model.value import Json

if TYPE_CHECKING:
    from quipu.ports.parts import Parts
    from quipu.service.access import Access
    from quipu.service.mirrors import Mirrors

#: memorywire's nine promises; the ledger keeps them all.
CAPABILITIES = frozenset(
    {
        "semantic",
        "episodic",
        "procedural",
        "emotional",
        "fts",
        "vector",
        "graph",
        "governance",
        "recall_tracking",
    }
)
_OPERATIONS = ("remember", "recall", "forget", "merge", "expire")
#: A ledger that needs longer to say where it stands is down.
_PATIENCE_S = 1.0


class Condition:
    """Asks the ledger each time."""

    def __init__(self, parts: Parts, access: Access, mirrors: Mirrors, version: str) -> None:
        self._parts, self._access, self._mirrors, self._version = parts, access, mirrors, version

    async def health(self, principal: Principal | None) -> dict[str, Json]:
        """How the ledger is. A ledger that does not answer is told, not raised; strangers are told no more."""
        is_known = principal is not None and principal.may(Permission.READ)
        row: dict[str, Json] = {"backend": self._parts.ledger.name, "role": "ledger", "status": "ok"}
        told: dict[str, Json] = {"status": "ok", "backend": "quipu"}
        started = time.perf_counter()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                seq = await self._position(DEFAULT_TENANT if principal is None else principal.tenant)
        except (BackendUnavailableError, TimeoutError):
            seq = None
            told["status"] = row["status"] = "error"
            row["error"] = "does not answer"
        if not is_known:
            return told
        latency_ms = int((time.perf_counter() - started) * 1000)
        row |= {"lag": 0, "breaker": "closed", "latency_ms": latency_ms}
        stores: list[Json] = [row]
        if seq is not None and principal is not None:
            mirrors = await self._mirrors.health(principal.tenant)
            stores += mirrors
            if any(mirror["status"] != "ok" for mirror in mirrors):
                told["status"] = "degraded"
        if self._parts.rules_file is not None:
            self._parts.rules_file.rules()  # looks at the file
            if (since := self._parts.rules_file.broken_since) is not None:
                told["rules"] = {"status": "stale", "since": since}
                told["status"] = "degraded" if told["status"] == "ok" else told["status"]
        at = {} if seq is None else {"seq": seq}
        return {**told, "stores": stores, **at, "version": self._version, "time": self._parts.clock()}

    async def _position(self, tenant: str) -> int | None:
        try:
            return (await self._parts.ledger.head(tenant)).seq
        except NotFoundError:  # it answers, and that is what was asked
            return None

    def capabilities(self, principal: Principal) -> dict[str, Json]:
        """What this memory promises."""
        self._access.authorise(principal, Permission.READ)
        embedder = self._parts.embedder
        promises = sorted(CAPABILITIES if embedder is not None else CAPABILITIES - {"vector"})
        return {
            "capabilities": list[Json](promises),
            "types": [kind.value for kind in MemoryType],
            "operations": list(_OPERATIONS),
            "wire": "memorywire/v0",
            "stores": {
                self._parts.ledger.name: {"role": "ledger", "capabilities": list[Json](promises)},
                **{
                    mirror.name: {
                        "role": "mirror",
                        "capabilities": list[Json](
                            sorted(flag.value for flag in mirror.backend.capabilities.flags)
                        ),
                    }
                    for mirror in self._parts.mirrors
                },
            },
            "limits": asdict(self._parts.limits),
            "embedder": None
            if embedder is None
            else {"model": embedder.model, "dimensions": embedder.dimensions},
            "extensions": {"quipu": 1},
        }
