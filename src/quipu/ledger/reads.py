"""Records, journal and registry, read alike by every ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from quipu.errors import NotFoundError
from quipu.ledger import admission, rows
from quipu.ledger.walking import PAGE, walk
from quipu.model.access import Tenant, Token
from quipu.model.beside import KeptAnswer, KeptLink, KeptReason
from quipu.model.journal import Checkpoint, Entry, Head
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.ports.ledger import Entries, Guard
from quipu.rules.texts import is_keepable

#: Behind every position.
_END = (1 << 63) - 1


class Reads:
    """Over the named statements of a ledger."""

    async def _select(self, statement: str, /, **values: Any) -> list[rows.Row]:
        raise NotImplementedError

    async def _glance(self, statement: str, /, **values: Any) -> list[rows.Row]:
        """The same for a row by its key, which every request asks for."""
        return await self._select(statement, **values)

    # -- records ------------------------------------------------------------------------------------------------

    async def versions(self, tenant: str, record_id: str) -> Sequence[Record]:
        found = await self._select("record_versions", tenant=tenant, id=record_id)
        return [rows.record_of(row) for row in found]

    async def scan(self, selection: Selection, snapshot: Snapshot) -> AsyncIterator[Record]:
        async def read(statement: str, values: Mapping[str, rows.Value]) -> Sequence[Record]:
            return [rows.record_of(row) for row in await self._select(statement, **values)]

        stores = await self.stores(selection.tenant)
        async for record in walk(read, selection, snapshot, stores):
            yield record

    async def every_version(self, tenant: str) -> AsyncIterator[Record]:
        after = 0
        while True:
            page = await self._select("versions_after", tenant=tenant, after=after, limit=PAGE)
            for row in page:
                yield rows.record_of(row)
            if len(page) < PAGE:
                return
            after = page[-1][0]

    async def due(self, tenant: str, now: int, limit: int = 1000) -> Sequence[Record]:
        return [rows.record_of(row) for row in await self._select("due", tenant=tenant, now=now, limit=limit)]

    async def reasons(self, tenant: str, record_id: str) -> Mapping[int, str]:
        found = await self._select("reasons", tenant=tenant, id=record_id)
        return {row[0]: row[1] for row in found}

    async def stores(self, tenant: str) -> Sequence[Store]:
        return [rows.store_of(tenant, row) for row in await self._select("stores", tenant=tenant)]

    # -- journal ------------------------------------------------------------------------------------------------

    async def head(self, tenant: str) -> Head:
        found = await self._select("head", tenant=tenant)
        if not found:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        seq, digest, at, horizon, *_ = found[0]
        return Head(seq=seq, hash=digest.hex(), at=at, horizon=horizon)

    async def entries(self, tenant: str, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        found = await self._select("entries", tenant=tenant, after=after, limit=limit)
        return [rows.entry_or_fault(row) for row in found]

    async def entries_with(self, tenant: str, wanted: Entries) -> Sequence[Entry]:
        texts = (wanted.agent, wanted.actor, wanted.run, wanted.record, wanted.told)
        if not all(text is None or is_keepable(text) for text in texts):
            return []
        found: list[Entry] = []
        after, last = wanted.after, _END if wanted.last is None else wanted.last
        while (left := wanted.limit - len(found)) > 0:
            page = await self._select(
                "entries_back" if wanted.is_newest_first else "entries_with",
                tenant=tenant,
                after=after,
                last=last,
                limit=left,
                ops=None if wanted.ops is None else f" {' '.join(sorted(wanted.ops))} ",
                agent=wanted.agent,
                actor=wanted.actor,
                run=wanted.run,
                # An id ends what is said of it; a text in the detail stands for itself.
                in_records=None if wanted.record is None else rows.encoded(wanted.record)[1:],
                in_detail=None if wanted.told is None else rows.encoded(wanted.told),
            )
            found += [entry for row in page if _is_meant(entry := rows.entry_or_fault(row), wanted)]
            if len(page) < left:
                break
            after, last = (after, page[-1][1] - 1) if wanted.is_newest_first else (page[-1][1], last)
        return found

    async def checkpoints(self, tenant: str) -> Sequence[Checkpoint]:
        return [rows.checkpoint_of(row) for row in await self._select("checkpoints", tenant=tenant)]

    # -- registry -----------------------------------------------------------------------------------------------

    async def tenants(self) -> Sequence[Tenant]:
        return [admission.tenant_of(row) for row in await self._select("tenants")]

    async def tenant(self, tenant: str) -> Tenant | None:
        found = await self._glance("tenant", tenant=tenant)
        return admission.tenant_of(found[0]) if found else None

    async def token(self, tenant: str, digest: str) -> tuple[Token, Tenant] | None:
        found = await self._glance("token", tenant=tenant, digest=bytes.fromhex(digest))
        return admission.token_with_tenant(found[0]) if found else None

    async def tokens(self, tenant: str) -> Sequence[Token]:
        return [admission.token_of(row) for row in await self._select("tokens", tenant=tenant)]

    async def guard(self, tenant: str) -> Guard:
        found = await self._select("guard", tenant=tenant)
        if not found:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        return admission.guard_of(tenant, found)

    # -- what stands beside them ----------------------------------------------------------------------------------

    async def misfiled(self, tenant: str, limit: int = 100) -> Sequence[tuple[str, int]]:
        return [(row[0], row[1]) for row in await self._select("misfiled", tenant=tenant, limit=limit)]

    async def every_link(self, tenant: str) -> AsyncIterator[KeptLink]:
        last = KeptLink(from_id="", to_id="", rel="", born=0, died=None)
        while True:
            page = await self._select(
                "links_after",
                tenant=tenant,
                from_id=last.from_id,
                to_id=last.to_id,
                rel=last.rel,
                born=last.born,
                limit=PAGE,
            )
            for row in page:
                last = _link_of(row)
                yield last
            if len(page) < PAGE:
                return

    async def links_from(self, tenant: str, record_id: str) -> Sequence[KeptLink]:
        return [_link_of(row) for row in await self._select("links_from", tenant=tenant, id=record_id)]

    async def demoted(self, tenant: str) -> frozenset[str]:
        return frozenset(row[0] for row in await self._select("demoted", tenant=tenant))

    async def token_hashes(self, tenant: str) -> Mapping[str, str]:
        return {row[0]: row[1].hex() for row in await self._select("token_hashes", tenant=tenant)}

    async def every_reason(self, tenant: str) -> AsyncIterator[KeptReason]:
        last = KeptReason(record_id="", seq=0, text="")
        while True:
            page = await self._select(
                "reasons_after", tenant=tenant, id=last.record_id, seq=last.seq, limit=PAGE
            )
            for record_id, seq, text in page:
                last = KeptReason(record_id=record_id, seq=seq, text=text)
                yield last
            if len(page) < PAGE:
                return

    async def every_answer(self, tenant: str) -> AsyncIterator[KeptAnswer]:
        last = ("", "", "")
        while True:
            principal, operation, key = last
            page = await self._select(
                "answers_after", tenant=tenant, principal=principal, operation=operation, key=key, limit=PAGE
            )
            for principal, operation, key, answer, at, seq, *told in page:
                last = (principal, operation, key)
                entry = None if told[1] is None else rows.entry_or_fault(told)
                yield KeptAnswer(
                    operation=operation, answer=rows.decoded(answer), at=at, seq=seq, entry=entry
                )
            if len(page) < PAGE:
                return


def _is_meant(entry: Entry, wanted: Entries) -> bool:
    """What the statement leaves open: it looks for words, wherever they stand."""
    return (wanted.record is None or any(mention.id == wanted.record for mention in entry.records)) and (
        wanted.told is None or wanted.told in entry.detail.values()
    )


def _link_of(row: rows.Row) -> KeptLink:
    from_id, to_id, rel, born, died = row
    return KeptLink(from_id=from_id, to_id=to_id, rel=rel, born=born, died=died)
