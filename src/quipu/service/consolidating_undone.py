"""A pass of consolidation taken back: what it did is read from the journal, and undone by ordinary operations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.model.consolidation import Undone
from quipu.model.journal import Entry, Op
from quipu.model.operations import ForgetRequest
from quipu.model.outcomes import ForgetResponse, RememberResponse
from quipu.model.principal import Principal
from quipu.model.record import Record, State
from quipu.ports.ledger import Ledger
from quipu.rules import derivations

#: The detail of a journal entry that names the pass it belongs to.
PASS = "pass"  # noqa: S105  the name of a journal detail, not a password
_PAGE = 1_000
Forget = Callable[[Principal, ForgetRequest], Awaitable[ForgetResponse]]
#: Agent, record, reason.
Restore = Callable[[Principal, str | None, str, str | None], Awaitable[RememberResponse]]


async def undone(
    ledger: Ledger, principal: Principal, pass_id: str, forget: Forget, restore: Restore
) -> Undone:
    """Restore what the pass forgot, forget what it promoted. What has changed since is left, and named.

    A promotion goes only once all that it was made of is back: nothing is to be in neither place.
    """
    #: Agent and version of each.
    promoted: dict[str, tuple[str, int]] = {}
    sources: dict[str, tuple[str, int]] = {}
    async for entry in _entries(ledger, principal.tenant, _place(pass_id)):
        if entry.detail.get(PASS) == pass_id:
            into = promoted if entry.op is Op.REMEMBER else sources
            into.update({mention.id: (entry.agent or "", mention.version) for mention in entry.records})
    if not sources:
        raise NotFoundError("There is no such pass, or it changed nothing.", reason="pass")
    reason = f"{pass_id} undone"
    restored, forgotten, left = list[str](), list[str](), list[str]()
    found = await ledger.read(principal.tenant, [*sources, *promoted])
    for record_id, (agent, version) in sources.items():
        is_back = False
        if record_id in found and found[record_id].version == version:
            with suppress(QuipuError):
                is_back = not (await restore(principal, agent, record_id, reason)).pending_approval
        (restored if is_back else left).append(record_id)
    now = await ledger.read(principal.tenant, list(sources))
    live = {record.id for record in now.values() if record.standing is State.LIVE}
    for record_id, (agent, version) in promoted.items():
        record, is_gone = found.get(record_id), False
        if record is not None and record.version == version and _origins(record) & sources.keys() <= live:
            asked = ForgetRequest(agent_id=agent, ids=(record_id,), reason=reason)
            with suppress(QuipuError):
                is_gone = bool((await forget(principal, asked)).forgotten_ids)
        (forgotten if is_gone else left).append(record_id)
    return Undone(pass_id=pass_id, restored=tuple(restored), forgotten=tuple(forgotten), left=tuple(left))


def _origins(record: Record) -> set[str]:
    """What a promotion was made of."""
    return {link.to for link in record.links if link.rel == derivations.DERIVED_FROM}


async def _entries(ledger: Ledger, tenant: str, after: int) -> AsyncIterator[Entry]:
    while entries := await ledger.entries(tenant, after, _PAGE):
        for entry in entries:
            yield entry
        after = entries[-1].seq


def _place(pass_id: str) -> int:
    """Where the journal stood when the pass began."""
    _, _, seq = pass_id.rpartition(".")
    if not pass_id.startswith("pass_") or not seq.isascii() or not seq.isdigit() or len(seq) > 18:
        raise InvalidError.at("/pass_id", "bad_value", "This is no pass of ours.", accepted=["pass_..."])
    return int(seq)
