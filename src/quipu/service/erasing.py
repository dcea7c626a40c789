"""Erasure on request, everywhere: here, in every log and index, and at everybody who was ever shown it (OAP contract 9).

1. A request is noted before anything is done, and done again from its beginning after a crash; every step may be repeated.
2. Content, vectors, search terms and salts go in one commit. What is left are ids, hashes, receipts and a tombstone.
3. The line `deleted` is written before it is asked who saw the item: an answer that was being made meanwhile either is
   in the log already, or finds the line and leaves the item out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from quipu.errors import ConflictError, NotFoundError
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
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import grants_decisions as decisions
from quipu.rules import receipts
from quipu.service.access import Access
from quipu.service.derived import staged_of, with_derived
from quipu.service.disclosing import Disclosing
from quipu.service.embedding import Vectors
from quipu.service.erasing_cascade import Cascade
from quipu.service.erasing_choosing import Choosing, checked
from quipu.service.erasing_untold import Untold
from quipu.service.lending import lending_parts, owner_of

_BATCH = 500
#: Who tells of an erasure that somebody else did.
_ITSELF = "system"


class Erasing:
    """Deletes for good, and proves it."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors, disclosing: Disclosing) -> None:
        self._parts, self._access, self._vectors, self._disclosing = parts, access, vectors, disclosing
        self.cascade, self._choosing, self._untold = Cascade(parts), Choosing(parts), Untold(parts)
        #: Erasures that are being carried out here: nobody else begins with them.
        self._at_work: set[str] = set()

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    async def erase(self, principal: Principal, request: JsonObject) -> Erasure:
        """Carry out a request of the owner; returns how far it came, with the Deletion Receipt."""
        tenant = owner_of(self._access, principal)
        wanted = checked(request)
        if wanted["principal_did"] != self._own.keyring.did(tenant):
            raise NotFoundError("There is no such owner here.", reason="owner")
        ids = await self._choosing.chosen(tenant, wanted)
        erasure = Erasure(
            tenant=tenant,
            id=self._parts.mint_id("era"),
            step=ErasureStep.ACCEPTED,
            requested_at=self._parts.clock(),
            request={
                "ids": ids,
                "staged": await self._choosing.staged(tenant, wanted, ids),
                "reason": wanted.get("reason", "gdpr-art-17"),
                "scope_id": wanted.get("scope_id"),
                "cascade": wanted.get("cascade", True),
                "actor": principal.name,
            },
        )
        return await self._begun(erasure)

    async def followed(self, principal: Principal, ids: Sequence[str]) -> None:
        """Records that were erased in another way: whoever saw them is told all the same."""
        if self._parts.lending is None or not ids:
            return
        if await self._parts.ledger.lending.grants(principal.tenant):
            await self._begun(self._erased(principal.tenant, principal.name, ids))

    def _erased(self, tenant: str, actor: str, ids: Sequence[str]) -> Erasure:
        return Erasure(
            tenant=tenant,
            id=self._parts.mint_id("era"),
            step=ErasureStep.ACCEPTED,
            requested_at=self._parts.clock(),
            request={
                "ids": list(ids),
                "reason": "erased",
                "scope_id": None,
                "cascade": True,
                "actor": actor,
            },
        )

    async def resume(self, tenant: str) -> None:
        """Go on with what a crash or an absent grantee left undone."""
        if self._parts.lending is None:
            return
        for erasure in await self._parts.ledger.lending.erasures(tenant):
            await self._gone_on_with(erasure)
        if untold := await self._untold.found(tenant):
            await self._begun(self._erased(tenant, _ITSELF, untold))
        await self._parts.ledger.lending.drop_expired(tenant, self._parts.clock())

    async def _begun(self, erasure: Erasure) -> Erasure:
        """Noted, and carried out; whoever goes on with erasures meanwhile leaves this one alone."""
        self._at_work.add(erasure.id)
        try:
            await self._note(erasure)
            return await self._carried_out(erasure)
        finally:
            self._at_work.discard(erasure.id)

    async def _gone_on_with(self, erasure: Erasure) -> None:
        if erasure.id in self._at_work or erasure.step is ErasureStep.DONE:
            return
        self._at_work.add(erasure.id)
        try:
            is_new = erasure.step is ErasureStep.ACCEPTED
            await (self._carried_out(erasure) if is_new else self._propagated(erasure))
        finally:
            self._at_work.discard(erasure.id)

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

    # -- the steps -----------------------------------------------------------------------------------------------

    async def _note(self, erasure: Erasure) -> None:
        await self._parts.ledger.lending.decide(erasure.tenant, Question(), lambda _: Writes(erasure=erasure))

    async def _carried_out(self, erasure: Erasure) -> Erasure:
        is_purged = False
        while not is_purged:
            head = await self._parts.ledger.head(erasure.tenant)
            erasure = await self._grown(erasure)
            is_purged = await self._purge(erasure, head.seq)
        ids = [str(name) for name in cast("list[Any]", erasure.request["ids"])]
        for start in range(0, len(ids), _BATCH):
            await self._log_deleted(erasure.tenant, ids[start : start + _BATCH])
        steps = await self.cascade.steps_of(erasure, ids) if erasure.request["cascade"] else []
        moved = replace(erasure, step=ErasureStep.PROPAGATING)
        await self._parts.ledger.lending.decide(
            erasure.tenant, Question(), lambda _: Writes(erasure=moved, steps=steps)
        )
        return await self._propagated(moved)

    async def _grown(self, erasure: Erasure) -> Erasure:
        """It may have been asked for long ago: what was made out of them since then, or waits to be, goes, too."""
        ledger, tenant = self._parts.ledger, erasure.tenant
        asked, staged = [
            [str(name) for name in cast("list[Any]", erasure.request.get(what, []))]
            for what in ("ids", "staged")
        ]
        ids = await with_derived(ledger, tenant, asked)
        held = dict.fromkeys([*staged, *await staged_of(ledger, tenant, ids)])
        if ids == asked and len(held) == len(staged):
            return erasure
        grown = replace(erasure, request={**erasure.request, "ids": ids, "staged": [*held]})
        await self._note(grown)
        return grown

    async def _purge(self, erasure: Erasure, as_of: int) -> bool:
        """Erase what is left of it; False where something has changed meanwhile, and has to be looked at again."""
        ids = [str(name) for name in cast("list[Any]", erasure.request["ids"])]
        known = await self._parts.ledger.read(erasure.tenant, ids)
        left = [name for name in ids if name in known and known[name].state is not State.ERASED]
        left += await self._staged_still(erasure)
        for start in range(0, len(left), _BATCH):
            draft = Draft(
                op=Op.ERASE,
                actor=str(erasure.request["actor"]),
                at=self._parts.clock(),
                detail={"erasure": erasure.id},
            )
            changes = tuple(Erase(id=name) for name in left[start : start + _BATCH])
            commit = Commit(tenant=erasure.tenant, draft=draft, changes=changes, erases_as_of=as_of)
            try:
                await self._parts.ledger.commit(commit)
            except ConflictError as conflict:
                if conflict.reason != "version_mismatch":
                    raise
                return False
        self._vectors.forget_texts()
        self._disclosing.forget(erasure.tenant)
        return True

    async def _staged_still(self, erasure: Erasure) -> list[str]:
        """Held writes of the request that still hold words."""
        names = [str(name) for name in cast("list[Any]", erasure.request.get("staged", []))]
        found = [await self._parts.ledger.proposal(erasure.tenant, name) for name in names]
        return [one.id for one in found if one is not None and one.request]

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
            erasure = await self._receipted(moved, steps)
            moved = erasure if erasure.step is ErasureStep.DONE else replace(erasure, step=step)
        if moved != erasure:
            await self._note(moved)
        return moved

    async def _receipted(self, erasure: Erasure, steps: Sequence[CascadeStep]) -> Erasure:
        """The same with its receipt; where another server was faster, with the one that it has written: there is one."""
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
            if standing.erasure is not None and standing.erasure.receipt is not None:
                return Writes(answer=standing.erasure)
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
            return Writes(erasure=done, receipts=[chained], answer=done)

        question = Question(erasure_id=erasure.id, now=now)
        return cast("Erasure", (await self._parts.ledger.lending.decide(tenant, question, decide)).answer)
