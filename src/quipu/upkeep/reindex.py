"""Words by today's rules and vectors by today's embedder, for versions that have others or none."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from quipu.ledger.commit import Commit
from quipu.ledger.index import VersionKey
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.records import StoredVersion
from quipu.memory.embedding import Embedding
from quipu.model.journal import Draft
from quipu.operation import Context
from quipu.search.terms import index_terms
from quipu.upkeep.model import ReindexRequest, ReindexStep

_PAGE = 500
#: So many texts are embedded between two steps.
_TEXTS = 64
_TENANTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex:
    """Goes on where it stopped: what is right already is left as it is."""

    ledger: Ledger
    embedding: Embedding

    async def run(self, ctx: Context, request: ReindexRequest) -> AsyncIterator[ReindexStep]:
        after = ""
        while tenants := await self.ledger.tenants(after, _TENANTS):
            for one in tenants:
                async for step in self._tenant(ctx, one.tenant):
                    yield step
            after = tenants[-1].tenant

    async def _tenant(self, ctx: Context, tenant: str) -> AsyncIterator[ReindexStep]:
        terms = vectors = 0
        async for count in self._terms(tenant):
            terms += count
            yield ReindexStep(tenant=tenant, terms=terms, vectors=vectors, done=False)
        async for count in self._vectors(tenant):
            vectors += count
            yield ReindexStep(tenant=tenant, terms=terms, vectors=vectors, done=False)
        if terms or vectors:
            detail = {"terms": terms, "vectors": vectors}
            draft = Draft(op="reindex", actor=ctx.principal.name, at=ctx.clock(), detail=detail)
            await self.ledger.commit(Commit(tenant=tenant, draft=draft))
        yield ReindexStep(tenant=tenant, terms=terms, vectors=vectors, done=True)

    async def _terms(self, tenant: str) -> AsyncIterator[int]:
        """How many versions had other words, page by page."""
        after: VersionKey = ("", 0)
        while True:
            start = after

            def work(reader: Reader, start: VersionKey = start) -> list[StoredVersion]:
                return reader.stored_versions(start, _PAGE)

            page = await self.ledger.read(tenant, work)
            renewed = [
                ((one.id, one.version), terms)
                for one in page
                if one.record is not None and one.emptied is None and one.record.state == "live"
                if (terms := index_terms(one.record)) != one.terms
            ]
            if renewed:
                await self.ledger.set_terms(tenant, renewed)
                yield len(renewed)
            if len(page) < _PAGE:
                return
            after = (page[-1].id, page[-1].version)

    async def _vectors(self, tenant: str) -> AsyncIterator[int]:
        """How many versions got a vector. Recall goes on in the former space until all of them have one."""
        space = self.embedding.own
        if space is None:
            return
        if await self.ledger.space(tenant) is None:
            await self.ledger.settle_space(tenant, space)
        while True:
            while missing := await self.ledger.without_vector(tenant, space, _TEXTS):
                vectors = await self.embedding.embed(missing)
                keys = [(record.id, record.version) for record in missing]
                await self.ledger.add_vectors(tenant, space, list(zip(keys, vectors, strict=True)))
                yield len(keys)
            is_there = await self.ledger.space(tenant) == space
            # A move elsewhere that somebody has begun is given up.
            await self.ledger.adopt_space(tenant, space)
            if is_there:
                return
            self.embedding.forget_space(tenant)  # and once more: something may have been written meanwhile
