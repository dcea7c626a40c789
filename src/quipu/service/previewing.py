"""What a recall would return before a held write was let through, and after. An estimate: nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quipu.model.change import Proposal
from quipu.model.governance import Review
from quipu.model.operations import RecallRequest
from quipu.model.principal import Permission, Principal
from quipu.ports.parts import Parts
from quipu.rules.policy_relations import overlap
from quipu.rules.vectors import similarity
from quipu.service.recalling import Recalling

_K = 5
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Line:
    """One memory of an answer, and whether a yes brings it, takes it, or changes it."""

    id: str
    content: str
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The first few of both answers."""

    query: str
    before: tuple[Line, ...]
    after: tuple[Line, ...]


class Previewing:
    """Asks as the agent would ask."""

    def __init__(self, parts: Parts, recalling: Recalling) -> None:
        self._parts, self._recalling = parts, recalling

    async def shown(self, principal: Principal, seen: Review, query: str | None = None) -> Preview | None:
        """Without a question it is asked for the text itself. None where nothing can be asked."""
        if seen.diff is None or not principal.may(Permission.READ):
            return None
        asked = (query or _text(seen.proposal, seen))[:_LONGEST].strip()
        if not asked:
            return None
        request = RecallRequest(agent_id=seen.proposal.agent_id, query=asked, k=_K + 5)
        found = await self._recalling.recall(principal, request)
        before = [
            (Line(hit.id, str(hit.content)), await self._near(asked, str(hit.content))) for hit in found
        ]
        gone = {str(one["id"]) for one in seen.diff.removed}
        changed = {one.id: one.after for one in seen.diff.modified}
        after: list[tuple[Line, float]] = []
        for line, near in before:
            if line.id in changed:
                text = str(changed[line.id].get("content", line.content))
                after.append((replace(line, content=text, mark="changed"), near))
            elif line.id not in gone:
                after.append((line, near))
        for one in seen.diff.added[:_K]:
            text = str(one.get("content") or "")
            near = await self._near(asked, text)
            place = next((at for at, (_, other) in enumerate(after) if other < near), len(after))
            after.insert(place, (Line(str(one["id"]), text, "new"), near))
        marked = [replace(line, mark="goes") if line.id in gone else line for line, _ in before]
        return Preview(query=asked, before=tuple(marked[:_K]), after=tuple(line for line, _ in after[:_K]))

    async def _near(self, query: str, text: str) -> float:
        if self._parts.embedder is None:
            return overlap(query, text)
        one, other = await self._parts.embedder.embed([query, text[:4_000]])
        return similarity(one, other)


def _text(proposal: Proposal, seen: Review) -> str:
    if seen.diff is not None and seen.diff.removed and not seen.diff.added:
        return str(seen.diff.removed[0].get("content") or "")
    content = proposal.request.get("content")
    return content if isinstance(content, str) else ""
