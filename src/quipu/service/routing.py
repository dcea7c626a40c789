"""A router over peers: any number of `MemoryStore`s that answer as one, and a `MemoryStore` itself, so routers nest.

Peers are equals: there is no ledger to resolve against. So the router keeps a map from its own ids to those of each
peer, in memory or in a ledger, and what it cannot tell by id it tells by agreement: a hit's text is the one most peers
give for it.

- A write goes to every peer (`all`) or to the first (`primary_only`), and succeeds if one of them took it; if none did,
  the first error is raised. Who failed is told in `extensions`.
- A recall asks all of them at once, each within its deadline and behind a circuit breaker, and fuses their rankings by
  the rules of `quipu.rules.fusion`. The order in which peers are given never matters.
- Under `rrf` three peers or more show nothing that only a minority could have made up: see `quipu.rules.vouching`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from quipu.errors import BackendUnavailableError, InvalidError, QuipuError
from quipu.model.operations import (
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    Hit,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.value import Json
from quipu.ports.memory_store import MemoryStore
from quipu.ports.peer_ids import PeerIds
from quipu.rules import fusion, vouching
from quipu.rules.breaker import Breaker
from quipu.rules.fusion_trimmed import liars
from quipu.rules.peers import id_of_write, is_one_write, shown_as
from quipu.service import routing_hits
from quipu.service.peer_ids import RememberedIds, SeenIds

R = TypeVar("R")
DEADLINE_S: Final = 2.0
WRITE_DEADLINE_S: Final = 10.0


@dataclass(slots=True)
class _Peer:
    name: str
    store: MemoryStore
    weight: float
    breaker: Breaker = Breaker()  # noqa: RUF009  frozen, so one for all is safe


class Router:
    """Peers that answer as one."""

    def __init__(
        self,
        peers: Mapping[str, MemoryStore] | Sequence[MemoryStore],
        *,
        write_policy: str = "all",
        weights: Mapping[str, float] | None = None,
        trim_votes: bool,
        own_contents: Collection[str] = (),
        deadline_s: float = DEADLINE_S,
        write_deadline_s: float = WRITE_DEADLINE_S,
        clock: Callable[[], int] | None = None,
        ids: PeerIds | None = None,
    ) -> None:
        """`peers` by name, or in a list, where they are called `peer-1`, `peer-2` and so on.

        Of three peers or more `rrf` leaves votes out, so that a minority that lies moves nothing, and shows what most
        peers vouch for; `trim_votes=False` is memorywire's plain sum. `own_contents` names the peers that hold memories
        which the others were not given; with `primary_only` it is all of them. `ids` is where the map of ids is kept;
        without one, in memory.
        """
        named = (
            peers if isinstance(peers, Mapping) else {f"peer-{n}": peer for n, peer in enumerate(peers, 1)}
        )
        if not named:
            raise InvalidError.at("/peers", "bad_value", "A router needs a peer.")
        if write_policy not in ("all", "fan_out", "primary_only"):
            raise InvalidError.at(
                "/write_policy",
                "bad_value",
                "There is no such write policy.",
                accepted=["all", "primary_only"],
            )
        fusion.checked_weights(weights or {}, named.keys())
        self._peers = [
            _Peer(name, store, (weights or {}).get(name, fusion.DEFAULT_WEIGHT))
            for name, store in named.items()
        ]
        if strangers := sorted(set(own_contents) - named.keys()):
            raise InvalidError.at(
                "/own_contents",
                "bad_value",
                f"There is no peer of the name {strangers[0][:40]!r}.",
                accepted=sorted(named),
            )
        self._is_all, self._trims = write_policy != "primary_only", trim_votes
        self._own = frozenset(own_contents if self._is_all else named)
        self._deadline_s, self._write_deadline_s = deadline_s, write_deadline_s
        self._clock = clock or (lambda: time.monotonic_ns() // 1_000_000)
        self._ids: PeerIds = RememberedIds() if ids is None else ids
        self._seen = SeenIds()

    # -- the protocol ---------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> set[str]:
        """What every peer promises."""
        return set[str].intersection(*(set(peer.store.capabilities) for peer in self._peers))

    async def health(self) -> Mapping[str, Json]:
        """`ok` when all are, `error` when none is."""
        told, failed = await self._asked(
            self._peers, lambda peer: peer.store.health(), seconds=1.0, is_counted=False
        )
        rows: list[Json] = []
        statuses: set[str] = set()
        for peer in self._peers:
            status = str(told[peer.name].get("status", "error")) if peer.name in told else "error"
            statuses.add(status)
            row: dict[str, Json] = {
                "backend": peer.name,
                "role": "peer",
                "status": status,
                "breaker": peer.breaker.state(self._clock()).value,
            }
            rows.append(row if peer.name not in failed else {**row, "error": "does not answer"})
        status = "ok" if statuses == {"ok"} else "error" if statuses == {"error"} else "degraded"
        return {"status": status, "backend": "router", "stores": rows}

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        """The id is the first peer's that took it; the router knows the others' by it."""
        theirs = await self._theirs(() if request.id is None else (request.id,))
        told, failed = await self._written(
            lambda peer: peer.store.remember(replace(request, id=next(iter(theirs[peer.name]), None)))
        )
        name, first = next(iter(told.items()))
        known = request.id if request.id is not None else await self._id_of_write(told)
        await self._ids.note(known, {peer: answer.id for peer, answer in told.items()}, request.agent_id)
        stores = tuple(peer for peer, answer in told.items() if not answer.pending_approval)
        extensions = {**first.extensions, **_failures(failed)}
        return replace(told[name], id=known, stores=stores, extensions=extensions)

    async def forget(self, request: ForgetRequest, /) -> ForgetResponse:
        theirs = await self._theirs(request.ids)
        told, failed = await self._written(
            lambda peer: peer.store.forget(replace(request, ids=theirs[peer.name]))
        )
        ours = await self._ours({peer: answer.forgotten_ids for peer, answer in told.items()})
        gone = {
            ours[peer].get(record_id, record_id): None
            for peer, answer in told.items()
            for record_id in answer.forgotten_ids
        }
        first = next(iter(told.values()))
        rows = [ForgetRow(store=peer, count=len(answer.forgotten_ids)) for peer, answer in told.items()]
        rows += [ForgetRow(store=peer, count=0, error=error.code) for peer, error in failed.items()]
        extensions = {**first.extensions, **_failures(failed)}
        return replace(first, forgotten_ids=tuple(gone), stores=tuple(rows), extensions=extensions)

    async def merge(self, request: MergeRequest, /) -> MergeResponse:
        theirs = await self._theirs((request.canonical, *request.duplicates))
        told, failed = await self._written(
            lambda peer: peer.store.merge(
                replace(request, canonical=theirs[peer.name][0], duplicates=theirs[peer.name][1:])
            )
        )
        first = next(iter(told.values()))
        return replace(
            first, canonical=request.canonical, extensions={**first.extensions, **_failures(failed)}
        )

    async def expire(self, request: ExpireRequest, /) -> ExpireResponse:
        told, failed = await self._written(lambda peer: peer.store.expire(request))
        most = max(told.values(), key=lambda answer: answer.matched_count)
        return replace(most, extensions={**most.extensions, **_failures(failed)})

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        """All peers' rankings as one. A peer that fails or is late is named, and the others count."""
        started = time.perf_counter()
        fusion.checked_quorum(request.quorum_k, configured=len(self._peers), answered=len(self._peers))
        seconds = self._deadline_s
        if request.deadline_ms is not None:
            seconds = min(seconds, request.deadline_ms / 1000)
        wanted = min(max(4 * request.k, 20), 1000)
        asked = replace(request, k=wanted, quorum_k=1, deadline_ms=None, max_tokens=None)
        told, failed = await self._asked(self._peers, lambda peer: peer.store.recall(asked), seconds=seconds)
        if not told:
            raise next(iter(failed.values()))
        told = {  # who sends more than was asked for is not read to the end
            peer: replace(answer, results=answer.results[:wanted]) for peer, answer in told.items()
        }
        fusion.checked_quorum(request.quorum_k, configured=len(self._peers), answered=len(told))
        ours = await self._ours(
            {
                peer: [id for hit in answer.results for id in (hit.id, *hit.supporting)]
                for peer, answer in told.items()
            }
        )
        hits = routing_hits.hits_by_id(told, ours)
        trim = fusion.trimmed(told, request.fusion) if self._trims else None
        is_vouched = self._trims and vouching.is_asked_for(len(self._peers), request.fusion)
        contradicting = (
            routing_hits.contradicting(hits, liars(len(told)), self._own)
            if is_vouched
            else frozenset[tuple[str, str]]()
        )
        lists = routing_hits.votes(hits, contradicting)
        weights = {peer.name: peer.weight for peer in self._peers}
        order = fusion.fused(
            lists, request.fusion, weights, quorum_k=request.quorum_k, trim_votes=self._trims
        )
        found = vouching.vouched(order, await self._vouching(order, told) if is_vouched else None)
        foreign = {place.id for place in found.foreign}
        shown = found.order[: request.k]
        results = [
            routing_hits.as_most_tell(place, rank, hits, ours, is_foreign=place.id in foreign)
            for rank, place in enumerate(shown, 1)
        ]
        for place in shown:
            self._note_seen(place, hits, ours)
        if request.explain:
            results = [routing_hits.explained(hit, lists, trim, contradicting) for hit in results]
        return RecallResponse(
            results=tuple(results),
            fusion_used=request.fusion,
            stores_queried=tuple(told),
            latency_ms=int((time.perf_counter() - started) * 1000),
            extensions={**_failures(failed), **({"unvouched": found.left_out} if found.left_out else {})},
        )

    # -- asking peers -----------------------------------------------------------------------------------------------

    async def _theirs(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What each peer calls these; one that it never took keeps its name."""
        known = {peer.name: await self._ids.of(peer.name, ids) for peer in self._peers}
        return {
            peer: tuple(names.get(id) or self._seen.of(peer, id) for id in ids)
            for peer, names in known.items()
        }

    async def _id_of_write(self, told: Mapping[str, RememberResponse]) -> str:
        """What a new memory is called."""
        theirs = {peer: answer.id for peer, answer in told.items()}
        noted = {peer: await self._ids.of(peer, tuple(theirs.values())) for peer in theirs}
        return id_of_write(theirs, noted)

    async def _vouching(self, order: Sequence[fusion.Fused], answered: Collection[str]) -> vouching.Vouching:
        """Who may vouch for these. The map is asked about those only that most do not vouch for anyway."""
        unsure = [item.id for item in order if len(item.backends) <= liars(len(self._peers))]
        holders = Counter[str]()
        for peer in answered if unsure else ():
            holders.update(list(await self._ids.of(peer, unsure)))
        return vouching.Vouching(len(self._peers), len(answered), self._own, holders)

    def _note_seen(
        self,
        place: fusion.Fused,
        hits: Mapping[str, Mapping[str, Hit]],
        ours: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Which ids a write has that was not noted, so that what is forgotten next is forgotten everywhere."""
        copies = {peer: hits[peer][place.id] for peer in place.backends if place.id in hits[peer]}
        named = next((hit for hit in copies.values() if hit.id == place.id), None)
        if named is None or any(hit.id in ours[peer] for peer, hit in copies.items()):
            return
        within_ms = int(self._write_deadline_s * 1000)
        theirs = {peer: hit.id for peer, hit in copies.items() if is_one_write(named, hit, within_ms)}
        if len(theirs) > 1:
            self._seen.saw(place.id, theirs)

    async def _ours(self, shown: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
        """What the router calls what each peer shows, as far as somebody noted it."""
        known = {peer: await self._ids.ours(peer, ids) for peer, ids in shown.items()}
        unknown = [id for peer, ids in shown.items() for id in ids if id not in known[peer]]
        noted = {id for peer in self._peers for id in await self._ids.of(peer.name, unknown)}
        named = {
            peer: {id: shown_as(peer, id, known[peer].get(id), noted) for id in ids}
            for peer, ids in shown.items()
        }
        return {
            peer: {id: name for id, name in names.items() if name is not None}
            for peer, names in named.items()
        }

    async def _written(
        self, call: Callable[[_Peer], Awaitable[R]]
    ) -> tuple[dict[str, R], Mapping[str, QuipuError]]:
        """Who took the write, in the order of the peers, and who did not; the first error where nobody did."""
        peers = self._peers if self._is_all else self._peers[:1]
        told, failed = await self._asked(peers, call, seconds=self._write_deadline_s)
        if not told:
            raise next(iter(failed.values()))
        return told, failed

    async def _asked(
        self,
        peers: Sequence[_Peer],
        call: Callable[[_Peer], Awaitable[R]],
        *,
        seconds: float,
        is_counted: bool = True,
    ) -> tuple[dict[str, R], Mapping[str, QuipuError]]:
        """What each peer answers in time, and why the others did not."""
        now = self._clock()
        errors: dict[str, QuipuError] = {}
        tasks: dict[str, asyncio.Task[R]] = {}
        for peer in peers:
            if is_counted and not peer.breaker.lets_through(now):
                errors[peer.name] = BackendUnavailableError(
                    "The peer is left alone for a while.", reason="breaker_open"
                )
                continue
            peer.breaker = peer.breaker.called(now)
            tasks[peer.name] = asyncio.create_task(_called(call, peer))
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        told: dict[str, R] = {}
        for peer in peers:
            if (task := tasks.get(peer.name)) is None:
                continue
            error = _error(task)
            if error is None:
                told[peer.name] = task.result()
            else:
                errors[peer.name] = error
            if is_counted:
                self._count(peer, error)
        return told, errors

    def _count(self, peer: _Peer, error: QuipuError | None) -> None:
        """What the caller did wrong is not the peer's failure."""
        if error is None or not error.retryable:
            peer.breaker = peer.breaker.succeeded(self._clock())
        else:
            peer.breaker = peer.breaker.failed(self._clock(), 0.0)


async def _called(call: Callable[[_Peer], Awaitable[R]], peer: _Peer) -> R:
    return await call(peer)


def _error(task: asyncio.Task[R]) -> QuipuError | None:
    """Why a peer has no answer; None when it has."""
    if not task.done():
        task.cancel()
        return BackendUnavailableError("The peer did not answer in time.", reason="mirror_late")
    if task.cancelled():
        return BackendUnavailableError("The peer failed.", reason="mirror_failed")
    raised = task.exception()
    if raised is None or isinstance(raised, QuipuError):
        return raised
    return BackendUnavailableError("The peer failed.", reason="mirror_failed")


def _failures(failed: Mapping[str, QuipuError]) -> dict[str, Json]:
    if not failed:
        return {}
    rows: list[Json] = [
        {"store": name, "reason": error.reason or error.code} for name, error in sorted(failed.items())
    ]
    return {"stores_failed": rows}
