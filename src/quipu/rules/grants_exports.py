"""What an export over memory exchange asks for (OAP contract 10.2). What is not offered is refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from quipu.errors import InvalidError
from quipu.model.grants import Asked, AskedTrust, ItemFilter
from quipu.model.moving_formats import WRITTEN, Format
from quipu.model.value import JsonObject
from quipu.rules import grants_trust
from quipu.rules.grants import parsed_filter

_MEMBERS = ("encrypt_to", "filter", "format", "include", "projection", "scope_ids", "since")
_INCLUDED = ("embeddings", "grants", "logs", "non_exportable", "receipts")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedExport:
    """Which items go out, and as what."""

    format: Format = Format.BUNDLE
    filter: ItemFilter | None = None
    non_exportable: bool = False
    receipts: bool = False
    logs: bool = False
    grants: bool = False
    embeddings: bool = False
    since: str | None = None
    encrypt_to: tuple[str, ...] = ()
    #: How far a grantee asks to be trusted; an owner is not asked.
    trust: AskedTrust | None = None
    body: JsonObject = field(repr=False)

    @property
    def listed(self) -> Asked:
        """The same as a query that lists."""
        return Asked(filter=self.filter, trust=self.trust, body=self.body)


def parsed_export(body: JsonObject) -> AskedExport:
    """An export, read."""
    if unknown := sorted(body.keys() - set(_MEMBERS)):
        _refuse(f"/{unknown[0][:64]}", "unknown_member", "An export has no such member.", _MEMBERS)
    name = body.get("format", Format.BUNDLE.value)
    if name not in tuple(WRITTEN):
        _refuse("/format", "unknown_format", "No files of this format are written.", [*WRITTEN])
    since = body.get("since")
    if since is not None and not isinstance(since, str):
        _refuse("/since", "bad_value", "This is a moment, or a position, as text.")
    return AskedExport(
        format=Format(str(name)),
        filter=_filter(body),
        since=since,
        encrypt_to=_recipients(body.get("encrypt_to")),
        trust=grants_trust.parsed(body.get("projection")),
        body=body,
        **_included(body.get("include", {})),
    )


def _recipients(value: Any) -> tuple[str, ...]:
    """One age recipient, or several."""
    given = [value] if isinstance(value, str) else value
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, str) for one in cast("list[Any]", given)):
        _refuse("/encrypt_to", "bad_recipient", "This is an age recipient, or a list of them.", ["age1..."])
    return tuple(cast("list[str]", given))


def _filter(body: JsonObject) -> ItemFilter | None:
    given, scopes = body.get("filter"), body.get("scope_ids")
    wanted = None if not given else parsed_filter(given, "/filter")
    if scopes is None:
        return wanted
    named = parsed_filter({"scope_ids": scopes}, "").scope_ids or frozenset()
    if wanted is not None and wanted.scope_ids is not None:
        named &= wanted.scope_ids
    return replace(wanted or ItemFilter(), scope_ids=named)


def _included(value: Any) -> dict[str, bool]:
    """What comes along beside the items. Receipts bring the grants that they tell of, unless these are left out."""
    if not isinstance(value, Mapping):
        _refuse("/include", "bad_value", "This is an object.")
    given = cast("Mapping[str, Any]", value)
    for name, wanted in given.items():
        if name not in _INCLUDED:
            _refuse(f"/include/{name[:64]}", "unknown_member", "Nothing of this name is exported.", _INCLUDED)
        if not isinstance(wanted, bool):
            _refuse(f"/include/{name}", "bad_value", "This is yes or no.", ["true", "false"])
    return {**dict.fromkeys(_INCLUDED, False), "grants": bool(given.get("receipts", False)), **given}


def _refuse(pointer: str, reason: str, message: str, accepted: Sequence[str] = ()) -> NoReturn:
    raise InvalidError.at(pointer, reason, message, accepted=list(accepted))
