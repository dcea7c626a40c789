"""Carrying an erasure to everybody who was shown something: asked again until they send a receipt for it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit

from quipu import jose
from quipu.errors import QuipuError, UnverifiableError
from quipu.fields import DAY_MS
from quipu.ledger.canonical import canonical
from quipu.sharing import dids, receipts
from quipu.sharing.host import Host
from quipu.sharing.model import GRANT_TAG, CascadeStep, Erasure, GrantRow
from quipu.sharing.times import rfc3339

SIGNATURE = "OAP-Signature"
#: Told again after a minute, then after twice as long each time, up to six hours.
_FIRST_MS = 60_000
_LONGEST_MS = 6 * 3_600_000
#: After this long somebody who does not answer counts as unreachable, and is told once a day.
_WINDOW_MS = 72 * 3_600_000
_MOST_BYTES = 256 << 10
#: So many are told at the same time.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Tells grantees."""

    host: Host

    def step(self, erasure: Erasure, grant: GrantRow, item_ids: Sequence[str]) -> CascadeStep:
        """What somebody is to be told. Who is a did:key has no address: they are told when they ask the next time."""
        return CascadeStep(
            erasure_id=erasure.id,
            grantee=grant.grantee,
            grant_id=grant.id,
            item_ids=tuple(sorted(set(item_ids))),
            status="no_address" if dids.is_key(grant.grantee) else "waiting",
        )

    def is_due(self, step: CascadeStep) -> bool:
        """Nobody waits longer than a day: a time further ahead was set by a clock that was wrong."""
        is_open = step.status in ("waiting", "unreachable")
        return is_open and not 0 < step.next_at - self.host.clock() <= DAY_MS

    async def told(self, tenant: str, erasure: Erasure, steps: Sequence[CascadeStep]) -> list[CascadeStep]:
        """Tell these grantees, and say how each of them stands now."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(step: CascadeStep) -> CascadeStep:
            async with places:
                return await self._told(tenant, erasure, step)

        return list(await asyncio.gather(*(one(step) for step in steps)))

    async def _told(self, tenant: str, erasure: Erasure, step: CascadeStep) -> CascadeStep:
        now = self.host.clock()
        tried = replace(step, attempts=step.attempts + 1)
        try:
            receipt = await self._asked(tenant, erasure, step, now)
            if await self._is_receipt(receipt, step):
                return replace(tried, status="done", receipt=receipt)
        except (QuipuError, ValueError, RecursionError):
            pass  # a bad answer is no receipt: the step stays open, is tried again, and the report says so
        if now - erasure.requested_at > _WINDOW_MS:
            return replace(tried, status="unreachable", next_at=now + DAY_MS)
        return replace(tried, next_at=now + min(_LONGEST_MS, _FIRST_MS << min(step.attempts, 16)))

    async def _asked(
        self, tenant: str, erasure: Erasure, step: CascadeStep, now: int
    ) -> Mapping[str, Any] | None:
        """The receipt that a grantee answers with."""
        by = self.host.keyring.signatory(None)
        body: dict[str, Any] = {
            "principal_did": self.host.keyring.did(tenant),
            "item_ids": list(step.item_ids),
            "provenance_tags": [f"{GRANT_TAG}{step.grant_id}"],
            "reason": erasure.request["reason"],
            "cascade": True,
        }
        data = canonical(body)
        header = {"iat": now // 1000, "jti": self.host.ulid()}
        answer = await self.host.documents.outbound.send(
            "POST",
            await self._endpoint(step.grantee),
            headers={
                "Content-Type": "application/oap+json",
                "OAP-Version": receipts.VERSION,
                SIGNATURE: jose.detached(data, by, header),
            },
            body=data,
            most_bytes=_MOST_BYTES,
        )
        return _object(_object(json.loads(answer.body)).get("output")) if answer.status == 200 else None

    async def _endpoint(self, did: str) -> str:
        """Where somebody takes requests to delete: their document says where they are, their manifest the rest."""
        invoke = dids.service_of(await self.host.documents.document(did), "OAPInvocationEndpoint")
        if invoke is None:
            raise _nowhere()
        parts = urlsplit(invoke)
        answer = await self.host.documents.outbound.send(
            "GET",
            f"{parts.scheme}://{parts.netloc}/.well-known/oap-tool.json",
            headers={"Accept": "application/json"},
            most_bytes=_MOST_BYTES,
        )
        found = _object(_object(json.loads(answer.body)).get("endpoints")).get("data_delete")
        if not isinstance(found, str) or urlsplit(found)[:2] != parts[:2]:
            raise _nowhere()
        return found

    async def _is_receipt(self, receipt: Mapping[str, Any] | None, step: CascadeStep) -> bool:
        """Whether it is a Deletion Receipt of these very items, signed by the host that the grantee is at."""
        if receipt is None:
            return False
        signature, did = _object(receipt.get("signature")), str(receipt.get("tool_did"))
        if not _is_at(step.grantee, did):
            return False
        if _object(receipt.get("scope")).get("item_ids_digest") != receipts.hashed(sorted(step.item_ids)):
            return False
        key = dids.key_of(await self.host.documents.document(did), did, str(signature.get("kid")))
        if key is None or key.revoked is not None:
            return False
        message = canonical(receipts.without(receipt, "signature"))
        return jose.verify(message, str(signature.get("value")), key.jwk)

    def report(self, erasure: Erasure, steps: Sequence[CascadeStep]) -> dict[str, Any]:
        """Whom it has reached, signed."""
        told = [
            {
                "did": step.grantee,
                "requested_at": rfc3339(erasure.requested_at),
                **({"status": step.status} if step.receipt is None else {"receipt": step.receipt}),
            }
            for step in steps
        ]
        root = None if erasure.receipt is None else str(erasure.receipt["receipt_id"])
        body = {"cascade_id": erasure.id, "root_receipt": root, "steps": told}
        return receipts.signed(body, self.host.keyring.signatory(None))


def _is_at(grantee: str, host: str) -> bool:
    """Whether a grantee is this host, or somebody at it."""
    return grantee == host or (host.startswith("did:web:") and grantee.startswith(f"{host}:"))


def _nowhere() -> UnverifiableError:
    return UnverifiableError("Nobody says where to send a request to delete.", reason="did_unresolved")


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
