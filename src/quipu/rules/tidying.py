"""Which memories a reviewer may want to look at again (contract 6.4). Nothing is done by itself."""

from __future__ import annotations

from quipu.model.operations import ForgetRequest, MergeRequest, MergeStrategy
from quipu.model.record import Mark, MemoryType, Record
from quipu.model.tidying import Candidate, Finding
from quipu.rules.durations import DAY_MS
from quipu.rules.policy_relations import relation

OLD_MS = 90 * DAY_MS
DOUBTFUL = 0.5
_PAIRS = {"duplicate": Finding.DUPLICATE, "conflict": Finding.CONFLICT}
_SAID = {
    Finding.UNUSED: "Never recalled, older than 90 days, and not sure.",
    Finding.STALE: "Not recalled for 90 days.",
    Finding.DUPLICATE: "They say the same.",
    Finding.CONFLICT: "It contradicts a newer memory.",
}


def alone(record: Record, mark: Mark | None, now: int) -> Candidate | None:
    """Whether a memory may go by itself. A procedure is used without being recalled, so it may not."""
    if record.created_at > now - OLD_MS or record.type is MemoryType.PROCEDURAL:
        return None
    last = None if mark is None else mark.last_recalled_at
    if last is None and record.confidence < DOUBTFUL:
        return Candidate(Finding.UNUSED, (record,))
    if last is not None and last <= now - OLD_MS:
        return Candidate(Finding.STALE, (record,))
    return None


def pair(one: Record, other: Record, similarity: float) -> Candidate | None:
    """Whether two belong together: of duplicates the surer and then the older stays, of a contradiction the newer."""
    if one.type is MemoryType.PROCEDURAL or (one.agent_id, one.user_id) != (other.agent_id, other.user_id):
        return None
    finding = _PAIRS.get(relation(one.content, other.content, similarity))
    if finding is None:
        return None
    if finding is Finding.CONFLICT:
        kept, gone = sorted((one, other), key=lambda record: (-record.created_at, record.id))
    else:
        kept, gone = sorted(
            (one, other), key=lambda record: (-record.confidence, record.created_at, record.id)
        )
    return Candidate(finding, (kept, gone), similarity)


def proposed(candidate: Candidate) -> ForgetRequest | MergeRequest:
    """The ordinary request that a candidate becomes. What goes can be brought back."""
    kept, gone = candidate.records[0], candidate.records[-1]
    if candidate.finding is Finding.DUPLICATE:
        return MergeRequest(
            agent_id=kept.agent_id,
            canonical=kept.id,
            duplicates=(gone.id,),
            strategy=MergeStrategy.KEEP_CANONICAL,
            reasoning=_SAID[candidate.finding],
        )
    return ForgetRequest(
        agent_id=gone.agent_id, user_id=gone.user_id, ids=(gone.id,), reason=_SAID[candidate.finding]
    )


def said(candidate: Candidate) -> str:
    """Why it is one."""
    return _SAID[candidate.finding]
