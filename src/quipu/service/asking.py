"""Mirrors asked during a recall, and what they say resolved in the ledger.

What a mirror finds counts only as a place in a ranking. Text, visibility and filters come from the ledger: a native id
that was ours once and is not any more, or is another tenant's, is dropped; one that was never ours is *foreign*.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from quipu.errors import QuipuError
from quipu.model.record import Record
from quipu.model.search import Candidate, Found, Restriction, Search
from quipu.ports.backend import Capability, Mirror, NativeHit, Query
from quipu.ports.outbox import CopyState, Mirrored
from quipu.ports.parts import Parts
from quipu.rules import signed_hits
from quipu.rules.mirroring import passes
from quipu.service.access import Access

_log = logging.getLogger("quipu.mirrors")
#: How many more a mirror that cannot filter is asked for in the end, as a multiple of what is wanted.
_MOST_TIMES: Final = 16
_CONTAINERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Stranger:
    """A hit that no record of the ledger stands behind."""

    mirror: Mirror
    hit: NativeHit

    @property
    def id(self) -> str:
        return f"{self.mirror.name}:{self.hit.native_id}"


@dataclass(slots=True)
class _Said:
    """One mirror's ranking: a record's id for each hit that is ours, a stranger for each that is not."""

    ranking: list[str | Stranger] = field(default_factory=list[str | Stranger])
    drift: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What mirrors said. `rankings` hold ids of records and of strangers."""

    rankings: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    strangers: Mapping[str, Stranger] = field(default_factory=dict[str, Stranger])
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Records that only mirrors found, as the ledger sees them.
    candidates: tuple[Candidate, ...] = ()

    @property
    def added(self) -> frozenset[str]:
        """The ids of those."""
        return frozenset(candidate.id for candidate in self.candidates)


#: Mirrors at work, by name.
Asked: TypeAlias = Mapping[str, "asyncio.Task[_Said]"]


class Asking:
    """All mirrors at once, each within its deadline."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._outbox = parts.ledger.outbox
        self._noting: set[asyncio.Task[None]] = set()

    def begun(self, search: Search, wanted: int) -> Asked:
        """Ask all of them, in the background."""
        return {
            mirror.name: asyncio.create_task(self._said(mirror, search, wanted))
            for mirror in self._parts.mirrors
        }

    async def heard(self, tasks: Asked, search: Search, found: Found, seconds: float) -> Heard:
        """Wait at most so long, and resolve. A mirror that fails or is late is named, and the others count."""
        if not tasks:
            return Heard()
        try:
            await asyncio.wait(tasks.values(), timeout=max(0.0, seconds))
        finally:
            for task in tasks.values():
                task.cancel()
        said = {name: _result(task) for name, task in tasks.items()}
        failed = {name: one.failure for name, one in said.items() if one.failure is not None}
        heard = {name: one.ranking for name, one in said.items() if one.failure is None}
        self._note_drift(search.scope.tenant, said)
        known = {candidate.id for candidate in found.candidates}
        ours = {item for ranking in heard.values() for item in ranking if isinstance(item, str)}
        strangers = {
            item.id: item for ranking in heard.values() for item in ranking if isinstance(item, Stranger)
        }
        return Heard(
            rankings={
                name: [item if isinstance(item, str) else item.id for item in ranking]
                for name, ranking in heard.items()
            },
            strangers=strangers,
            failed=failed,
            candidates=await self._seen(search, frozenset(ours - known)),
        )

    async def _seen(self, search: Search, ids: frozenset[str]) -> tuple[Candidate, ...]:
        """Those of these records that the ledger's own search could have returned, with what it says of them."""
        if not ids:
            return ()
        narrowed = replace(search, restriction=replace(search.restriction, ids=ids), limit=len(ids))
        return (await self._parts.ledger.search(narrowed)).candidates

    # -- one mirror -----------------------------------------------------------------------------------------------

    async def _said(self, mirror: Mirror, search: Search, wanted: int) -> _Said:
        """Ask for more as long as too little of it may be returned, and there is more to be had."""
        limit = wanted
        try:
            query = await self._query(mirror, search)
            while True:
                answer = await mirror.backend.search(query, limit)
                hits = self._signed(mirror, query, answer.hits)
                if hits is None:
                    return _Said(failure="bad_signature")
                said, passing = await self._resolved(mirror, search, hits)
                is_enough = answer.is_filtered or not answer.has_more or passing >= wanted
                if is_enough or limit >= wanted * _MOST_TIMES:
                    return said
                limit *= 2
        except QuipuError as error:
            return _Said(failure=error.reason or error.code)
        except Exception:  # noqa: BLE001  whatever a mirror does, the others answer
            _log.exception("The mirror %s could not be asked.", mirror.name)
            return _Said(failure="mirror_failed")

    async def _query(self, mirror: Mirror, search: Search) -> Query:
        scope, by = search.scope, search.restriction
        containers = await self._outbox.containers(scope, mirror.name, _CONTAINERS)
        return Query(
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            store_id=scope.store_id,
            text=search.text,
            types=by.types,
            session_id=by.session_id,
            created_from=by.created_from,
            filter=by.filter,
            containers=tuple(containers),
            nonce=self._parts.mint_salt().hex() if mirror.keys else None,
            audience=self._parts.routing.audience if mirror.keys else None,
        )

    def _signed(self, mirror: Mirror, query: Query, hits: Sequence[NativeHit]) -> Sequence[NativeHit] | None:
        """The hits of a mirror that signs them; None where one is not signed as it should be."""
        if not mirror.keys:
            return hits
        asked = signed_hits.Asked(audience=query.audience or "", query=query.text, nonce=query.nonce or "")
        (key_id,) = mirror.keys
        are_good = (
            signed_hits.is_signed(
                hit.signature,
                asked,
                rank=rank if hit.signed_rank is None else hit.signed_rank,
                id=hit.native_id,
                text=hit.text,
                now=self._parts.clock(),
                verify=lambda message, signature: self._parts.verify(message, key_id, signature, mirror.keys),
            )
            for rank, hit in enumerate(hits)
        )
        return hits if all(are_good) else None

    async def _resolved(self, mirror: Mirror, search: Search, hits: Sequence[NativeHit]) -> tuple[_Said, int]:
        """The ranking in the ledger's terms, and how many of it may be returned as far as that can be told."""
        scope = search.scope
        native = [hit.native_id for hit in hits]
        known = await self._outbox.mirrored_as(scope.tenant, mirror.name, native)
        unknown = [name for name in native if name not in known]
        others = (
            await self._outbox.elsewhere(scope.tenant, mirror.name, unknown) if unknown else frozenset[str]()
        )
        ids = [copy.record_id for copy in known.values() if _is_current(copy)]
        records = await self._parts.ledger.read(scope.tenant, ids)
        names = await self._access.store_names(scope.tenant, {record.store_id for record in records.values()})
        said, passing = _Said(), 0
        for hit in hits:
            copy = known.get(hit.native_id)
            if copy is None:
                if hit.native_id not in others and hit.text:
                    said.ranking.append(Stranger(mirror, hit))
                continue
            record = records.get(copy.record_id)
            if record is None or not _is_current(copy):
                continue
            said.ranking.append(record.id)
            said.drift += _differs(mirror, hit, copy, record)
            passing += self._passes(record, search, search.restriction, names.get(record.store_id, ""))
        return said, passing

    @staticmethod
    def _passes(record: Record, search: Search, by: Restriction, store_name: str) -> bool:
        return passes(record, search.scope, by, search.snapshot.now, store_name)

    # -- noting ---------------------------------------------------------------------------------------------------

    def _note_drift(self, tenant: str, said: Mapping[str, _Said]) -> None:
        """Off the hot path: nobody waits for it."""
        for name, one in said.items():
            if one.drift:
                _log.warning("The mirror %s showed %d texts that are not the ledger's.", name, one.drift)
                task = asyncio.create_task(self._noted(tenant, name, one.drift))
                self._noting.add(task)
                task.add_done_callback(self._noting.discard)

    async def _noted(self, tenant: str, name: str, count: int) -> None:
        try:
            await self._outbox.note_drift(tenant, name, count)
        except QuipuError as error:
            _log.warning("What the mirror %s altered could not be noted: %s", name, error.code)

    async def close(self) -> None:
        """Let what is being noted be noted."""
        await asyncio.gather(*self._noting, return_exceptions=True)


def _result(task: asyncio.Task[_Said]) -> _Said:
    if not task.done() or task.cancelled():
        return _Said(failure="mirror_late")
    return task.result()


def _is_current(copy: Mirrored) -> bool:
    """Whether the mirror may still speak of it. A lagging mirror may: whether it is shown is the ledger's to say."""
    return copy.state in (CopyState.KEPT, CopyState.SENDING)


def _differs(mirror: Mirror, hit: NativeHit, copy: Mirrored, record: Record) -> bool:
    """Whether the mirror shows another text than it was given."""
    is_comparable = Capability.VERBATIM in mirror.backend.capabilities and copy.state is CopyState.KEPT
    return is_comparable and bool(hit.text) and copy.version == record.version and hit.text != record.content
