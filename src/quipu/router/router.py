"""A router over peers: any number of memories of any make that answer as one, and a memory itself, so routers nest.

Peers are equals: there is no ledger to resolve against. So the router keeps a map from its own ids to those of each
peer, in memory or in a ledger, and what it cannot tell by id it tells by type and text.

- A request is checked before anybody is asked, so that what is refused is refused by all of them.
- A write goes to every peer that promises what it needs (`all`) or to the first (`primary_only`), and succeeds if one
  of them took it; if none did, the first error is raised. Who failed stands in `stores_failed`.
- A recall asks all of them at once, each within its time and behind a circuit breaker, and fuses their rankings; links,
  confidence and demotion are weighed once, afterwards, as a memory does. The order in which peers are given never matters.
- With `replicas`, three peers or more show under `rrf` nothing that only a minority could have made up.
"""

import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from quipu.errors import BackendUnavailableError, Fault, InvalidError, NotFoundError, UnsupportedError
from quipu.ledger.ledger import Ledger
from quipu.memory import model as m
from quipu.memory.fanout import Answers, Fanout, monotonic_ms
from quipu.memory.memory_store import MemoryStore, in_kind
from quipu.model.principal import local
from quipu.operation import Request, Response, invalid
from quipu.router import answers, hits
from quipu.router.answers import RoutedRecall
from quipu.router.hits import contradicting, is_asked_for, is_vouched, liars
from quipu.router.ids import LedgerIds, Naming, PeerIds, RememberedIds
from quipu.router.peers import Peer, listed, request_of, together
from quipu.search import fusion

R = TypeVar("R", bound=Response)
W = TypeVar("W", bound=m.WriteResponse)

DEADLINE_S: Final = 2.0
WRITE_DEADLINE_S: Final = 10.0
_HEALTH_S: Final = 1.0
#: More than is shown is asked for, so that there is something to fuse.
_FEWEST, _TIMES, _MOST = 20, 4, 1000


class Router:
    """Several memories that answer as one.

        async with Router({"home": Memory("me"), "work": connect("https://memory.example.org")}) as router:
            await router.remember(content="Ana lives in Lisbon", agent_id="me")
            for hit in await router.recall(query="where does Ana live?", agent_id="me"):
                print(hit.text, hit.found_by)

    Each of the five takes a request (ours, a mapping, another package's model) or its fields by name.
    """

    def __init__(
        self,
        peers: Mapping[str, MemoryStore] | Sequence[MemoryStore],
        *,
        agent_id: str | None = None,
        fusion: m.Fusion = "rrf",
        write_policy: Literal["all", "primary_only"] = "all",
        weights: Mapping[str, float] | None = None,
        replicas: bool = False,
        ids: str | PeerIds | None = None,
        deadline_s: float = DEADLINE_S,
        write_deadline_s: float = WRITE_DEADLINE_S,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        """The peers are whoever's they are, and stay open.

        peers: Memories by name, or in a list, where they are called `peer-1`, `peer-2` and so on.
        agent_id: The agent of requests that name none. Left out, each memory's own.
        fusion: How rankings become one, unless a recall says otherwise.
        write_policy: `all`, or `primary_only`: all others are only asked.
        weights: By name, how much a peer counts under `weighted`; 1 where nothing is said.
        replicas: That all peers hold the same. Then what only a minority shows is left out and counted.
        ids: A store URL that keeps what each peer calls a memory, so that one id leads to every copy also after a restart
            and from other processes; it may be a peer's own. Left out, the map lives as long as the router. Peers are
            known by their names, so give them names that stay.
        deadline_s: How long peers may take for a recall.
        write_deadline_s: How long they may take for a write.
        clock: Milliseconds that only go up; for tests.
        """
        self._peers = listed(peers, weights or {})
        _check_settings(write_policy, fusion, deadline_s, write_deadline_s)
        self._agent_id, self._fusion, self._replicas = agent_id, fusion, replicas
        self._writers = self._peers if write_policy == "all" else self._peers[:1]
        self._deadline_s, self._write_deadline_s = deadline_s, write_deadline_s
        self._fanout = Fanout(clock=clock)
        kept = ids if ids is not None and not isinstance(ids, str) else _ids(ids)
        self._naming = Naming(
            kept, {peer.name: peer.is_ours for peer in self._peers}, int(write_deadline_s * 1000)
        )
        self._is_closed = False

    def __repr__(self) -> str:
        """The peers by name; what they are may hold addresses."""
        state = " closed" if self._is_closed else ""
        policy = "all" if len(self._writers) == len(self._peers) else "the first"
        return f"<Router{state} of {', '.join(peer.name for peer in self._peers)}; writes to {policy}>"

    async def close(self) -> None:
        """Answer nobody any more, and let go of the map of ids. The peers stay open."""
        self._is_closed = True
        await self._naming.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> set[str]:
        """What every peer promises, as far as several keep it together."""
        return together(self._peers)

    async def health(self) -> dict[str, Any]:
        """`ok` when all are, `error` when none is."""
        self._check_open()
        calls = {peer.name: peer.store.health for peer in self._peers}
        asked = await self._fanout.ask(calls, seconds=_HEALTH_S, kind=Mapping, is_counted=False)
        rows: list[dict[str, Any]] = []
        for peer in self._peers:
            status = asked.told[peer.name].get("status", "error") if peer.name in asked.told else "error"
            breaker = self._fanout.state(peer.name)
            row = {"backend": peer.name, "role": "peer", "status": str(status), "breaker": breaker}
            rows.append(row if peer.name in asked.told else {**row, "error": "does not answer"})
        statuses = {row["status"] for row in rows}
        status = "ok" if statuses == {"ok"} else "error" if statuses == {"error"} else "degraded"
        return {"status": status, "backend": "router", "stores": rows}

    async def copies(self, id: str) -> dict[str, str]:
        """By peer, what it calls a memory: for what only the peer itself can be asked, such as its history.

        id: What the router calls it.
        """
        self._check_open()
        return await self._naming.copies(id)

    # -- writes -------------------------------------------------------------------------------------------------------

    async def remember(self, request: object = None, /, **fields: Any) -> Any:
        """Keep a memory with every peer. Its id is the first one's that took it; the router knows the others' by it."""
        ours = self._request(m.RememberRequest, request, fields)
        wanted = await self._to_write(ours)
        asked = await self._written(wanted, "remember", m.RememberResponse)
        natives = {peer: answer.id for peer, answer in asked.told.items()}
        own_id = await self._naming.note(natives, ours.id)
        return in_kind(request, answers.remembered(own_id, asked, await self._names(asked)))

    async def forget(self, request: object = None, /, **fields: Any) -> Any:
        """Forget every copy of what is named, and what the filter finds with any peer."""
        ours = self._request(m.ForgetRequest, request, fields)
        natives = await self._naming.natives(ours.ids)
        wanted: dict[str, m.ForgetRequest | None] = {}
        for peer, names in natives.items():
            ids = tuple(names[id] for id in ours.ids if id in names)
            wanted[peer] = ours.model_copy(update={"ids": ids}) if ids or ours.filter else None
        asked = await self._written(wanted, "forget", m.ForgetResponse)
        asked = replace(asked, told=_with_unknown(asked.told, ours.ids, natives))
        return in_kind(request, answers.forgotten(asked, await self._names(asked, natives)))

    async def merge(self, request: object = None, /, **fields: Any) -> Any:
        """Merge with every peer, each by its own names."""
        ours = self._request(m.MergeRequest, request, fields)
        natives = await self._naming.natives((ours.canonical, *ours.duplicates))
        wanted: dict[str, m.MergeRequest | None] = {}
        for peer, names in natives.items():
            duplicates = tuple(names[id] for id in ours.duplicates if id in names)
            changes = {"canonical": names.get(ours.canonical), "duplicates": duplicates}
            wanted[peer] = ours.model_copy(update=changes) if all(changes.values()) else None
        asked = await self._written(wanted, "merge", m.MergeResponse)
        return in_kind(request, answers.merged(ours.canonical, asked, await self._names(asked, natives)))

    async def expire(self, request: object = None, /, **fields: Any) -> Any:
        """Apply the policy with every peer."""
        ours = self._request(m.ExpireRequest, request, fields)
        asked = await self._written({peer.name: ours for peer in self._peers}, "expire", m.ExpireResponse)
        return in_kind(request, answers.expired(asked, await self._names(asked)))

    async def note_recalled(self, ids: Sequence[str]) -> m.NoteRecalledResponse:
        """Count memories as recalled, where a recall was made with count_recall off.

        ids: The memories that were used; unknown ids are skipped.
        """
        self._check_open()
        natives = await self._naming.natives(ids)
        asked = await self._counted({peer: tuple(names.values()) for peer, names in natives.items()})
        return m.NoteRecalledResponse(counted=max((one.counted for one in asked.told.values()), default=0))

    # -- recall -------------------------------------------------------------------------------------------------------

    async def recall(self, request: object = None, /, **fields: Any) -> Any:
        """All peers' rankings as one. A peer that fails or is late is named, and the others count."""
        ours = self._request(m.RecallRequest, request, fields)
        if self._fusion != "rrf" and "fusion" not in ours.model_fields_set:
            ours = ours.model_copy(update={"fusion": self._fusion})
        return in_kind(request, await self._recalled(ours))

    async def _recalled(self, request: m.RecallRequest) -> RoutedRecall:
        started = time.perf_counter()
        if len(self._peers) > 1 and (request.as_of or "").isdecimal():
            accepted = "a moment, such as 2026-07-01T12:00:00Z: each peer has a journal of its own"
            raise invalid([Fault("/as_of", "bad_value", accepted)])
        _refuse_what_peers_cannot_share(request, len(self._peers))
        fusion.check_quorum(request.quorum_k, configured=len(self._peers), answered=len(self._peers))
        asked = await self._searched(request)
        fusion.check_quorum(request.quorum_k, configured=len(self._peers), answered=len(asked.told))
        held = {peer: answer for peer, answer in asked.told.items() if answer.pending_approval}
        told = {peer: answer for peer, answer in asked.told.items() if peer not in held}
        known = await self._naming.known(
            {id for answer in told.values() for hit in answer for id in (hit.id, *hit.supporting)}
        )
        shown = hits.by_id(told, known)
        needs_vouchers = self._replicas and is_asked_for(len(self._peers), request.fusion)
        left_out = contradicting(shown) if needs_vouchers else frozenset[tuple[str, str]]()
        rankings = hits.votes(shown, left_out)
        weights = {peer.name: peer.weight for peer in self._peers}
        found = fusion.fused(rankings, request.fusion, weights, quorum_k=request.quorum_k, is_raw=True)
        order = await self._vouched(found, told) if needs_vouchers else found
        showing = hits.Showing(shown, known, 1 + liars(len(told)) if needs_vouchers else 1)
        best = showing.results(order)[: request.k]
        for hit in best:
            self._naming.saw(hit.id, showing.copies(hit), known)
        best, is_cut = hits.cut(best, request.max_tokens)
        if request.count_recall and len(self._peers) > 1:
            await self._note(best, showing)
        if request.explain:
            best = [hits.explained(hit, rankings, request.fusion, left_out) for hit in best]
        elif request.hops:  # the peers were asked to explain, and nobody else was
            best = [hit.model_copy(update={"why": None}) for hit in best]
        waiting = next(iter(held.values()), None) if not told else None
        return RoutedRecall(
            results=tuple(best),
            fusion_used=request.fusion,
            stores_queried=tuple(told),
            latency_ms=int((time.perf_counter() - started) * 1000),
            below_floor=sum(answer.below_floor for answer in told.values()),
            truncated=is_cut,
            budget_cut=any(answer.budget_cut for answer in told.values()),
            stores_failed=answers.failures(asked.failed),
            warnings=tuple(dict.fromkeys(text for answer in told.values() for text in answer.warnings)),
            pending_approval=waiting is not None,
            approval_url=None if waiting is None else waiting.approval_url,
            unvouched=len(found) - len(order),
        )

    async def _searched(self, request: m.RecallRequest) -> Answers[m.RecallResponse]:
        """Each peer's ranking, of as many as fusion needs; one alone has nothing to be fused with.

        How near linked hits are is told by `explain`.
        """
        seconds = self._deadline_s
        if request.deadline_ms is not None:
            seconds = min(seconds, request.deadline_ms / 1000)
        is_alone = len(self._peers) == 1
        most = request.k if is_alone else min(max(_TIMES * request.k, _FEWEST), _MOST)
        changes: dict[str, Any] = {
            **{"k": most, "quorum_k": 1, "deadline_ms": None, "max_tokens": None},
            "explain": request.explain or request.hops > 0,
        }
        counting = request.model_copy(update=changes)
        # More is asked for than is shown, and only what is shown is recalled.
        quiet = counting.model_copy(update={"count_recall": False})
        wanted = {
            peer.name: counting if is_alone or not peer.counts_what_is_shown else quiet
            for peer in self._peers
        }
        return await self._asked(self._peers, wanted, "recall", m.RecallResponse, seconds, most)

    async def _vouched(
        self, order: Sequence[fusion.Fused], answered: Collection[str]
    ) -> Sequence[fusion.Fused]:
        """The map is asked about those only that most do not vouch for anyway."""
        listed = len(self._peers)
        unsure = [item.id for item in order if len(item.backends) <= liars(listed)]
        holders = await self._naming.holders(answered, unsure)
        return [
            item
            for item in order
            if is_vouched(item, listed=listed, answered=len(answered), holders=holders[item.id])
        ]

    async def _note(self, best: Sequence[m.Hit], showing: hits.Showing) -> None:
        """What is shown counts as recalled, with each peer that showed it."""
        natives: dict[str, list[str]] = {}
        for hit in best:
            for peer, copy in showing.copies(hit).items():
                natives.setdefault(peer, []).append(copy.id)
        await self._counted(natives)

    async def _counted(self, natives: Mapping[str, Sequence[str]]) -> Answers[m.NoteRecalledResponse]:
        """A peer that cannot be told now counts too little; that is no reason to fail."""
        calls = {
            peer.name: _noting(peer.store, natives[peer.name])
            for peer in self._peers
            if natives.get(peer.name) and peer.counts_what_is_shown
        }
        return await self._fanout.ask(calls, seconds=self._deadline_s, kind=m.NoteRecalledResponse)

    # -- asking peers -------------------------------------------------------------------------------------------------

    def _request(self, kind: type[Any], given: object, fields: Mapping[str, Any]) -> Any:
        self._check_open()
        return request_of(kind, given, fields, self._agent_id)

    async def _to_write(self, request: m.RememberRequest) -> dict[str, m.RememberRequest | None]:
        """The request as each peer understands it: its id and what it names lead to the peer's own memories.

        A link to a memory that others took and this one did not leads nowhere there. The memory is kept without it.
        """
        named = {link.to for link in request.links or ()} | set(request.supersedes or ())
        ids = [*([] if request.id is None else [request.id]), *sorted(named)]
        known = await self._naming.known(ids)  # where the map cannot be reached, nothing is written either
        if not ids:
            return {peer.name: request for peer in self._peers}
        natives = await self._naming.natives(ids)
        wanted: dict[str, m.RememberRequest | None] = {}
        for peer, names in natives.items():
            there = {
                id: name for id, name in names.items() if id not in known.natives or peer in known.natives[id]
            }
            changes: dict[str, Any] = {"id": names.get(request.id) if request.id else None}
            if request.links is not None:
                changes["links"] = tuple(
                    link.model_copy(update={"to": there[link.to]})
                    for link in request.links
                    if link.to in there
                )
            if request.supersedes is not None:
                changes["supersedes"] = tuple(there[id] for id in request.supersedes if id in there)
            is_there = request.id is None or request.id in names
            wanted[peer] = request.model_copy(update=changes) if is_there else None
        return wanted

    async def _written(self, wanted: Mapping[str, Request | None], name: str, kind: type[W]) -> Answers[W]:
        """Who took the write, in the order of the peers, and who did not."""
        return await self._asked(self._writers, wanted, name, kind, self._write_deadline_s)

    async def _asked(
        self,
        peers: Sequence[Peer],
        wanted: Mapping[str, Any],
        name: str,
        kind: type[R],
        seconds: float,
        most: int = 0,
    ) -> Answers[R]:
        """Ask whoever promises what the request needs. The first error is raised where nobody answers."""
        refusals: dict[str, Exception] = {}
        calls: dict[str, Callable[[], Awaitable[R]]] = {}
        for peer in peers:
            request = wanted[peer.name]
            refusal = _unknown() if request is None else peer.refusal(name, request)
            if refusal is None:
                calls[peer.name] = _call(peer, name, request, kind, most)
            else:
                refusals[peer.name] = refusal
        asked = await self._fanout.ask(calls, seconds=seconds)
        failed: dict[str, Any] = {**refusals, **asked.failed}
        if not asked.told:
            raise next(iter((asked.failed or refusals).values()))
        return Answers(asked.told, failed)

    async def _names(
        self, asked: Answers[W], natives: Mapping[str, Mapping[str, str]] | None = None
    ) -> dict[str, dict[str, str]]:
        """By peer, what the router calls what the peer names in its answer."""
        named = {peer: answers.mentioned(answer) for peer, answer in asked.told.items()}
        known = await self._naming.known({id for ids in named.values() for id in ids})
        return {
            peer: {
                **{id: own for id in ids if (own := known.own(peer, id)) is not None},
                **{native: own for own, native in (natives or {}).get(peer, {}).items()},
            }
            for peer, ids in named.items()
        }

    def _check_open(self) -> None:
        if self._is_closed:
            raise BackendUnavailableError("This router is closed.", reason="closed")


def _refuse_what_peers_cannot_share(request: m.RecallRequest, count: int) -> None:
    """Nothing that was asked for is passed over."""
    if request.sign_for is not None:
        raise UnsupportedError(
            "A router gives memories names and places of its own, which no peer has signed.",
            reason="sign_for",
            hint="Leave out `sign_for`, or ask one memory.",
        )
    if request.neighbours and count > 1:
        raise UnsupportedError(
            "Turns beside a hit are known to the memory that holds the conversation.",
            reason="neighbours",
            hint="Leave out `neighbours`, or ask one memory.",
        )


def _call(peer: Peer, name: str, request: Any, kind: type[R], most: int) -> Callable[[], Awaitable[R]]:
    async def call() -> R:
        given = peer.request(name, request)
        answer = peer.answer(kind, request, await getattr(peer.store, name)(given), most)
        if isinstance(answer, m.RecallResponse):
            linked = await peer.linked(answer.results, request.hops)
            return answer.model_copy(update={"results": tuple(linked)})
        return answer

    return call


def _noting(store: Any, ids: Sequence[str]) -> Callable[[], Awaitable[m.NoteRecalledResponse]]:
    return lambda: store.note_recalled(list(ids))


def _with_unknown(
    told: Mapping[str, m.ForgetResponse], ids: Sequence[str], natives: Mapping[str, Mapping[str, str]]
) -> dict[str, m.ForgetResponse]:
    """A peer that was not asked for a memory does not have it."""
    found: dict[str, m.ForgetResponse] = {}
    for peer, answer in told.items():
        missing = (id for id in ids if id not in natives[peer])
        found[peer] = answer.model_copy(update={"not_found": (*answer.not_found, *missing)})
    return found


def _unknown() -> NotFoundError:
    return NotFoundError("The store does not have this memory.", reason="record")


def _ids(url: str | None) -> PeerIds:
    if url is None:
        return RememberedIds()

    async def opened() -> Ledger:
        # By name: this module stands below the one that names drivers.
        settings: Any = import_module("quipu.config").Settings()
        return import_module("quipu.bootstrap").open_ledger(url, settings)

    return LedgerIds(opened, local().tenant)


def _check_settings(write_policy: str, method: str, *seconds: float) -> None:
    for field, value, accepted in (
        ("write_policy", write_policy, ("all", "primary_only")),
        ("fusion", method, ("rrf", "max", "weighted")),
    ):
        if value not in accepted:
            said = f"one of {', '.join(accepted)}"
            raise InvalidError(f"There is no such {field}.", faults=[Fault(f"/{field}", "bad_value", said)])
    for field, value in zip(("deadline_s", "write_deadline_s"), seconds, strict=True):
        if not (math.isfinite(value) and value > 0):
            raise InvalidError(
                "A deadline is a number of seconds above 0.",
                faults=[Fault(f"/{field}", "bad_value", "a number above 0")],
            )
