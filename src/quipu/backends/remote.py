"""Another Quipu as a mirror: quipu+https://:token@host, quipu+http://… on this machine.

It is spoken to as anybody would, in memorywire over HTTP, and mints ids of its own; the record's stands in the metadata.
Tenant, store and agent together are the other side's agent, the user is its user. What it finds, it finds by meaning
and by words, with the restrictions applied first.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.model.record import MemoryType
from quipu.ports.backend import (
    Answer,
    Backend,
    Capabilities,
    Capability,
    Container,
    Copy,
    Health,
    Kept,
    NativeHit,
    Place,
    Query,
    Remaining,
    ScoreKind,
    Sent,
    Setup,
)
from quipu.rules.containers import joined
from quipu.rules.signed_hits import text_of

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MOST_HITS = 1000
_MOST_ITEMS = 500
#: So many ids fit into an address.
_MOST_NAMED = 100
_TIMEOUT_S = 60.0
_MARK = "quipu_mirror"


def make(setup: Setup) -> Backend:
    """The mirror that a `quipu+https` URL names."""
    parts = urlsplit(setup.url)
    if setup.parameters:
        raise InvalidError.at("/stores", "bad_value", "The address of a Quipu has no such parameter.")
    if setup.scheme == "quipu+http" and parts.hostname not in _LOOPBACK:
        raise InvalidError.at(
            "/stores", "bad_value", "Without TLS only this machine is spoken to.", accepted=["quipu+https://"]
        )
    return RemoteBackend(setup)


class RemoteBackend:
    """Copies in a Quipu server."""

    capabilities = Capabilities(
        flags=frozenset(
            {
                Capability.GET_BY_ID,
                Capability.LIST,
                Capability.UPDATE,
                Capability.NESTED_METADATA,
                Capability.KEYWORD,
                Capability.VECTOR,
                Capability.DELETE_REPORTS_ABSENCE,
                Capability.MULTI_PROCESS,
                Capability.VERBATIM,
            }
        ),
        score_kind=ScoreKind.RANK_ONLY,
    )

    def __init__(self, setup: Setup) -> None:
        parts = urlsplit(setup.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        scheme = setup.scheme.removeprefix("quipu+")
        port = f":{parts.port}" if parts.port else ""
        self._address = f"{scheme}://{host}{port}{parts.path.rstrip('/')}/memorywire/v0/"
        self._token = parts.password or parts.username
        self._client: httpx.AsyncClient | None = None
        #: Agents over there, and whether they had no memories when they were first asked about.
        self._was_empty: dict[str, bool] = {}

    async def open(self) -> None:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            self._client = httpx.AsyncClient(
                base_url=self._address, headers=headers, timeout=_TIMEOUT_S, trust_env=False
            )
        try:
            said = await self._asked("GET", "capabilities")
        except BackendUnavailableError:
            await self.close()
            raise
        if said is None:
            await self.close()
            raise BackendUnavailableError("No Quipu is at this address.", reason="mirror_unreachable")

    @property
    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            raise BackendUnavailableError("The mirror is not open.", reason="mirror_unreachable")
        return self._client

    async def _asked(self, method: str, path: str, **given: Any) -> Any:
        with _told():
            answer = await self._opened.request(method, path, **given)
            if answer.status_code == 404:
                return None
            answer.raise_for_status()
            if answer.headers.get("content-type", "").startswith("application/x-ndjson"):
                return [json.loads(line) for line in answer.text.split("\n") if line]
            return answer.json()

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        native = {copy.record_id: copy.native_id for copy in copies}
        marks = await self._marks([copy for copy in copies if copy.native_id is None])
        fresh: list[Copy] = []
        for copy in copies:
            known, version = marks.get(copy.record_id, (copy.native_id, None))
            native[copy.record_id] = known
            if known is None:
                fresh.append(copy)
            elif version != copy.version:  # what is there in this version was sent before a crash
                body = _item(replace(copy, native_id=known))
                _native({"response": await self._asked("POST", "remember", json=body)})
        for start in range(0, len(fresh), _MOST_ITEMS):
            some = fresh[start : start + _MOST_ITEMS]
            answer = await self._asked(
                "POST", "remember/batch", json={"items": [_item(copy) for copy in some]}
            )
            for copy, result in zip(some, answer["results"], strict=True):
                native[copy.record_id] = _native(result)
        return [str(native[copy.record_id]) for copy in copies]

    async def _marks(self, copies: Sequence[Copy]) -> dict[str, tuple[str, int | None]]:
        """By record, the id and version under which it is kept already: by its mark alone, for its text may be no more."""
        wanted: dict[str, list[str]] = {}
        for copy in copies:
            agent = _agent(copy.container)
            if copy.sent is Sent.BEGUN or (copy.sent is Sent.UNKNOWN and not await self._is_new(agent)):
                wanted.setdefault(agent, []).append(copy.record_id)
        marks: dict[str, tuple[str, int | None]] = {}
        for agent, ids in wanted.items():
            for start in range(0, len(ids), _MOST_NAMED):
                some = {f"{_MARK}.record_id": {"$in": ids[start : start + _MOST_NAMED]}}
                asked = {"agent_id": agent, "filter": json.dumps(some)}
                lines = await self._asked("GET", "export", params=asked)
                found = [_kept(line) for line in lines or () if "id" in line]
                marks |= {str(kept.record_id): (kept.native_id, kept.version) for kept in found}
        return marks

    async def _is_new(self, agent: str) -> bool:
        """Whether the agent had nothing over there when it was first asked about: who has sent it anything since has
        noted so. To ask for marks takes the longer the more is there, and a fill asks thousands of times."""
        if agent not in self._was_empty:
            self._was_empty[agent] = not await self._has_any(agent)
        return self._was_empty[agent]

    async def _has_any(self, agent: str) -> bool:
        with _told():
            async with self._opened.stream("GET", "export", params={"agent_id": agent}) as answer:
                answer.raise_for_status()
                async for line in answer.aiter_lines():
                    if "id" in json.loads(line):
                        return True
        return False

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found = [
            await self._asked(
                "GET", f"records/{place.native_id}", params={"agent_id": _agent(place.container)}
            )
            for place in places
        ]
        return [_kept(record) for record in found if record is not None]

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._forget(places, is_hard=False)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        await self._forget(places, is_hard=True)

    async def _forget(self, places: Sequence[Place], *, is_hard: bool) -> int:
        count = 0
        by_agent: dict[str, list[str]] = {}
        for place in places:
            by_agent.setdefault(_agent(place.container), []).append(place.native_id)
        for agent, ids in by_agent.items():
            body = {
                "agent_id": agent,
                "ids": ids,
                "hard_delete": is_hard,
                "reason": "The original was removed.",
            }
            answer = await self._asked("POST", "forget", json=body)
            if answer.get("pending_approval"):
                raise _holding()
            count += len(answer["forgotten_ids"])
        return count

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        agents = dict.fromkeys(_agent(one) for one in query.containers if _within(one, query))
        body: dict[str, Any] = {"query": query.text, "k": min(limit, _MOST_HITS), "min_relevance": 0}
        if query.user_id is not None:
            body["user_id"] = query.user_id
        if query.session_id is not None:
            body["session_id"] = query.session_id
        if query.types:
            body["types"] = sorted(str(kind) for kind in query.types)
        turns: list[tuple[int, int, Mapping[str, Any]]] = []
        headers = _signing(query)
        for place, agent in enumerate(agents):
            answer = await self._asked("POST", "recall", json={**body, "agent_id": agent}, headers=headers)
            turns += [(rank, place, hit) for rank, hit in enumerate(answer["results"])]
        turns.sort(key=lambda turn: turn[:2])
        hits = tuple(_native_hit(hit, rank) for rank, _, hit in turns[:limit])
        is_filtered = not (query.filter or query.created_from)
        return Answer(hits=hits, is_filtered=is_filtered, has_more=len(turns) >= limit and limit < _MOST_HITS)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        lines = await self._asked("GET", "export", params={"agent_id": _agent(container)})
        for line in lines or ():
            if "id" in line and line.get("user_id") == container.user_id:
                yield _kept(line)

    async def health(self) -> Health:
        try:
            said = await self._asked("GET", "health")
        except BackendUnavailableError:
            return Health(is_up=False)
        return Health(is_up=said.get("status") != "error", version=said.get("version"))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


@contextmanager
def _told() -> Generator[None]:
    """Whatever is wrong with an answer is told in our words."""
    try:
        yield
    except (httpx.HTTPError, ValueError) as error:
        raise BackendUnavailableError(
            "The other Quipu does not answer.", reason="mirror_unreachable"
        ) from error


def _signing(query: Query) -> dict[str, str]:
    """Asks the other side to sign its hits for us; it says in its settings whether it does."""
    if query.nonce is None:
        return {}
    return {"Quipu-Nonce": query.nonce, "Quipu-Audience": query.audience or ""}


def _native_hit(hit: Mapping[str, Any], rank: int) -> NativeHit:
    kept = _kept(hit)
    return NativeHit(
        native_id=kept.native_id,
        text=kept.text,
        metadata=kept.metadata,
        signature=hit.get("signature"),
        signed_rank=rank,
    )


def _agent(one: Container) -> str:
    return joined([one.tenant, one.store_id, one.agent_id], longest=200)


def _within(one: Container, query: Query) -> bool:
    return (
        one.tenant == query.tenant
        and query.agent_id in (None, one.agent_id)
        and query.user_id in (None, one.user_id)
        and query.store_id in (None, one.store_id)
    )


def _item(copy: Copy) -> dict[str, Any]:
    # What stands for a procedure that is no more is no machine, and would be refused as one.
    is_stand_in = copy.type is MemoryType.PROCEDURAL and not copy.content.startswith("{")
    item: dict[str, Any] = {
        "agent_id": _agent(copy.container),
        "type": str(MemoryType.SEMANTIC if is_stand_in else copy.type),
        "content": copy.content,
        "metadata": {
            _MARK: {"record_id": copy.record_id, "version": copy.version},
            "metadata": dict(copy.metadata),
        },
        "confidence": copy.confidence,
    }
    wanted = {
        "id": copy.native_id,
        "user_id": copy.container.user_id,
        "session_id": copy.session_id,
        "source": copy.source,
    }
    return item | {name: value for name, value in wanted.items() if value is not None}


def _native(result: Mapping[str, Any]) -> str:
    if "response" not in result:
        raise BackendUnavailableError("The other Quipu refused a copy.", reason="mirror_unreachable")
    if result["response"]["pending_approval"]:
        raise _holding()
    return str(result["response"]["id"])


def _holding() -> BackendUnavailableError:
    return BackendUnavailableError(
        "The other Quipu holds what its mirror sends for approval.",
        reason="mirror_unreachable",
        hint="Give the mirror's token a rule of its own there.",
    )


def _kept(record: Mapping[str, Any]) -> Kept:
    said: Mapping[str, Any] = record.get("metadata") or {}
    mark: Mapping[str, Any] = said.get(_MARK) or {}
    content = record["content"]
    return Kept(
        native_id=str(record["id"]),
        text=text_of(content),
        record_id=mark.get("record_id"),
        version=mark.get("version"),
        metadata=said.get("metadata") or {},
    )
