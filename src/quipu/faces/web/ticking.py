"""Deciding on many at once: a yes is to what the list has shown.

1. A new memory is shown, and nothing that happens meanwhile makes another one of it.
2. What a yes to a change, a merge, a removal or a return does depends on the memories it names. A tick says what that was
   when the list was shown; if it is something else now, it goes on waiting.
3. What is about whatever matches, or about very many, or writes more than a list has room for, is not shown in a list. It
   is approved on its own page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.faces.web import summaries
from quipu.faces.web.visit import Visit
from quipu.model.change import Proposal

#: A tick of something that the list shows whole, and of something that it does not show.
_WHOLE, UNSEEN = "on", "unseen"
#: So many memories may a write name; what it would do to more of them is not looked up for a list.
_MOST_NAMED = 20
_NEW = ("remember", "batch", "recall")


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick says, the texts that would go, and the one that they would be merged into."""

    said: str
    goes: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()

    @property
    def is_unseen(self) -> bool:
        """Whether the list does not show all of it."""
        return self.said == UNSEEN


async def ticks(visit: Visit, proposals: Sequence[Proposal]) -> dict[str, Tick]:
    """Of each of them."""
    made: dict[str, Tick] = {}
    for proposal in proposals:
        kind = _kind(proposal)
        made[proposal.id] = await _effect(visit, proposal) if kind is None else Tick(kind)
    return made


def shown(proposal: Proposal, tick: str) -> str | None:
    """The etag of what the list has shown of it; None where that cannot have changed. The tick is the form's word alone."""
    kind = _kind(proposal)
    return None if kind == _WHOLE else kind or tick


def _kind(proposal: Proposal) -> str | None:
    """How it is ticked; None where that says what a yes would do now."""
    if not summaries.is_whole(proposal):
        return UNSEEN
    named = _named(proposal)
    if not named and proposal.operation in _NEW:
        return _WHOLE
    return None if 0 < len(named) <= _MOST_NAMED else UNSEEN


def _named(proposal: Proposal) -> list[str]:
    """The memories that it would change, merge, remove or bring back, as far as it names them."""
    body: Mapping[str, Any] = proposal.request
    items: Sequence[Mapping[str, Any]] = body.get("items") or ()
    found = [body.get("id"), body.get("canonical"), *(body.get("duplicates") or ()), *(body.get("ids") or ())]
    return [str(name) for name in (*found, *(item.get("id") for item in items)) if name is not None]


async def _effect(visit: Visit, proposal: Proposal) -> Tick:
    seen = await visit.service.reviewing.review(visit.principal, proposal.id, with_related=False)
    if seen.diff is None:
        return Tick(seen.etag or UNSEEN)
    goes, stays = (
        tuple(str(one.get("content") or "") for one in some) for some in (seen.diff.removed, seen.diff.stays)
    )
    return Tick(seen.etag or UNSEEN, goes, stays)
