"""The pages of sharing: what is given and borrowed, one grant with what it showed, and what was erased everywhere."""

from typing import Any, get_args
from urllib.parse import quote

from quipu.errors import Fault
from quipu.operation import Context, dispatch, invalid
from quipu.page import Done, Fields, Page
from quipu.sharing import operations as host_ops
from quipu.sharing.grants import operations as ops
from quipu.sharing.items import KINDS
from quipu.sharing.messages import BorrowedView
from quipu.sharing.model import GrantStatus
from quipu.sharing.readable import LEVELS

_GRANTS, _BORROWED, _ERASURES = 100, 100, 50


# -- grants -------------------------------------------------------------------------------------------------------


async def _grants(ctx: Context, query: Fields) -> dict[str, Any]:
    narrowed = query.given("status")
    found = await dispatch(ctx, ops.LIST_GRANTS, {**narrowed, **query.given("cursor"), "limit": _GRANTS})
    who = await dispatch(ctx, host_ops.GET_IDENTITY, {})
    after = {} if (cursor := query.text("borrowed_cursor")) is None else {"cursor": cursor}
    borrowed = await dispatch(ctx, host_ops.LIST_BORROWED, {"limit": _BORROWED, **after})
    return {
        "who": who,
        "grants": found.grants,
        "next_cursor": found.next_cursor,
        "status": query.text("status"),
        "statuses": get_args(GrantStatus),
        "borrowed": _by_grant(borrowed.items),
        "next_borrowed": borrowed.next_cursor,
        "kinds": KINDS,
        "levels": LEVELS,
    }


def _by_grant(items: tuple[BorrowedView, ...]) -> dict[tuple[str, str], list[BorrowedView]]:
    """The items of each server and grant."""
    found: dict[tuple[str, str], list[BorrowedView]] = {}
    for item in items:
        found.setdefault((item.source, item.grant_id), []).append(item)
    return found


def _draft(form: Fields) -> dict[str, Any]:
    """What a form asks to share."""
    given: dict[str, Any] = {
        "label": form.words("label") or None,
        "kind": form.texts("kind") or None,
        "all": form.is_ticked("all"),
        **form.given("scope_id"),
        **{name: form.number(name) for name in ("level", "days", "max_items")},
    }
    said = {name: form.get(name, "").strip() for name in ("grantee", "purpose")}
    return {**said, **{name: value for name, value in given.items() if value is not None}}


async def _preview(ctx: Context, form: Fields) -> Done:
    """What the other side would see; the form stays filled in."""
    tried = await dispatch(ctx, ops.SHARE, {**_draft(form), "dry_run": True})
    return Done(once={"preview": tried, "draft": form})


async def _share(ctx: Context, form: Fields) -> Done:
    made = await dispatch(ctx, ops.SHARE, _draft(form))
    return Done(said="Shared. Send them the link.", path=_address(made.grant_id))


async def _revoke_all(ctx: Context, form: Fields) -> Done:
    ended = await dispatch(ctx, ops.REVOKE_ALL_GRANTS, {})
    return Done(said=f"Took back {ended.revoked}. Nothing is shared any more.")


async def _borrow(ctx: Context, form: Fields) -> Done:
    request = {"link": form.get("link", "").strip(), **form.given("query")}
    found = await dispatch(ctx, host_ops.BORROW, request)
    said = "Nothing that is shared with you fits." if not found.items else f"Borrowed {len(found.items)}."
    return Done(said=said, path="/grants#borrowed")


async def _give_up(ctx: Context, form: Fields) -> Done:
    request = {"source": form.get("source", ""), "grant_id": form.get("grant_id", "")}
    done = await dispatch(ctx, host_ops.GIVE_UP_BORROWED, request)
    ended = "The grant has ended." if done.ended else "The other server could not be told."
    return Done(said=f"Dropped {done.dropped}. {ended}", path="/grants#borrowed")


# -- one grant ----------------------------------------------------------------------------------------------------


async def _grant(ctx: Context, query: Fields) -> dict[str, Any]:
    found = await dispatch(ctx, ops.GET_GRANT, {"id": query["id"]})
    return {
        "grant": found.grant,
        "body": found.grant.grant,
        "link": found.link,
        "shown": found.shown,
        "levels": LEVELS,
        "shows": await _shows(ctx, found.grant.grant) if found.grant.status == "active" else None,
    }


async def _shows(ctx: Context, body: dict[str, Any]) -> Any:
    """What it would show now."""
    request = {
        "grantee": body["grantee"],
        "purpose": body["purpose"],
        "filter": body["filter"],
        "scope_id": body["granter"].partition("#")[2],
        "level": body.get("trust_level", 1),
        "profile": body["redaction_profile"],
        "max_items": body["max_items"],
        "dry_run": True,
    }
    return await dispatch(ctx, ops.SHARE, request)


async def _revoke(ctx: Context, form: Fields) -> Done:
    await dispatch(ctx, ops.REVOKE_GRANT, {"id": form["id"]})
    return Done(said="Taken back. From the next request on it shows nothing.")


def _address(grant_id: str) -> str:
    return f"/grants/{quote(grant_id, safe='')}"


# -- erasures -----------------------------------------------------------------------------------------------------


async def _erasures(ctx: Context, query: Fields) -> dict[str, Any]:
    found = await dispatch(ctx, host_ops.LIST_ERASURES, {"limit": _ERASURES, **query.given("cursor")})
    return {"erasures": found.erasures, "next_cursor": found.next_cursor}


def _choice(form: Fields) -> dict[str, Any]:
    """What a form asks to erase: by ids, by what a grant has shown, or by tags and scope."""
    ids, labels = form.get("ids", "").split(), form.words("labels")
    return {
        **({"ids": ids} if ids else {}),
        **({"filter": {"labels_any": list(labels)}} if labels else {}),
        **form.given("grant_id", "scope_id", "reason"),
    }


async def _try_erasing(ctx: Context, form: Fields) -> Done:
    tried = await dispatch(ctx, host_ops.ERASE, {**_choice(form), "dry_run": True})
    return Done(once={"tried": tried.ids, "draft": form})


async def _erase(ctx: Context, form: Fields) -> Done:
    if not form.is_ticked("is_sure"):
        raise invalid([Fault("/is_sure", "confirmation_required", "a tick: it cannot be undone")])
    done = await dispatch(ctx, host_ops.ERASE, _choice(form))
    return Done(said=f"Erased {len(done.ids)} for good.")


PAGES = (
    Page(
        path="/grants",
        group="sharing",
        title="Grants",
        template="grants.html",
        load=_grants,
        actions={
            "preview": _preview,
            "share": _share,
            "revoke_all": _revoke_all,
            "borrow": _borrow,
            "give_up": _give_up,
        },
        needs=ops.LIST_GRANTS,
    ),
    Page(
        path="/grants/{id}",
        group="sharing",
        title="Grant",
        template="grant.html",
        load=_grant,
        actions={"revoke": _revoke},
        needs=ops.GET_GRANT,
        parent="/grants",
    ),
    Page(
        path="/erasures",
        group="sharing",
        title="Erasures",
        template="erasures.html",
        load=_erasures,
        actions={"try": _try_erasing, "erase": _erase},
        needs=host_ops.LIST_ERASURES,
    ),
)
