"""The pages of access: people and tokens, and the tenants of a server."""

from collections.abc import Mapping
from typing import Any

from quipu.access import operations as ops
from quipu.access.model import SECOND_REVIEWER, TokenView
from quipu.errors import Fault
from quipu.model.principal import Principal
from quipu.operation import Context, dispatch, invalid
from quipu.page import Done, Fields, Page, Part, may_use

_MOST = 1000
_ROLES: Mapping[str, str] = {
    "agent": "reads, writes and deletes memories",
    "reviewer": "reads, and decides on what waits",
    "admin": "everything in this tenant",
    "operator": "runs the server: tenants, backups; nobody's memories",
}
_LIVES: Mapping[str, str] = {
    "": "never",
    "1d": "in a day",
    "30d": "in 30 days",
    "90d": "in 90 days",
    "1y": "in a year",
}
_GRACES: Mapping[str, str] = {
    "0": "now",
    "3600000": "in an hour",
    "86400000": "in a day",
    "604800000": "in a week",
}


# -- tokens -------------------------------------------------------------------------------------------------------


async def _tokens(ctx: Context, query: Fields) -> dict[str, Any]:
    answer = await dispatch(ctx, ops.LIST_TOKENS, {"limit": _MOST, **query.given("cursor")})
    tokens = answer.tokens[::-1]
    me = await dispatch(ctx, ops.WHOAMI, {})
    return {
        "good": [one for one in tokens if one.is_good],
        "ended": [one for one in tokens if not one.is_good],
        "next_cursor": answer.next_cursor,
        "roles": {
            role: said for role, said in _ROLES.items() if role != "operator" or _is_operator(ctx.principal)
        },
        "role_of": _role,
        "lives": _LIVES,
        "graces": _GRACES,
        "can_create": may_use(ctx.principal, ops.CREATE_TOKEN),
        "can_link": may_use(ctx.principal, ops.CREATE_SIGNIN_LINK),
        "solo": me.solo,
        "second_reviewer": SECOND_REVIEWER,
        "own_id": ctx.principal.token_id,
    }


def _is_operator(principal: Principal) -> bool:
    return may_use(principal, ops.LIST_TENANTS)


def _role(token: TokenView) -> str:
    """What it is here to do, in a word, as far as its permissions say."""
    held = set(token.permissions)
    if "memory:admin" in held:
        return "admin"
    names = [
        name
        for name, needed in (
            ("agent", "memory:write"),
            ("reviewer", "memory:review"),
            ("operator", "server:operate"),
        )
        if needed in held
    ]
    return ", ".join(names) or "reader"


async def _create_token(ctx: Context, form: Fields) -> Done:
    numbers = {
        name: number for name in ("rate", "recall_budget") if (number := form.number(name)) is not None
    }
    lists = {
        name: form.words(name)
        for name in ("agents", "review_stores", "review_operations")
        if form.words(name)
    }
    roles = form.texts("roles")
    request = {
        "name": form.get("name", "").strip(),
        "roles": [role for role in roles if role != "reader"],
        "permissions": ["memory:read"] if "reader" in roles else [],
        **lists,
        **numbers,
        **form.given("default_agent", "user_id", "expires_at"),
    }
    issued = await dispatch(ctx, ops.CREATE_TOKEN, request)
    return Done(once={"token": issued.token, "text": issued.text})


async def _rotate_token(ctx: Context, form: Fields) -> Done:
    request = {"id": form.get("token_id", ""), "grace_ms": form.number("grace_ms") or 0}
    issued = await dispatch(ctx, ops.ROTATE_TOKEN, request)
    return Done(once={"token": issued.token, "text": issued.text})


async def _revoke_token(ctx: Context, form: Fields) -> Done:
    ended = await dispatch(ctx, ops.REVOKE_TOKEN, {"id": form.get("token_id", "")})
    return Done(said=f"Ended the token of {ended.name}. Whoever used it is out.")


async def _signin_link(ctx: Context, form: Fields) -> Done:
    made = await dispatch(ctx, ops.CREATE_SIGNIN_LINK, {"token_id": form.get("token_id", "")})
    return Done(once={"link": made.url, "expires_at": made.expires_at})


# -- tenants ------------------------------------------------------------------------------------------------------


async def _tenants(ctx: Context, query: Fields) -> dict[str, Any]:
    answer = await dispatch(ctx, ops.LIST_TENANTS, {"limit": 100, **query.given("cursor")})
    return {"tenants": answer.tenants, "next_cursor": answer.next_cursor, "own": ctx.tenant}


async def _create_tenant(ctx: Context, form: Fields) -> Done:
    made = await dispatch(ctx, ops.CREATE_TENANT, {"tenant": form.get("tenant", "").strip()})
    return Done(said=f"Created the tenant {made.tenant}. It needs a first token.")


async def _suspend_tenant(ctx: Context, form: Fields) -> Done:
    tenant = form.get("tenant", "")
    if form.get("confirm", "").strip() != tenant:
        raise invalid([Fault("/confirm", "bad_value", "the tenant's name once more")])
    gone = await dispatch(ctx, ops.SUSPEND_TENANT, {"tenant": tenant})
    return Done(said=f"Suspended {gone.tenant}. None of its credentials is accepted; nothing is lost.")


async def _resume_tenant(ctx: Context, form: Fields) -> Done:
    back = await dispatch(ctx, ops.RESUME_TENANT, {"tenant": form.get("tenant", "")})
    return Done(said=f"Resumed {back.tenant}.")


async def _first_token(ctx: Context, form: Fields) -> Done:
    request = {"tenant": form.get("tenant", ""), "name": form.get("name", "").strip(), "roles": ["admin"]}
    issued = await dispatch(ctx, ops.CREATE_TOKEN, request)
    return Done(once={"token": issued.token, "text": issued.text, "tenant": form.get("tenant", "")})


# -- the pages ----------------------------------------------------------------------------------------------------


def pages(webhooks: Part) -> tuple[Page, ...]:
    """`webhooks` are listed, and changed, on the page of tokens."""

    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        return {**await _tokens(ctx, query), **await webhooks.load(ctx, query)}

    access = Page(
        path="/access",
        group="system",
        title="Access",
        template="access.html",
        load=load,
        actions={
            "create": _create_token,
            "rotate": _rotate_token,
            "revoke": _revoke_token,
            "link": _signin_link,
            **webhooks.actions,
        },
        needs=ops.LIST_TOKENS,
    )
    tenants = Page(
        path="/tenants",
        group="system",
        title="Tenants",
        template="tenants.html",
        load=_tenants,
        actions={
            "create": _create_tenant,
            "suspend": _suspend_tenant,
            "resume": _resume_tenant,
            "token": _first_token,
        },
        needs=ops.LIST_TENANTS,
    )
    return access, tenants
