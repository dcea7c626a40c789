"""What a router keeps and what it answers beside what a memory does."""

from dataclasses import dataclass

from pydantic import Field

from quipu.ledger.table import Table
from quipu.memory import model as m
from quipu.operation import Response


@dataclass(frozen=True, slots=True)
class PeerId:
    """What a peer calls one of the router's memories."""

    peer: str
    own_id: str
    native_id: str


#: Ids and no contents; they stand in no entry.
PEER_IDS = Table("peer_id", PeerId, key=("peer", "own_id"), is_journaled=False)


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
