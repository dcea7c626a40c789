"""Letta as a mirror: letta://host[:port], letta+http://host:port, letta://default (this machine, port 8283).

Speaks the REST API of the server 0.16.8, the last of that name; what is now installed as `letta` is another program.

One archive per tenant, store, agent, user and type; a passage per record. Letta cannot look a passage up, cannot
filter by metadata, and answers a hundred at most. What it can do is cut by time, to the microsecond: a passage is
dated with its record's millisecond and a microsecond from the record's id, and so it is found again among any number.
Letta embeds with the model that its server is configured with; its answers have an order and no score.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx

from quipu.errors import BackendUnavailableError, InvalidError, UnsupportedError
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
    ScoreKind,
    Setup,
)
from quipu.rules.containers import joined
from quipu.rules.mirroring_dates import dated

_MOST = 100
_TIMEOUT_S = 60.0
_KNOWN_VERSION = "0.16.8"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PARAMETERS = ("embedding", "base_url")
_MICROSECOND = timedelta(microseconds=1)
_FIRST_MS, _LAST_MS = -62_135_510_400_000, 253_402_214_399_999


def make(setup: Setup) -> Backend:
    """The mirror that a `letta` URL names."""
    unknown = set(setup.parameters) - set(_PARAMETERS)
    if unknown:
        raise InvalidError.at(
            "/stores", "bad_value", "A letta URL has no such parameter.", accepted=list(_PARAMETERS)
        )
    return LettaBackend(setup)


class LettaBackend:
    """Archives and passages of a Letta server."""

    capabilities = Capabilities(
        flags=frozenset(
            {
                Capability.LIST,
                Capability.NESTED_METADATA,
                Capability.VECTOR,
                Capability.DELETE_REPORTS_ABSENCE,
                Capability.HARD_DELETE,
                Capability.MULTI_PROCESS,
                Capability.VERBATIM,
            }
        ),
        score_kind=ScoreKind.RANK_ONLY,
    )

    def __init__(self, setup: Setup) -> None:
        self._address, self._token = _address(setup)
        self._embedding = setup.parameters.get("embedding", "openai/text-embedding-3-small")
        self._client: httpx.AsyncClient | None = None
        self._version: str | None = None
        self._archives: dict[str, str] = {}
        self._creating = asyncio.Lock()

    async def open(self) -> None:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            self._client = httpx.AsyncClient(
                base_url=self._address, headers=headers, timeout=_TIMEOUT_S, trust_env=False
            )
        try:
            self._version = str((await self._asked("GET", "/v1/health/")).get("version"))
        except BackendUnavailableError:
            await self.close()
            raise

    async def _asked(self, method: str, path: str, **given: Any) -> Any:
        if self._client is None:
            raise BackendUnavailableError("The mirror is not open.", reason="mirror_unreachable")
        try:
            answer = await self._client.request(method, path, **given)
            if method == "DELETE" and answer.status_code == 404:
                return False
            answer.raise_for_status()
            return answer.json() if answer.content else None
        except (httpx.HTTPError, ValueError) as error:
            raise BackendUnavailableError("Letta does not answer.", reason="mirror_unreachable") from error

    # -- archives -----------------------------------------------------------------------------------------------

    async def _archive(self, name: str) -> str | None:
        if name not in self._archives:
            found = await self._asked("GET", "/v1/archives/", params={"name": name, "limit": 1})
            if not found:
                return None
            self._archives[name] = found[0]["id"]
        return self._archives[name]

    async def _archive_for(self, copy: Copy) -> str:
        name = _name(copy.container, copy.type)
        async with self._creating:
            known = await self._archive(name)
            if known is None:
                body = {"name": name, "embedding": self._embedding, "description": "Kept by Quipu."}
                known = self._archives[name] = (await self._asked("POST", "/v1/archives/", json=body))["id"]
        return known

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        by_archive: dict[str, list[Copy]] = {}
        for copy in copies:
            by_archive.setdefault(await self._archive_for(copy), []).append(copy)
        native: dict[str, str] = {}
        for archive, mine in by_archive.items():
            native |= await self._put(archive, mine)
        return [native[copy.record_id] for copy in copies]

    async def _put(self, archive: str, copies: Sequence[Copy]) -> dict[str, str]:
        wanted = {copy.record_id: copy.version for copy in copies}
        there: dict[str, str] = {}
        for kept in await self._marked(archive, copies):
            if kept.version == wanted[str(kept.record_id)]:
                there[str(kept.record_id)] = kept.native_id
            else:  # an older version whose answer was lost: nothing is changed in place here
                await self._taken(kept.native_id)
        fresh = [copy for copy in copies if copy.record_id not in there]
        if fresh:
            body = {"passages": [_passage(copy) for copy in fresh]}
            made = await self._asked("POST", f"/v1/archives/{archive}/passages/batch", json=body)
            by_record = {passage["metadata"]["record_id"]: passage["id"] for passage in made}
            there |= {name: _native(archive, passage) for name, passage in by_record.items()}
        return there

    async def _marked(self, archive: str, copies: Sequence[Copy]) -> list[Kept]:
        """Where these records are kept already: all that carry their microseconds are looked through."""
        wanted, moments = {copy.record_id for copy in copies}, [_moment(copy) for copy in copies]
        rows = await self._listed(archive, start=min(moments), end=max(moments) + _MICROSECOND)
        if len(rows) >= _MOST:
            rows = [
                row
                for moment in sorted(set(moments))
                for row in await self._listed(archive, start=moment, end=moment + _MICROSECOND)
            ]
        kept = [_kept(archive, row) for row in rows]
        return [one for one in kept if one.record_id in wanted]

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        raise UnsupportedError("Letta cannot look a passage up by its id.", reason="unsupported")

    async def delete(self, places: Sequence[Place]) -> int:
        return sum([await self._taken(place.native_id) for place in places])

    async def _taken(self, native_id: str) -> bool:
        archive, _, passage = native_id.partition("/")
        return await self._asked("DELETE", f"/v1/archives/{archive}/passages/{passage}") is not False

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        kinds = sorted(query.types) or list(MemoryType)
        names = [_name(one, kind) for one in query.containers if _within(one, query) for kind in kinds]
        archives = [found for name in names if (found := await self._archive(name)) is not None]
        body: dict[str, Any] = {"query": query.text, "limit": min(limit, _MOST)}
        if query.created_from is not None and query.created_from > _FIRST_MS:
            body["start_date"] = _iso(_reached(query.created_from))
        answers = await asyncio.gather(*(self._found(archive, body) for archive in archives))
        # Without scores the archives take turns: each one's first, then each one's second.
        turns = sorted(
            ((rank, place, one) for place, found in enumerate(answers) for rank, one in enumerate(found)),
            key=lambda turn: turn[:2],
        )
        hits = tuple(_hit(archives[place], one) for _, place, one in turns[:limit])
        is_filtered = not (query.filter or query.session_id)
        return Answer(hits=hits, is_filtered=is_filtered, has_more=len(turns) >= limit and limit < _MOST)

    async def _found(self, archive: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = await self._asked("POST", "/v1/passages/search", json={**body, "archive_id": archive})
        return [one["passage"] for one in found]

    async def _listed(
        self, archive: str, *, start: datetime | None = None, end: datetime | None = None
    ) -> list[Mapping[str, Any]]:
        """Oldest first; a hundred at most."""
        body: dict[str, Any] = {"limit": _MOST}
        if start is not None:
            body["start_date"] = _iso(start)
        if end is not None:
            body["end_date"] = _iso(end)
        return await self._found(archive, body)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        for kind in MemoryType:
            archive = await self._archive(_name(container, kind))
            if archive is not None:
                async for kept in self._walk(archive):
                    yield kept

    async def _walk(self, archive: str) -> AsyncIterator[Kept]:
        seen: set[str] = set()
        start: datetime | None = None
        while True:
            page = await self._listed(archive, start=start)
            for one in page:
                if one["id"] not in seen:
                    seen.add(one["id"])
                    yield _kept(archive, one)
            if len(page) < _MOST:
                return
            last = datetime.fromisoformat(str(page[-1]["created_at"]))
            if last == start:
                raise UnsupportedError(
                    "More than a hundred passages are of one moment: Letta cannot tell them all.",
                    reason="unsupported",
                )
            start = last

    async def health(self) -> Health:
        try:
            version = str((await self._asked("GET", "/v1/health/")).get("version"))
        except BackendUnavailableError:
            return Health(is_up=False)
        other = () if version == _KNOWN_VERSION else ("This server is not the version that was tested.",)
        return Health(is_up=True, version=version, warnings=other)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _address(setup: Setup) -> tuple[str, str | None]:
    """Where the server is, and the password it wants."""
    given = setup.parameters.get("base_url")
    parts = urlsplit(given or setup.url)
    host, token = parts.hostname or "default", parts.password or parts.username
    if given:
        return given, token
    if host == "default":
        return "http://127.0.0.1:8283", token
    plain = setup.scheme == "letta+http" or host in _LOOPBACK
    named = f"[{host}]" if ":" in host else host
    return f"{'http' if plain else 'https'}://{named}{f':{parts.port}' if parts.port else ''}", token


def _name(container: Container, kind: MemoryType) -> str:
    parts = [container.tenant, container.store_id, container.agent_id, container.user_id, str(kind)]
    return joined(["quipu", *parts], longest=200)


def _within(one: Container, query: Query) -> bool:
    return (
        one.tenant == query.tenant
        and query.agent_id in (None, one.agent_id)
        and query.user_id in (None, one.user_id)
        and query.store_id in (None, one.store_id)
    )


def _moment(copy: Copy) -> datetime:
    spread = int.from_bytes(hashlib.sha256(copy.record_id.encode()).digest()[:4], "big") % 1000
    return _reached(copy.created_at) + timedelta(microseconds=spread)


def _reached(at: int) -> datetime:
    """A time as Letta can be told it: a day within what dates can say, for it counts from there in both directions."""
    return dated(min(max(at, _FIRST_MS), _LAST_MS))


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def _passage(copy: Copy) -> dict[str, Any]:
    told = {"record_id": copy.record_id, "version": copy.version, "metadata": dict(copy.metadata)}
    return {
        "text": copy.content,
        "metadata": told,
        "tags": list(copy.tags),
        "created_at": _iso(_moment(copy)),
    }


def _native(archive: str, passage: str) -> str:
    return f"{archive}/{passage}"


def _hit(archive: str, one: Mapping[str, Any]) -> NativeHit:
    kept = _kept(archive, one)
    return NativeHit(native_id=kept.native_id, text=kept.text, metadata=kept.metadata)


def _kept(archive: str, one: Mapping[str, Any]) -> Kept:
    told: Mapping[str, Any] = one.get("metadata") or {}
    return Kept(
        native_id=_native(archive, one["id"]),
        text=str(one["text"]),
        record_id=told.get("record_id"),
        version=told.get("version"),
        metadata=told.get("metadata") or {},
    )
