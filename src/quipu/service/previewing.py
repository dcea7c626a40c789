"""What a recall would return before a held write was let through, and after. An estimate: nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quipu.errors import BackendUnavailableError
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
        added = [(str(one["id"]), str(one.get("content") or "")) for one in seen.diff.added[:_K]]
        texts = [str(hit.content) for hit in found]
        near = await self._near(asked, [*texts, *(text for _, text in added)])
        before = list(
            zip((Line(hit.id, text) for hit, text in zip(found, texts, strict=True)), near, strict=False)
        )
        gone = {str(one["id"]) for one in seen.diff.removed}
        changed = {one.id: one.after for one in seen.diff.modified}
        after: list[tuple[Line, float]] = []
        for line, nearness in before:
            if line.id in changed:
                text = str(changed[line.id].get("content", line.content))
                after.append((replace(line, content=text, mark="changed"), nearness))
            elif line.id not in gone:
                after.append((line, nearness))
        for (name, text), nearness in zip(added, near[len(before) :], strict=True):
            place = next((at for at, (_, other) in enumerate(after) if other < nearness), len(after))
            after.insert(place, (Line(name, text, "new"), nearness))
        marked = [replace(line, mark="goes") if line.id in gone else line for line, _ in before]
        return Preview(query=asked, before=tuple(marked[:_K]), after=tuple(line for line, _ in after[:_K]))

    async def _near(self, query: str, texts: Sequence[str]) -> list[float]:
        """How near each text is to the query: by meaning, or by words while no model can be had."""
        if self._parts.embedder is not None:
            try:
                asked, *vectors = await self._parts.embedder.embed([query, *(text[:4_000] for text in texts)])
            except BackendUnavailableError:
                pass
            else:
                return [similarity(asked, vector) for vector in vectors]
        return [overlap(query, text) for text in texts]


def _text(proposal: Proposal, seen: Review) -> str:
    if seen.diff is not None and seen.diff.removed and not seen.diff.added:
        return str(seen.diff.removed[0].get("content") or "")
    content = proposal.request.get("content")
    return content if isinstance(content, str) else ""
