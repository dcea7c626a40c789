"""What several peers answered to one write, as one answer, in the names that a router has for memories and peers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pydantic import Field

from quipu.errors import QuipuError
from quipu.memory import model as m
from quipu.memory.fanout import Answers
from quipu.operation import Response

#: By peer, what the router calls what the peer calls so.
Names: TypeAlias = Mapping[str, Mapping[str, str]]
Held = TypeVar("Held", bound=m.WriteResponse)

#: Fields that name memories which something was done to.
_ALL = ("ids", "merged_ids", "forgotten_ids", "superseded", "similar")


class PeerApproval(Response):
    """A peer where a write waits for a person."""

    store: str = Field(description="The peer.")
    proposal_id: str | None = Field(default=None, description="What it calls what waits.")
    approval_url: str | None = Field(default=None, description="Where the person decides.")


class RoutedWrite(Response):
    """What the peers of a router did, beside what a memory answers."""

    stores_failed: tuple[m.FailedStore, ...] = Field(default=(), description="Peers that did not take it.")
    approvals: tuple[PeerApproval, ...] = Field(default=(), description="Peers where it waits for a person.")


class RoutedRemember(RoutedWrite, m.RememberResponse):
    """What became of a memory."""


class RoutedForget(RoutedWrite, m.ForgetResponse):
    """What was forgotten."""


class RoutedMerge(RoutedWrite, m.MergeResponse):
    """What was merged."""


class RoutedExpire(RoutedWrite, m.ExpireResponse):
    """What expired."""


class RoutedRecall(m.RecallResponse):
    """What the peers found, as one ranking."""

    unvouched: int = Field(
        default=0, description="Hits that were left out, because too few of the replicas returned them."
    )


def remembered(own_id: str, asked: Answers[m.RememberResponse], names: Names) -> RoutedRemember:
    """Kept by whoever does not hold it for a person."""
    return RoutedRemember(**_joined(asked, names, id=own_id, stores=_took(asked.told)))


def forgotten(asked: Answers[m.ForgetResponse], names: Names) -> RoutedForget:
    """What any peer removed, and a row for each of them."""
    rows = [m.BackendResult(store=peer, count=_removed(answer)) for peer, answer in asked.told.items()]
    rows += [m.BackendResult(store=peer, count=0, error=error.code) for peer, error in asked.failed.items()]
    return RoutedForget(**_joined(asked, names, stores=tuple(rows)))


def merged(canonical: str, asked: Answers[m.MergeResponse], names: Names) -> RoutedMerge:
    """As many as the peer collapsed that collapsed most: of one that had missed some there were fewer to find."""
    most = max(answer.merged_count for answer in asked.told.values())
    changes = {"canonical": canonical, "merged_count": most, "stores": _took(asked.told)}
    return RoutedMerge(**_joined(asked, names, **changes))


def expired(asked: Answers[m.ExpireResponse], names: Names) -> RoutedExpire:
    """As many as matched with the peer where most did."""
    most = max(answer.matched_count for answer in asked.told.values())
    return RoutedExpire(**_joined(asked, names, matched_count=most, stores=_took(asked.told)))


def failures(failed: Mapping[str, QuipuError]) -> tuple[m.FailedStore, ...]:
    """Who did not take part, and why."""
    rows = sorted(failed.items())
    return tuple(m.FailedStore(store=name, reason=error.reason or error.code) for name, error in rows)


def mentioned(answer: m.WriteResponse) -> list[str]:
    """The memories that a peer's answer names."""
    named = [id for field in (*_ALL, "not_found") for id in _texts(answer, field)]
    return [*named, *([id] if (id := getattr(answer, "canonical_id", None)) else [])]


def _joined(asked: Answers[Held], names: Names, **changes: Any) -> dict[str, Any]:
    """The first peer's answer with what all of them say. It waits for a person where it waits with all of them."""
    told = asked.told
    held = {peer: answer for peer, answer in told.items() if answer.pending_approval}
    is_held = len(held) == len(told)
    first, answer = next((peer, one) for peer, one in told.items() if is_held or peer not in held)
    fields = {name: getattr(answer, name) for name in type(answer).model_fields}
    for field in _ALL:
        if field in fields:
            fields[field] = _named((names[peer], _texts(one, field)) for peer, one in told.items())
    if "not_found" in fields:  # what nobody has
        missing = [_named([(names[peer], _texts(one, "not_found"))]) for peer, one in told.items()]
        fields["not_found"] = tuple(id for id in missing[0] if all(id in others for others in missing))
    if canonical_id := fields.get("canonical_id"):
        fields["canonical_id"] = names[first].get(canonical_id, canonical_id)
    fields["warnings"] = tuple(dict.fromkeys(text for one in told.values() for text in one.warnings))
    if len(told) > 1:
        fields["seq"] = None  # each has a journal of its own
    return {
        **{name: value for name, value in fields.items() if name not in ("stores_failed", "approvals")},
        "stores_failed": failures(asked.failed),
        "approvals": tuple(
            PeerApproval(store=peer, proposal_id=one.proposal_id, approval_url=one.approval_url)
            for peer, one in held.items()
        ),
        **changes,
    }


def _named(named: Iterable[tuple[Mapping[str, str], Sequence[str]]]) -> tuple[str, ...]:
    """All of them by the router's names, each once."""
    return tuple(dict.fromkeys(names.get(id, id) for names, ids in named for id in ids))


def _texts(answer: m.WriteResponse, field: str) -> Sequence[str]:
    return getattr(answer, field, ())


def _removed(answer: m.ForgetResponse) -> int:
    """How many memories a peer removed, however many copies of each; none where it was only tried."""
    return max((row.count for row in answer.stores), default=0)


def _took(told: Mapping[str, m.WriteResponse]) -> tuple[str, ...]:
    return tuple(peer for peer, answer in told.items() if not answer.pending_approval)
