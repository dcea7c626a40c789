"""Tenants, tokens and secrets of a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quipu.client.address import segment
from quipu.client.answers import part, understood
from quipu.client.bodies import sent
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.faces.rest.paths import PREFIX
from quipu.model.access import IssuedToken, KeptSecret, Role, Tenant, Token
from quipu.model.principal import Permission, Principal


class RemoteTenancy:
    """Who has a memory there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, principal: Principal, tenant_id: str) -> Tenant:
        call = Call(method="POST", path=f"{PREFIX}/tenants", body={"tenant": tenant_id}, repeat=Repeat.UNSENT)
        return understood(Tenant, await self._transport.call(call))

    async def list(self, principal: Principal) -> tuple[Tenant, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/tenants"))
        return part(tuple[Tenant, ...], body, "tenants")

    async def suspend(self, principal: Principal, tenant_id: str) -> Tenant:
        """Suspending or resuming twice does no harm, so it may be repeated."""
        return await self._turn(tenant_id, "suspend")

    async def resume(self, principal: Principal, tenant_id: str) -> Tenant:
        return await self._turn(tenant_id, "resume")

    async def _turn(self, tenant_id: str, verb: str) -> Tenant:
        path = f"{PREFIX}/tenants/{segment(tenant_id)}/{verb}"
        return understood(Tenant, await self._transport.call(Call(method="POST", path=path)))


class RemoteTokens:
    """Who may come in there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def issue(
        self,
        principal: Principal,
        *,
        name: str,
        roles: Iterable[Role] = (),
        permissions: Iterable[Permission] | None = None,
        agents: Sequence[str] = ("*",),
        user_id: str | None = None,
        expires_at: int | None = None,
        rate: int | None = None,
        recall_budget: int | None = None,
        review_stores: Sequence[str] = ("*",),
        review_operations: Sequence[str] = ("*",),
        tenant: str | None = None,
    ) -> IssuedToken:
        body: dict[str, object] = {
            "name": name,
            "roles": list(roles),
            "permissions": list(permissions or ()),
            "agents": list(agents),
            "user_id": user_id,
            "expires_at": expires_at,
            "rate": rate,
            "recall_budget": recall_budget,
            "review_stores": list(review_stores),
            "review_operations": list(review_operations),
            "tenant": tenant,
        }
        call = Call(method="POST", path=f"{PREFIX}/tokens", body=sent(body), repeat=Repeat.UNSENT)
        return understood(IssuedToken, await self._transport.call(call))

    async def list(self, principal: Principal, tenant: str | None = None) -> tuple[Token, ...]:
        call = Call(method="GET", path=f"{PREFIX}/tokens", query={"tenant": tenant})
        return part(tuple[Token, ...], await self._transport.call(call), "tokens")

    async def revoke(self, principal: Principal, token_id: str, tenant: str | None = None) -> Token:
        """Ending a token twice does no harm, so it may be repeated."""
        call = Call(method="DELETE", path=_token_path(token_id), query={"tenant": tenant})
        return understood(Token, await self._transport.call(call))

    async def rotate(
        self, principal: Principal, token_id: str, *, grace_ms: int = 0, tenant: str | None = None
    ) -> IssuedToken:
        body = {"grace_ms": grace_ms} | ({} if tenant is None else {"tenant": tenant})
        path = f"{_token_path(token_id)}/rotate"
        call = Call(method="POST", path=path, body=body, repeat=Repeat.UNSENT)
        return understood(IssuedToken, await self._transport.call(call))


def _token_path(token_id: str) -> str:
    return f"{PREFIX}/tokens/{segment(token_id)}"


class RemoteSecrets:
    """What must never be remembered there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def register(
        self, principal: Principal, *, label: str, value: str, run_id: str | None = None
    ) -> KeptSecret:
        body = {"label": label, "value": value} | ({} if run_id is None else {"run_id": run_id})
        call = Call(method="POST", path=f"{PREFIX}/secrets", body=body, repeat=Repeat.UNSENT)
        return understood(KeptSecret, await self._transport.call(call))

    async def list(self, principal: Principal) -> tuple[KeptSecret, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/secrets"))
        return part(tuple[KeptSecret, ...], body, "secrets")

    async def remove(self, principal: Principal, secret_id: str) -> None:
        path = f"{PREFIX}/secrets/{segment(secret_id)}"
        await self._transport.call(Call(method="DELETE", path=path, repeat=Repeat.UNSENT))
