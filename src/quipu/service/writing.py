"""Remember: from a request to a durable version."""

from __future__ import annotations

from collections.abc import Awaitable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial

from quipu.errors import InvalidError, NotFoundError
from quipu.model.change import Commit, Committed, Once, Put
from quipu.model.journal import Draft, Op
from quipu.model.operations import Line, RememberRequest, UpdateStrategy
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record, State
from quipu.model.search import Context, Restriction, Scope, Search, Snapshot
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import drafting, procedures, texts, validation
from quipu.service import answers, runs_attribution
from quipu.service.access import Access
from quipu.service.committing import Plan, carried_out
from quipu.service.embedding import Vectors
from quipu.service.secrets import Checked, CheckedRuns

#: Texts this near are named as similar, never merged by themselves.
_SIMILAR = 0.85
_MOST_SIMILAR = 5


@dataclass(frozen=True, slots=True)
class Creations:
    """New memories as commits, each with the places of those it holds, and what is answered to each."""

    commits: Sequence[Commit]
    places: Sequence[Sequence[int]]
    planned: Sequence[RememberResponse]

    def answers(self, done: Sequence[Committed]) -> list[RememberResponse]:
        """What is answered once they are durable, in order."""
        at = {
            place: committed for places, committed in zip(self.places, done, strict=True) for place in places
        }
        return [answers.settled(answer, at[place]) for place, answer in enumerate(self.planned)]


def _astray(request: RememberRequest, known: Container[str]) -> InvalidError | None:
    for index, link in enumerate(request.links or ()):
        if link.to not in known:
            return InvalidError.at(f"/links/{index}/to", "bad_value", "A link leads to no record in reach.")
    return None


class Writing:
    """The write half of memory."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        vectors: Vectors,
    ) -> None:
        self._parts, self._access, self._vectors = parts, access, vectors

    def accepted(self, principal: Principal, request: RememberRequest) -> RememberRequest:
        """Authorised and valid: the first two steps of every write."""
        self._access.authorise(principal, Permission.WRITE, request.agent_id)
        request = self._access.bound(principal, request)
        return validation.checked_remember(request, self._parts.limits)

    async def check_target(self, principal: Principal, request: RememberRequest) -> None:
        """Raise where the request names a store, a record or a link that is not there."""
        await self._access.store(principal.tenant, request.store)
        await self._check_links(principal, request)
        if request.id is not None:
            await self._current(principal, request, request.id)

    def stored(
        self,
        principal: Principal,
        request: RememberRequest,
        checked: Checked,
        rule: str | None = None,
    ) -> Awaitable[RememberResponse]:
        """To be awaited: commit a request that was accepted and checked."""
        guard = checked.position
        if request.id is not None:
            return carried_out(
                self._parts.ledger,
                partial(self.change, principal, request, checked),
                is_fixed=request.if_version is not None,
                guard=guard,
                rule=rule,
            )
        creation = partial(self.creation, principal, request, self._parts.mint_id("mem"))
        return carried_out(self._parts.ledger, creation, guard=guard, rule=rule)

    async def creation(
        self, principal: Principal, request: RememberRequest, record_id: str
    ) -> Plan[RememberResponse]:
        """How a new memory is kept, as things stand."""
        now, tenant = self._parts.clock(), principal.tenant
        # What is at hand is not waited for: every write comes through here.
        store = self._access.lasting(tenant, request.store) or await self._access.store(tenant, request.store)
        if request.links:
            await self._check_links(principal, request)
        record = drafting.new_record(
            request,
            record_id=record_id,
            store=store,
            principal=principal,
            now=now,
            latest=self._parts.latest_end(now),
        )
        given = self._vectors.given(tenant, request.embedding)
        vector = given or await self._vectors.of_record(tenant, record, request.embedding)
        similar = await self._similar(principal, record, vector) if request.finds_similar else []
        put = self.put(record, vector)
        plan = self._plan(principal, request, put, Op.REMEMBER, now, similar)
        if request.run_id is None:
            return plan
        return await runs_attribution.attributed(self._parts, request, put.record, plan)

    async def change(
        self, principal: Principal, request: RememberRequest, checked: Checked | CheckedRuns
    ) -> Plan[RememberResponse]:
        """How a record is changed, as things stand. What is joined to it was `checked`, but not what both say."""
        now = self._parts.clock()
        current = await self._current(principal, request, request.id or "")
        if request.idempotency_key is not None and request.if_version is not None:
            # Is this a repetition, or is it late? The ledger knows, and refuses what is neither in time nor repeated.
            current = replace(current, version=request.if_version)
        await self._check_links(principal, request)
        latest = self._parts.latest_end(now)
        record = drafting.changed_record(current, request, principal=principal, now=now, latest=latest)
        if request.update_strategy is not UpdateStrategy.OVERWRITE:
            clean = checked.joined(record, current)
            if clean.content != record.content:  # a vector of the caller's is one of the caller's words
                request = replace(request, embedding=None)
            record = clean
            validation.checked_joined(record, self._parts.limits)
        same_text = (
            texts.embedding_text(record) == texts.embedding_text(current) and current.state is State.LIVE
        )
        if (
            same_text
            and texts.search_text(record) == texts.search_text(current)
            and request.embedding is None
        ):
            put = replace(self.put(record, None), keeps_index=True, expects=current.version)
        else:
            vector = await self._vectors.of_record(principal.tenant, record, request.embedding)
            put = replace(self.put(record, vector), expects=current.version)
        put = replace(put, must_stand=True)
        plan = self._plan(principal, request, put, Op.UPDATE, now, [])
        return await runs_attribution.attributed(self._parts, request, put.record, plan)

    async def _current(self, principal: Principal, request: RememberRequest, record_id: str) -> Record:
        """The record that a request changes."""
        scope = await self._access.scope(principal, request.agent_id, request.user_id)
        current = (await self._access.newest(scope, [record_id])).get(record_id)
        is_there = current is not None and current.standing in (State.LIVE, State.ARCHIVED)
        if current is None or not is_there or current.expired(self._parts.clock()):
            raise NotFoundError("There is no such record to change.", reason="record")
        return current

    def put(self, record: Record, vector: bytes | None) -> Put:
        """A version that was just drafted, as it is written: sealed, and searched by words and vector while it is live."""
        if record.type is MemoryType.PROCEDURAL:
            procedures.stored(record.content)  # also what waited, or is to come back, and was no machine
        sealed = drafting.seal(record, self._parts.mint_salt(), self._parts.canonical)
        is_searched = record.state is State.LIVE
        text = texts.search_text(record) if is_searched else None
        model = self._vectors.model(record.tenant)
        return Put(record=sealed, search_text=text, vector=vector if is_searched else None, model=model)

    def _plan(
        self, principal: Principal, request: RememberRequest, put: Put, op: Op, now: int, similar: list[Json]
    ) -> Plan[RememberResponse]:
        record = put.record
        outcome = "created" if op is Op.REMEMBER else "updated"
        told = partial(self.stored_answer, record, now, outcome, similar)
        # An answer that is kept for repetitions is made before there is a position to tell.
        kept = None if request.idempotency_key is None else told()
        commit = Commit(
            tenant=principal.tenant,
            draft=Draft(
                op=op,
                actor=principal.name,
                at=now,
                store=record.store_id,
                agent=record.agent_id,
                run=request.run_id,
                node=request.node_id,
                detail={},
            ),
            changes=(put,),
            # What is said of a change stands beside it, as what is said of a removal does.
            reason=request.reasoning if op is Op.UPDATE else None,
            once=None if kept is None else self._once(principal, request, kept),
        )
        return Plan(commit, told if kept is None else partial(answers.settled, kept))

    def _once(self, principal: Principal, request: RememberRequest, answer: RememberResponse) -> Once | None:
        return answers.once(principal, request, self._parts.canonical, answer, (answer.id,))

    def stored_answer(
        self,
        record: Record,
        now: int,
        outcome: str,
        similar: Sequence[Json] = (),
        done: Committed | None = None,
    ) -> RememberResponse:
        """What is answered once it is durable; `done` says where."""
        extensions: dict[str, Json] = {} if done is None else {"seq": done.seq}
        extensions |= {"version": record.version, "outcome": outcome}
        if similar:
            extensions["similar"] = list(similar)
        return RememberResponse(
            id=record.id, stored_at=now, stores=(self._parts.ledger.name,), extensions=extensions
        )

    async def linked(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> list[InvalidError | None]:
        """What is wrong with the links of each: all that an agent links to is looked up at once."""
        wanted: dict[str, set[str]] = {}
        for request in requests:
            wanted.setdefault(request.agent_id, set()).update(link.to for link in request.links or ())
        known: dict[str, Container[str]] = {}
        for agent_id, targets in wanted.items():
            scope = await self._access.scope(principal, agent_id)
            known[agent_id] = await self._access.newest(scope, sorted(targets)) if targets else ()
        return [_astray(request, known[request.agent_id]) for request in requests]

    async def _check_links(self, principal: Principal, request: RememberRequest) -> None:
        if request.links and (fault := (await self.linked(principal, [request]))[0]) is not None:
            raise fault

    async def _similar(self, principal: Principal, record: Record, vector: bytes | None) -> list[Json]:
        """Live records of the same owner that say nearly the same."""
        if vector is None:
            return []
        found = await self._parts.ledger.search(
            Search(
                scope=Scope(
                    tenant=record.tenant,
                    agent_id=record.agent_id,
                    user_id=record.user_id,
                    stores=await self._access.stores_for(principal),
                ),
                snapshot=Snapshot(None, self._parts.clock()),
                restriction=Restriction(types=frozenset({record.type})),
                text="",
                vector=vector,
                limit=_MOST_SIMILAR,
                context=Context(),
            )
        )
        near = sorted(((c.cosine or 0.0, c.id) for c in found.candidates), reverse=True)
        return [{"id": name, "similarity": round(cosine, 4)} for cosine, name in near if cosine >= _SIMILAR]

    # -- many at once -------------------------------------------------------------------------------------------

    async def creations(
        self,
        principal: Principal,
        lines: Sequence[Line],
        import_id: str | None = None,
        rules: Sequence[str | None] | None = None,
    ) -> Creations:
        """How new memories are kept: embedded in one go, one journal entry per agent, store and rule that let it through."""
        now = self._parts.clock()
        records = [await self._record_of(principal, line, now, import_id) for line in lines]
        vectors = await self._vectors.of_records(
            principal.tenant, records, [line.request.embedding for line in lines]
        )
        puts = [self.put(record, vector) for record, vector in zip(records, vectors, strict=True)]
        # A line with a key of its own has an entry of its own.
        groups: dict[tuple[str, str, int | None, str | None], list[int]] = {}
        by = rules or [None] * len(lines)
        for place, (line, put) in enumerate(zip(lines, puts, strict=True)):
            alone = None if line.request.idempotency_key is None else place
            key = (put.record.agent_id, put.record.store_id, alone, by[place])
            groups.setdefault(key, []).append(place)
        detail: dict[str, Json] = {} if import_id is None else {"import_id": import_id}
        op = Op.REMEMBER if import_id is None else Op.IMPORT
        planned = [self.stored_answer(put.record, now, "created") for put in puts]
        told = [
            await runs_attribution.steps(self._parts, line.request, put.record)
            for line, put in zip(lines, puts, strict=True)
        ]
        commits = [
            Commit(
                tenant=principal.tenant,
                draft=Draft(
                    op=op,
                    actor=principal.name,
                    at=now,
                    store=store,
                    agent=agent,
                    detail=detail if rule is None else {**detail, "rule": rule},
                ),
                changes=(
                    *(puts[place] for place in places),
                    *(step for place in places for step in told[place]),
                ),
                once=self._once(principal, lines[places[0]].request, planned[places[0]]),
            )
            for (agent, store, _, rule), places in groups.items()
        ]
        return Creations(commits, list(groups.values()), planned)

    async def _record_of(self, principal: Principal, line: Line, now: int, import_id: str | None) -> Record:
        store = await self._access.store(principal.tenant, line.request.store)
        record_id = line.record_id or self._parts.mint_id("mem")
        record = drafting.new_record(
            line.request,
            record_id=record_id,
            store=store,
            principal=principal,
            now=now if line.created_at is None else line.created_at,
            import_id=import_id,
            latest=self._parts.latest_end(now),
        )
        later = line.updated_at if line.updated_at is not None else record.updated_at
        if line.state is State.LIVE and later <= record.updated_at:
            return record
        return replace(record, state=line.state, updated_at=max(later, record.updated_at))
