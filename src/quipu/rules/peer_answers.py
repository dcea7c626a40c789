"""What several peers answered to one write, as one answer, in the names that a router has for memories and peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from quipu.errors import QuipuError
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    MergeResponse,
    RememberResponse,
)
from quipu.model.value import Json, JsonObject

#: Per peer, what the router calls what the peer calls so.
Names = Mapping[str, Mapping[str, str]]
Held = TypeVar("Held", RememberResponse, ForgetResponse, MergeResponse, ExpireResponse)

#: Members of `extensions` that name memories which something was done to.
_ALL = ("ids", "merged_ids")


def remembered(
    known: str, told: Mapping[str, RememberResponse], failed: Mapping[str, QuipuError], names: Names
) -> RememberResponse:
    """Kept by whoever does not hold it for a person."""
    answer = replace(_first(told, failed, names), id=known)
    return replace(answer, stores=() if answer.pending_approval else _took(told))


def forgotten(
    told: Mapping[str, ForgetResponse], failed: Mapping[str, QuipuError], names: Names
) -> ForgetResponse:
    """What any peer removed, and a row for each of them."""
    gone = _joined((names[peer], answer.forgotten_ids) for peer, answer in told.items())
    rows = [ForgetRow(store=peer, count=len(answer.forgotten_ids)) for peer, answer in told.items()]
    rows += [ForgetRow(store=peer, count=0, error=error.code) for peer, error in failed.items()]
    return replace(_first(told, failed, names), forgotten_ids=tuple(gone), stores=tuple(rows))


def merged(
    canonical: str, told: Mapping[str, MergeResponse], failed: Mapping[str, QuipuError], names: Names
) -> MergeResponse:
    """As many as the peer collapsed that collapsed most: of one that had missed some there were fewer to find."""
    most = max(answer.merged_count for answer in told.values())
    answer = replace(_first(told, failed, names), canonical=canonical, merged_count=most)
    return replace(answer, stores=() if answer.pending_approval else _took(told))


def expired(
    told: Mapping[str, ExpireResponse], failed: Mapping[str, QuipuError], names: Names
) -> ExpireResponse:
    """As many as matched with the peer where most did."""
    most = max(answer.matched_count for answer in told.values())
    answer = replace(_first(told, failed, names), matched_count=most)
    return replace(answer, stores=() if answer.pending_approval else _took(told))


def failures(failed: Mapping[str, QuipuError]) -> dict[str, Json]:
    """Who did not take part, and why; nothing where all did."""
    if not failed:
        return {}
    rows: list[Json] = [
        {"store": name, "reason": error.reason or error.code} for name, error in sorted(failed.items())
    ]
    return {"stores_failed": rows}


def mentioned(answer: ForgetResponse | MergeResponse | ExpireResponse) -> list[str]:
    """The memories that a peer's answer names."""
    named = [id for member in (*_ALL, "not_found") for id in _texts(answer.extensions.get(member))]
    canonical = answer.extensions.get("canonical_id")
    gone = answer.forgotten_ids if isinstance(answer, ForgetResponse) else ()
    return list(dict.fromkeys([*gone, *named, *([canonical] if isinstance(canonical, str) else [])]))


def _first(told: Mapping[str, Held], failed: Mapping[str, QuipuError], names: Names) -> Held:
    """The first peer's answer with what all of them say in `extensions`. It waits for a person where all of them do."""
    held = {peer: answer for peer, answer in told.items() if answer.pending_approval}
    is_held = len(held) == len(told)
    answer = next(answer for peer, answer in told.items() if is_held or peer not in held)
    extensions = _extensions(answer.extensions, {peer: one.extensions for peer, one in told.items()}, names)
    if held:
        extensions["approvals"] = [
            {
                "store": peer,
                "proposal_id": one.extensions.get("proposal_id"),
                "approval_url": one.approval_url,
            }
            for peer, one in held.items()
        ]
    return replace(answer, pending_approval=is_held, extensions={**extensions, **failures(failed)})


def _extensions(first: JsonObject, told: Mapping[str, JsonObject], names: Names) -> dict[str, Json]:
    """The first one's, with memories by the router's names: all that any peer names, and missing what all miss."""
    made: dict[str, Json] = dict(first)
    for member in _ALL:
        if member in made:
            made[member] = list[Json](_named(member, told, names))
    if "not_found" in made:
        missing = [_named("not_found", {peer: one}, names) for peer, one in told.items()]
        made["not_found"] = [id for id in missing[0] if all(id in others for others in missing)]
    if isinstance(id := made.get("canonical_id"), str):
        peer = next(peer for peer, one in told.items() if one is first)
        made["canonical_id"] = names[peer].get(id, id)
    return made


def _named(member: str, told: Mapping[str, JsonObject], names: Names) -> list[str]:
    return _joined((names[peer], _texts(one.get(member))) for peer, one in told.items())


def _joined(named: Iterable[tuple[Mapping[str, str], Sequence[str]]]) -> list[str]:
    """All of them by the router's names, each once."""
    return list(dict.fromkeys(names.get(id, id) for names, ids in named for id in ids))


def _texts(value: Json) -> list[str]:
    return [id for id in value if isinstance(id, str)] if isinstance(value, list) else []


def _took(told: Mapping[str, Held]) -> tuple[str, ...]:
    return tuple(peer for peer, answer in told.items() if not answer.pending_approval)
