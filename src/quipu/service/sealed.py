"""Sealing, with the key that what was sealed before can be opened with.

A key file that is missing is made when something is first sealed. Where something was sealed already a second key would
be the wrong one: whichever of the two is there, what was sealed with the other cannot be opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from quipu.errors import QuipuError, UnverifiableError
from quipu.model.access import KeptSecret
from quipu.model.notices import Webhook
from quipu.ports.parts import Parts


class Sealing:
    """Over everything of the ledger that is sealed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: A sealer goes on with the key that it began with.
        self._is_right = False

    async def seal(self, value: bytes, kept: KeptSecret | Webhook) -> bytes:
        """The value, sealed to where it is kept. UnverifiableError without the key that this ledger was sealed with."""
        if not self._is_right:
            await self._check_key(kept.tenant)
        sealed = self._parts.sealer.seal(value, place(kept))
        self._is_right = True
        return sealed

    def unseal(self, value: bytes, kept: KeptSecret | Webhook) -> bytes:
        return self._parts.sealer.unseal(value, place(kept))

    async def _check_key(self, tenant: str) -> None:
        """Raise unless there is nothing sealed yet, or something that the key opens."""
        refused: UnverifiableError | None = None
        async for value, kept in self._sealed(tenant):
            try:
                self.unseal(value, kept)
            except UnverifiableError as error:
                refused = error
            else:
                return
        if refused is not None:
            raise UnverifiableError(
                "The key that secrets and webhooks of this ledger were sealed with is not there.",
                reason="missing_key",
                hint=(
                    "Put its file back (`sealing_key` says where it is looked for). Where it is lost for good, "
                    "remove what was sealed with it, then add it again."
                ),
            ) from refused

    async def _sealed(self, tenant: str) -> AsyncIterator[tuple[bytes, KeptSecret | Webhook]]:
        """All that is sealed, of every tenant, beginning with one: they share the key."""
        ledger = self._parts.ledger
        others = [one.id for one in await ledger.tenants() if one.id != tenant]
        for name in (tenant, *others):
            for secret in (await ledger.guard(name)).secrets:
                yield secret.value, secret.secret
            for webhook in await ledger.webhooks(name):
                yield webhook.sealed, webhook.webhook


def place(kept: KeptSecret | Webhook) -> bytes:
    """What binds a sealed value to where it is kept."""
    return f"{kept.tenant}/{kept.id}".encode()


@dataclass(frozen=True, slots=True)
class Unopened:
    """What was sealed and cannot be opened here: as in a copy that came without its key."""

    secrets: int
    webhooks: int
    #: Of the first of them.
    error: QuipuError

    @property
    def said(self) -> str:
        """What is the matter, and what comes of it."""
        comes = "every write is refused" if self.secrets else "webhooks are told nothing"
        return f"{self.error.message} Until it is there, {comes}."

    @property
    def advice(self) -> str:
        kinds = [
            *(["`quipu secret remove`"] if self.secrets else []),
            *(["`quipu webhook remove`"] if self.webhooks else []),
        ]
        return (
            "Put the sealing key back beside the memory, or where `sealing_key` says. Where it is lost for good, "
            f"take away what was sealed with it ({', '.join(kinds)}), and add it anew."
        )


async def unopened(parts: Parts) -> Unopened | None:
    """What of all tenants cannot be opened with the key that is there; None where everything can."""
    sealing, ledger = Sealing(parts), parts.ledger
    secrets = webhooks = 0
    first: QuipuError | None = None
    for tenant in await ledger.tenants():
        for secret in (await ledger.guard(tenant.id)).secrets:
            try:
                sealing.unseal(secret.value, secret.secret)
            except QuipuError as error:
                secrets, first = secrets + 1, first or error
        for webhook in await ledger.webhooks(tenant.id):
            try:
                sealing.unseal(webhook.sealed, webhook.webhook)
            except QuipuError as error:
                webhooks, first = webhooks + 1, first or error
    return None if first is None else Unopened(secrets, webhooks, first)
