"""Erasure on request, everywhere: here, in every log and index, and at everybody who was ever shown it (OAP contract 9).

1. A request is noted before anything is done, and done again from its beginning after a crash; every step may be repeated.
2. Content, vectors, search terms and salts go in one commit. What is left are ids, hashes, receipts and a tombstone.
3. The line `deleted` is written before it is asked who saw the item: an answer that was being made meanwhile either is
   in the log already, or finds the line and leaves the item out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from quipu.errors import InvalidError, NotFoundError
from quipu.model.change import Commit, Erase
from quipu.model.disclosure import (
    CascadeStatus,
    CascadeStep,
    Erasure,
    ErasureStep,
    LogKind,
    Question,
    Standing,
    Writes,
)
from quipu.model.journal import Draft, Op
from quipu.model.principal import Principal
from quipu.model.record import State
from quipu.model.search import Selection, Snapshot
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import grants, grants_items, receipts
from quipu.rules import grants_decisions as decisions
from quipu.service.access import Access
from quipu.service.disclosing import Disclosing
from quipu.service.embedding import Vectors
from quipu.service.erasing_cascade import Cascade
from quipu.service.lending import lending_parts, owner_of

_BATCH = 500
_MOST_IDS = 10_000
_BEFORE_ALL = -(1 << 62)
#: Links that say that a record was made out of another one.
_DERIVED = ("derived_from", "summarizes", "summarises", "consolidates")
_MEMBERS = frozenset(
    {"principal_did", "scope_id", "item_ids", "filter", "grant_id", "reason", "cascade", "provenance_tags"}
)
_SELECTORS = ("item_ids", "filter", "grant_id")


class Erasing:
    """Deletes for good, and proves it."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors, disclosing: Disclosing) -> None:
        self._parts, self._access, self._vectors, self._disclosing = parts, access, vectors, disclosing
        self.cascade = Cascade(parts)

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    async def erase(self, principal: Principal, request: JsonObject) -> Erasure:
        """Carry out a request of the owner; returns how far it came, with the Deletion Receipt."""
        tenant = owner_of(self._access, principal)
        wanted = _checked(request)
        if wanted["principal_did"] != self._own.keyring.did(tenant):
            raise NotFoundError("There is no such owner here.", reason="owner")
        ids = await self._chosen(tenant, wanted)
        erasure = Erasure(
            tenant=tenant,
            id=self._parts.mint_id("era"),
            step=ErasureStep.ACCEPTED,
            requested_at=self._parts.clock(),
            request={
                "ids": await self._with_derived(tenant, ids),
                "reason": wanted.get("reason", "gdpr-art-17"),
                "scope_id": wanted.get("scope_id"),
                "cascade": wanted.get("cascade", True),
                "actor": principal.name,
            },
        )
        await self._note(erasure)
        return await self._carried_out(erasure)

    async def followed(self, principal: Principal, ids: Sequence[str]) -> None:
        """Records that were erased in another way: whoever saw them is told all the same."""
        tenant = principal.tenant
        if self._parts.lending is None or not ids or not await self._parts.ledger.lending.grants(tenant):
            return
        erasure = Erasure(
            tenant=tenant,
            id=self._parts.mint_id("era"),
            step=ErasureStep.ACCEPTED,
            requested_at=self._parts.clock(),
            request={
                "ids": list(ids),
                "reason": "erased",
                "scope_id": None,
                "cascade": True,
                "actor": principal.name,
            },
        )
        await self._note(erasure)
        await self._carried_out(erasure)

    async def resume(self, tenant: str) -> None:
        """Go on with what a crash or an absent grantee left undone."""
        if self._parts.lending is None:
            return
        for erasure in await self._parts.ledger.lending.erasures(tenant):
            if erasure.step is ErasureStep.ACCEPTED:
                await self._carried_out(erasure)
            elif erasure.step is ErasureStep.PROPAGATING:
                await self._propagated(erasure)
        await self._parts.ledger.lending.drop_expired(tenant, self._parts.clock())

    async def list(self, principal: Principal) -> Sequence[Erasure]:
        """All requests, newest first."""
        return await self._parts.ledger.lending.erasures(owner_of(self._access, principal))

    async def report(self, principal: Principal, erasure_id: str) -> dict[str, Any]:
        """The Cascade Report: whom an erasure has reached."""
        tenant = owner_of(self._access, principal)
        for erasure in await self._parts.ledger.lending.erasures(tenant):
            if erasure.id == erasure_id:
                return await self.cascade.report(erasure)
        raise NotFoundError("There is no such erasure.", reason="erasure")

    # -- which ---------------------------------------------------------------------------------------------------

    async def _chosen(self, tenant: str, wanted: Mapping[str, Any]) -> list[str]:
        if "item_ids" in wanted:
            named = cast("list[str]", wanted["item_ids"])
            found = await self._parts.ledger.read(tenant, named)
            return [name for name in dict.fromkeys(named) if name in found]
        if "grant_id" in wanted:
            shown = await self._parts.ledger.lending.lent_items(tenant, str(wanted["grant_id"]))
            return [record_id for record_id, _ in shown]
        by = grants.parsed_filter(wanted["filter"], "/filter") if "filter" in wanted else None
        scope, owner = wanted.get("scope_id"), self._own.keyring.did(tenant)
        return [
            record.id
            async for record in self._everything(tenant)
            if (scope is None or grants_items.scope_of(record) == scope)
            and (by is None or grants.admits(by, grants_items.item_of(record, owner)))
        ]

    async def _with_derived(self, tenant: str, ids: list[str]) -> list[str]:
        """These, and what was made out of them."""
        if not ids:
            return []
        links = [
            (record.id, link.to)
            async for record in self._everything(tenant)
            for link in record.links
            if link.rel in _DERIVED
        ]
        chosen = dict.fromkeys(ids)
        while more := [name for name, to in links if to in chosen and name not in chosen]:
            chosen |= dict.fromkeys(more)
        return list(chosen)

    def _everything(self, tenant: str) -> Any:
        states = frozenset({State.LIVE, State.ARCHIVED, State.FORGOTTEN})
        # Erasure also reaches what has expired: a clock at the beginning of time sees everything.
        return self._parts.ledger.scan(Selection(tenant=tenant, states=states), Snapshot(None, _BEFORE_ALL))

    # -- the steps -----------------------------------------------------------------------------------------------

    async def _note(self, erasure: Erasure) -> None:
        await self._parts.ledger.lending.decide(erasure.tenant, Question(), lambda _: Writes(erasure=erasure))

    async def _carried_out(self, erasure: Erasure) -> Erasure:
        ids = [str(name) for name in cast("list[Any]", erasure.request["ids"])]
        await self._purge(erasure, ids)
        for start in range(0, len(ids), _BATCH):
            await self._log_deleted(erasure.tenant, ids[start : start + _BATCH])
        steps = await self.cascade.steps_of(erasure, ids) if erasure.request["cascade"] else []
        moved = replace(erasure, step=ErasureStep.PROPAGATING)
        await self._parts.ledger.lending.decide(
            erasure.tenant, Question(), lambda _: Writes(erasure=moved, steps=steps)
        )
        return await self._propagated(moved)

    async def _purge(self, erasure: Erasure, ids: Sequence[str]) -> None:
        known = await self._parts.ledger.read(erasure.tenant, ids)
        left = [name for name in ids if name in known and not known[name].is_emptied]
        for start in range(0, len(left), _BATCH):
            draft = Draft(
                op=Op.ERASE,
                actor=str(erasure.request["actor"]),
                at=self._parts.clock(),
                detail={"erasure": erasure.id},
            )
            changes = tuple(Erase(id=name) for name in left[start : start + _BATCH])
            await self._parts.ledger.commit(Commit(tenant=erasure.tenant, draft=draft, changes=changes))
        self._vectors.forget_texts()
        self._disclosing.forget(erasure.tenant)

    async def _log_deleted(self, tenant: str, ids: Sequence[str]) -> None:
        now, actor = self._parts.clock(), self._own.keyring.did(tenant)

        def decide(standing: Standing) -> Writes:
            writes = Writes()
            for name in ids:
                tail = standing.tails.get((name, LogKind.STATE))
                if tail is not None and tail.entry["op"] == "deleted":
                    continue
                line = receipts.log_line(
                    tail,
                    record_id=name,
                    item_id=name if tail is None else str(tail.entry["item_id"]),
                    log=LogKind.STATE,
                    version=0 if tail is None else tail.version,
                    op="deleted",
                    at=now,
                    actor=actor,
                    state=None,
                    receipt_id=None,
                    canonical=self._parts.canonical,
                )
                writes.lines.append(line)
            return writes

        await self._parts.ledger.lending.decide(tenant, Question(record_ids=tuple(ids), now=now), decide)

    async def _propagated(self, erasure: Erasure) -> Erasure:
        """Tell those who are due, and write the receipts, once."""
        steps = await self.cascade.told(erasure)
        is_done = all(step.status is CascadeStatus.DONE for step in steps)
        step = ErasureStep.DONE if is_done else ErasureStep.PROPAGATING
        moved = replace(erasure, step=step)
        if erasure.receipt is None:
            return await self._receipted(moved, steps)
        if moved != erasure:
            await self._note(moved)
        return moved

    async def _receipted(self, erasure: Erasure, steps: Sequence[CascadeStep]) -> Erasure:
        own, now, tenant = self._own, self._parts.clock(), erasure.tenant
        ids = [str(name) for name in cast("list[Any]", erasure.request["ids"])]
        scope_id = erasure.request.get("scope_id")
        hand = own.keyring.hand(None)
        told = sorted({step.grantee for step in steps if step.status is CascadeStatus.DONE})
        receipt = receipts.deletion_receipt(
            id=erasure.id.partition("_")[2],
            principal=own.keyring.did(tenant),
            scope_id=scope_id if isinstance(scope_id, str) else None,
            requested_at=erasure.requested_at,
            completed_at=now,
            item_ids=ids,
            reason=str(erasure.request["reason"]),
            grants=sorted({step.grant_id for step in steps}),
            told=told,
            hand=hand,
            canonical=self._parts.canonical,
        )
        done = replace(erasure, completed_at=now, receipt=receipt)

        def decide(standing: Standing) -> Writes:
            chained = receipts.receipt(
                standing.end,
                id=self._parts.mint_id("rcp").partition("_")[2],
                type="deletion",
                at=now,
                principal=own.keyring.did(tenant),
                agent=own.keyring.did(tenant),
                hand=hand,
                canonical=self._parts.canonical,
                action_id="memory_delete",
                action_version="1.0.0",
                output_hash=receipts.hashed(receipt, self._parts.canonical),
                policy_decisions=[
                    decisions.policy(self._parts.mint_id("pol"), decisions.ALLOW, [decisions.OWNER])
                ],
            )
            return Writes(erasure=done, receipts=[chained])

        await self._parts.ledger.lending.decide(tenant, Question(now=now), decide)
        return done


def _checked(request: JsonObject) -> dict[str, Any]:
    """A request to delete; `principal_did` alone means everything (9.2)."""
    if unknown := sorted(request.keys() - _MEMBERS):
        raise InvalidError.at(
            f"/{unknown[0][:64]}", "unknown_member", "There is no such member.", accepted=sorted(_MEMBERS)
        )
    if not isinstance(request.get("principal_did"), str):
        raise InvalidError.at("/principal_did", "required", "Say whose memory it is.")
    wanted = dict(request)
    if len([name for name in _SELECTORS if name in wanted]) > 1:
        raise InvalidError.at("", "bad_value", "Choose what to delete in one way.", accepted=_SELECTORS)
    ids: Any = wanted.get("item_ids", [])
    if not isinstance(ids, list) or len(cast("list[Any]", ids)) > _MOST_IDS:
        raise InvalidError.at("/item_ids", "bad_value", "These are ids.", accepted=[f"at most {_MOST_IDS}"])
    if not all(isinstance(name, str) and 0 < len(name) <= 256 for name in cast("list[Any]", ids)):
        raise InvalidError.at("/item_ids", "bad_value", "These are ids.")
    for name, kind in (("reason", str), ("scope_id", str), ("grant_id", str), ("cascade", bool)):
        if name in wanted and not isinstance(wanted[name], kind):
            raise InvalidError.at(f"/{name}", "bad_value", "This has another type.", accepted=[kind.__name__])
    return wanted
