"""Remember and restore: from a request to a durable version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError, InvalidError, NotFoundError, QuipuError
from quipu.model.change import Commit, Committed, Once, Put
from quipu.model.journal import Draft, Op
from quipu.model.operations import RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.model.search import Context, Restriction, Scope, Search, Snapshot
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import drafting, redaction, texts, validation
from quipu.service.access import Access
from quipu.service.committing import Plan, carried_out, kept_reason, once
from quipu.service.embedding import Vectors

#: Texts this near are named as similar, never merged by themselves.
_SIMILAR = 0.85
_MOST_SIMILAR = 5
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Line:
    """A remember request as an import brings it: it may carry its id and its times."""

    request: RememberRequest
    record_id: str | None = None
    created_at: int | None = None
    updated_at: int | None = None
    #: Archived records come back archived.
    state: State = State.LIVE


class Writing:
    """The write half of memory."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors) -> None:
        self._parts, self._access, self._vectors = parts, access, vectors

    def accepted(self, principal: Principal, request: RememberRequest) -> RememberRequest:
        """Authorised, valid, and without secrets: the first three steps of every write."""
        self._access.authorise(principal, Permission.WRITE, request.agent_id)
        request = self._access.bound(principal, request)
        request = validation.checked_remember(request, self._parts.limits)
        return redaction.redacted_request(request, self._parts.redactors, [])

    async def check_target(self, principal: Principal, request: RememberRequest) -> None:
        """Raise where the request names a store, a record or a link that is not there."""
        await self._access.store(principal.tenant, request.store)
        await self._check_links(principal, request)
        if request.id is not None:
            await self._current(principal, request, request.id)

    async def stored(
        self,
        principal: Principal,
        request: RememberRequest,
        record_id: str | None = None,
        before: Sequence[Commit] = (),
    ) -> RememberResponse:
        """Commit an accepted request. `record_id` is an id minted earlier, by a proposal."""
        if request.id is not None:
            is_fixed = request.if_version is not None
            return await carried_out(
                self._parts.ledger, lambda: self._change(principal, request), before=before, is_fixed=is_fixed
            )
        new_id = record_id or self._parts.mint_id("mem")
        return await carried_out(
            self._parts.ledger, lambda: self._creation(principal, request, new_id), before=before
        )

    async def _creation(
        self, principal: Principal, request: RememberRequest, record_id: str
    ) -> Plan[RememberResponse]:
        now = self._parts.clock()
        store = await self._access.store(principal.tenant, request.store)
        await self._check_links(principal, request)
        record = drafting.new_record(request, record_id=record_id, store=store, principal=principal, now=now)
        (vector,) = await self._vectors.of_records(principal.tenant, [record], [request.embedding])
        similar = await self._similar(record, vector) if request.finds_similar else []
        put = self._put(record, vector)
        return self._plan(principal, request, put, Op.REMEMBER, now, similar)

    async def _change(self, principal: Principal, request: RememberRequest) -> Plan[RememberResponse]:
        now = self._parts.clock()
        current = await self._current(principal, request, request.id or "")
        if request.idempotency_key is not None and request.if_version is not None:
            # Is this a repetition, or is it late? The ledger knows, and refuses what is neither in time nor repeated.
            current = replace(current, version=request.if_version)
        await self._check_links(principal, request)
        record = drafting.changed_record(current, request, principal=principal, now=now)
        same_text = (
            texts.embedding_text(record) == texts.embedding_text(current) and current.state is State.LIVE
        )
        if (
            same_text
            and texts.search_text(record) == texts.search_text(current)
            and request.embedding is None
        ):
            put = replace(self._put(record, None), keeps_index=True, expects=current.version)
        else:
            (vector,) = await self._vectors.of_records(principal.tenant, [record], [request.embedding])
            put = replace(self._put(record, vector), expects=current.version)
        return self._plan(principal, request, put, Op.UPDATE, now, [])

    async def _current(self, principal: Principal, request: RememberRequest, record_id: str) -> Record:
        """The record that a request changes."""
        scope = await self._access.scope(principal, request.agent_id, request.user_id)
        current = (await self._access.newest(scope, [record_id])).get(record_id)
        is_there = current is not None and current.standing in (State.LIVE, State.ARCHIVED)
        if current is None or not is_there or current.expired(self._parts.clock()):
            raise NotFoundError("There is no such record to change.", reason="record")
        return current

    def _put(self, record: Record, vector: bytes | None) -> Put:
        sealed = drafting.sealed(record, self._parts.mint_salt(), self._parts.canonical)
        is_searched = record.state is State.LIVE
        text = texts.search_text(record) if is_searched else None
        model = self._vectors.model(record.tenant)
        return Put(record=sealed, search_text=text, vector=vector if is_searched else None, model=model)

    def _plan(
        self, principal: Principal, request: RememberRequest, put: Put, op: Op, now: int, similar: list[Json]
    ) -> Plan[RememberResponse]:
        record = put.record
        answer: dict[str, Json] = {"id": record.id, "stored_at": now, "version": record.version}
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
            ),
            changes=(put,),
            once=self._once(principal, request, answer),
        )
        outcome = "created" if op is Op.REMEMBER else "updated"
        return Plan(commit, lambda done: self._answered(done, answer, outcome, similar))

    def _once(self, principal: Principal, request: RememberRequest, answer: dict[str, Json]) -> Once | None:
        if request.idempotency_key is None:
            return None
        body = replace(request, idempotency_key=None)
        ids = [str(answer["id"])]
        return once(principal, "remember", request.idempotency_key, body, answer, ids, self._parts.canonical)

    def _answered(
        self, done: Committed | None, answer: dict[str, Json], outcome: str, similar: list[Json]
    ) -> RememberResponse:
        told: dict[str, Any] = dict(answer if done is None or done.replayed is None else done.replayed)
        extensions: dict[str, Json] = {
            "seq": None if done is None else done.seq,
            "version": told["version"],
            "outcome": outcome if done is None or done.replayed is None else "replayed",
        }
        if similar:
            extensions["similar"] = similar
        return RememberResponse(
            id=told["id"],
            stored_at=told["stored_at"],
            stores=(self._parts.ledger.name,),
            extensions=extensions,
        )

    async def _check_links(self, principal: Principal, request: RememberRequest) -> None:
        targets = [link.to for link in request.links or ()]
        if not targets:
            return
        scope = await self._access.scope(principal, request.agent_id)
        known = await self._access.newest(scope, targets)
        for index, target in enumerate(targets):
            if target not in known:
                raise InvalidError.at(
                    f"/links/{index}/to", "bad_value", "A link leads to no record in reach."
                )

    async def _similar(self, record: Record, vector: bytes | None) -> list[Json]:
        """Live records of the same owner that say nearly the same."""
        if vector is None:
            return []
        found = await self._parts.ledger.search(
            Search(
                scope=Scope(tenant=record.tenant, agent_id=record.agent_id, user_id=record.user_id),
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

    async def many_stored(
        self,
        principal: Principal,
        lines: Sequence[Line],
        *,
        import_id: str | None = None,
        is_whole: bool = False,
    ) -> list[RememberResponse | QuipuError]:
        """Commit accepted new memories together: embedded in one go, one journal entry per agent and store.

        `is_whole`: all in one transaction, and an error is raised; otherwise in parts, each of which stands alone.
        """
        if is_whole:
            return list(await self._batch(principal, lines, import_id)) if lines else []
        answers: list[RememberResponse | QuipuError] = []
        for start in range(0, len(lines), _BATCH):
            part = lines[start : start + _BATCH]
            try:
                answers.extend(await self._batch(principal, part, import_id))
            except QuipuError as error:
                if len(part) == 1:
                    answers.append(error)
                else:  # one of them is at fault: let the others stand
                    for line in part:
                        answers.extend(await self.many_stored(principal, [line], import_id=import_id))
        return answers

    async def _batch(
        self, principal: Principal, lines: Sequence[Line], import_id: str | None
    ) -> Sequence[RememberResponse]:
        now = self._parts.clock()
        records = [await self._record_of(principal, line, now, import_id) for line in lines]
        vectors = await self._vectors.of_records(
            principal.tenant, records, [line.request.embedding for line in lines]
        )
        puts = [self._put(record, vector) for record, vector in zip(records, vectors, strict=True)]
        # One entry per agent and store; a line with a key of its own has an entry of its own.
        groups: dict[tuple[str, str, int | None], list[int]] = {}
        for place, (line, put) in enumerate(zip(lines, puts, strict=True)):
            alone = None if line.request.idempotency_key is None else place
            groups.setdefault((put.record.agent_id, put.record.store_id, alone), []).append(place)
        detail: dict[str, Json] = {} if import_id is None else {"import_id": import_id}
        op = Op.REMEMBER if import_id is None else Op.IMPORT
        answers: list[dict[str, Json]] = [
            {"id": put.record.id, "stored_at": now, "version": 1} for put in puts
        ]
        commits = [
            Commit(
                tenant=principal.tenant,
                draft=Draft(op=op, actor=principal.name, at=now, store=store, agent=agent, detail=detail),
                changes=tuple(puts[place] for place in places),
                once=self._once(principal, lines[places[0]].request, answers[places[0]]),
            )
            for (agent, store, _), places in groups.items()
        ]
        done = await self._parts.ledger.commit(*commits)
        responses: dict[int, RememberResponse] = {}
        for places, committed in zip(groups.values(), done, strict=True):
            for place in places:
                responses[place] = self._answered(committed, answers[place], "created", [])
        return [responses[place] for place in range(len(lines))]

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
        )
        later = line.updated_at if line.updated_at is not None else record.updated_at
        if line.state is State.LIVE and later <= record.updated_at:
            return record
        return replace(record, state=line.state, updated_at=max(later, record.updated_at))

    # -- restore ------------------------------------------------------------------------------------------------

    async def restore(
        self, principal: Principal, agent_id: str, record_id: str, reason: str | None
    ) -> RememberResponse:
        """Bring back what was forgotten, merged away, archived or demoted."""
        self._access.authorise(principal, Permission.WRITE, agent_id)
        return await carried_out(
            self._parts.ledger, lambda: self._restoration(principal, agent_id, record_id, reason)
        )

    async def _restoration(
        self, principal: Principal, agent_id: str, record_id: str, reason: str | None
    ) -> Plan[RememberResponse]:
        now = self._parts.clock()
        scope = await self._access.scope(principal, agent_id)
        last = (await self._access.newest(scope, [record_id])).get(record_id)
        if last is None or last.standing is State.ERASED:
            raise NotFoundError("There is no such record to restore.", reason="record")
        marks = await self._parts.ledger.marks(principal.tenant, [record_id])
        is_demoted = record_id in marks and marks[record_id].is_demoted
        if last.standing is State.LIVE and not is_demoted:
            raise ConflictError("The record is live; there is nothing to restore.", reason="not_forgotten")
        record = drafting.revived(last, principal=principal, now=now)
        put = replace(self._put(record, None), expects=last.version, keeps_index=last.state is State.LIVE)
        if not put.keeps_index:
            (vector,) = await self._vectors.of_records(principal.tenant, [record], [None])
            put = replace(put, vector=vector)
        answer: dict[str, Json] = {"id": record.id, "stored_at": now, "version": record.version}
        draft = Draft(
            op=Op.RESTORE, actor=principal.name, at=now, store=record.store_id, agent=record.agent_id
        )
        kept = kept_reason(reason, self._parts)
        commit = Commit(tenant=principal.tenant, draft=draft, changes=(put,), reason=kept)
        return Plan(commit, lambda done: self._answered(done, answer, "restored", []))
