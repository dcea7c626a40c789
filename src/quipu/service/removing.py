"""Forget, erase, merge: taking memories out of use, each as one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.model.change import Change, Close, Commit, Erase, Put
from quipu.model.journal import Draft, Op
from quipu.model.operations import ForgetRequest, MergeRequest, MergeStrategy
from quipu.model.outcomes import ForgetResponse, ForgetRow, MergeResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Record, State
from quipu.model.search import Scope
from quipu.model.value import Json
from quipu.rules import derivations, drafting, merging, staging, texts, validation
from quipu.service import answers
from quipu.service.committing import Along, Plan, carried_out
from quipu.service.derived import every_proposal, living_on, still_said, with_derived
from quipu.service.expiring import Expiring
from quipu.service.secrets import Checked, CheckedRuns

_CURRENT = frozenset({State.LIVE, State.ARCHIVED})
#: What retention has emptied stands as erased, and still says whose it was and why it went.
_ERASABLE = frozenset(State)
_TOLD = 1_000
#: Of what something was made of, so many are named.
_FEW = 5


class Removing(Expiring):
    """Everything that takes memories away."""

    # -- forget -------------------------------------------------------------------------------------------------

    def accepted_forget(self, principal: Principal, request: ForgetRequest) -> ForgetRequest:
        needs = Permission.ADMIN if request.hard_delete else Permission.DELETE
        self._access.authorise(principal, needs, request.agent_id)
        return validation.checked_forget(request, self._parts.limits)

    async def forgotten(
        self,
        principal: Principal,
        request: ForgetRequest,
        before: Sequence[Commit] = (),
        guard: int | None = None,
        rule: str | None = None,
    ) -> ForgetResponse:
        try:
            return await carried_out(
                self._parts.ledger,
                lambda: self.forgetting(principal, request),
                before=before,
                guard=guard,
                rule=rule,
            )
        finally:  # an erasure that was handed over is done, whether or not its caller still waits
            if request.hard_delete:
                self._vectors.forget_texts()

    async def forgetting(self, principal: Principal, request: ForgetRequest) -> Plan[ForgetResponse]:
        """How records are forgotten or erased, as things stand."""
        now = self._parts.clock()
        head = await self._parts.ledger.head(principal.tenant) if request.hard_delete else None
        scope = await self._access.scope(principal, request.agent_id, request.user_id, request.store)
        records = await self._chosen(scope, request, now)
        ids = [record.id for record in records]
        telling: list[str] = []
        if request.hard_delete:
            ids = await with_derived(self._parts.ledger, scope.tenant, ids)
            staged, telling = await self._staged(scope, request, ids)
            ids = list(dict.fromkeys([*ids, *staged]))
        answer = self._forget_answer(request, ids)
        if request.hard_delete and (left := await self._left(scope.tenant, ids)):
            answer = replace(answer, extensions={**answer.extensions, "warnings": left})
        if request.dry_run or (not ids and request.idempotency_key is None):
            return Plan(None, lambda done: answers.settled(answer, done))
        changes: list[Change] = (
            [Erase(id=record_id) for record_id in (*ids, *telling)]
            if request.hard_delete
            else [Close(record=record, ending=Ending.FORGOTTEN) for record in records]
        )
        commit = Commit(
            tenant=principal.tenant,
            draft=Draft(
                op=Op.ERASE if request.hard_delete else Op.FORGET,
                actor=principal.name,
                at=now,
                store=scope.store_id,
                agent=request.agent_id,
                detail={} if request.import_id is None else {"import_id": request.import_id},
            ),
            changes=tuple(changes),
            # Whatever was said about an erased memory goes with it.
            reason=None if request.hard_delete else request.reason,
            once=answers.once(principal, request, self._parts.canonical, answer),
            erases_as_of=None if head is None else head.seq,
        )
        return Plan(commit, lambda done: answers.settled(answer, done))

    async def chosen(self, principal: Principal, request: ForgetRequest) -> list[Record]:
        """The records that would go."""
        scope = await self._access.scope(principal, request.agent_id, request.user_id, request.store)
        return await self._chosen(scope, request, self._parts.clock())

    async def _staged(
        self, scope: Scope, request: ForgetRequest, ids: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Those of the ids whose text waits for a decision, or was kept after one: an erasure reaches them too.

        And the proposals that say what one of them or of the erased `ids` says: what is written together or not at all
        is not written without one of them, and what was made out of one goes with it.
        """
        named, asked = set(ids), frozenset(request.ids)
        found: list[str] = []
        telling: list[str] = []
        async for proposal in every_proposal(self._parts.ledger, scope.tenant):
            own = staging.own_records(proposal, request.agent_id, scope.user_id, request.store)
            mine = sorted(own & asked)
            found.extend(mine)
            if derivations.holds_words_of(proposal, named.union(mine) if mine else named):
                telling.append(proposal.id)
        return found, telling

    async def _chosen(self, scope: Scope, request: ForgetRequest, now: int) -> list[Record]:
        """The named and the matching records, as far as they are in reach and still there to be removed."""
        wanted = _ERASABLE if request.hard_delete else _CURRENT
        chosen = {
            record.id: record
            for record in (await self._access.newest(scope, request.ids)).values()
            if record.standing in wanted and record.state is not State.ERASED
        }
        if request.filter:
            async for record in self._matching(
                scope, wanted, request.filter, now, with_expired=request.hard_delete
            ):
                if record.state is not State.ERASED:
                    chosen.setdefault(record.id, record)
        return list(chosen.values())

    def _forget_answer(self, request: ForgetRequest, ids: Sequence[str]) -> ForgetResponse:
        extensions: dict[str, Json] = {"ids": list(ids[:_TOLD])}
        known = set(ids)
        missing: list[Json] = [record_id for record_id in request.ids if record_id not in known]
        if missing:
            extensions["not_found"] = missing
        removed = () if request.dry_run else tuple(ids)
        return ForgetResponse(
            forgotten_ids=removed,
            hard_delete=request.hard_delete,
            stores=(ForgetRow(store=self._parts.ledger.name, count=len(removed)),),
            extensions=extensions,
        )

    async def _left(self, tenant: str, ids: Sequence[str]) -> list[Json]:
        """Where words of what is erased stay, for whoever erases it."""
        ledger = self._parts.ledger
        told = [
            f"What {into} took from {source} when they were merged stays there: erase {into} too, if it is to go."
            for into, source in (await living_on(ledger, tenant, ids)).items()
        ]
        told += [
            f"{name} was made out of {', '.join(sources[:_FEW])}{' and others' if len(sources) > _FEW else ''}, and what "
            "that says stays: erase it too, if it is to go."
            for name, sources in (await still_said(ledger, tenant, ids)).items()
        ]
        return [*told[:_TOLD]]

    # -- merge --------------------------------------------------------------------------------------------------

    def accepted_merge(self, principal: Principal, request: MergeRequest) -> MergeRequest:
        self._access.authorise(principal, Permission.WRITE, request.agent_id)
        return validation.checked_merge(request, self._parts.limits)

    async def merged(
        self,
        principal: Principal,
        request: MergeRequest,
        checked: Checked | CheckedRuns,
        before: Sequence[Commit] = (),
        rule: str | None = None,
        along: Along | None = None,
    ) -> MergeResponse:
        return await carried_out(
            self._parts.ledger,
            lambda: self.merging(principal, request, checked),
            before=before,
            guard=checked.position,
            rule=rule,
            along=along,
        )

    async def merging(
        self,
        principal: Principal,
        request: MergeRequest,
        checked: Checked | CheckedRuns,
        newcomer: Record | None = None,
    ) -> Plan[MergeResponse]:
        """How duplicates collapse, as things stand. A `newcomer` is the duplicate, and is only just being written.

        What they say together is `checked`: each may have said a part of a secret.
        """
        now = self._parts.clock()
        scope = await self._access.scope(principal, request.agent_id, None, request.store)
        canonical = await self._canonical(scope, request.canonical, now)
        duplicates, missing = (
            await self._duplicates(scope, request.duplicates, now) if newcomer is None else ([newcomer], [])
        )
        result = merging.merged(canonical, duplicates, request.strategy, now)
        if result.record is not None and request.strategy is MergeStrategy.MERGE_CONTENT:
            result = replace(result, record=checked.joined(result.record))
        self._check_size(result.record)
        ids = [record.id for record in result.collapsed]
        answer = self._merge_answer(request, canonical.id, ids, missing)
        if request.dry_run or (not ids and request.idempotency_key is None):
            return Plan(None, lambda done: answers.settled(answer, done))
        changes: list[Change] = []
        if result.record is not None:
            changes.append(await self._merged_put(principal, canonical, result.record, result.is_text_new))
        changes.extend(
            Close(record=record, ending=Ending.MERGED, merged_into=canonical.id)
            for record in result.collapsed
        )
        commit = Commit(
            tenant=principal.tenant,
            draft=Draft(
                op=Op.MERGE,
                actor=principal.name,
                at=now,
                store=canonical.store_id,
                agent=request.agent_id,
                detail={"canonical": canonical.id, "strategy": request.strategy.value},
            ),
            changes=tuple(changes),
            once=answers.once(principal, request, self._parts.canonical, answer, (canonical.id, *ids)),
        )
        return Plan(commit, lambda done: answers.settled(answer, done))

    async def meant(self, principal: Principal, request: MergeRequest) -> list[Record]:
        """The canonical record and the duplicates."""
        now = self._parts.clock()
        scope = await self._access.scope(principal, request.agent_id, None, request.store)
        canonical = await self._canonical(scope, request.canonical, now)
        duplicates, _ = await self._duplicates(scope, request.duplicates, now)
        return [canonical, *duplicates]

    def _check_size(self, record: Record | None) -> None:
        """What a merge makes must itself be a memory one could have written."""
        if record is not None and any(True for _ in validation.joined_faults(record, self._parts.limits)):
            raise InvalidError.at(
                "/duplicates",
                "too_large",
                "The merged record would be too large.",
                hint="Merge fewer, or keep_canonical.",
            )

    async def _merged_put(
        self, principal: Principal, canonical: Record, record: Record, is_text_new: bool
    ) -> Put:
        record = replace(record, provenance=replace(record.provenance, written_by=principal.name))
        sealed = drafting.sealed(record, self._parts.mint_salt(), self._parts.canonical)
        is_same = not is_text_new and texts.search_text(record) == texts.search_text(canonical)
        vector = None
        if not is_same:  # also where only tags are new: what does not take the index over brings all of it
            (vector,) = await self._vectors.of_records(principal.tenant, [record], [None])
        return Put(
            record=sealed,
            expects=canonical.version,
            must_stand=True,
            search_text=texts.search_text(record),
            vector=vector,
            model=self._vectors.model(principal.tenant),
            keeps_index=is_same,
            lifts_demotion=False,
        )

    async def _canonical(self, scope: Scope, name: str, now: int) -> Record:
        by_id = (await self._access.newest(scope, [name])).get(name)
        found = [by_id] if by_id is not None else await self._named(scope, name, now)
        live = [record for record in found if record.standing is State.LIVE and not record.expired(now)]
        if not live:
            raise NotFoundError("There is no such record to merge into.", reason="canonical")
        if len(live) > 1:
            raise ConflictError("Several records have this name; use an id.", reason="ambiguous_name")
        return live[0]

    async def _named(self, scope: Scope, name: str, now: int) -> list[Record]:
        filter = {"metadata.entity_name": name}
        return [record async for record in self._matching(scope, frozenset({State.LIVE}), filter, now)]

    async def _duplicates(
        self, scope: Scope, names: Sequence[str], now: int
    ) -> tuple[list[Record], list[str]]:
        by_id = await self._access.newest(scope, names)
        found: dict[str, Record] = {}
        missing: list[str] = []
        for name in dict.fromkeys(names):
            rows = [by_id[name]] if name in by_id else await self._named(scope, name, now)
            live = [row for row in rows if row.standing in _CURRENT and not row.expired(now)]
            found.update({row.id: row for row in live})
            if not live:
                missing.append(name)
        return list(found.values()), missing

    def _merge_answer(
        self, request: MergeRequest, canonical_id: str, ids: Sequence[str], missing: Sequence[str]
    ) -> MergeResponse:
        return MergeResponse(
            canonical=request.canonical,
            merged_count=0 if request.dry_run else len(ids),
            strategy_used=MergeStrategy(request.strategy),
            stores=(self._parts.ledger.name,),
            extensions={
                "canonical_id": canonical_id,
                "merged_ids": list(ids),
                "not_found": list(missing),
            },
        )
