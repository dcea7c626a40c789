"""Who this host and its owners are: their DIDs and keys, and the documents and manifests that anybody may read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quipu import jose
from quipu._version import __version__
from quipu.errors import NotFoundError
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Commit
from quipu.memory.pipeline import Guard, Pipeline, Plan
from quipu.model.journal import Draft
from quipu.model.principal import DEFAULT_TENANT
from quipu.operation import Context
from quipu.sharing import conformance, manifests
from quipu.sharing.host import Host
from quipu.sharing.host_messages import (
    DescribeServiceRequest,
    GetIdentityRequest,
    Identity,
    RotatedKey,
    RotateKeyRequest,
    ServiceDescription,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Nothing that a stranger asks makes a key of an owner, or tells who is here."""

    host: Host
    pipeline: Pipeline
    #: How items can be projected, and in which formats they can be exported.
    profiles: Sequence[str]
    formats: Sequence[str]

    # -- for the owner ------------------------------------------------------------------------------------------------

    async def identity(self, ctx: Context, request: GetIdentityRequest) -> Identity:
        keyring = self.host.keyring
        return Identity(owner=keyring.did(ctx.tenant), host=keyring.did(None), can_share=keyring.is_public)

    async def rotate(self, ctx: Context, request: RotateKeyRequest) -> RotatedKey:
        """The journal is told after the key is there: it must not say what did not happen."""
        who = None if request.host else ctx.tenant
        kid = self.host.keyring.rotate(who, ctx.clock(), is_compromised=request.compromised)

        async def plan(_: Guard) -> Plan[RotatedKey]:
            draft = Draft(
                op="rotate_key",
                actor=ctx.principal.name,
                at=ctx.clock(),
                detail={"kid": kid, "compromised": request.compromised},
            )
            commit = Commit(tenant=ctx.tenant, draft=draft)
            return Plan(commits=(commit,), answer=lambda _: RotatedKey(kid=kid))

        return await self.pipeline.carry_out(ctx, plan)

    # -- for anybody --------------------------------------------------------------------------------------------------

    async def describe(self, ctx: Context, request: DescribeServiceRequest) -> ServiceDescription:
        return ServiceDescription(**manifests.service(self.host.did, self.host.url, __version__))

    def document(self, path: str | None = None) -> dict[str, Any]:
        """The DID document of this host, or of the owner whose name in addresses this is."""
        return self.host.keyring.document(self._whose(path))

    async def memory_manifest(self, path: str | None = None) -> dict[str, Any]:
        """Where memory is shared, signed by this host. At the root it is that of the first owner."""
        tenant, keyring = self._whose(path) or DEFAULT_TENANT, self.host.keyring
        space = await self.host.ledger.space(tenant)
        body = manifests.memory_manifest(keyring.did(tenant), self.host.url, space, self.formats)
        return {**body, "signature": jose.detached(canonical(body), keyring.signatory(None))}

    def conformance_receipt(self) -> dict[str, Any]:
        """The receipt of the run of OAP's suite that came with this version."""
        return conformance.receipt(self.host.url, __version__, self.host.keyring.signatory(None))

    def tool_manifest(self) -> dict[str, Any]:
        """What this host does, and what it does with data."""
        return manifests.tool_manifest(
            self.host.did, self.host.url, __version__, self.profiles, self.conformance_receipt()
        )

    def _whose(self, path: str | None) -> str | None:
        """None: the host. Who is not here and who shares nothing answer alike: paths are random and say nothing."""
        _ = self.host.url  # without an address there is nothing to say
        tenant = None if path is None else self.host.keyring.tenant_at(path)
        if path is not None and tenant is None:
            raise NotFoundError("There is nobody of this name.", reason="owner")
        return tenant
