"""Answers that are kept, so that a repeated request gets the first one again, and answers to what is held.

An answer is kept whole, but for what its place in the journal adds: the position, and of an erasure the receipt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
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
)
from quipu.model.outcomes import ExpireResponse, ForgetResponse, ForgetRow, MergeResponse, RememberResponse
from quipu.model.principal import Principal
from quipu.model.value import Json
from quipu.ports.surroundings import Canonical
from quipu.rules.chain import exact
from quipu.rules.staging import Held, operation_of
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
    request: Held,
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


def _kept(answer: Answer) -> dict[str, Json]:
    body: dict[str, Any] = plain(answer)
    del body["is_replayed"]
    return body


def settled(answer: A, done: Committed | None) -> A:
    """The answer as it is given: to a write that is durable, to a repetition, or where nothing was to be written."""
    if done is None:
        return replace(answer, extensions={"seq": None, **answer.extensions})
    if done.replayed is None:
        return _placed(answer, done)
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


def _placed(answer: A, done: Committed) -> A:
    beyond: dict[str, Json] = {"seq": done.seq, **answer.extensions}
    if isinstance(answer, ForgetResponse) and answer.hard_delete and not answer.pending_approval:
        beyond["receipt"] = {"seq": done.seq, "erased": len(answer.forgotten_ids), "at": done.at}
    return replace(answer, extensions=beyond)


# -- held -------------------------------------------------------------------------------------------------------


def pending_remember(_: RememberRequest, proposal: Proposal) -> RememberResponse:
    """What is answered to a memory that waits for a person; it has its id already."""
    return RememberResponse(
        id=proposal.record_id or proposal.id,
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
