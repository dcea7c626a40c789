"""A router over peers: any number of `MemoryStore`s that answer as one, and a `MemoryStore` itself, so routers nest.

Peers are equals: there is no ledger to resolve against. So the router keeps a map from its own ids to those of each
peer, in memory or in a ledger, and what it cannot tell by id it tells by agreement: a hit's text is the one most peers
give for it.

- A request is checked before anybody is asked, so that what is refused is refused by all of them.
- A write goes to every peer that promises what it needs (`all`) or to the first (`primary_only`), and succeeds if one
  of them took it; if none did, the first error is raised. Who failed is told in `extensions`.
- A recall asks all of them at once, each within its deadline and behind a circuit breaker, and fuses their rankings by
  the rules of `quipu.rules.fusion`; links, confidence and demotion are weighed once, afterwards, as a memory does. The
  order in which peers are given never matters.
- Under `rrf` three peers or more show nothing that only a minority could have made up: see `quipu.rules.vouching`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from quipu.errors import BackendUnavailableError, InvalidError, QuipuError
from quipu.model.limits import Limits
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
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.value import Json
from quipu.ports.memory_store import MemoryStore
from quipu.ports.peer_ids import PeerIds
from quipu.rules import fusion, peer_answers, peer_promises, validation, values, vouching
from quipu.rules.fusion_trimmed import liars
from quipu.service import routing_hits, routing_peers
from quipu.service.peer_ids import RememberedIds
from quipu.service.routing_choices import Choices
from quipu.service.routing_ids import Naming
from quipu.service.routing_peers import Peer

R = TypeVar("R")
DEADLINE_S: Final = 2.0
WRITE_DEADLINE_S: Final = 10.0
_HEALTH_S: Final = 1.0
#: Peers have limits of their own. Here only what no store may be asked is refused.
_LIMITS: Final = Limits(
    content_bytes=values.ANY_SIZE,
    metadata_bytes=values.ANY_SIZE,
    query_bytes=values.ANY_SIZE,
    ids_per_call=values.ANY_SIZE,
    tags=values.ANY_SIZE,
    links=values.ANY_SIZE,
    reason_length=values.ANY_SIZE,
)


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
        self._peers = routing_peers.listed(peers, weights or {})
        names = [peer.name for peer in self._peers]
        _check_settings(names, write_policy, own_contents, deadline_s, write_deadline_s)
        self._is_all, self._trims = write_policy != "primary_only", trim_votes
        self._own = frozenset(own_contents if self._is_all else names)
        self._deadline_s, self._write_deadline_s = deadline_s, write_deadline_s
        self._clock = clock or (lambda: time.monotonic_ns() // 1_000_000)
        self._naming = Naming(RememberedIds() if ids is None else ids, names, int(write_deadline_s * 1000))
        self._is_closed = False

    def __repr__(self) -> str:
        """The peers by name; what they are may hold addresses."""
        state = " closed" if self._is_closed else ""
        policy = "all" if self._is_all else "primary_only"
        return f"<Router{state} of {', '.join(peer.name for peer in self._peers)}; writes to {policy}>"

    async def close(self) -> None:
        """Answer nobody any more. The peers are whoever's they are, and stay open."""
        self._is_closed = True

    # -- the protocol ---------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> set[str]:
        """What every peer promises, as far as several keep it together."""
        return peer_promises.together([peer.store.capabilities for peer in self._peers])

    async def health(self) -> dict[str, Json]:
        """`ok` when all are, `error` when none is."""
        self._check_open()
        told, failed = await routing_peers.asked(
            self._peers,
            lambda peer: peer.store.health(),
            Mapping,
            seconds=_HEALTH_S,
            clock=self._clock,
            is_counted=False,
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

    async def copies(self, id: str) -> dict[str, str]:
        """By peer, what it calls a memory: for what only the peer itself can be asked, such as reading it by its id."""
        self._check_open()
        return await self._naming.copies(id)

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        """The id is the first peer's that took it; the router knows the others' by it."""
        request = validation.checked_remember(request, _LIMITS)
        asked = await self._naming.to_write(request)
        told, failed = await self._written(
            request, lambda peer: peer.store.remember(asked[peer.name]), RememberResponse
        )
        known = request.id if request.id is not None else await self._naming.of_write(told)
        theirs = {peer: answer.id for peer, answer in told.items()}
        await self._naming.ids.note(known, theirs, request.agent_id)
        return peer_answers.remembered(known, told, failed, {peer: {} for peer in told})

    async def forget(self, request: ForgetRequest, /) -> ForgetResponse:
        """Every copy of what is named, and what the filter finds with any peer."""
        request = validation.checked_forget(request, _LIMITS)
        theirs = await self._naming.theirs(request.ids)
        told, failed = await self._written(
            request, lambda peer: peer.store.forget(replace(request, ids=theirs[peer.name])), ForgetResponse
        )
        names = await self._names(request.ids, theirs, told)
        return peer_answers.forgotten(told, failed, names)

    async def merge(self, request: MergeRequest, /) -> MergeResponse:
        """With every peer, each by its own names."""
        request = validation.checked_merge(request, _LIMITS)
        ids = (request.canonical, *request.duplicates)
        theirs = await self._naming.theirs(ids)
        told, failed = await self._written(
            request,
            lambda peer: peer.store.merge(
                replace(request, canonical=theirs[peer.name][0], duplicates=theirs[peer.name][1:])
            ),
            MergeResponse,
        )
        names = await self._names(ids, theirs, told)
        return peer_answers.merged(request.canonical, told, failed, names)

    async def expire(self, request: ExpireRequest, /) -> ExpireResponse:
        """What the policy finds with each peer."""
        request = validation.checked_expire(request, _LIMITS)
        told, failed = await self._written(request, lambda peer: peer.store.expire(request), ExpireResponse)
        return peer_answers.expired(told, failed, await self._names((), {}, told))

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        """All peers' rankings as one. A peer that fails or is late is named, and the others count."""
        self._check_open()
        with Choices([peer.name for peer in self._peers]) as choices:
            return await self._recalled(request, choices)

    async def _recalled(self, request: RecallRequest, choices: Choices) -> RecallResponse:
        started = time.perf_counter()
        validation.checked_recall(request, _LIMITS)
        fusion.checked_quorum(request.quorum_k, configured=len(self._peers), answered=len(self._peers))
        told, failed = await self._searched(request, choices)
        fusion.checked_quorum(request.quorum_k, configured=len(self._peers), answered=len(told))
        ours = await self._naming.ours(
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
        telling = routing_hits.Telling(hits, ours, 1 + (liars(len(told)) if is_vouched else 0))
        results = telling.results(found)[: request.k]
        for hit in results:
            self._naming.saw(hit.id, telling.copies(hit), ours)
        results, is_cut = routing_hits.fitted(results, request.max_tokens)
        for hit in results:
            choices.chose(hit.id, {peer: copy.id for peer, copy in telling.copies(hit).items()})
        if request.explain:
            results = [routing_hits.explained(hit, lists, trim, contradicting) for hit in results]
        elif request.hops:  # the peers were asked to explain, and nobody else was
            results = [replace(hit, why=None) for hit in results]
        extensions = peer_answers.failures(failed)
        if found.left_out:
            extensions["unvouched"] = found.left_out
        if is_cut:
            extensions["truncated"] = True
        return RecallResponse(
            results=tuple(results),
            fusion_used=request.fusion,
            stores_queried=tuple(told),
            latency_ms=int((time.perf_counter() - started) * 1000),
            extensions=extensions,
        )

    # -- asking peers -----------------------------------------------------------------------------------------------

    async def _searched(
        self, request: RecallRequest, choices: Choices
    ) -> tuple[dict[str, RecallResponse], Mapping[str, QuipuError]]:
        """Each peer's ranking, of as many as fusion needs; one alone has nothing to be fused with.

        How near linked hits are is told by `explain`.
        """
        seconds = self._deadline_s
        if request.deadline_ms is not None:
            seconds = min(seconds, request.deadline_ms / 1000)
        wanted = request.k if len(self._peers) == 1 else min(max(4 * request.k, 20), _LIMITS.k)
        asked = replace(
            request,
            k=wanted,
            quorum_k=1,
            deadline_ms=None,
            max_tokens=None,
            explain=request.explain or request.hops > 0,
        )

        async def ranking(peer: Peer) -> RecallResponse:
            with choices.of[peer.name].asking():  # more is asked for than is shown, and only that is recalled
                return await peer.store.recall(asked)

        told, failed = await self._asked(request, self._peers, ranking, RecallResponse, seconds)
        kept = {  # who sends more than was asked for is not read to the end, and what is no hit is dropped
            peer: replace(answer, results=routing_hits.hits_of(answer, wanted))
            for peer, answer in told.items()
        }
        return kept, failed

    async def _vouching(self, order: Sequence[fusion.Fused], answered: Collection[str]) -> vouching.Vouching:
        """Who may vouch for these. The map is asked about those only that most do not vouch for anyway."""
        unsure = [item.id for item in order if len(item.backends) <= liars(len(self._peers))]
        holders = await self._naming.holders(answered, unsure)
        return vouching.Vouching(len(self._peers), len(answered), self._own, holders)

    async def _names(
        self,
        asked: Sequence[str],
        theirs: Mapping[str, Sequence[str]],
        told: Mapping[str, ForgetResponse | MergeResponse | ExpireResponse],
    ) -> dict[str, dict[str, str]]:
        """Per peer, what the router calls what the peer names in its answer."""
        noted = await self._naming.ours(
            {peer: peer_answers.mentioned(answer) for peer, answer in told.items()}
        )
        return {
            peer: {**noted[peer], **dict(zip(theirs.get(peer, ()), asked, strict=False))} for peer in told
        }

    async def _written(
        self, request: peer_promises.Request, call: Callable[[Peer], Awaitable[R]], kind: type[R]
    ) -> tuple[dict[str, R], Mapping[str, QuipuError]]:
        """Who took the write, in the order of the peers, and who did not."""
        peers = self._peers if self._is_all else self._peers[:1]
        return await self._asked(request, peers, call, kind, self._write_deadline_s)

    async def _asked(
        self,
        request: peer_promises.Request,
        peers: Sequence[Peer],
        call: Callable[[Peer], Awaitable[R]],
        kind: type[R],
        seconds: float,
    ) -> tuple[dict[str, R], Mapping[str, QuipuError]]:
        """Ask whoever promises what the request needs. The first error is raised where nobody answers."""
        self._check_open()
        refusals = {
            peer.name: refusal
            for peer in peers
            if (refusal := peer_promises.refusal(peer.store.capabilities, request)) is not None
        }
        willing = [peer for peer in peers if peer.name not in refusals]
        told, failed = await routing_peers.asked(willing, call, kind, seconds=seconds, clock=self._clock)
        if not told:
            raise next(iter((failed or refusals).values()))
        return told, {**refusals, **failed}

    def _check_open(self) -> None:
        if self._is_closed:
            raise BackendUnavailableError("This router is closed.", reason="closed")


def _check_settings(
    names: Collection[str], write_policy: str, own_contents: Collection[str], *seconds: float
) -> None:
    if write_policy not in ("all", "fan_out", "primary_only"):
        raise InvalidError.at(
            "/write_policy", "bad_value", "There is no such write policy.", accepted=["all", "primary_only"]
        )
    if isinstance(own_contents, str):
        raise InvalidError.at("/own_contents", "bad_value", "The names of peers come in a list.")
    if strangers := sorted(set(own_contents) - set(names)):
        message = f"There is no peer of the name {strangers[0][:40]!r}."
        raise InvalidError.at("/own_contents", "bad_value", message, accepted=sorted(names))
    for field, value in zip(("deadline_s", "write_deadline_s"), seconds, strict=True):
        if not (math.isfinite(value) and value > 0):
            raise InvalidError.at(
                f"/{field}",
                "bad_value",
                "A deadline is a number of seconds above 0.",
                accepted=["number > 0"],
            )
