"""Another Quipu ledger as a mirror, with the same record ids.

A deletion closes the copy and `erase` removes it for good, old versions too. The version a copy was made from stands in
its provenance, because the mirror counts versions of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from quipu.errors import BackendUnavailableError, ConflictError, NotFoundError, QuipuError
from quipu.model.change import Change, Close, Commit, Erase, OpenStore, Put
from quipu.model.journal import Draft, Op
from quipu.model.record import Ending, Provenance, Record, State, Trust
from quipu.model.search import Restriction, Scope, Search, Selection, Snapshot
from quipu.model.store import Store
from quipu.model.value import Json, JsonObject
from quipu.ports.backend import (
    Answer,
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
)
from quipu.ports.embedder import Embedder
from quipu.ports.ledger import Ledger, Space
from quipu.ports.surroundings import Canonical, Clock, MintSalt
from quipu.rules import drafting, filters, texts
from quipu.rules.blending import Weights, blended

_ACTOR: Final = "mirror"
_WEIGHTS: Final = Weights()
_ATTEMPTS: Final = 16
_PROMISES: Final = frozenset(Capability) - {
    Capability.HARD_DELETE,
    Capability.TTL,
    Capability.TEMPORAL,
    Capability.GRAPH,
    Capability.NEEDS_LLM,
}


class LedgerBackend:
    """Copies in a ledger that was opened for nothing else."""

    def __init__(
        self,
        make: Callable[[], Ledger],
        *,
        embedder: Embedder | None,
        clock: Clock,
        mint_salt: MintSalt,
        canonical: Canonical,
    ) -> None:
        self._make, self._embedder = make, embedder
        self._clock, self._mint_salt, self._canonical = clock, mint_salt, canonical
        self._opened: Ledger | None = None
        self.capabilities = Capabilities(
            flags=_PROMISES if embedder is not None else _PROMISES - {Capability.VECTOR},
            score_kind=ScoreKind.RANK_ONLY,
            filter_operators=frozenset(filters.OPERATORS),
        )

    async def open(self) -> None:
        if self._opened is None:
            try:
                ledger = self._make()
                await ledger.tenants()
            except (QuipuError, OSError) as error:
                raise BackendUnavailableError(
                    "The mirror's ledger cannot be opened.", reason="mirror_unreachable"
                ) from error
            self._opened = ledger

    async def _ledger(self) -> Ledger:
        await self.open()
        if self._opened is None:
            raise BackendUnavailableError("The mirror is closed.", reason="mirror_unreachable")
        return self._opened

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        by_tenant: dict[str, list[Copy]] = {}
        for copy in copies:
            by_tenant.setdefault(copy.container.tenant, []).append(copy)
        for tenant, mine in by_tenant.items():
            await self._put(tenant, mine)
        return [copy.record_id for copy in copies]

    async def _put(self, tenant: str, copies: Sequence[Copy], attempts: int = 1) -> None:
        ledger = await self._ledger()
        await ledger.open(tenant)
        known = await ledger.read(tenant, [copy.record_id for copy in copies])
        fresh = [copy for copy in copies if not _is_there(copy, known.get(copy.record_id))]
        if not fresh:
            return
        model = await self._space(ledger, tenant)
        vectors = await self._vectors([copy.content for copy in fresh])
        changes: list[Change] = [
            OpenStore(store=Store(tenant=tenant, id=name, name=name, created_at=self._clock()))
            for name in await self._missing(ledger, tenant, fresh)
        ]
        for copy, vector in zip(fresh, vectors, strict=True):
            before = known.get(copy.record_id)
            version = 0 if before is None else before.version
            record = drafting.sealed(_record(copy, version + 1), self._mint_salt(), self._canonical)
            changes.append(
                Put(
                    record=record,
                    expects=version,
                    search_text=texts.search_text(record),
                    vector=vector,
                    model=model if vector is not None else None,
                )
            )
        try:
            await self._commit(ledger, tenant, Op.REMEMBER, changes)
        except ConflictError as conflict:
            if conflict.reason not in ("version_mismatch", "name_taken") or attempts >= _ATTEMPTS:
                raise
            await self._put(tenant, copies, attempts + 1)  # somebody wrote it meanwhile: look again

    @staticmethod
    async def _missing(ledger: Ledger, tenant: str, copies: Sequence[Copy]) -> list[str]:
        there = {store.id for store in await ledger.stores(tenant)}
        return sorted({copy.container.store_id for copy in copies} - there)

    async def _commit(self, ledger: Ledger, tenant: str, op: Op, changes: Sequence[Change]) -> None:
        draft = Draft(op=op, actor=_ACTOR, at=self._clock())
        await ledger.commit(Commit(tenant=tenant, draft=draft, changes=tuple(changes)))

    async def _space(self, ledger: Ledger, tenant: str) -> str | None:
        """The model whose vectors this ledger holds; one that was filled by another embedder is refused."""
        if self._embedder is None:
            if await ledger.space(tenant) is not None:  # a copy without a vector would never get one
                raise BackendUnavailableError(
                    "The mirror holds vectors, and there is no embedder.", reason="embedding_mismatch"
                )
            return None
        wanted = Space(self._embedder.model, self._embedder.dimensions)
        known = await ledger.space(tenant) or await ledger.settle_space(tenant, wanted)
        if known != wanted:
            raise BackendUnavailableError(
                f"The mirror was embedded with {known.model}; the embedder now is {wanted.model}.",
                reason="embedding_mismatch",
                hint="Give the mirror a fresh place, or configure the embedder it was made with.",
            )
        return wanted.model

    async def _vectors(self, contents: Sequence[str]) -> Sequence[bytes | None]:
        if self._embedder is None:
            return [None] * len(contents)
        return list(await self._embedder.embed(contents))

    # -- reading ------------------------------------------------------------------------------------------------

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        ledger = await self._ledger()
        found: list[Kept] = []
        for tenant in dict.fromkeys(place.container.tenant for place in places):
            ids = [place.native_id for place in places if place.container.tenant == tenant]
            records = await ledger.read(tenant, ids)
            found.extend(_kept(record) for record in records.values() if record.standing is State.LIVE)
        return found

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        ledger = await self._ledger()
        selection = Selection(
            tenant=container.tenant,
            agent_id=container.agent_id,
            user_id=container.user_id,
            store_id=container.store_id,
        )
        async for record in ledger.scan(selection, Snapshot(None, self._clock())):
            if record.user_id == container.user_id:
                yield _kept(record)

    async def search(self, query: Query, limit: int) -> Answer:
        ledger = await self._ledger()
        is_whole = query.filter is None or _is_portable(query.filter)
        scope = Scope(
            tenant=query.tenant, agent_id=query.agent_id, user_id=query.user_id, store_id=query.store_id
        )
        try:
            model = await self._known_model(ledger, query.tenant)
            search = Search(
                scope=scope,
                snapshot=Snapshot(None, self._clock()),
                restriction=Restriction(
                    session_id=query.session_id,
                    types=query.types,
                    created_from=query.created_from,
                    filter=query.filter if is_whole else None,
                ),
                text=query.text,
                vector=(await self._vectors([query.text]))[0] if model is not None else None,
                model=model,
                limit=limit + 1,
                context=_WEIGHTS.context,
            )
            found = await ledger.search(search)
        except NotFoundError:  # a tenant nobody has written for
            return Answer(hits=(), is_filtered=True)
        ranking = [item.candidate.id for item in blended(found.candidates, (), _WEIGHTS)]
        records = await ledger.read(query.tenant, ranking[:limit])
        hits = tuple(
            NativeHit(native_id=name, text=records[name].content, metadata=records[name].metadata)
            for name in ranking[:limit]
            if name in records
        )
        return Answer(hits=hits, is_filtered=is_whole, has_more=len(ranking) > limit)

    async def _known_model(self, ledger: Ledger, tenant: str) -> str | None:
        if self._embedder is None or await ledger.tenant(tenant) is None:
            return None
        return await self._space(ledger, tenant)

    # -- taking away --------------------------------------------------------------------------------------------

    async def delete(self, places: Sequence[Place]) -> int:
        ledger = await self._ledger()
        count = 0
        for tenant, records in (await self._found(ledger, places)).items():
            there = [record for record in records.values() if record.standing is State.LIVE]
            if there:
                closing = [Close(record=record, ending=Ending.FORGOTTEN) for record in there]
                await self._commit(ledger, tenant, Op.FORGET, closing)
            count += len(there)
        return count

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        ledger = await self._ledger()
        for tenant, records in (await self._found(ledger, places)).items():
            left = [record.id for record in records.values() if not record.is_emptied]
            if left:
                await self._commit(ledger, tenant, Op.ERASE, [Erase(id=name) for name in left])

    @staticmethod
    async def _found(ledger: Ledger, places: Sequence[Place]) -> Mapping[str, Mapping[str, Record]]:
        by_tenant: dict[str, list[str]] = {}
        for place in places:
            by_tenant.setdefault(place.container.tenant, []).append(place.native_id)
        return {tenant: await ledger.read(tenant, ids) for tenant, ids in by_tenant.items()}

    async def health(self) -> Health:
        try:
            await (await self._ledger()).tenants()
        except QuipuError:
            return Health(is_up=False)
        return Health(is_up=True)

    async def close(self) -> None:
        ledger, self._opened = self._opened, None
        if ledger is not None:
            await ledger.close()


def _record(copy: Copy, version: int) -> Record:
    home = copy.container
    return Record(
        tenant=home.tenant,
        id=copy.record_id,
        version=version,
        store_id=home.store_id,
        agent_id=home.agent_id,
        user_id=home.user_id,
        session_id=copy.session_id,
        type=copy.type,
        content=copy.content,
        metadata=copy.metadata,
        tags=copy.tags,
        confidence=copy.confidence,
        source=copy.source,
        provenance=Provenance(written_by=_ACTOR, trust=Trust.EXTERNAL, receipt=str(copy.version)),
        created_at=copy.created_at,
        updated_at=copy.updated_at,
    )


def _is_there(copy: Copy, record: Record | None) -> bool:
    """Whether this very copy is kept, unchanged."""
    if record is None or record.standing is not State.LIVE:
        return False
    wanted = _record(copy, record.version)
    kept = replace(record, born=0, died=None, ending=None, merged_into=None, salt=b"", digest="")
    return kept == wanted


def _kept(record: Record) -> Kept:
    version = record.provenance.receipt
    return Kept(
        native_id=record.id,
        text=record.content,
        record_id=record.id,
        version=int(version) if version is not None and version.isdigit() else None,
        metadata=record.metadata,
    )


def _is_portable(filter: JsonObject) -> bool:
    """Whether a filter means the same in the mirror: it says nothing about what a copy does not carry."""
    return all(_is_portable_key(key, value) for key, value in filter.items())


def _is_portable_key(key: str, value: Json) -> bool:
    if key in ("$and", "$or"):
        parts = cast("Sequence[JsonObject]", value)
        return all(_is_portable(part) for part in parts)
    if key == "$not":
        return _is_portable(cast("JsonObject", value))
    return key != "store" and not key.startswith("record.")
