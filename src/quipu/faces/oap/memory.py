"""Memory on the wire: query, vectors, logs, receipts, deletion (contract 5.3, 5.5, 5.7, 9)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError, UnauthenticatedError
from quipu.faces.oap.answering import enveloped
from quipu.faces.oap.asking import body, lent, lent_with, principal
from quipu.faces.oap.once import answered, caller
from quipu.model.disclosure import ErasureStep
from quipu.rules import grants_decisions as decisions
from quipu.rules.grants import parsed_query
from quipu.service.sharing import Sharing

#: No chain is longer.
_DIGITS = 18


class Memory:
    """What leaves under a grant, and what an owner asks about it."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    async def query(self, request: Request) -> Response:
        """Items of a grant that fit a query."""
        who, given = await lent_with(request, self._sharing, may_be_empty=True, is_read_later=True)
        answer = await self._sharing.disclosing.query(who, parsed_query(given))
        return enveloped(
            request, self._sharing, answer.output, receipt=answer.receipt, warnings=list(answer.warnings)
        )

    async def vector(self, request: Request) -> Response:
        """The vector of an item that was shown."""
        who = await lent(request, self._sharing)
        if unknown := sorted(request.query_params.keys() - {"shown"}):
            raise InvalidError.at(f"/{unknown[0][:64]}", "unknown_member", "A vector comes as bare floats.")
        data = await self._sharing.disclosing.vector(
            who, request.path_params["id"], request.query_params.get("shown")
        )
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")
        headers = {"Content-Digest": f"sha-256=:{digest}:", "Cache-Control": "no-store", "OAP-Version": "1.0"}
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def log(self, request: Request) -> Response:
        """The log of an item: both, for its owner; what it was, for who was shown it."""
        item_id, owner = request.path_params["id"], principal(request)
        if owner is not None:
            return enveloped(request, self._sharing, await self._sharing.disclosing.own_log(owner, item_id))
        who = await lent(request, self._sharing)
        return enveloped(request, self._sharing, {"log": await self._sharing.disclosing.log(who, item_id)})

    async def audit(self, request: Request) -> Response:
        """Receipts: the owner's chain; a grantee's own."""
        owner = principal(request)
        if owner is None:
            who = await lent(request, self._sharing)
            after = request.query_params.get("after", "")
            mine, last = await self._sharing.disclosing.receipts_of(who, after)
            return enveloped(request, self._sharing, {"receipts": mine, "next": last})
        if request.query_params.get("verify") == "true":
            faults = await self._sharing.grants.verify(owner)
            told = {"faults": [{"kind": one.kind, "seq": one.seq} for one in faults]}
            return enveloped(request, self._sharing, told)
        found = await self._sharing.grants.receipts(owner, _position(request.query_params.get("after", "0")))
        end = found[-1].seq if found else None
        if request.query_params.get("decisions") == "true":
            told = {"decisions": decisions.records(one.body for one in found), "next": end}
        else:
            told = {"receipts": [one.body for one in found], "next": end}
        return enveloped(request, self._sharing, told)

    async def delete(self, request: Request) -> Response:
        """The owner's request to erase; or, signed by a host that lent to us, to let go of what it lent."""
        given, owner = await body(request), principal(request)
        signature = request.headers.get("oap-signature")
        if owner is None and signature is not None:
            told = await self._sharing.erasing.cascade.received(given, signature)
            return enveloped(request, self._sharing, told)
        if owner is None:
            raise UnauthenticatedError(reason="no_credential")

        async def erased() -> tuple[dict[str, Any], int]:
            done = await self._sharing.erasing.erase(owner, given)
            report = await self._sharing.erasing.report(owner, done.id)
            told = {"step": done.step.value, "receipt": done.receipt, "report": report}
            return told, 200 if done.step is ErasureStep.DONE else 202

        return await answered(request, self._sharing, caller(owner), "memory_delete", given, erased)

    async def incident(self, request: Request) -> Response:
        """Somebody reports that something went wrong."""
        owner = principal(request)
        if owner is not None:
            who, given = owner, await body(request)
        else:
            who, given = await lent_with(request, self._sharing)

        async def noted() -> tuple[dict[str, Any], int]:
            return {"receipt_id": await self._sharing.incident(who, given)}, 202

        return await answered(request, self._sharing, caller(who), "incident", given, noted)


def _position(text: str) -> int:
    """A place in the owner's chain."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise InvalidError.at(
            "/after", "bad_value", "This is a position of the chain.", accepted=["0 or more"]
        )
    return int(text)
