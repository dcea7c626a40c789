"""Mode 2: memory as resources. A query stands in the address, so what is sensitive goes by the tool instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import FunctionResource, ResourceSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, QuipuError
from quipu.faces.mcp.caller import Caller, caller
from quipu.faces.mcp.graph import RESOURCE as GRAPH
from quipu.faces.mcp.graph import Graph
from quipu.faces.mcp.operations import READING, Operations
from quipu.faces.mcp.results import explained, text_of
from quipu.faces.memorywire.wire_replies import RecallReply
from quipu.faces.memorywire.wire_shown import record_body
from quipu.model.change import Proposal
from quipu.model.operations import ListRequest
from quipu.model.principal import Permission
from quipu.model.record import MemoryType, Record
from quipu.model.store import Store
from quipu.model.value import Json
from quipu.service.memory import MemoryService

JSON = "application/json"
STORES = "memory://stores"
REVIEWS = "memory://reviews/pending"
RECORD = "memory://records/{id}"
SUMMARY = "memory://stores/{store}/summary"
RECALL = "memory://{agent_id}/recall{?query,k,types}"
#: First words of addresses that are no agents.
RESERVED = ("records", "stores", "reviews")
PROFILES = READING


def is_seen(who: Caller, uri: str) -> bool:
    """Whether a resource is listed for the caller."""
    if (who.profile not in PROFILES) if uri != GRAPH else (who.profile != "graph"):
        return False
    return who.principal.may(Permission.REVIEW if uri == REVIEWS else Permission.READ)


class Resources:
    """What can be read by its address."""

    def __init__(self, service: MemoryService, operations: Operations, graph: Graph) -> None:
        self._service, self._operations, self._graph = service, operations, graph

    def added_to(self, server: MCPServer[Any]) -> None:
        """Publish them. A record's address stands before a recall's: `memory://records/recall` fits both."""
        free = ResourceSecurity(exempt_params=frozenset({"query", "agent_id", "id", "store"}))
        for uri, name, description, work in (
            (RECORD, "record", "One record.", self._record),
            (SUMMARY, "store-summary", "What a memory store holds, without content.", self._summary),
            (RECALL, "recall", "What memory says to a query; types is a comma list.", self._recall),
        ):
            server.resource(uri, name=name, description=description, mime_type=JSON, security=free)(work)
        for uri, name, description, read in (
            (STORES, "stores", "The memory stores in reach.", self._stores),
            (REVIEWS, "pending-reviews", "Writes that wait for a person, without content.", self._reviews),
            (GRAPH, "knowledge-graph", "Entities and relations.", self._knowledge),
        ):
            server.add_resource(
                FunctionResource(uri=uri, name=name, description=description, mime_type=JSON, fn=read)
            )

    async def _record(self, id: str) -> str:
        async def work(who: Caller) -> Mapping[str, Any]:
            record = await self._service.reading.get(who.principal, None, id, None)
            store = await self._store_of(who, record)
            if not who.sees(store):
                raise NotFoundError("There is no such record.", reason="record")
            return record_body(record, store)

        return await read(f"memory://records/{id}", work)

    async def _store_of(self, who: Caller, record: Record) -> str:
        stores = await self._service.stores.list(who.principal)
        return next((store.name for store in stores if store.id == record.store_id), "")

    async def _recall(self, agent_id: str, query: str = "", k: str = "5", types: str = "") -> str:
        async def work(who: Caller) -> Mapping[str, Any]:
            if agent_id in RESERVED:
                raise NotFoundError("There is no such resource.")
            if not k.isascii() or not k.isdecimal():
                raise InvalidError.at("/k", "bad_value", "k is not a whole number.", accepted=["1 to 1000"])
            arguments: dict[str, Any] = {"agent_id": agent_id, "query": query, "k": int(k[:9])}
            if types:
                arguments["types"] = types.split(",")
            return RecallReply.from_model(await self._operations.recalled(who, arguments)).body()

        return await read(f"memory://{agent_id}/recall", work)

    async def _stores(self) -> str:
        async def work(who: Caller) -> Mapping[str, Any]:
            return {"stores": await store_bodies(self._service, who)}

        return await read(STORES, work)

    async def _summary(self, store: str) -> str:
        async def work(who: Caller) -> Mapping[str, Any]:
            if not who.sees(store):
                raise NotFoundError("There is no such memory store.", reason="store")
            return await self._summarised(who, store)

        return await read(f"memory://stores/{store}/summary", work)

    async def _summarised(self, who: Caller, store: str) -> Mapping[str, Any]:
        counts = dict.fromkeys((kind.value for kind in MemoryType), 0)
        times: list[int] = []
        size = 0
        async for record in in_reach(self._service, who, store):
            counts[record.type.value] += 1
            times.append(record.created_at)
            size += len(record.content.encode("utf-8"))
        pending = None
        if who.principal.may(Permission.REVIEW):
            held = await self._service.governance.proposals(who.principal, "pending")
            pending = sum(1 for proposal in held if is_about(proposal, replace(who, store=store)))
        return {
            "store": store,
            "counts": counts,
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "bytes": size,
            "pending_reviews": pending,
        }

    async def _reviews(self) -> str:
        async def work(who: Caller) -> Mapping[str, Any]:
            held = await self._service.governance.proposals(who.principal, "pending")
            rows: list[Json] = [
                {
                    "id": proposal.id,
                    "operation": proposal.operation,
                    "agent_id": proposal.agent_id,
                    "writer": proposal.writer,
                    "held_by": list(proposal.held_by),
                    "created_at": proposal.created_at,
                    "lapses_at": proposal.lapses_at,
                }
                for proposal in held
                if is_about(proposal, who)
            ]
            return {"reviews": rows}

        return await read(REVIEWS, work)

    async def _knowledge(self) -> str:
        return await read(GRAPH, self._graph.whole)


async def read(uri: str, work: Callable[[Caller], Awaitable[Mapping[str, Any]]]) -> str:
    """The body as text. Out of reach is the same as not there; what can be repaired says how."""
    who = caller()
    if not is_seen(who, uri):
        raise ResourceNotFoundError(f"Unknown resource: {uri}")
    try:
        return text_of(await work(who))
    except (NotFoundError, ForbiddenError):
        raise ResourceNotFoundError(f"Unknown resource: {uri}") from None
    except QuipuError as error:
        data = {"code": error.code, "retryable": error.retryable, "uri": uri}
        raise MCPError(INVALID_PARAMS, explained(error), data) from None


async def in_reach(service: MemoryService, who: Caller, store: str | None = None) -> AsyncIterator[Record]:
    """The caller's own records, those of one store or all."""
    request = ListRequest(agent_id=who.agent_id, store=store if store is not None else who.store)
    async for record in service.reading.walk(who.principal, request):
        yield record


def is_about(proposal: Proposal, who: Caller) -> bool:
    """Whether a held write is about a store that is there. One that names none is about all of them."""
    named = proposal.traits.get("store") or proposal.request.get("store")
    return named is None or who.sees(named)


async def store_bodies(service: MemoryService, who: Caller) -> list[Json]:
    """The stores, each with the number of records of the caller's."""
    stores = await service.stores.list(who.principal)
    counts: dict[str, int] = {}
    async for record in in_reach(service, who):
        counts[record.store_id] = counts.get(record.store_id, 0) + 1
    return [store_body(store, counts.get(store.id, 0)) for store in stores if who.sees(store.name)]


def store_body(store: Store, count: int) -> Json:
    """A store, ready for JSON."""
    return {
        "id": store.id,
        "name": store.name,
        "scope": store.scope.value,
        "tier": store.tier.value,
        "record_count": count,
    }
