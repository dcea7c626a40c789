"""Memory as resources. A query stands in the address, which may be logged on its way: what is private goes by the tool."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import types as t
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

from quipu.errors import Fault, ForbiddenError, NotFoundError, presentable
from quipu.governance.operations import LIST_REVIEWS
from quipu.ledger.reader import Summary
from quipu.mcp import results
from quipu.mcp.caller import Caller, pinned
from quipu.mcp.settings import McpParts
from quipu.memory.model import StoreView
from quipu.memory.operations import GET, LIST_STORES, RECALL
from quipu.model.principal import Permission, Principal
from quipu.model.search import Scope, Snapshot
from quipu.operation import dispatch, invalid

_JSON = "application/json"
STORES = "memory://stores"
REVIEWS = "memory://reviews/pending"
RECORD = "memory://records/{id}"
SUMMARY = "memory://stores/{store}/summary"
RECALL_URI = "memory://{agent_id}/recall{?query,k,types}"
#: First words of addresses that are no agents.
_RESERVED = frozenset({"records", "stores", "reviews"})
_TEMPLATES = (
    (RECORD, "record", "One record."),
    (SUMMARY, "store-summary", "What a memory store holds, without content."),
    (RECALL_URI, "recall", "What memory says to a query; types is a comma list."),
)
_TYPES = ("semantic", "episodic", "procedural", "emotional")
_PAGE = 1000
#: What is shown of a held write.
_SHOWN = ("id", "operation", "agent_id", "writer", "held_by", "created_at", "lapses_at")


@dataclass(frozen=True, slots=True)
class Address:
    """What an address is about: a record, a store, a recall, all stores or the reviews; and its name."""

    kind: str
    name: str = ""
    query: Mapping[str, str] | None = None


def address(uri: str) -> Address | None:
    """What is meant by it, however it is escaped. `memory://records/recall` is a record: records come first."""
    if uri in (STORES, REVIEWS):
        return Address("stores" if uri == STORES else "reviews")
    if (found := _RECORD.match(uri)) is not None:
        return Address("record", str(found["id"]))
    if (found := _SUMMARY.match(uri)) is not None:
        return Address("store", str(found["store"]))
    found = _RECALL.match(uri)
    if found is None or found["agent_id"] in _RESERVED:
        return None
    query = {name: str(value) for name, value in found.items() if name != "agent_id"}
    return Address("recall", str(found["agent_id"]), query)


_RECORD, _SUMMARY, _RECALL = (UriTemplate.parse(text) for text in (RECORD, SUMMARY, RECALL_URI))


def has_resources(caller: Caller) -> bool:
    return caller.profile in ("readonly", "default", "admin") and caller.principal.may(Permission.READ)


def no_resource(uri: str) -> MCPError:
    """Out of reach is the same as not there."""
    return MCPError(t.INVALID_PARAMS, "There is no such resource.", {"uri": uri})


class Resources:
    """What can be read by its address."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts
        self._readers: Mapping[str, Callable[[Caller, Address], Awaitable[Mapping[str, Any]]]] = {
            "record": self._record,
            "store": self._summary,
            "recall": self._recall,
            "stores": self._stores,
            "reviews": self._reviews,
        }

    def listed(self, caller: Caller) -> list[t.Resource]:
        if not has_resources(caller):
            return []
        shown = [(STORES, "stores", "The memory stores in reach.")]
        if caller.principal.may(Permission.REVIEW):
            shown.append((REVIEWS, "pending-reviews", "Writes that wait for a person, without content."))
        return [
            t.Resource(uri=uri, name=name, description=said, mime_type=_JSON) for uri, name, said in shown
        ]

    def templates(self, caller: Caller) -> list[t.ResourceTemplate]:
        if not has_resources(caller):
            return []
        return [
            t.ResourceTemplate(uri_template=uri, name=name, description=said, mime_type=_JSON)
            for uri, name, said in _TEMPLATES
        ]

    async def read(self, caller: Caller, uri: str) -> t.ReadResourceResult:
        found = address(uri)
        if found is None or not has_resources(caller):
            raise no_resource(uri)
        try:
            body = await self._readers[found.kind](caller, found)
        except (NotFoundError, ForbiddenError):
            raise no_resource(uri) from None
        except Exception as unforeseen:  # noqa: BLE001  an error of ours says nothing of what was in it
            raise results.protocol_error(presentable(unforeseen), uri=uri) from None
        contents = t.TextResourceContents(uri=uri, mime_type=_JSON, text=results.compact(body))
        return t.ReadResourceResult(contents=[contents])

    async def _record(self, caller: Caller, asked: Address) -> Mapping[str, Any]:
        return results.present(await dispatch(caller.ctx(), GET, {"id": asked.name}))

    async def _recall(self, caller: Caller, asked: Address) -> Mapping[str, Any]:
        query = asked.query or {}
        given: dict[str, Any] = {"agent_id": asked.name, "query": query.get("query", "")}
        if "k" in query:
            if not (query["k"].isascii() and query["k"].isdecimal()):
                raise invalid([Fault("/k", "bad_value", "a whole number from 1 to 1000")])
            given["k"] = int(query["k"][:9])
        if query.get("types"):
            given["types"] = query["types"].split(",")
        found = await dispatch(caller.ctx(), RECALL, caller.narrowed(RECALL, given))
        return results.body_of(RECALL, found, base=caller.base)

    async def _stores(self, caller: Caller, _: Address) -> Mapping[str, Any]:
        stores = (await dispatch(caller.ctx(), LIST_STORES, {})).stores
        summaries = await self._summaries(caller, stores)
        rows = [
            {"id": store.id, "name": store.name, "scope": store.scope, "tier": store.tier}
            | ({} if summary is None else {"record_count": sum(summary.counts.values())})
            for store, summary in zip(stores, summaries, strict=True)
        ]
        return {"stores": rows}

    async def _summary(self, caller: Caller, asked: Address) -> Mapping[str, Any]:
        stores = (await dispatch(caller.ctx(), LIST_STORES, {})).stores
        store = next((one for one in stores if one.name == asked.name), None)
        if store is None:
            raise NotFoundError
        (summary,) = await self._summaries(caller, [store])
        if summary is None:
            return {"store": store.name}
        body: dict[str, Any] = {
            "store": store.name,
            "counts": {kind: summary.counts.get(kind, 0) for kind in _TYPES},
            "bytes": summary.content_bytes,
        }
        if summary.oldest_at is not None:
            body |= {"oldest": summary.oldest_at, "newest": summary.newest_at}
        if caller.principal.may(Permission.REVIEW):
            only = pinned(caller.principal, store.name)
            body["pending_reviews"] = len([row async for row in _pending(caller, only)])
        return body

    async def _summaries(self, caller: Caller, stores: Sequence[StoreView]) -> Sequence[Summary | None]:
        """One query for each store. Who is for several agents, and for none in particular, sees no numbers."""
        principal = caller.principal
        agent_id = None if "*" in principal.agents else principal.default_agent
        if agent_id is None and "*" not in principal.agents:
            return [None] * len(stores)
        scopes = [
            Scope(tenant=principal.tenant, agent_id=agent_id, user_id=principal.user_id, store_id=store.id)
            for store in stores
        ]
        snapshot = Snapshot(None, caller.ctx().clock())
        return await self._parts.ledger.read(
            principal.tenant, lambda reader: [reader.summary(scope, snapshot) for scope in scopes]
        )

    async def _reviews(self, caller: Caller, _: Address) -> Mapping[str, Any]:
        return {"reviews": [row async for row in _pending(caller, caller.principal)]}


async def _pending(caller: Caller, principal: Principal) -> AsyncGenerator[Mapping[str, Any]]:
    """What waits for a person, without content."""
    cursor: str | None = None
    while True:
        asked = {"status": "pending", "limit": _PAGE} | ({} if cursor is None else {"cursor": cursor})
        page = await dispatch(caller.context(principal), LIST_REVIEWS, asked)
        for review in page.reviews:
            yield {name: value for name, value in results.present(review).items() if name in _SHOWN}
        if (cursor := page.next_cursor) is None:
            return
