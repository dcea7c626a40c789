"""Which peers of a router may be asked for something: those whose capabilities promise it.

A write that shall wait for a person must not land in a store that lets nothing wait, and a policy on recalls must not
be applied by one that does not count them. A peer that declares nothing has said nothing against it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from quipu.errors import UnsupportedError
from quipu.model.operations import (
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)

GOVERNANCE: Final = "governance"
RECALL_TRACKING: Final = "recall_tracking"

Request = RememberRequest | RecallRequest | ForgetRequest | MergeRequest | ExpireRequest


def needed(request: Request) -> frozenset[str]:
    """The capabilities without which a request is not carried out as it says."""
    wanted: set[str] = {GOVERNANCE} if request.approval_required else set()
    if isinstance(request, RememberRequest):
        wanted.add(request.type.value)
    if isinstance(request, ExpireRequest) and request.policy.no_recall_in_days is not None:
        wanted.add(RECALL_TRACKING)
    return frozenset(wanted)


def refusal(declared: Collection[str], request: Request) -> UnsupportedError | None:
    """Why a peer with these capabilities is not asked; None where it is."""
    missing = sorted(needed(request) - set(declared)) if declared else []
    if not missing:
        return None
    return UnsupportedError(
        f"The store does not promise {missing[0]}.",
        reason="not_promised",
        hint=f"Ask a store that declares {missing[0]} among its capabilities, or leave out what needs it.",
    )


def together(declared: Collection[Collection[str]]) -> set[str]:
    """What all of them promise as one.

    Recalls are counted by each store, which is asked for more than is shown as soon as there is anything to fuse. Those
    of this process are told what was shown, others cannot be: so several do not promise that only that counts.
    """
    common = set[str].intersection(*map(set, declared))
    return common if len(declared) == 1 else common - {RECALL_TRACKING}
