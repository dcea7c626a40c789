"""Answers that are kept, so that a repeated request gets the first one again, and answers to what is held.

An answer is kept whole, but for what its place in the journal adds: the position, and of an erasure the receipt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from quipu.model.change import Committed, Once, Proposal
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
    RememberRequest,
    RestoreRequest,
)
from quipu.model.outcomes import ExpireResponse, ForgetResponse, ForgetRow, MergeResponse, RememberResponse
from quipu.model.principal import Principal
from quipu.model.value import Json
from quipu.ports.surroundings import Canonical
from quipu.rules.chain import exact
from quipu.rules.staging import Write, operation_of
from quipu.service.committing import plain

Answer: TypeAlias = RememberResponse | ForgetResponse | MergeResponse | ExpireResponse
A = TypeVar("A", bound=RememberResponse | ForgetResponse | MergeResponse | ExpireResponse)

_PARSERS: Mapping[str, Callable[[Any], object]] = {
    "forgotten_ids": tuple,
    "strategy_used": MergeStrategy,
    "action_taken": ExpireAction,
}


def once(
    principal: Principal,
    request: Write,
    canonical: Canonical,
    answer: Answer | None = None,
    record_ids: tuple[str, ...] = (),
) -> Once | None:
    """The idempotency of a request, if it asks for it; `answer` is what a repetition gets."""
    if request.idempotency_key is None:
        return None
    asked = replace(request, idempotency_key=None)
    if isinstance(asked, RememberRequest):  # asks for more words in the answer, not for another write
        asked = replace(asked, finds_similar=False)
    return Once(
        principal=principal.name,
        operation=operation_of(request),
        key=request.idempotency_key,
        fingerprint=hashlib.sha256(canonical(exact(plain(asked)))).hexdigest(),
        answer={} if answer is None else _kept(answer),
        record_ids=record_ids,
    )


def once_together(
    principal: Principal,
    items: Sequence[RememberRequest],
    canonical: Canonical,
    told: Sequence[RememberResponse] = (),
) -> Once | None:
    """The idempotency of a batch that waits as a whole: that of the first of its keys."""
    keys = [item.idempotency_key for item in items if item.idempotency_key is not None]
    if not keys:
        return None
    return Once(
        principal=principal.name,
        operation="batch",
        key=keys[0],
        fingerprint=hashlib.sha256(canonical(exact(plain({"items": items})))).hexdigest(),
        answer={"told": [_kept(answer) for answer in told]},
        record_ids=tuple(answer.id for answer in told),
    )


def again_together(done: Committed) -> list[RememberResponse]:
    """The first answer to a batch once more."""
    told: Any = (done.replayed or {}).get("told", [])
    return [again(RememberResponse, replace(done, replayed=one)) for one in told]


def _kept(answer: Answer) -> dict[str, Json]:
    body: dict[str, Any] = plain(answer)
    del body["is_replayed"]
    return body


def settled(answer: A, done: Committed | None) -> A:
    """The answer as it is given: to a write that is durable, to a repetition, or where nothing was to be written."""
    if done is None:
        return replace(answer, extensions={"seq": None, **answer.extensions})
    if done.replayed is None:
        return placed(answer, done) if isinstance(answer, RememberResponse) else _placed(answer, done)
    return again(type(answer), done)


def again(kind: type[A], done: Committed) -> A:
    """The first answer once more."""
    told: dict[str, Any] = dict(done.replayed or {})
    if kind is ForgetResponse:
        told["stores"] = tuple(ForgetRow(**row) for row in told["stores"])
    else:
        told["stores"] = tuple(told["stores"])
    for name in _PARSERS.keys() & told.keys():
        told[name] = _PARSERS[name](told[name])
    return replace(_placed(kind(**told), done), is_replayed=True)


def placed(answer: RememberResponse, done: Committed) -> RememberResponse:
    """What is answered to a memory, with its position: `replace` in a third of its time, as every write is answered."""
    return RememberResponse(
        id=answer.id,
        stored_at=answer.stored_at,
        stores=answer.stores,
        pending_approval=answer.pending_approval,
        approval_url=answer.approval_url,
        extensions={"seq": done.seq, **answer.extensions},
        is_replayed=answer.is_replayed,
    )


def _placed(answer: A, done: Committed) -> A:
    beyond: dict[str, Json] = {"seq": done.seq, **answer.extensions}
    if isinstance(answer, ForgetResponse) and answer.hard_delete and not answer.pending_approval:
        beyond["receipt"] = {"seq": done.seq, "erased": len(answer.forgotten_ids), "at": done.at}
    return replace(answer, extensions=beyond)


# -- held -------------------------------------------------------------------------------------------------------


def pending_remember(_: RememberRequest | RestoreRequest, proposal: Proposal) -> RememberResponse:
    """What is answered to a memory that waits for a person; it has its id already."""
    return pending_item(proposal.record_id or proposal.id, proposal)


def pending_item(record_id: str, proposal: Proposal) -> RememberResponse:
    """The same to one of several that wait together."""
    return RememberResponse(
        id=record_id,
        stored_at=proposal.created_at,
        stores=(),
        pending_approval=True,
        approval_url=_url(proposal),
        extensions=_held(proposal),
    )


def pending_forget(asked: ForgetRequest, proposal: Proposal, ledger: str) -> ForgetResponse:
    """What is answered to a forgetting that waits."""
    return ForgetResponse(
        forgotten_ids=(),
        hard_delete=asked.hard_delete,
        stores=(ForgetRow(store=ledger, count=0),),
        pending_approval=True,
        approval_url=_url(proposal),
        extensions=_held(proposal),
    )


def pending_merge(asked: MergeRequest, proposal: Proposal) -> MergeResponse:
    """What is answered to a merge that waits."""
    return MergeResponse(
        canonical=asked.canonical,
        merged_count=0,
        strategy_used=asked.strategy,
        stores=(),
        pending_approval=True,
        approval_url=_url(proposal),
        extensions=_held(proposal),
    )


def pending_expire(asked: ExpireRequest, proposal: Proposal) -> ExpireResponse:
    """What is answered to an expiry that waits."""
    return ExpireResponse(
        matched_count=0,
        action_taken=asked.action,
        stores=(),
        pending_approval=True,
        approval_url=_url(proposal),
        extensions=_held(proposal),
    )


def _url(proposal: Proposal) -> str:
    """Without a server; a face that has an address puts its own in its place."""
    return f"quipu:proposal/{proposal.id}"


def _held(proposal: Proposal) -> dict[str, Json]:
    return {"proposal_id": proposal.id, "held_by": list(proposal.held_by)}
