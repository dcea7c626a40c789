"""Carrying an erasure to everybody who was shown something, and being told of one by somebody who lent to us."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from quipu.errors import ForbiddenError, InvalidError, QuipuError, UnverifiableError
from quipu.model.disclosure import CascadeStatus, CascadeStep, Erasure, LogKind
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import dids, receipts
from quipu.rules.grants_times import rfc3339
from quipu.service.lending import document_of, lending_parts
from quipu.service.lending_callers import Callers

_FIRST_MS = 60_000
_LONGEST_MS = 6 * 3_600_000
_DAY_MS = 24 * 3_600_000
#: After this long somebody who does not answer counts as unreachable, and is asked once a day.
WINDOW_MS = 72 * 3_600_000
_GRANT_TAG = "grant:"
_MOST_ITEMS = 10_000


class Cascade:
    """Both ends of it."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._callers = parts, Callers(parts)

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    # -- telling others ------------------------------------------------------------------------------------------

    async def steps_of(self, erasure: Erasure, ids: Sequence[str]) -> list[CascadeStep]:
        """Who was shown any of these records, under which grant."""
        by_grant: dict[str, list[str]] = {}
        for grant_id, record_id in await self._parts.ledger.lending.lent_to(erasure.tenant, ids):
            by_grant.setdefault(grant_id, []).append(record_id)
        steps: list[CascadeStep] = []
        for grant_id, names in sorted(by_grant.items()):
            kept = await self._parts.ledger.lending.grant(erasure.tenant, grant_id)
            if kept is not None:
                shown = [await self._shown_as(erasure.tenant, name, kept.grantee) for name in names]
                steps.append(
                    CascadeStep(
                        erasure_id=erasure.id,
                        grantee=kept.grantee,
                        grant_id=grant_id,
                        item_ids=tuple(sorted(set[str]().union(*shown))),
                    )
                )
        return steps

    async def _shown_as(self, tenant: str, record_id: str, grantee: str) -> set[str]:
        """The ids under which somebody was shown a record: its own, or the foreign ones that it had."""
        lines = await self._parts.ledger.lending.log(tenant, record_id, LogKind.DISCLOSED)
        named = {str(line.entry["item_id"]) for line in lines if line.entry["actor"] == grantee}
        return named or {record_id}

    async def told(self, erasure: Erasure) -> list[CascadeStep]:
        """Tell those whose time has come; returns how all of them stand."""
        now = self._parts.clock()
        steps: list[CascadeStep] = []
        for step in await self._parts.ledger.lending.cascade(erasure.tenant):
            if step.erasure_id != erasure.id:
                continue
            # Nobody waits longer than a day: further ahead only a clock can have been that was wrong.
            is_due = not 0 < step.next_at - now <= _DAY_MS
            if step.status is not CascadeStatus.DONE and is_due:
                step = await self._tell(erasure, step, now)
                await self._parts.ledger.lending.move_step(erasure.tenant, step)
            steps.append(step)
        return steps

    async def _tell(self, erasure: Erasure, step: CascadeStep, now: int) -> CascadeStep:
        own = self._own
        body: dict[str, Any] = {
            "principal_did": own.keyring.did(erasure.tenant),
            "item_ids": list(step.item_ids),
            "provenance_tags": [f"{_GRANT_TAG}{step.grant_id}"],
            "reason": erasure.request["reason"],
            "cascade": True,
        }
        header = {"iat": now // 1000, "jti": self._parts.mint_id("req")}
        signature = own.jose.detached(self._parts.canonical(body), header, own.keyring.hand(None))
        try:
            url = await self._endpoint(step.grantee)
            answer = await own.peers.post(url, body, {"OAP-Signature": signature, "OAP-Version": "1.0"})
            receipt = answer.members.get("output", {})
            if answer.status == 200 and await self._is_receipt(receipt, step):
                return replace(step, status=CascadeStatus.DONE, attempts=step.attempts + 1, receipt=receipt)
        except (QuipuError, ValueError):
            # Whatever somebody answers, the others are told all the same; this one again later. It is in the report.
            pass
        is_late = now - erasure.requested_at > WINDOW_MS
        wait = _DAY_MS if is_late else min(_LONGEST_MS, _FIRST_MS << min(step.attempts, 16))
        status = CascadeStatus.UNREACHABLE if is_late else CascadeStatus.WAITING
        return replace(step, status=status, attempts=step.attempts + 1, next_at=now + wait)

    async def _endpoint(self, did: str) -> str:
        """Where somebody takes requests to delete: their document says where they are, their manifest the rest."""
        invoke = dids.service_of(await document_of(self._parts, did), "OAPInvocationEndpoint")
        if invoke is None:
            raise UnverifiableError("This DID has no address.", reason="did_unresolved")
        parts = urlsplit(invoke)
        origin = f"{parts.scheme}://{parts.netloc}"
        answer = await self._own.peers.get(f"{origin}/.well-known/oap-tool.json")
        found = _object(answer.members.get("endpoints")).get("data_delete")
        if not isinstance(found, str) or urlsplit(found).netloc != parts.netloc:
            raise UnverifiableError("This host says nothing of deletion.", reason="did_unresolved")
        return found

    async def _is_receipt(self, receipt: object, step: CascadeStep) -> bool:
        """A Deletion Receipt of these very items, signed by the host that the grantee is at."""
        body = _object(receipt)
        signature, scope = _object(body.get("signature")), _object(body.get("scope"))
        did = str(body.get("tool_did"))
        if not signature or not scope or not _is_at(step.grantee, did):
            return False
        key = dids.key_of(await document_of(self._parts, did), did, str(signature.get("kid")))
        message = self._parts.canonical(receipts.without(body, "signature"))
        digest = receipts.hashed(sorted(step.item_ids), self._parts.canonical)
        if key is None or key.revoked is not None or scope.get("item_ids_digest") != digest:
            return False
        return self._own.jose.verify(message, str(signature.get("value")), key.jwk)

    async def report(self, erasure: Erasure) -> dict[str, Any]:
        """Whom it has reached, signed."""
        steps: list[JsonObject] = []
        for step in await self._parts.ledger.lending.cascade(erasure.tenant):
            if step.erasure_id == erasure.id:
                told: dict[str, Any] = {"did": step.grantee, "requested_at": rfc3339(erasure.requested_at)}
                told |= {"status": step.status.value} if step.receipt is None else {"receipt": step.receipt}
                steps.append(told)
        root = None if erasure.receipt is None else str(erasure.receipt["receipt_id"])
        hand = self._own.keyring.hand(None)
        return receipts.cascade_report(
            id=erasure.id, root=root, steps=steps, hand=hand, canonical=self._parts.canonical
        )

    # -- being told ----------------------------------------------------------------------------------------------

    async def received(self, body: JsonObject, signature: str) -> dict[str, Any]:
        """Somebody wants back what was lent to us: its host or its owner, by their key, and only under that grant (F16)."""
        own, now = self._own, self._parts.clock()
        who, _ = await self._callers.signer(body, signature, now)
        principal, grant_id, items = _wanted_back(body)
        await self._let_go(who, grant_id, items)
        reason = body.get("reason")
        return receipts.deletion_receipt(
            id=self._parts.mint_id("del").partition("_")[2],
            principal=principal,
            scope_id=None,
            requested_at=now,
            completed_at=now,
            item_ids=items,
            reason=reason[:200] if isinstance(reason, str) else "erased",
            grants=[grant_id],
            told=(),
            hand=own.keyring.hand(None),
            canonical=self._parts.canonical,
        )

    async def _let_go(self, who: str, grant_id: str, items: Sequence[str]) -> None:
        """Drop it. What somebody else lent stays, and then nothing is put on receipt: it would not be true."""
        lending, names = self._parts.ledger.lending, frozenset(items)
        held = [
            one
            for tenant in await self._parts.ledger.tenants()
            for one in await lending.held(tenant.id)
            if one.grant_id == grant_id and one.item_id in names
        ]
        if any(who not in (one.source, one.item.get("owner_did")) for one in held):
            raise ForbiddenError("Only who lent something wants it back.", reason="bad_signature")
        for tenant, source in sorted({(one.tenant, one.source) for one in held}):
            await lending.drop_held(tenant, source, grant_id, items)


def _is_at(grantee: str, host: str) -> bool:
    """Whether a grantee is this host, or somebody at it."""
    return grantee == host or (host.startswith("did:web:") and grantee.startswith(f"{host}:"))


def _wanted_back(body: JsonObject) -> tuple[str, str, list[str]]:
    """For whom, under which grant, and which items."""
    principal, tags, ids = (body.get(name) for name in ("principal_did", "provenance_tags", "item_ids"))
    if not isinstance(principal, str) or not principal.startswith("did:") or len(principal) > dids.LONGEST:
        raise InvalidError.at("/principal_did", "required", "Say whose memory it is.")
    wanted = [tag for tag in _texts(tags) if tag.startswith(_GRANT_TAG)]
    items = _texts(ids)
    if len(wanted) != 1 or not isinstance(ids, list | tuple) or not len(items) == len(ids) <= _MOST_ITEMS:
        raise InvalidError.at("/provenance_tags", "bad_value", "Name one grant, and the items of it.")
    return principal, wanted[0].removeprefix(_GRANT_TAG), items


def _texts(value: object) -> list[str]:
    given = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return [one for one in given if isinstance(one, str)]


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
