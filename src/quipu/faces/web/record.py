"""One memory: what it says, where it is from, what it was before, and taking it out of use or back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from quipu.errors import ConflictError
from quipu.faces.web import differences, machines, wording
from quipu.faces.web.visit import Visit, address, memory_path
from quipu.model.operations import ForgetRequest
from quipu.model.outcomes import Version
from quipu.model.principal import Permission
from quipu.model.record import Record, Sensitivity, State

#: Characters of a text that are shown at once; all of it is one click away.
SHOWN = 20_000
#: Versions with their differences on one page.
_VERSIONS = 20
#: What the slider can show without asking again: so many characters in all.
_AT_HAND = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Knot:
    """One version in the history."""

    record: Record
    reason: str | None
    #: Against the version before; None for the first, and for what was emptied.
    difference: differences.Difference | None
    href: str
    is_shown: bool


async def page(visit: Visit) -> Response:
    """The memory as it stands, or as it stood at the version or the moment that the address names."""
    record_id = visit.request.path_params["id"]
    history = await visit.service.reading.history(visit.principal, None, record_id)
    shown, is_current = await _read(visit, history)
    newest = history[-1].record
    stores = {store.id: store.name for store in await visit.service.stores.list(visit.principal)}
    text = wording.indented(shown.content) if shown.type == "procedural" else shown.content
    shows_all = visit.asked("whole") is not None
    is_whole = shows_all or len(text) <= SHOWN
    return visit.page(
        "record.html",
        record=shown,
        text=text if is_whole else text[:SHOWN],
        left_out=0 if is_whole else len(text) - SHOWN,
        whole_href=_here(visit, shown, whole="1"),
        shows_all=shows_all,
        is_current=is_current,
        is_secret=_is_secret(shown),
        machine=machines.machine(shown) if is_whole else None,
        newest=newest,
        standing=newest.standing,
        store=stores.get(shown.store_id, ""),
        mark=await visit.service.reading.marks(visit.principal, record_id),
        history=_knots(visit, history, shown),
        first_shown=history[0].record.version,
        left_versions=max(0, len(history) - _shown_versions(visit, history)),
        all_href=_here(visit, shown, all="1"),
        slides=_slides(history),
        versions=[version.record for version in history],
        can_forget=_can(visit, newest, Permission.DELETE, State.LIVE, State.ARCHIVED),
        can_restore=_can(visit, newest, Permission.WRITE, State.FORGOTTEN, State.ARCHIVED),
        links=[(link.rel, link.to, memory_path(link.to)) for link in shown.links],
    )


async def _read(visit: Visit, history: Sequence[Version]) -> tuple[Record, bool]:
    """The version that is meant, and whether it is the newest. Who read the history has read it, too."""
    newest = history[-1].record
    number, as_of = visit.asked("version"), visit.asked("as_of")
    found = next((one.record for one in history if str(one.record.version) == number), None)
    if found is None and as_of is not None:
        found = await visit.service.reading.get(visit.principal, None, newest.id, as_of)
    found = found or newest
    return found, found.version == newest.version


def _shown_versions(visit: Visit, history: Sequence[Version]) -> int:
    return len(history) if visit.asked("all") else _VERSIONS


def _knots(visit: Visit, history: Sequence[Version], shown: Record) -> list[Knot]:
    """The newest versions, newest first, each against the one before it."""
    befores: list[Version | None] = [None, *history[:-1]]
    pairs = list(zip(befores, history, strict=True))[-_shown_versions(visit, history) :]
    return [
        Knot(
            record=after.record,
            reason=after.reason,
            difference=_difference(None if before is None else before.record, after.record),
            href=_here(visit, after.record, version=str(after.record.version)),
            is_shown=after.record.version == shown.version,
        )
        for before, after in reversed(pairs)
    ]


def _difference(before: Record | None, after: Record) -> differences.Difference | None:
    if before is None or before.is_emptied or after.is_emptied:
        return None
    return differences.between(before, after)


def _slides(history: Sequence[Version]) -> list[Record]:
    """The versions that the slider can show at once; none when they are too much for a page, or secret."""
    records = [version.record for version in history]
    is_much = sum(len(record.content) for record in records) > _AT_HAND
    return [] if is_much or any(_is_secret(record) for record in records) else records


def _is_secret(record: Record) -> bool:
    return record.privacy is not None and record.privacy.sensitivity is Sensitivity.SECRET


def _can(visit: Visit, record: Record, permission: Permission, *standings: State) -> bool:
    return (
        visit.may(permission)
        and visit.principal.may_act_for(record.agent_id)
        and record.standing in standings
        and not record.expired(visit.site.clock())
    )


def _here(visit: Visit, record: Record, **query: str) -> str:
    kept = {"version": visit.asked("version"), "as_of": visit.asked("as_of")}
    if "version" in query:
        kept["as_of"] = None
    return address(memory_path(record.id), **{**kept, **query})


# -- forget and restore ----------------------------------------------------------------------------------------


async def _newest(visit: Visit) -> Record:
    history = await visit.service.reading.history(visit.principal, None, visit.request.path_params["id"])
    return history[-1].record


async def confirm_forget(visit: Visit) -> Response:
    """Is it really this one, and why?"""
    visit.need(Permission.DELETE)
    record = await _newest(visit)
    return visit.page("forget.html", record=record, is_secret=_is_secret(record))


async def forget(visit: Visit) -> Response:
    """Out of every search, and restorable."""
    given = await visit.form()
    record = await _newest(visit)
    request = ForgetRequest(
        agent_id=record.agent_id, ids=(record.id,), reason=given.get("reason", "").strip() or None
    )
    answer = await visit.service.forget(visit.principal, request)
    if answer.pending_approval:
        said = "Held: somebody has to approve it first."
    elif answer.forgotten_ids:
        said = "Forgotten. No search finds it any more; it can be restored here."
    else:
        said = "Nothing was forgotten: it was gone already."
    return visit.go(memory_path(record.id), said)


async def restore(visit: Visit) -> Response:
    """Back into use."""
    given = await visit.form()
    record = await _newest(visit)
    reason = given.get("reason", "").strip() or None
    try:
        answer = await visit.service.restore(visit.principal, record.agent_id, record.id, reason)
    except ConflictError as conflict:
        if conflict.reason != "not_forgotten":
            raise
        return visit.go(memory_path(record.id), "It is in use: there was nothing to restore.")
    if answer.pending_approval:
        return visit.go(memory_path(record.id), "Held: somebody has to approve it first.")
    return visit.go(memory_path(record.id), "Restored. Searches find it again.")
