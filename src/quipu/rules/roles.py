"""What each role may do, and what a tenant or a token may be called."""

from __future__ import annotations

import re
from collections.abc import Iterable

from quipu.errors import ForbiddenError, InvalidError
from quipu.model.access import Role
from quipu.model.principal import Permission, Principal

_MEMORY = frozenset({Permission.READ, Permission.WRITE, Permission.DELETE})
_PERMISSIONS = {
    Role.AGENT: _MEMORY,
    Role.REVIEWER: frozenset({Permission.READ, Permission.REVIEW}),
    Role.OPERATOR: frozenset({Permission.OPERATE}),
    Role.ADMIN: _MEMORY | {Permission.REVIEW, Permission.ADMIN, Permission.MANAGE},
}
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,99}")
#: Names that mean somebody else in the journal. Those who sign in elsewhere are called `oidc:…`, which no token can be.
_RESERVED = frozenset({"local", "system"})


def permissions_of(roles: Iterable[Role]) -> frozenset[Permission]:
    """Everything that any of the roles may do."""
    return frozenset(permission for role in roles for permission in _PERMISSIONS[role])


def checked_grant(giver: Principal, given: frozenset[Permission], *, is_foreign: bool) -> None:
    """Nobody hands out more than they have; an operator alone lets people into other tenants."""
    if giver.may(Permission.OPERATE):
        return
    if is_foreign or not all(giver.may(permission) for permission in given):
        raise ForbiddenError("Nobody can give more than they may do themselves.", reason="missing_scope")


def is_tenant(name: str) -> bool:
    """Whether a tenant can be called so. One that cannot is not there, and no ledger need be asked for it."""
    return _TENANT.fullmatch(name) is not None


def checked_tenant(tenant: str) -> str:
    """A tenant's name, which also stands in the text of its tokens."""
    if not is_tenant(tenant):
        raise InvalidError.at(
            "/tenant",
            "bad_value",
            "A tenant is named with lower-case letters, digits and hyphens, at most 63.",
            accepted=["^[a-z0-9][a-z0-9-]{0,62}$"],
        )
    return tenant


def checked_token_name(name: str) -> str:
    """Whom the journal will name."""
    if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
        raise InvalidError.at(
            "/name",
            "bad_value",
            "A token's name has 1 to 100 letters, digits, spaces and . _ @ + -, and is not `local` or `system`.",
        )
    return name


def checked_agents(patterns: Iterable[str]) -> tuple[str, ...]:
    """Glob patterns of agents; at least one."""
    kept = tuple(dict.fromkeys(patterns))
    if not kept or not all(0 < len(pattern) <= 256 for pattern in kept) or len(kept) > 64:
        raise InvalidError.at("/agents", "bad_value", "1 to 64 patterns of 1 to 256 characters are accepted.")
    return kept


def checked_review_stores(patterns: Iterable[str]) -> tuple[str, ...]:
    """Glob patterns of the stores that a reviewer decides on; at least one."""
    kept = tuple(dict.fromkeys(patterns))
    if not kept or not all(0 < len(pattern) <= 64 for pattern in kept) or len(kept) > 64:
        raise InvalidError.at(
            "/review_stores", "bad_value", "1 to 64 patterns of 1 to 64 characters are accepted."
        )
    return kept


def checked_review_operations(names: Iterable[str]) -> tuple[str, ...]:
    """The operations that a reviewer decides on; `*` is all of them."""
    from quipu.rules.policy_parsing import OPERATIONS  # all of governance, for a word that few ever give

    kept = tuple(dict.fromkeys(names))
    if not kept or not set(kept) <= {"*", *OPERATIONS}:
        raise InvalidError.at(
            "/review_operations", "bad_value", "This is no operation.", accepted=["*", *OPERATIONS]
        )
    return kept


def checked_review_grant(
    giver: Principal, given: frozenset[Permission], stores: Iterable[str], operations: Iterable[str]
) -> None:
    """A reviewer with limits lets nobody read or review beyond them. Whoever runs the server reviews nothing itself."""
    if giver.may(Permission.OPERATE) or not given & {Permission.READ, Permission.REVIEW, Permission.ADMIN}:
        return
    for own, wanted in ((giver.review_stores, stores), (giver.review_operations, operations)):
        if "*" not in own and not set(wanted) <= set(own):
            raise ForbiddenError("Nobody can give more than they may do themselves.", reason="missing_scope")
