"""What a memory on a server lends, by its memory exchange: the owner's side of grants, requests and erasures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from quipu.client.address import segment
from quipu.client.failures import misunderstood
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.errors import NotFoundError
from quipu.model.disclosure import KeptReceipt
from quipu.model.grants import AccessRequest, GrantStatus, KeptGrant, TaskState
from quipu.model.outcomes import Fault
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.surroundings import Clock
from quipu.rules.grants_times import DAY_MS, instant, rfc3339

_GRANT, _AUDIT = "/oap/memory/grant", "/oap/audit"
#: This face tells errors in envelopes of its own unless asked not to.
_HEADERS = {"Accept": "application/problem+json, application/json"}


class Exchanged:
    """Requests to the exchange of one server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        """What stands there."""
        return await self._sent(Call(method="GET", path=path, query=query, headers=_HEADERS))

    async def send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Change something; never sent twice by itself."""
        call = Call(method=method, path=path, body=body, headers=_HEADERS, repeat=Repeat.UNSENT)
        return await self._sent(call)

    async def _sent(self, call: Call) -> dict[str, Any]:
        body: object = await self._transport.call(call)
        output = cast("dict[str, Any]", body).get("output") if isinstance(body, dict) else None
        if not isinstance(output, dict):
            raise misunderstood()
        return cast("dict[str, Any]", output)


class RemoteGrants:
    """Grants there."""

    def __init__(self, exchanged: Exchanged, clock: Clock) -> None:
        self._exchanged, self._clock = exchanged, clock

    async def list(self, principal: Principal) -> Sequence[KeptGrant]:
        return [_kept(one) for one in (await self._exchanged.get(_GRANT))["grants"]]

    async def get(self, principal: Principal, grant_id: str) -> KeptGrant:
        return _kept(await self._exchanged.get(_path(grant_id)))

    async def shown(self, principal: Principal, grant_id: str) -> Sequence[tuple[str, int]]:
        told = await self._exchanged.get(_path(grant_id))
        return [(str(one["id"]), instant(str(one["at"])) or 0) for one in told["shown"]]

    async def who_saw(self, principal: Principal, record_id: str) -> Sequence[JsonObject]:
        try:
            told = await self._exchanged.get(f"/oap/memory/item/{segment(record_id)}/log")
        except NotFoundError as error:
            if error.reason == "item":
                return []  # it was never lent
            raise
        return told["disclosed"]

    async def chain(self, principal: Principal) -> Sequence[KeptReceipt]:
        found: list[KeptReceipt] = []
        after: int | None = 0
        while after is not None:
            told = await self._exchanged.get(_AUDIT, after=str(after))
            found.extend(_receipt(place, body) for place, body in enumerate(told["receipts"], after + 1))
            after = told["next"]
        return found

    async def verify(self, principal: Principal) -> Sequence[Fault]:
        """The server looks at its own chain, with the keys that it has."""
        told = await self._exchanged.get(_AUDIT, verify="true")
        return [Fault(kind=str(one["kind"]), detail="", seq=one["seq"]) for one in told["faults"]]

    async def issue_for(self, principal: Principal, draft: JsonObject, days: int) -> KeptGrant:
        end = (self._clock() + days * DAY_MS) // 1000 * 1000
        body = {**draft, "expires_at": rfc3339(end)}
        return _kept(await self._exchanged.send("POST", _GRANT, body))

    async def revoke(self, principal: Principal, grant_id: str) -> KeptGrant:
        await self._exchanged.send("DELETE", _path(grant_id))
        return await self.get(principal, grant_id)

    async def kill(self, principal: Principal) -> int:
        return int((await self._exchanged.send("DELETE", _GRANT))["revoked"])


class RemoteRequests:
    """What was asked of an owner there."""

    def __init__(self, exchanged: Exchanged, clock: Clock) -> None:
        self._exchanged, self._clock = exchanged, clock

    async def list(self, principal: Principal) -> Sequence[AccessRequest]:
        return [_request(one) for one in (await self._exchanged.get(_path("request")))["requests"]]

    async def approve(
        self, principal: Principal, request_id: str, changes: JsonObject, days: int | None = None
    ) -> KeptGrant:
        end = {} if days is None else {"expires_at": rfc3339((self._clock() + days * DAY_MS) // 1000 * 1000)}
        path = f"{_path('request')}/{segment(request_id)}/approve"
        return _kept(await self._exchanged.send("POST", path, {**changes, **end}))

    async def refuse(self, principal: Principal, request_id: str) -> AccessRequest:
        path = f"{_path('request')}/{segment(request_id)}"
        return _request(await self._exchanged.send("DELETE", path))


class RemoteDisclosing:
    """What would be seen."""

    def __init__(self, exchanged: Exchanged) -> None:
        self._exchanged = exchanged

    async def preview(self, principal: Principal, draft: JsonObject) -> list[dict[str, Any]]:
        return (await self._exchanged.send("POST", f"{_GRANT}/preview", dict(draft)))["items"]


class RemoteSharing:
    """The parts of lending that an owner has over the wire. Keys, and what others lend, stay with the server."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._exchanged, self._clock = Exchanged(transport), clock
        self.grants = RemoteGrants(self._exchanged, clock)
        self.requests = RemoteRequests(self._exchanged, clock)
        self.disclosing = RemoteDisclosing(self._exchanged)

    def now(self) -> int:
        """The clock of this machine."""
        return self._clock()

    async def erased(self, principal: Principal, request: JsonObject) -> dict[str, Any]:
        """Erase there, and wherever it was lent from there: how far it has come, the receipt, and whom it has reached."""
        body = {"principal_did": (await self._exchanged.get(_GRANT))["owner"], **request}
        return await self._exchanged.send("POST", "/oap/data/delete", body)


def _path(name: str) -> str:
    return f"{_GRANT}/{segment(name)}"


def _kept(told: dict[str, Any]) -> KeptGrant:
    body: dict[str, Any] = told["grant"]
    return KeptGrant(
        tenant="",
        id=str(body["grant_id"]),
        body=body,
        hash="",
        grantee=str(body["grantee"]),
        status=GrantStatus(told["status"]),
        registered_at=instant(str(told.get("registered_at"))) or 0,
        expires_at=instant(str(body["expires_at"])) or 0,
        revoked_at=instant(str(told.get("revoked_at"))),
        uses=int(told.get("uses", 0)),
        disclosed=int(told.get("items_disclosed", 0)),
    )


def _request(told: dict[str, Any]) -> AccessRequest:
    return AccessRequest(
        tenant="",
        id=str(told["request_id"]),
        draft=told["draft"],
        grantee=str(told["grantee"]),
        asked_at=instant(str(told["asked_at"])) or 0,
        lapses_at=instant(str(told["lapses_at"])) or 0,
        state=TaskState(told["status"]),
    )


def _receipt(place: int, body: JsonObject) -> KeptReceipt:
    return KeptReceipt(
        seq=place,
        id=str(body["receipt_id"]),
        type=str(body["type"]),
        agent=str(body["agent_did"]),
        grant_id=None,
        at=instant(str(body["timestamp"])) or 0,
        body=body,
        hash="",
    )
