"""A Letta server: letta://host[:port], letta+http://host:port, letta://default (this machine, port 8283).

Speaks the REST API of the server 0.16.8, the last of that name; what is now installed as `letta` is another program.

One archive per tenant, store, agent, user and type; a passage per record. Letta cannot look a passage up, cannot filter by
metadata, and answers a hundred at most. What it can do is cut by time, to the microsecond: a passage is dated with its
record's millisecond and a microsecond from the record's id, and so it is found again among any number. Letta embeds with
the model that its server is configured with (`?embedding=`); its answers have an order and no score.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx

from quipu.errors import BackendUnavailableError, UnsupportedError
from quipu.mirrors import adapter
from quipu.mirrors.backend import (
    ALL_TYPES,
    Answer,
    Backend,
    Capabilities,
    Capability,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
    Setup,
)
from quipu.model.record import MemoryType

_MOST: Final = 100
_TIMEOUT_S: Final = 60.0
_TESTED_VERSION: Final = "0.16.8"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_MODEL: Final = "openai/text-embedding-3-small"
_PROMISES: Final[tuple[Capability, ...]] = (
    *("list", "nested_metadata", "vector", "delete_reports_absence"),
    *("hard_delete", "multi_process", "verbatim"),
)
_MICROSECOND: Final = timedelta(microseconds=1)


def make(setup: Setup) -> Backend:
    """The backend that a Letta address names."""
    adapter.check_parameters(setup, "embedding")
    return LettaBackend(setup)


class LettaBackend:
    """Archives and passages of a Letta server."""

    capabilities = Capabilities(promises=frozenset(_PROMISES), score_kind="rank_only")

    def __init__(self, setup: Setup) -> None:
        self._address, self._password = _server(setup)
        self._model = setup.parameters.get("embedding", _MODEL)
        self._client: httpx.AsyncClient | None = None
        #: Name → id.
        self._archives: dict[str, str] = {}
        self._creating = asyncio.Lock()

    async def open(self) -> None:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._password}"} if self._password else {}
            # Not through a proxy of the environment's: the address is all that is asked.
            self._client = httpx.AsyncClient(
                base_url=self._address, headers=headers, timeout=_TIMEOUT_S, trust_env=False
            )
        try:
            await self._asked("GET", "/v1/health/")
        except BackendUnavailableError:
            await self.close()
            raise

    async def _asked(self, method: str, path: str, **given: Any) -> Any:
        """What Letta answers; False where there was nothing to delete."""
        if self._client is None:
            raise adapter.unavailable("The mirror is not open.")
        try:
            answer = await self._client.request(method, path, **given)
            if method == "DELETE" and answer.status_code == 404:
                return False
            answer.raise_for_status()
            return answer.json() if answer.content else None
        except (httpx.HTTPError, ValueError) as error:
            raise adapter.unavailable("Letta does not answer.") from error

    # -- archives -----------------------------------------------------------------------------------------------------

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
                body = {"name": name, "embedding": self._model, "description": "Kept by Quipu."}
                known = self._archives[name] = (await self._asked("POST", "/v1/archives/", json=body))["id"]
        return known

    # -- keeping ------------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        archives = [await self._archive_for(copy) for copy in copies]
        native: dict[str, str] = {}
        for archive, pairs in adapter.grouped(
            zip(archives, copies, strict=True), lambda pair: pair[0]
        ).items():
            native |= await self._put(archive, [copy for _, copy in pairs])
        return [native[copy.record_id] for copy in copies]

    async def _put(self, archive: str, copies: Sequence[Copy]) -> dict[str, str]:
        """By record, where it is."""
        marks = {copy.mark for copy in copies}
        there: dict[str, str] = {}
        for kept in await self._marked(archive, copies):
            if kept.mark in marks:
                there[kept.mark.record_id] = kept.native_id
            else:  # an older version whose answer was lost: nothing is changed in place here
                await self._taken(kept.native_id)
        fresh = [copy for copy in copies if copy.record_id not in there]
        if fresh:
            body = {"passages": [_passage(copy) for copy in fresh]}
            made = await self._asked("POST", f"/v1/archives/{archive}/passages/batch", json=body)
            for passage in made:
                there[passage["metadata"][adapter.RECORD]] = _native(archive, passage)
        return there

    async def _marked(self, archive: str, copies: Sequence[Copy]) -> list[Kept]:
        """What is kept of these records already: all that carry their microseconds are looked through."""
        wanted, dates = {copy.record_id for copy in copies}, sorted({_date(copy) for copy in copies})
        kept = await self._dated(archive, dates[0], dates[-1])
        if len(kept) >= _MOST:
            kept = [one for date in dates for one in await self._dated(archive, date, date)]
        return [one for one in kept if one.mark is not None and one.mark.record_id in wanted]

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        raise UnsupportedError("Letta cannot look a passage up by its id.", reason="unsupported")

    async def delete(self, places: Sequence[Place]) -> int:
        return sum([await self._taken(place.native_id) for place in places])

    async def _taken(self, native_id: str) -> bool:
        archive, _, passage = native_id.partition("/")
        return await self._asked("DELETE", f"/v1/archives/{archive}/passages/{passage}") is not False

    # -- finding ------------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        types = sorted(query.types or ALL_TYPES)
        names = [_name(one, kind) for one in adapter.within(query) for kind in types]
        archives = [found for name in names if (found := await self._archive(name)) is not None]
        body: dict[str, Any] = {"query": query.text, "limit": min(limit, _MOST)}
        if query.created_from is not None:
            body["start_date"] = _iso(adapter.date_of(query.created_from))
        rankings = await asyncio.gather(*(self._found(archive, body) for archive in archives))
        found = adapter.interleaved(rankings)
        return adapter.answered(query, limit, found, applied=("types", "created_from"), most=_MOST)

    async def _passages(self, archive: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The archive is always named: a search without covers everything that the server has."""
        found = await self._asked("POST", "/v1/passages/search", json={**body, "archive_id": archive})
        return [one["passage"] for one in found]

    async def _found(self, archive: str, body: Mapping[str, Any]) -> list[Kept]:
        return [_kept(archive, one) for one in await self._passages(archive, body)]

    async def _dated(self, archive: str, start: datetime, end: datetime) -> list[Kept]:
        """Oldest first; a hundred at most."""
        return await self._found(
            archive, {"limit": _MOST, "start_date": _iso(start), "end_date": _iso(end + _MICROSECOND)}
        )

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        for kind in sorted(ALL_TYPES):
            archive = await self._archive(_name(container, kind))
            if archive is not None:
                async for kept in self._walk(archive):
                    yield kept

    async def _walk(self, archive: str) -> AsyncIterator[Kept]:
        seen: set[str] = set()
        body: dict[str, Any] = {"limit": _MOST}
        while True:
            page = await self._passages(archive, body)
            for one in page:
                if one["id"] not in seen:
                    seen.add(one["id"])
                    yield _kept(archive, one)
            if len(page) < _MOST:
                return
            last = _iso(datetime.fromisoformat(str(page[-1]["created_at"])))
            if last == body.get("start_date"):
                raise UnsupportedError(
                    "More than a hundred passages are of one moment: Letta cannot tell them all.",
                    reason="unsupported",
                )
            body["start_date"] = last

    # -- being there --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        try:
            version = str((await self._asked("GET", "/v1/health/")).get("version"))
        except BackendUnavailableError:
            return Health(is_up=False)
        is_other = version != _TESTED_VERSION
        warnings = ("This server is not the version that was tested.",) if is_other else ()
        return Health(is_up=True, version=version, warnings=warnings)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _server(setup: Setup) -> tuple[str, str | None]:
    """Where the server is, and the password that it wants."""
    try:
        parts = urlsplit(setup.url)
        host, port = parts.hostname or "default", parts.port
    except ValueError:
        raise adapter.bad_url("This is no address of a Letta server.", "letta://host:port") from None
    password = unquote(parts.password or parts.username or "") or None
    if host == "default":
        return "http://127.0.0.1:8283", password
    is_plain = setup.scheme == "letta+http" or host in _LOOPBACK
    if is_plain and password and host not in _LOOPBACK:
        raise adapter.bad_url("A password is not sent in the clear.", "letta://, which uses TLS")
    named = f"[{host}]" if ":" in host else host
    return f"{'http' if is_plain else 'https'}://{named}{f':{port}' if port else ''}", password


def _name(container: Container, kind: MemoryType) -> str:
    return adapter.container_name("quipu", container, kind, longest=200)


def _date(copy: Copy) -> datetime:
    """The record's time, with microseconds that tell it from others of the same millisecond."""
    spread = int.from_bytes(hashlib.sha256(copy.record_id.encode()).digest()[:4], "big") % 1000
    return adapter.date_of(copy.created_at) + timedelta(microseconds=spread)


def _iso(date: datetime) -> str:
    return date.isoformat(timespec="microseconds")


def _passage(copy: Copy) -> dict[str, Any]:
    return {
        "text": copy.content,
        "metadata": adapter.mark(copy),
        "tags": list(copy.tags),
        "created_at": _iso(_date(copy)),
    }


def _native(archive: str, passage: Mapping[str, Any]) -> str:
    return f"{archive}/{passage['id']}"


def _kept(archive: str, passage: Mapping[str, Any]) -> Kept:
    return adapter.kept(_native(archive, passage), str(passage["text"]), passage.get("metadata"))
