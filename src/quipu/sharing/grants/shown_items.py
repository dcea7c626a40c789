"""What may be read of an item that was shown: its log, and its vector, which is a scope of its own."""

from dataclasses import dataclass, replace

from quipu.errors import NotFoundError
from quipu.jose import b64
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.reader import Reader
from quipu.model.journal import Mention
from quipu.operation import Context
from quipu.sharing.grants import model as m
from quipu.sharing.grants import tokens
from quipu.sharing.grants.query import GrantQueries, check_scope, digest_of, disclosure
from quipu.sharing.grants.terms import EMBEDDINGS
from quipu.sharing.grants.tokens import GrantUse, use_of
from quipu.sharing.grants.view import Coverage, Ranked, SharedItem
from quipu.sharing.host import Host, kept
from quipu.sharing.model import GRANTS, ITEM_LOG, SHARED_ITEMS, ItemLogEntry

#: From this level on a log tells where a memory came from.
_WHOLE_LOG = 3
_MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItems:
    """Answers who was shown an item, and its owner. What was not shown is not there."""

    host: Host
    queries: GrantQueries

    async def own_log(self, ctx: Context, request: m.ReadItemLogRequest) -> m.ReadItemLogResponse:
        """For the owner: it outlives the item."""
        entries = await self._entries(ctx.tenant, request.id)
        if not entries:
            shown = await self.host.ledger.page(SHARED_ITEMS, ctx.tenant, {"item_id": request.id}, limit=1)
            entries = await self._entries(ctx.tenant, shown[0].record_id) if shown else []
        if not entries:
            raise _absent()
        return m.ReadItemLogResponse(entries=tuple(dict(one.entry) for one in entries))

    async def log(self, ctx: Context, request: m.ReadSharedLogRequest) -> m.ReadItemLogResponse:
        """For whoever was shown the item."""
        use = use_of(ctx)
        self.queries.check(use)
        shared, _ = await self._shown(use, request.id)
        entries = await self._entries(use.tenant, shared.record.id)
        if use.grant.level >= _WHOLE_LOG:
            return m.ReadItemLogResponse(entries=tuple(dict(one.entry) for one in entries))
        names = ("seq", "op", "at", "state")
        told = ({**{name: one.entry[name] for name in names}, "hash": one.hash} for one in entries)
        return m.ReadItemLogResponse(entries=tuple(told))

    async def vector(self, ctx: Context, request: m.ReadSharedVectorRequest) -> m.ReadSharedVectorResponse:
        """The vector of the text as it is shown, on receipt."""
        use = use_of(ctx)
        self.queries.check(use)
        check_scope(use, EMBEDDINGS)
        shared, coverage = await self._shown(use, request.id)
        ranked = Ranked(shared, 1.0, (0.0, shared.id))
        data = (await self.queries.vectors(coverage.space, [ranked])).get(shared.id)
        if data is None:
            raise _absent()
        digest, body, salts = digest_of(data), {"item_id": shared.id}, (self.host.salt(), self.host.salt())

        def work(reader: Reader) -> tuple[None, list[Commit]]:
            now, record = self.host.clock(), shared.record
            row = self.queries.still_good(reader, use, now)
            proofs = tokens.proofs_used(reader, use.proofs, now)
            standing = reader.records([record.id]).get(record.id)
            if standing is None or standing.version != record.version or standing.standing != "live":
                raise _absent()
            after = replace(row.value, uses=row.value.uses + 1)
            receipt = self.queries.receipt(
                reader, use, "memory_vector_read", body, {"digest": digest}, after, salts, now
            )
            mention = Mention(record.id, record.version, record.digest)
            changes = [Keep(GRANTS, after, row.seq), kept(receipt), *proofs]
            return None, [disclosure(use, receipt, now, (mention,), changes)]

        await self.host.ledger.locked(use.tenant, work)
        ctx.facts.record_ids = (shared.record.id,)
        return m.ReadSharedVectorResponse(vector=b64(data), digest=digest)

    async def _shown(self, use: GrantUse, name: str) -> tuple[SharedItem, Coverage]:
        """An item that the grant covers now and has shown."""
        coverage = await self.queries.views.covered(use.tenant, use.grant)
        now = self.host.clock()
        for shared in coverage.items.values():
            if shared.id == name and not shared.record.is_expired(now):
                row = await self.host.ledger.get(SHARED_ITEMS, use.tenant, use.grant.id, shared.record.id)
                if row is not None:
                    return shared, coverage
        raise _absent()

    async def _entries(self, tenant: str, record_id: str) -> list[ItemLogEntry]:
        return [*await self.host.ledger.page(ITEM_LOG, tenant, {"record_id": record_id}, limit=_MOST_ENTRIES)]


def _absent() -> NotFoundError:
    return NotFoundError("There is no such item.", reason="item")
