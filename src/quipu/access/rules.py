"""What each role may do, and what may be given to whom. Pure functions."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from quipu.access.model import RESERVED_NAMES, SECOND_REVIEWER, PermissionName, Role, Token
from quipu.config import without_password
from quipu.errors import Fault, ForbiddenError
from quipu.model.principal import Permission, Principal
from quipu.operation import invalid

_MEMORY = frozenset({Permission.READ, Permission.WRITE, Permission.DELETE})
_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "agent": _MEMORY,
    "reviewer": frozenset({Permission.READ, Permission.REVIEW}),
    "operator": frozenset({Permission.OPERATE}),
    "admin": _MEMORY | {Permission.REVIEW, Permission.ADMIN, Permission.MANAGE},
}
ROLES = frozenset(_PERMISSIONS)
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_GLOB = re.compile(r"[*?\[]")


def permissions_of(roles: Iterable[Role]) -> frozenset[Permission]:
    """Everything that any of the roles may do."""
    return frozenset(permission for role in roles for permission in _PERMISSIONS[role])


def is_tenant_name(name: str) -> bool:
    """Whether a tenant can be called so. One that cannot is not there, and the ledger need not be asked."""
    return _TENANT.fullmatch(name) is not None


def granted(roles: Sequence[Role], permissions: Iterable[PermissionName]) -> frozenset[Permission]:
    """What a new token may do; or InvalidError.

    The proposing credential may approve in place, where a person is at the client. An agent is no person.
    """
    given = permissions_of(roles) | {Permission(name) for name in permissions}
    if not given:
        raise invalid(
            [Fault("/roles", "missing_field", f"a role ({', '.join(_PERMISSIONS)}) or a permission")]
        )
    if "agent" in roles and Permission.REVIEW in given:
        raise invalid(
            [
                Fault(
                    "/roles",
                    "bad_value",
                    "agent without reviewer, admin and memory:review; create two tokens",
                )
            ]
        )
    return given


def default_agent(given: str | None, agents: Sequence[str]) -> str | None:
    """The agent that a credential acts for where a request names none: the one given, or the only exact name."""
    exact = [name for name in agents if not _GLOB.search(name)]
    return given or (exact[0] if len(exact) == 1 else None)


def check_gift(
    giver: Principal,
    permissions: Collection[Permission],
    *,
    agents: Sequence[str],
    user_id: str | None,
    review_stores: Sequence[str],
    review_operations: Sequence[str],
    is_other_tenant: bool,
) -> None:
    """Nobody can give more than they may do themselves; only an operator lets people into other tenants.

    Who creates or rotates a token, or makes a sign-in link, holds what it gives.
    """
    if giver.may(Permission.OPERATE):
        return
    is_within = (
        not is_other_tenant
        and all(giver.may(permission) for permission in permissions)
        and _is_narrower(agents, giver.agents)
        and giver.user_id in (None, user_id)
        and _is_narrower(review_stores, giver.review_stores)
        and _is_narrower(review_operations, giver.review_operations)
    )
    if not is_within:
        raise ForbiddenError("Nobody can give more than they may do themselves.", reason="missing_scope")


def _is_narrower(wanted: Sequence[str], own: Sequence[str]) -> bool:
    """Whether each pattern is one of one's own, or an exact name that one of them takes in."""
    reach = Principal(tenant="", name="", permissions=frozenset(), agents=tuple(own))
    return "*" in own or all(
        one in own or (not _GLOB.search(one) and reach.may_act_for(one)) for one in wanted
    )


def makers(tokens: Mapping[str, Token], token_id: str | None) -> frozenset[str]:
    """The names of all by whom a token was made, directly or not. `tokens` are all of the tenant, by id.

    Names, because a rotated token has a new id and the same name. Who runs the machine (`local`, `system`) has made
    the first one of all and is not among them.
    """
    found: set[str] = set()
    seen: set[str] = set()
    while token_id is not None and token_id not in seen and (token := tokens.get(token_id)) is not None:
        seen.add(token_id)
        found.add(token.created_by)
        token_id = token.created_by_token
    return frozenset(found - RESERVED_NAMES)


def solo_mode(store_urls: Sequence[str]) -> str:
    """What whoever runs Quipu for the first time is told. `store_urls`: the places that their command named."""
    named = "".join(f" --store-url {shlex.quote(without_password(url))}" for url in store_urls)
    return (
        "Solo mode: while nobody else may review, this token may approve what it wrote itself, and the journal says so.\n"
        f"A second reviewer ends it: `{SECOND_REVIEWER}{named}`"
    )


def reviewers(tokens: Iterable[Token], now: int) -> frozenset[str]:
    """The names of the good tokens that may review."""
    return frozenset(
        token.name
        for token in tokens
        if token.is_good(now) and token.granted & {Permission.REVIEW, Permission.ADMIN}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """To whom something belongs. What is not known is None, and shown only to who has no limit there."""

    agent_id: str | None = None
    user_id: str | None = None
    #: The name of the memory store, not its id.
    store: str | None = None


def visible(principal: Principal, owner: Ownership) -> bool:
    """Whether the principal may be shown it. What is not visible answers as if it were not there."""
    return (
        ("*" in principal.agents or (owner.agent_id is not None and principal.may_act_for(owner.agent_id)))
        and principal.user_id in (None, owner.user_id)
        and (
            "*" in principal.review_stores
            or (owner.store is not None and principal.reaches_store(owner.store))
        )
    )
