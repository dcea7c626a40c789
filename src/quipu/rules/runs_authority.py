"""Who a run acts for: kept with it, so that an engine can go on after a restart."""

from __future__ import annotations

from typing import Any, cast

from quipu.model.principal import Permission, Principal
from quipu.model.record import Trust
from quipu.model.value import JsonObject


def kept(principal: Principal) -> JsonObject:
    """A principal as it is kept; no credential."""
    return {
        "name": principal.name,
        "permissions": sorted(permission.value for permission in principal.permissions),
        "agents": list(principal.agents),
        "user_id": principal.user_id,
        "trust": principal.trust.value,
    }


def revived(tenant: str, authority: JsonObject) -> Principal:
    """The principal of a run that goes on."""
    body: dict[str, Any] = dict(cast("dict[str, Any]", authority))
    return Principal(
        tenant=tenant,
        name=body["name"],
        permissions=frozenset(map(Permission, body["permissions"])),
        agents=tuple(body["agents"]),
        user_id=body["user_id"],
        trust=Trust(body["trust"]),
    )


def host(tenant: str) -> Principal:
    """The host itself, for what it writes about runs."""
    return Principal(
        tenant=tenant,
        name="quipu",
        permissions=frozenset({Permission.READ, Permission.WRITE}),
        trust=Trust.OPERATOR,
    )
