"""What can be told of an operation: before it, from the request; after it, from the answer. One for service and client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from quipu.errors import QuipuError
from quipu.model.consolidation import Settlement
from quipu.model.observation import Action, Became, Observation, Selector
from quipu.model.operations import (
    CreateStoreRequest,
    ExpireAction,
    ExpireRequest,
    Floor,
    ForgetRequest,
    ListRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    Page,
    RecallResponse,
    RememberResponse,
)
from quipu.model.store import Store, StoreScope
from quipu.model.value import Json

if TYPE_CHECKING:
    from quipu.model.record import Record
    from quipu.model.value import Json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is, or was."""

    store: Store
    agent_id: str
    session_id: str | None

    def of(self, seen: Observation) -> Observation:
        """The same operation, for what lies here."""
        one = replace(seen, several=[])
        one.within(self.store)
        one.tier = None  # no delete selects by tier
        one.agent_id, one.session_id = self.agent_id, self.session_id
        return one

    @property
    def shown(self) -> tuple[str, str | None]:
        """What spans tell apart: the store, and in it whose it is."""
        owners = {StoreScope.AGENT: self.agent_id, StoreScope.SESSION: self.session_id}
        return self.store.id, owners.get(self.store.scope)


#: A delete of more ids than this is seen as one.
MOST_IDS = 32
_RETIRED = {
    ExpireAction.FORGET: Became.DELETED,
    ExpireAction.ARCHIVE: Became.ARCHIVED,
    ExpireAction.DEMOTE: Became.DEMOTED,
}
_GONE = frozenset({Settlement.EVICTED, Settlement.KNOWN})
_SETTLED = {Settlement.PROMOTED: Became.CREATED, Settlement.HELD: Became.PENDING}

# -- writing --------------------------------------------------------------------------------------------------------


def remembering(request: RememberRequest, tenant: str | None, user_id: str | None) -> Observation:
    """One memory, new or changed."""
    return Observation(
        action=Action.REMEMBER,
        tenant=tenant,
        agent_id=request.agent_id,
        user_id=request.user_id or user_id,
        session_id=request.session_id,
        types=(request.type.value,),
        count=1,
        is_new=request.id is None,
        record_id=request.id,
        expires_at=request.expires_at,
        importance=request.importance,
    )


def remembered(seen: Observation, request: RememberRequest, answer: RememberResponse) -> None:
    seen.record_id = answer.id
    seen.became = _written(answer)
    seen.proposal_id = _proposal(answer.extensions)
    if isinstance(request.content, str):
        seen.content_bytes = len(request.content.encode("utf-8", "surrogatepass"))
    if request.id is not None:
        seen.strategy = request.update_strategy.value


def remembering_many(
    requests: Sequence[RememberRequest], tenant: str | None, user_id: str | None
) -> Observation:
    """A batch is one update without a record."""
    kind = _only(request.type.value for request in requests)
    return Observation(
        action=Action.REMEMBER,
        tenant=tenant,
        agent_id=_only(request.agent_id for request in requests),
        user_id=_only(request.user_id for request in requests) or user_id,
        session_id=_only(request.session_id for request in requests),
        types=() if kind is None else (kind,),
        count=len(requests),
        is_new=all(request.id is None for request in requests),
    )


def remembered_many(seen: Observation, answers: Sequence[RememberResponse | QuipuError]) -> None:
    """What became of all of them; where every one failed, the batch did."""
    errors = [answer for answer in answers if isinstance(answer, QuipuError)]
    if errors and len(errors) == len(answers):
        seen.error = errors[0]
    stored = [answer for answer in answers if isinstance(answer, RememberResponse)]
    seen.became = _only(_written(answer) for answer in stored)
    seen.proposal_id = _only(_proposal(answer.extensions) for answer in stored)
    if len(answers) == len(stored) == 1:
        seen.record_id = stored[0].id


def common_store(requests: Sequence[RememberRequest]) -> str:
    """Where a batch of new memories goes; "" where that is several stores, or where records already are."""
    stores = {request.store for request in requests}
    is_new = all(request.id is None for request in requests)
    return stores.pop() if len(stores) == 1 and is_new else ""


def merging(request: MergeRequest, tenant: str | None, user_id: str | None) -> Observation:
    return Observation(
        action=Action.MERGE,
        tenant=tenant,
        agent_id=request.agent_id,
        user_id=user_id,
        strategy="merge",
        count=1 + len(request.duplicates),
    )


def merged(seen: Observation, answer: MergeResponse) -> None:
    """The surviving record is the one that was updated."""
    seen.proposal_id = _proposal(answer.extensions)
    seen.became = _became(answer, Became.MERGED if answer.merged_count else Became.UNCHANGED)
    canonical = answer.extensions.get("canonical_id")
    seen.record_id = canonical if isinstance(canonical, str) else None


def restoring(agent_id: str | None, record_id: str, tenant: str | None, user_id: str | None) -> Observation:
    """A change that leaves the content as it was."""
    return Observation(
        action=Action.RESTORE, tenant=tenant, agent_id=agent_id, user_id=user_id, record_id=record_id, count=1
    )


def restored(seen: Observation, answer: RememberResponse) -> None:
    seen.proposal_id = _proposal(answer.extensions)
    seen.became = _became(answer, Became.UPDATED)


def promoted(seen: Observation, outcome: Settlement, into: str | None) -> None:
    """What became of short-term memories that weigh enough; into which record, or which proposal."""
    if outcome is Settlement.HELD:
        seen.proposal_id = into
    else:
        seen.record_id = into
    seen.became = _SETTLED.get(outcome, Became.UNCHANGED)


# -- searching ------------------------------------------------------------------------------------------------------


def recalling(request: RecallRequest, tenant: str | None, user_id: str | None) -> Observation:
    return Observation(
        action=Action.RECALL,
        tenant=tenant,
        agent_id=request.agent_id,
        user_id=request.user_id or user_id,
        session_id=request.session_id,
        types=tuple([kind.value for kind in request.types]),
        k=request.k,
    )


def recalled(seen: Observation, request: RecallRequest, answer: RecallResponse) -> None:
    """A floor of zero keeps nothing out, so it is none."""
    seen.count = len(answer.results)
    floor = answer.extensions.get("min_relevance")
    if request.min_relevance != Floor.OFF and isinstance(floor, (int, float)) and floor > 0:
        seen.threshold = float(floor)
    if answer.results:
        seen.top_score = answer.results[0].score
    failed: Json = answer.extensions.get("stores_failed")
    seen.backends_failed = len(failed) if isinstance(failed, (list, dict)) else 0


def getting(agent_id: str | None, record_id: str, tenant: str | None, user_id: str | None) -> Observation:
    return Observation(
        action=Action.GET, tenant=tenant, agent_id=agent_id, user_id=user_id, record_id=record_id
    )


def got(seen: Observation, record: Record) -> None:
    seen.count, seen.types = 1, (record.type.value,)
    seen.user_id, seen.session_id = record.user_id, record.session_id


def listing(request: ListRequest, tenant: str | None, user_id: str | None) -> Observation:
    return Observation(
        action=Action.LIST,
        tenant=tenant,
        agent_id=request.agent_id,
        user_id=request.user_id or user_id,
        session_id=request.session_id,
        types=tuple([kind.value for kind in request.types]),
        k=request.limit,
    )


def listed(seen: Observation, page: Page) -> None:
    seen.count = len(page.records)


# -- removing -------------------------------------------------------------------------------------------------------


def forgetting(request: ForgetRequest, tenant: str | None, user_id: str | None) -> Observation:
    user = request.user_id or user_id
    is_one = len(request.ids) == 1 and not request.filter
    selector = Selector.FILTER if request.filter else Selector.ID if is_one else Selector.IDS
    return Observation(
        action=Action.FORGET,
        tenant=tenant,
        agent_id=request.agent_id,
        user_id=user,
        scope=_reach(user),
        selector=selector,
        record_id=request.ids[0] if is_one else None,
    )


def removed_ids(request: ForgetRequest, answer: ForgetResponse) -> list[str]:
    """All that the delete was about."""
    return list(dict.fromkeys([*request.ids, *answer.forgotten_ids]))


def forgotten(
    seen: Observation, request: ForgetRequest, answer: ForgetResponse, places: Mapping[str, Place]
) -> None:
    """Seen once for each id that was named; else once for each store, so that the scope it tells is true."""
    gone, named = set(answer.forgotten_ids), list(dict.fromkeys(request.ids))
    seen.proposal_id = _proposal(answer.extensions)
    if request.filter or len(named) > MOST_IDS:
        seen.count = len(removed_ids(request, answer))
        seen.became = _removed(answer, bool(gone), request.dry_run)
        split(seen, places)
        return
    for name in named:
        one = places[name].of(seen) if name in places else replace(seen, several=[])
        one.selector, one.record_id, one.count = Selector.ID, name, 1
        one.became = _removed(answer, name in gone, request.dry_run)
        seen.several.append(one)


def evicted(
    seen: Observation,
    request: ForgetRequest,
    settled: Mapping[str, Settlement],
    proposal_id: str | None,
    places: Mapping[str, Place],
) -> None:
    """Short-term memories that a pass forgot, or asked about; one that has changed since stays as it is."""
    outcomes = {_SETTLED.get(outcome, Became.UNCHANGED) for outcome in settled.values()}
    answer = ForgetResponse(
        forgotten_ids=tuple(name for name, outcome in settled.items() if outcome in _GONE),
        hard_delete=False,
        stores=(),
        pending_approval=Became.PENDING in outcomes,
        extensions={} if proposal_id is None else {"proposal_id": proposal_id},
    )
    forgotten(seen, request, answer, places)
    for one in (seen, *seen.several):
        if one.became is Became.NOT_FOUND:
            one.became = Became.UNCHANGED


def expiring(request: ExpireRequest, tenant: str | None, user_id: str | None) -> Observation:
    deletes = request.action is ExpireAction.FORGET
    user = request.user_id or user_id
    return Observation(
        action=Action.EXPIRE,
        tenant=tenant,
        agent_id=request.agent_id,
        user_id=user,
        scope=_reach(user) if deletes else None,
        selector=Selector.POLICY if deletes else None,
        types=(request.policy.type.value,) if request.policy and request.policy.type else (),
        deletes=deletes,
    )


def expired_ids(answer: ExpireResponse) -> list[str]:
    """Some of those that the policy met."""
    found: Json = answer.extensions.get("ids")
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def expired(
    seen: Observation, request: ExpireRequest, answer: ExpireResponse, places: Mapping[str, Place]
) -> None:
    seen.proposal_id = _proposal(answer.extensions)
    seen.count = answer.matched_count
    seen.became = _became(answer, _RETIRED[request.action] if answer.matched_count else Became.UNCHANGED)
    if seen.deletes:
        split(seen, places)
    elif answer.matched_count == 1:
        seen.record_id = next(iter(expired_ids(answer)), None)


def sweeping(tenant: str) -> Observation:
    return Observation(action=Action.EXPIRE, tenant=tenant, scope=StoreScope.AGENT, selector=Selector.POLICY)


def split(seen: Observation, places: Mapping[str, Place]) -> None:
    """Once for each place that records were in, so that the scope it tells is true."""
    counts = Counter(place.shown for place in places.values())
    for place in {place.shown: place for place in places.values()}.values():
        one = place.of(seen)
        one.count = counts[place.shown]
        seen.several.append(one)


# -- stores ---------------------------------------------------------------------------------------------------------


def creating_store(request: CreateStoreRequest, tenant: str | None) -> Observation:
    return Observation(action=Action.CREATE_STORE, tenant=tenant, scope=request.scope, tier=request.tier)


def created_store(seen: Observation, store: Store) -> None:
    seen.became = Became.CREATED
    seen.within(store)


def deleting_store(tenant: str | None) -> Observation:
    return Observation(action=Action.DELETE_STORE, tenant=tenant)


def deleted_store(seen: Observation, removed: int) -> None:
    seen.became, seen.count = Became.DELETED, removed


# -- words ----------------------------------------------------------------------------------------------------------


def _reach(user_id: str | None) -> StoreScope:
    """Whom a delete is about that names no store: an agent's memories, or those of one user among them."""
    return StoreScope.AGENT if user_id is None else StoreScope.USER


def _written(answer: RememberResponse) -> Became | None:
    said = answer.extensions.get("outcome")
    return _became(answer, Became(said) if isinstance(said, str) and said in set(Became) else None)


def _became(answer: RememberResponse | MergeResponse | ExpireResponse, done: Became | None) -> Became | None:
    if answer.pending_approval:
        return Became.PENDING
    return Became.UNCHANGED if answer.is_replayed else done


def _removed(answer: ForgetResponse, is_gone: bool, is_dry: bool) -> Became:
    if answer.pending_approval:
        return Became.PENDING
    if is_dry or answer.is_replayed:
        return Became.UNCHANGED
    return Became.DELETED if is_gone else Became.NOT_FOUND


def _proposal(extensions: Mapping[str, Json]) -> str | None:
    found = extensions.get("proposal_id")
    return found if isinstance(found, str) else None


def _only(values: Iterable[T]) -> T | None:
    """The value they all have."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
