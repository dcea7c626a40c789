"""Who may come in, and what must stay out: tenants, tokens, secrets."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.model.access import IssuedToken, KeptSecret, Role, Tenant, Token
from quipu.model.principal import Permission, Principal


class Access(Session):
    """For those who run a server, or manage a tenant on one."""

    async def whoami(self) -> Principal:
        """Whom this memory acts as: tenant, name, permissions, agents."""
        return await (await self._service()).whoami(self._principal)

    async def create_token(
        self,
        name: str,
        /,
        *,
        roles: Sequence[Role | str] = (),
        permissions: Sequence[Permission | str] = (),
        agents: Sequence[str] = ("*",),
        user_id: str | None = None,
        expires_at: int | None = None,
        rate: int | None = None,
        recall_budget: int | None = None,
        review_stores: Sequence[str] = ("*",),
        review_operations: Sequence[str] = ("*",),
        tenant: str | None = None,
    ) -> IssuedToken:
        """A new token. Its text is told this once."""
        service = await self._service()
        return await service.tokens.issue(
            self._principal,
            name=arguments.text(name, "/name"),
            roles=arguments.members(Role, roles, "/roles"),
            permissions=arguments.members(Permission, permissions, "/permissions"),
            agents=arguments.texts(agents, "/agents"),
            user_id=arguments.maybe_plain(user_id, "/user_id"),
            expires_at=arguments.maybe_whole(expires_at, "/expires_at"),
            rate=arguments.maybe_whole(rate, "/rate"),
            recall_budget=arguments.maybe_whole(recall_budget, "/recall_budget"),
            review_stores=arguments.texts(review_stores, "/review_stores"),
            review_operations=arguments.texts(review_operations, "/review_operations"),
            tenant=arguments.maybe_plain(tenant, "/tenant"),
        )

    async def list_tokens(self, *, tenant: str | None = None) -> tuple[Token, ...]:
        """All tokens, also ended ones, without their texts."""
        asked = arguments.maybe_plain(tenant, "/tenant")
        return await (await self._service()).tokens.list(self._principal, asked)

    async def revoke_token(self, token_id: str, /, *, tenant: str | None = None) -> Token:
        """End a token now."""
        service, asked = await self._service(), arguments.maybe_plain(tenant, "/tenant")
        return await service.tokens.revoke(self._principal, arguments.text(token_id, "/token_id"), asked)

    async def rotate_token(
        self, token_id: str, /, *, grace_ms: int = 0, tenant: str | None = None
    ) -> IssuedToken:
        """The same rights under a new text; the old text ends after the grace."""
        service, asked = await self._service(), arguments.maybe_plain(tenant, "/tenant")
        named = arguments.text(token_id, "/token_id")
        grace = arguments.whole(grace_ms, "/grace_ms")
        return await service.tokens.rotate(self._principal, named, grace_ms=grace, tenant=asked)

    async def create_tenant(self, tenant_id: str, /) -> Tenant:
        """A new tenant, with a journal and a store `main` of its own."""
        asked = arguments.plain(tenant_id, "/tenant_id")
        return await (await self._service()).tenancy.create(self._principal, asked)

    async def list_tenants(self) -> tuple[Tenant, ...]:
        """All tenants, also suspended ones."""
        return await (await self._service()).tenancy.list(self._principal)

    async def suspend_tenant(self, tenant_id: str, /) -> Tenant:
        """From now on none of the tenant's credentials is good. Nothing is lost."""
        asked = arguments.plain(tenant_id, "/tenant_id")
        return await (await self._service()).tenancy.suspend(self._principal, asked)

    async def resume_tenant(self, tenant_id: str, /) -> Tenant:
        """Let a suspended tenant in again."""
        asked = arguments.plain(tenant_id, "/tenant_id")
        return await (await self._service()).tenancy.resume(self._principal, asked)

    async def add_secret(self, label: str, value: str, /, *, run_id: str | None = None) -> KeptSecret:
        """Keep a value out of memory from now on. It is sealed and never shown again."""
        service = await self._service()
        return await service.secrets.register(
            self._principal,
            label=arguments.text(label, "/label"),
            value=arguments.text(value, "/value"),
            run_id=arguments.maybe_text(run_id, "/run_id"),
        )

    async def list_secrets(self) -> tuple[KeptSecret, ...]:
        """What is registered, without the values."""
        return await (await self._service()).secrets.list(self._principal)

    async def remove_secret(self, secret_id: str, /) -> None:
        """Its value may be remembered again."""
        await (await self._service()).secrets.remove(self._principal, arguments.text(secret_id, "/secret_id"))
