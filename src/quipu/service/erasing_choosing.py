"""What a request to delete means: which records, what was made out of them, and which held writes (OAP contract 9.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu.errors import InvalidError
from quipu.model.change import Proposal
from quipu.model.record import State
from quipu.model.search import Selection, Snapshot
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import derivations, grants, grants_items, staging
from quipu.rules.filters import MAX_LISTED
from quipu.rules.texts import is_keepable
from quipu.service.derived import every_proposal, living_on
from quipu.service.lending import lending_parts

_MOST_IDS = 10_000
_BEFORE_ALL = -(1 << 62)
#: Links that say that a record was made out of another one; what is made here, the ledger knows itself.
_DERIVED = ("derived_from", "summarizes", "summarises", "consolidates")
_MEMBERS = frozenset(
    {"principal_did", "scope_id", "item_ids", "filter", "grant_id", "reason", "cascade", "provenance_tags"}
)
_SELECTORS = ("item_ids", "filter", "grant_id", "provenance_tags")
_GRANT_TAG = "grant:"


class Choosing:
    """Finds what is meant."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def chosen(self, tenant: str, wanted: Mapping[str, Any]) -> list[str]:
        """The records, and what was made out of them."""
        return await self._with_derived(tenant, await self._meant(tenant, wanted))

    async def staged(self, tenant: str, wanted: Mapping[str, Any], ids: Sequence[str]) -> list[str]:
        """Held writes that hold words of it: those of the records, and with a whole scope or memory all of theirs."""
        is_whole = not any(name in wanted for name in _SELECTORS)
        named = {*ids, *cast("list[str]", wanted.get("item_ids", ()))}
        return [
            one.id
            async for one in every_proposal(self._parts.ledger, tenant)
            if one.request
            and (
                staging.made_by(one) & named
                or derivations.holds_words_of(one, named)
                or (is_whole and _is_of(one, wanted.get("scope_id")))
            )
        ]

    async def _meant(self, tenant: str, wanted: Mapping[str, Any]) -> list[str]:
        if "item_ids" in wanted:
            return await self._named(tenant, list(dict.fromkeys(cast("list[str]", wanted["item_ids"]))))
        if "grant_id" in wanted or "provenance_tags" in wanted:
            tags = cast("list[str]", wanted.get("provenance_tags", ()))
            granted = [tag.removeprefix(_GRANT_TAG) for tag in tags] or [str(wanted["grant_id"])]
            shown = [await self._parts.ledger.lending.lent_items(tenant, name) for name in granted]
            return list(dict.fromkeys(record_id for items in shown for record_id, _ in items))
        by = grants.parsed_filter(wanted["filter"], "/filter") if "filter" in wanted else None
        if by is not None and by.as_of is not None:
            raise InvalidError.at(
                "/filter/as_of",
                "bad_value",
                "What is erased is what there is now.",
                accepted=["captured_before"],
            )
        scope, owner = wanted.get("scope_id"), lending_parts(self._parts).keyring.did(tenant)
        return [
            record.id
            async for record in self._everything(tenant)
            if (scope is None or grants_items.scope_of(record) == scope)
            and (by is None or grants.admits(by, grants_items.item_of(record, owner)))
        ]

    async def _named(self, tenant: str, names: list[str]) -> list[str]:
        """Records by the ids of their items: those of their own, and foreign ones that were kept."""
        found = await self._parts.ledger.read(tenant, names)
        ids = [name for name in names if name in found]
        foreign = [name for name in names if name not in found and is_keepable(name)]
        for start in range(0, len(foreign), MAX_LISTED):
            wanted: dict[str, Json] = {"metadata.item_id": {"$in": foreign[start : start + MAX_LISTED]}}
            ids += [record.id async for record in self._everything(tenant, wanted)]
        return list(dict.fromkeys(ids))

    async def _with_derived(self, tenant: str, ids: list[str]) -> list[str]:
        """These, and what was made out of them."""
        if not ids:
            return []
        links = [
            (record.id, link.to)
            async for record in self._everything(tenant)
            for link in record.links
            if link.rel in _DERIVED
        ]
        chosen, fresh = dict.fromkeys(ids), ids
        while fresh:
            sources = set(fresh)
            made = [name for name, to in links if to in sources]
            made += await self._parts.ledger.derived_from(tenant, fresh)
            # A receipt is to say that it is gone: what a merge took of it goes, too.
            made += await living_on(self._parts.ledger, tenant, fresh)
            fresh = [name for name in dict.fromkeys(made) if name not in chosen]
            chosen |= dict.fromkeys(fresh)
        return list(chosen)

    def _everything(self, tenant: str, wanted: dict[str, Json] | None = None) -> Any:
        states = frozenset({State.LIVE, State.ARCHIVED, State.FORGOTTEN})
        chosen = Selection(tenant=tenant, states=states, filter=wanted)
        # Erasure also reaches what has expired: a clock at the beginning of time sees everything.
        return self._parts.ledger.scan(chosen, Snapshot(None, _BEFORE_ALL))


def _is_of(proposal: Proposal, scope: str | None) -> bool:
    """Whether a held write says something in a scope; None is all of them."""
    items = proposal.request.get("items")
    bodies = cast("list[Any]", items) if isinstance(items, list | tuple) and items else [proposal.request]
    return scope is None or any(_scope_of(body) == scope for body in bodies)


def _scope_of(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    given = cast("Mapping[str, Any]", metadata).get("scope_id") if isinstance(metadata, Mapping) else None
    return given if isinstance(given, str) and given else grants_items.DEFAULT_SCOPE


def checked(request: JsonObject) -> dict[str, Any]:
    """A request to delete; `principal_did` alone means everything (9.2)."""
    if unknown := sorted(request.keys() - _MEMBERS):
        raise InvalidError.at(
            f"/{unknown[0][:64]}", "unknown_member", "There is no such member.", accepted=sorted(_MEMBERS)
        )
    if not isinstance(request.get("principal_did"), str):
        raise InvalidError.at("/principal_did", "required", "Say whose memory it is.")
    wanted = dict(request)
    if len([name for name in _SELECTORS if name in wanted]) > 1:
        raise InvalidError.at("", "bad_value", "Choose what to delete in one way.", accepted=_SELECTORS)
    ids: Any = wanted.get("item_ids", [])
    if not isinstance(ids, list) or len(cast("list[Any]", ids)) > _MOST_IDS:
        raise InvalidError.at("/item_ids", "bad_value", "These are ids.", accepted=[f"at most {_MOST_IDS}"])
    if not all(isinstance(name, str) and 0 < len(name) <= 256 for name in cast("list[Any]", ids)):
        raise InvalidError.at("/item_ids", "bad_value", "These are ids.")
    if "provenance_tags" in wanted:
        _check_tags(wanted["provenance_tags"])
    for name, kind in (("reason", str), ("scope_id", str), ("grant_id", str), ("cascade", bool)):
        if name in wanted and not isinstance(wanted[name], kind):
            raise InvalidError.at(f"/{name}", "bad_value", "This has another type.", accepted=[kind.__name__])
    return wanted


def _check_tags(value: object) -> None:
    """Tags of ours say under which grant something was shown; one that says anything else would choose nothing."""
    tags = cast("list[Any]", value) if isinstance(value, list) else []
    is_right = 0 < len(tags) <= _MOST_IDS and all(
        isinstance(tag, str) and tag.startswith(_GRANT_TAG) for tag in tags
    )
    if not is_right:
        raise InvalidError.at(
            "/provenance_tags",
            "bad_value",
            "What was shown is chosen by its grant.",
            accepted=[f"{_GRANT_TAG}mgr_…"],
        )
