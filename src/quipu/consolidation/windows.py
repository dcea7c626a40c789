"""Short-term windows as they are: what is in them, how it was used, and what people said of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quipu.consolidation.model import SimilarPair
from quipu.consolidation.rules import (
    Item,
    Refusals,
    Thresholds,
    newest_first,
    similar_pairs,
    with_mentions,
)
from quipu.governance.model import PROPOSAL_SUBJECTS, PROPOSALS, Proposal
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory.scope import Scopes, reaches
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot

_PAGE = 500
#: Proposals that take memories out of use.
_REMOVING = frozenset({"forget", "expire"})
#: Closed without that anybody decided.
_UNDECIDED = frozenset({"withdrawn", "lapsed"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What people were asked about memories, as they are now."""

    #: Memory → the proposal that waits.
    waiting: Mapping[str, str] = field(default_factory=dict[str, str])
    refusals: Refusals = field(default_factory=Refusals)
    #: Memory → proposals that nobody decided: the same may be asked again.
    undecided: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Reads windows."""

    ledger: Ledger
    scopes: Scopes
    thresholds: Thresholds

    async def found(
        self, principal: Principal, agent_id: str | None, user_id: str | None, now: int
    ) -> list[list[Record]]:
        """The live short-term memories of each agent and user, as far as they are in reach."""
        stores = await self.scopes.stores(principal.tenant)
        windows: dict[tuple[str, str], list[Record]] = {}
        for store in {store.id: store for store in stores.values()}.values():
            if store.tier != "short_term" or not principal.reaches_store(store.name):
                continue
            selection = Selection(
                tenant=principal.tenant, agent_id=agent_id, user_id=user_id, store_id=store.id
            )
            async for record in self.ledger.scan(selection, Snapshot(None, now)):
                if record.tier == "short_term" and reaches(principal, record, stores):
                    windows.setdefault((record.agent_id, record.user_id or ""), []).append(record)
        return [windows[key] for key in sorted(windows)]

    async def weighed(self, tenant: str, records: Sequence[Record]) -> tuple[list[Item], list[SimilarPair]]:
        """The memories of one window with what is known of their use, and which of them seem to say the same."""
        marks = await self.ledger.marks(tenant, [record.id for record in records])
        items = newest_first(
            Item(one, marks[one.id].recall_count if one.id in marks else 0) for one in records
        )
        vectors = await self.ledger.vectors(tenant, [(item.record.id, item.record.version) for item in items])
        weighed: list[Item] = []
        similar: list[SimilarPair] = []
        # What was pushed out of the window is weighed among its own.
        for start in range(0, len(items), self.thresholds.window):
            part = items[start : start + self.thresholds.window]
            texts = [item.record for item in part]
            beside = [vectors.get((one.id, one.version)) for one in texts]
            # Every pair of a window is a moment's arithmetic: requests go on meanwhile.
            pairs = await asyncio.to_thread(similar_pairs, texts, beside, self.thresholds.similar)
            similar += pairs
            weighed += with_mentions(part, pairs)
        return weighed, similar

    async def asked(self, tenant: str, records: Sequence[Record]) -> Asked:
        """What waits, and what a person said no to, as far as it is still the version that they saw."""
        versions = {record.id: record.version for record in records}
        return await self.ledger.read(tenant, lambda reader: asked_of(about(reader, versions)))


def about(reader: Reader, versions: Mapping[str, int]) -> list[tuple[str, bool, Proposal]]:
    """Proposals about memories that they do not make: the memory, whether it is still that version, the proposal."""
    ids = list(versions)
    subjects = [
        kept.value
        for start in range(0, len(ids), _PAGE)
        for kept in reader.matching(PROPOSAL_SUBJECTS, "record_id", ids[start : start + _PAGE])
    ]
    wanted = list(dict.fromkeys(one.proposal_id for one in subjects))
    proposals = {
        kept.value.id: kept.value
        for start in range(0, len(wanted), _PAGE)
        for kept in reader.matching(PROPOSALS, "id", wanted[start : start + _PAGE])
    }
    return [
        (one.record_id, one.version == versions[one.record_id], proposal)
        for one in subjects
        if (proposal := proposals.get(one.proposal_id)) is not None
        and (proposal.is_pending or one.record_id not in proposal.listed("makes"))
    ]


def asked_of(found: Sequence[tuple[str, bool, Proposal]]) -> Asked:
    """Of several decisions about the same the last one counts."""
    waiting: dict[str, str] = {}
    undecided: dict[str, tuple[str, ...]] = {}
    promotion: dict[str, bool] = {}
    removal: dict[str, bool] = {}
    for record_id, is_same, proposal in sorted(found, key=lambda one: one[2].reviewed_at or 0):
        if proposal.is_pending:
            waiting[record_id] = proposal.id
        elif proposal.reviewer in _UNDECIDED:
            undecided[record_id] = (*undecided.get(record_id, ()), proposal.id)
        elif is_same and proposal.reviewed_by_somebody:
            is_no = proposal.status == "rejected"
            if proposal.operation == "remember":
                promotion[record_id] = is_no
            elif proposal.operation in _REMOVING:
                removal[record_id] = is_no
    return Asked(
        waiting,
        Refusals(
            frozenset(name for name, is_no in promotion.items() if is_no),
            frozenset(name for name, is_no in removal.items() if is_no),
        ),
        undecided,
    )
