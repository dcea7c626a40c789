"""Held writes as reviewers see them, and what is answered to a decision."""

from __future__ import annotations

from quipu.faces.memorywire.wire_hits import plain
from quipu.faces.memorywire.wire_staged import request_body
from quipu.model.change import Proposal
from quipu.model.governance import Diff, Modified, Review
from quipu.model.value import Json
from quipu.rules.staging import request_of


def review_body(proposal: Proposal, seen: Review | None = None) -> dict[str, Json]:
    """A held write, ready for JSON, with its diff where it was looked at. Once it was decided, what was held is gone."""
    request = request_of(proposal.operation, proposal.request) if proposal.request else None
    body: dict[str, Json] = {
        "operation": proposal.operation,
        "agent_id": proposal.agent_id,
        "request": {} if request is None else request_body(request),
        "diff": None if seen is None or seen.diff is None else diff_body(seen.diff),
        "reasoning": getattr(request, "reasoning", None),
        "id": proposal.id,
        "status": proposal.status,
        "held_by": list(proposal.held_by),
        "writer": proposal.writer,
        "created_at": proposal.created_at,
        "lapses_at": proposal.lapses_at,
        "record_id": proposal.record_id,
        "reviewer": proposal.reviewer,
        "reviewed_at": proposal.reviewed_at,
        "reason": proposal.reason,
        "etag": None if seen is None else seen.etag,
        "problem": None if seen is None else seen.problem,
        "because": proposal.because,
        "approvals": _approvals(proposal),
    }
    return {name: value for name, value in body.items() if value is not None or name == "lapses_at"}


def _approvals(proposal: Proposal) -> Json:
    if proposal.approvals == 1:
        return None
    return {"needed": proposal.approvals, "given": [one.reviewer for one in proposal.given]}


def diff_body(diff: Diff) -> dict[str, Json]:
    """What a yes would change, ready for JSON."""
    body: dict[str, Json] = {
        "added": [plain(one) for one in diff.added],
        "removed": [plain(one) for one in diff.removed],
        "modified": [_modified(one) for one in diff.modified],
        "related": [
            {"id": one.id, "content": one.content, "similarity": one.similarity, "kind": one.kind}
            for one in diff.related
        ],
    }
    if diff.stays:
        body["stays"] = [plain(one) for one in diff.stays]
    return {**body, "counts": plain(diff.counts)} if diff.counts else body


def _modified(one: Modified) -> dict[str, Json]:
    body: dict[str, Json] = {
        "id": one.id,
        "fields": list(one.after),
        "before": plain(one.before),
        "after": plain(one.after),
    }
    if one.words is not None:
        body["words"] = [{"kind": piece.kind, "text": piece.text} for piece in one.words]
    return body


def decision_body(proposal: Proposal) -> dict[str, Json]:
    """Who decided what, and when; while it waits for others, who of several has said yes last."""
    if proposal.status == "pending" and proposal.given:
        last = proposal.given[-1]
        return {"approved": True, "reviewer": last.reviewer, "reviewed_at": last.at, "reason": None}
    return {
        "approved": proposal.status == "approved",
        "reviewer": proposal.reviewer,
        "reviewed_at": proposal.reviewed_at,
        "reason": proposal.reason,
    }
