"""Remember and update: from a request to a durable version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import Fault
from quipu.ledger.commit import Commit, Committed, Put, Stands
from quipu.ledger.ledger import Ledger
from quipu.memory import drafts
from quipu.memory.drafts import Changing, Limits
from quipu.memory.embedding import Embedding
from quipu.memory.model import RememberRequest, RememberResponse, StoreView, UpdateRequest
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write
from quipu.memory.scope import Scopes, in_scope, no_record
from quipu.model.journal import Draft
from quipu.model.record import Record
from quipu.model.search import Restriction, Scope, Search, SessionContext, Snapshot
from quipu.model.store import Store
from quipu.operation import Context, Request, invalid
from quipu.search.engine import SearchEngine
from quipu.search.people import name_the_same
from quipu.search.terms import index_terms
from quipu.search.text import embedding_texts, index_text, is_long

#: Texts this near are named as similar, never merged by themselves.
_SIMILAR = 0.85
_MOST_SIMILAR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Plans and carries out what is remembered and updated."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    embedding: Embedding
    engine: SearchEngine
    limits: Limits

    @property
    def write(self) -> Write[RememberRequest, RememberResponse]:
        return Write(
            operation="remember",
            request=RememberRequest,
            response=RememberResponse,
            plan=self.plan,
            held=held_answer,
        )

    @property
    def update_write(self) -> Write[UpdateRequest, RememberResponse]:
        return Write(
            operation="update",
            request=UpdateRequest,
            response=RememberResponse,
            plan=self.plan_update,
            held=held_answer,
        )

    async def remember(self, ctx: Context, request: RememberRequest) -> RememberResponse:
        return await self.pipeline.write(ctx, self.write, request)

    async def update(self, ctx: Context, request: UpdateRequest) -> RememberResponse:
        return await self.pipeline.write(ctx, self.update_write, request)

    async def plan(self, planning: Planning, request: RememberRequest) -> Plan[RememberResponse]:
        if request.id is not None:
            return await self._change(planning, request, request.id)
        return await self._creation(planning, request)

    async def plan_update(self, planning: Planning, request: UpdateRequest) -> Plan[RememberResponse]:
        return await self._change(planning, request, request.id)

    async def _creation(self, planning: Planning, request: RememberRequest) -> Plan[RememberResponse]:
        store = await self.scopes.store(planning, request.store, planning.guard.checked_at)
        await self.check_links(planning, request)
        record = drafts.new_record(
            request, planning, self.limits, store=store, record_id=planning.new_id("mem")
        )
        superseded = await self._superseded(planning, request, record)
        (vector,) = await self.embedding.of_records(planning.tenant, [record], [request.embedding])
        similar = await self._similar(planning.tenant, record, vector) if request.find_similar else ()
        put = self.put(planning.tenant, record, vector)
        return self._planned(planning, request, put, store, superseded, similar=similar)

    async def _change(self, planning: Planning, request: Changing, record_id: str) -> Plan[RememberResponse]:
        current = await self._current(planning, request, record_id)
        await self.check_links(planning, request)
        if request.idempotency_key is not None and request.if_version is not None:
            # Is this a repetition, or is it late? The ledger knows, and refuses what is neither in time nor repeated.
            current = replace(current, version=request.if_version)
        record = drafts.changed_record(current, request, planning, self.limits)
        embedding = request.embedding
        if request.strategy != "overwrite":  # what was joined was checked apart, not as one
            clean = planning.guard.clean_record(record)
            if clean.content != record.content:
                embedding = None
            record = clean
        stores = await self.scopes.stores(planning.tenant, planning.guard.checked_at)
        superseded = await self._superseded(planning, request, record)
        has_same_text = (
            embedding is None
            and current.state == "live"
            and embedding_texts(record) == embedding_texts(current)
            and index_text(record) == index_text(current)
        )
        if has_same_text:
            put = Put(record=record, keeps_index=True)
        else:
            (vector,) = await self.embedding.of_records(planning.tenant, [record], [embedding])
            put = self.put(planning.tenant, record, vector)
        put = replace(put, expects=current.version, must_stand=True)
        return self._planned(planning, request, put, stores[record.store_id], superseded, before=current)

    async def _current(self, planning: Planning, request: Changing, record_id: str) -> Record:
        """The record that a request changes."""
        scope = await self.scopes.of(planning, request.agent, request.user_id)
        current = (await self.ledger.records(planning.tenant, [record_id])).get(record_id)
        if current is None or current.is_expired(planning.now) or not in_scope(current, scope):
            raise no_record()
        return current

    async def _superseded(self, planning: Planning, request: Changing, record: Record) -> list[Put]:
        """The versions that say that older facts were true until now."""
        ids = list(request.supersedes or ())
        found: dict[str, Record] = {}
        if ids:
            scope = await self.scopes.of(planning, request.agent, request.user_id)
            named = await self.ledger.records(planning.tenant, ids)
            missing = [one for one in ids if one not in named or not in_scope(named[one], scope)]
            if missing:
                raise invalid([Fault("/supersedes", "bad_value", "ids of memories that are there")])
            found.update(named)
        if record.key is not None:
            facts = await self.ledger.facts(
                planning.tenant, record.agent_id, record.user_id, record.store_id, record.key
            )
            found.update({fact.id: fact for fact in facts})
        found.pop(record.id, None)
        since = record.valid_from if record.valid_from is not None else planning.now
        return [
            Put(
                record=drafts.outdated(fact, planning, since),
                expects=fact.version,
                must_stand=True,
                keeps_index=True,
                lifts_demotion=False,
            )
            for fact in found.values()
            if fact.valid_until is None or fact.valid_until > since
        ]

    async def check_links(self, planning: Planning, request: Changing) -> None:
        """Links lead to records in reach."""
        targets = [link.to for link in request.links or ()]
        if not targets:
            return
        scope = await self.scopes.of(planning, request.agent)
        known = await self.ledger.records(planning.tenant, targets)
        faults = [
            Fault(f"/links/{index}/to", "bad_value", "the id of a memory that is there")
            for index, target in enumerate(targets)
            if target not in known or not in_scope(known[target], scope)
        ]
        if faults:
            raise invalid(faults)

    def put(self, tenant: str, record: Record, vector: bytes | None) -> Put:
        """A version as it is written; archived ones are not searched."""
        is_searched = record.state == "live"
        return Put(
            record=record,
            terms=index_terms(record) if is_searched else None,
            vector=vector if is_searched else None,
            model=self.embedding.model(tenant),
        )

    async def _similar(self, tenant: str, record: Record, vector: bytes | None) -> tuple[str, ...]:
        """Live records of the same owner that say nearly the same."""
        if vector is None or is_long(record):
            return ()
        search = Search(
            scope=Scope(tenant=tenant, agent_id=record.agent_id, user_id=record.user_id),
            snapshot=Snapshot(None, record.created_at),
            restriction=Restriction(types=frozenset({record.type})),
            text="",
            vector=vector,
            limit=_MOST_SIMILAR,
            context=SessionContext(),
        )
        found = await self.ledger.read(tenant, lambda reader: self.engine.find(reader, search))
        near = sorted(((one.cosine or 0.0, one.id) for one in found.candidates), reverse=True)
        ids = [name for cosine, name in near[:_MOST_SIMILAR] if cosine >= _SIMILAR]
        records = await self.ledger.records(tenant, ids)
        return tuple(
            name for name in ids if name in records and name_the_same(record.content, records[name].content)
        )

    def _planned(
        self,
        planning: Planning,
        request: Changing,
        put: Put,
        store: Store,
        superseded: Sequence[Put],
        *,
        before: Record | None = None,
        similar: tuple[str, ...] = (),
    ) -> Plan[RememberResponse]:
        record = put.record
        sources = tuple(drafts.sources_of(record))
        commit = Commit(
            tenant=planning.tenant,
            draft=Draft(
                op="remember" if before is None else "update",
                actor=planning.author,
                at=planning.now,
                store=record.store_id,
                agent=record.agent_id,
                run=request.run_id,
                node=request.node_id,
            ),
            changes=(put, *superseded, *((Stands(ids=sources),) if sources else ())),
            # What is said of a change stands with it, as what is said of a removal does.
            reason=request.reasoning if before is not None else None,
        )
        outcome = "planned" if request.dry_run else "created" if before is None else "updated"
        answer = RememberResponse(
            id=record.id,
            stored_at=planning.now,
            stores=() if request.dry_run else (self.ledger.name,),
            version=record.version,
            outcome=outcome,
            similar=similar,
            superseded=tuple(old.record.id for old in superseded),
            store=store_view(store),
        )
        return Plan(
            commits=(commit,),
            answer=lambda done: placed(answer, done),
            before=() if before is None else (before,),
            after=(record, *(old.record for old in superseded)),
        )


def placed(answer: RememberResponse, done: Sequence[Committed]) -> RememberResponse:
    """The answer with its position in the journal."""
    return answer.model_copy(update={"seq": done[-1].seq}) if done else answer


def held_answer(request: Request, held: Held, index: int = 0) -> RememberResponse:
    """What is answered to a memory that waits for a person; it has its id already."""
    return RememberResponse(
        id=held.record_ids[index] if index < len(held.record_ids) else held.proposal_id,
        stored_at=held.at,
        outcome="held",
        **held_fields(held),
    )


def held_fields(held: Held) -> dict[str, Any]:
    """The fields of every answer that waits for a person."""
    return {
        "pending_approval": True,
        "approval_url": held.approval_url,
        "proposal_id": held.proposal_id,
        "held_by": held.held_by,
    }


def common_store(records: Sequence[Record], stores: Mapping[str, Store]) -> StoreView | None:
    """The one store that they are all in."""
    found = {record.store_id for record in records}
    store = stores.get(found.pop()) if len(found) == 1 else None
    return None if store is None else store_view(store)


def store_view(store: Store) -> StoreView:
    return StoreView(
        id=store.id,
        name=store.name,
        scope=store.scope,
        tier=store.tier,
        namespace=store.namespace,
        description=store.description,
        created_at=store.created_at,
    )
