"""Reads, stores and held writes on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from quipu.client.address import segment
from quipu.client.answers import part, understood
from quipu.client.bodies import sent
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.faces.rest.paths import MEMORYWIRE, PREFIX
from quipu.model.change import Proposal
from quipu.model.governance import Effect, Replayed, Review, Rule, Verdict
from quipu.model.operations import CreateStoreRequest, ListRequest
from quipu.model.outcomes import Page, Version
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.store import Store


def record_path(record_id: str) -> str:
    """The address of a record; an id may hold anything."""
    return f"{PREFIX}/records/{segment(record_id)}"


class RemoteReading:
    """Reads that do not rank."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(
        self, principal: Principal, agent_id: str | None, record_id: str, as_of: str | None
    ) -> Record:
        query = {"agent_id": agent_id, "as_of": as_of}
        body = await self._transport.call(Call(method="GET", path=record_path(record_id), query=query))
        return understood(Record, body)

    async def list(self, principal: Principal, request: ListRequest) -> Page:
        call = Call(method="POST", path=f"{PREFIX}/records/query", body=sent(request))
        return understood(Page, await self._transport.call(call))

    async def history(
        self, principal: Principal, agent_id: str | None, record_id: str
    ) -> tuple[Version, ...]:
        path = f"{record_path(record_id)}/history"
        body = await self._transport.call(Call(method="GET", path=path, query={"agent_id": agent_id}))
        return part(tuple[Version, ...], body, "versions")


class RemoteStores:
    """The containers of a tenant."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, principal: Principal, request: CreateStoreRequest) -> Store:
        call = Call(method="POST", path=f"{PREFIX}/stores", body=sent(request), repeat=Repeat.UNSENT)
        return understood(Store, await self._transport.call(call))

    async def list(self, principal: Principal) -> tuple[Store, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/stores"))
        return part(tuple[Store, ...], body, "stores")

    async def delete(self, principal: Principal, name: str, confirm: str, *, hard_delete: bool) -> int:
        call = Call(
            method="DELETE",
            path=f"{PREFIX}/stores/{segment(name)}",
            query={"confirm": confirm, "hard_delete": "true" if hard_delete else "false"},
            repeat=Repeat.UNSENT,
        )
        return part(int, await self._transport.call(call), "removed")


class RemoteGovernance:
    """Writes that wait for a person."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def proposals(self, principal: Principal, status: str | None = None) -> tuple[Proposal, ...]:
        query = {"status": status or "all"}
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/proposals", query=query))
        return part(tuple[Proposal, ...], body, "proposals")


class RemoteReviewing:
    """What a reviewer sees of them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def review(self, principal: Principal, proposal_id: str) -> Review:
        path = f"{PREFIX}/proposals/{segment(proposal_id)}"
        return understood(Review, await self._transport.call(Call(method="GET", path=path)))


class RemotePolicies:
    """The rules that decide on writes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, principal: Principal) -> tuple[Rule, ...]:
        return self._read(await self._transport.call(Call(method="GET", path=f"{MEMORYWIRE}/rules")))

    async def own(self, principal: Principal) -> tuple[Rule, ...]:
        call = Call(method="GET", path=f"{MEMORYWIRE}/rules", query={"own": "true"})
        return self._read(await self._transport.call(call))

    async def set(self, principal: Principal, document: object) -> tuple[Rule, ...]:
        """Setting the same rules twice does no harm, so it may be repeated."""
        call = Call(method="PUT", path=f"{MEMORYWIRE}/rules", body=document)
        return self._read(await self._transport.call(call))

    async def tried(
        self, principal: Principal, document: object | None = None, last: int = 1_000
    ) -> tuple[Replayed, ...]:
        draft = cast("Mapping[str, Any]", document or {})
        call = Call(method="POST", path=f"{MEMORYWIRE}/rules/test", body={**draft, "last": last})
        body = await self._transport.call(call)
        return tuple(
            Replayed(
                seq=one["seq"],
                at=one["at"],
                operation=one["operation"],
                agent_id=one["agent_id"],
                actor=one["actor"],
                verdict=Verdict(Effect(one["effect"]), one["rule"], one["reason"] or None),
            )
            for one in part(tuple[Mapping[str, Any], ...], body, "writes")
        )

    @staticmethod
    def _read(body: object) -> tuple[Rule, ...]:
        return part(tuple[Rule, ...], body, "rules")
