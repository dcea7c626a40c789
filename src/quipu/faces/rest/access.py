"""Tenants, the tokens that open them, and the secrets that are kept out of memory."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import answered, nothing
from quipu.faces.rest.asking import RotateBody, SecretBody, TenantBody, TokenBody, asked
from quipu.service.memory import MemoryService


class Access:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def tokens(self, request: Request) -> Response:
        tenant = request.query_params.get("tenant")
        return answered({"tokens": await self._service.tokens.list(principal_of(request), tenant)})

    async def issue(self, request: Request) -> Response:
        body = await asked(request, TokenBody)
        issued = await self._service.tokens.issue(
            principal_of(request),
            name=body.name,
            roles=body.roles,
            permissions=body.permissions,
            agents=body.agents,
            user_id=body.user_id,
            expires_at=body.expires_at,
            rate=body.rate,
            recall_budget=body.recall_budget,
            review_stores=body.review_stores,
            review_operations=body.review_operations,
            tenant=body.tenant,
        )
        return answered(issued, 201)

    async def revoke(self, request: Request) -> Response:
        revoked = await self._service.tokens.revoke(
            principal_of(request), request.path_params["id"], request.query_params.get("tenant")
        )
        return answered(revoked)

    async def rotate(self, request: Request) -> Response:
        body = await asked(request, RotateBody, may_be_empty=True)
        issued = await self._service.tokens.rotate(
            principal_of(request), request.path_params["id"], grace_ms=body.grace_ms, tenant=body.tenant
        )
        return answered(issued, 201)

    async def tenants(self, request: Request) -> Response:
        return answered({"tenants": await self._service.tenancy.list(principal_of(request))})

    async def create_tenant(self, request: Request) -> Response:
        body = await asked(request, TenantBody)
        return answered(await self._service.tenancy.create(principal_of(request), body.tenant), 201)

    async def suspend(self, request: Request) -> Response:
        return answered(await self._service.tenancy.suspend(principal_of(request), request.path_params["id"]))

    async def resume(self, request: Request) -> Response:
        return answered(await self._service.tenancy.resume(principal_of(request), request.path_params["id"]))

    async def secrets(self, request: Request) -> Response:
        return answered({"secrets": await self._service.secrets.list(principal_of(request))})

    async def keep_secret(self, request: Request) -> Response:
        body = await asked(request, SecretBody)
        kept = await self._service.secrets.register(
            principal_of(request), label=body.label, value=body.value, run_id=body.run_id
        )
        return answered(kept, 201)

    async def drop_secret(self, request: Request) -> Response:
        await self._service.secrets.remove(principal_of(request), request.path_params["id"])
        return nothing()
