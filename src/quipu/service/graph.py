"""The graph around a memory: what is linked with it, speaks of the same, or was said beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quipu.errors import InvalidError, NotFoundError
from quipu.model.graph import Graph, GraphNode, GraphRequest
from quipu.model.journal import Draft, Mention, Op
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, Sensitivity
from quipu.model.search import Scope, Snapshot
from quipu.ports.parts import Parts
from quipu.rules import links, texts
from quipu.service.access import Access
from quipu.service.budgets import Budgets
from quipu.service.notes import ReadNotes
from quipu.service.recalling import Recalling

_DEEPEST = 3
_MOST = 500
_BRIEF = 160


class Graphs:
    """Walks from one memory to the next, in reach and as of a position."""

    def __init__(
        self, parts: Parts, access: Access, recalling: Recalling, notes: ReadNotes, budgets: Budgets
    ) -> None:
        self._parts, self._access, self._recalling = parts, access, recalling
        self._notes, self._budgets = notes, budgets

    async def around(self, principal: Principal, request: GraphRequest) -> Graph:
        """A memory and its neighbours, up to so many links away."""
        self._access.authorise(principal, Permission.READ, request.agent_id)
        _check(request)
        self._budgets.check_recall(principal, request.agent_id)
        snapshot = await self._recalling.snapshot(principal.tenant, request.as_of)
        is_mine = await self._access.reach(principal, request.agent_id)
        root = await self._root(principal, request.id, snapshot, is_mine)
        scope = Scope(
            tenant=principal.tenant,
            agent_id=root.agent_id,
            user_id=principal.user_id,
            reader=root.agent_id,
            stores=await self._access.stores_for(principal),
        )
        walk = _Walk(self._parts, scope, snapshot, is_mine, request.limit)
        await walk.from_(root, request.hops)
        replaced = links.superseders(walk.records)
        nodes = [
            _node(record, walk.distances[name], links.validity(record, replaced.get(name, ())))
            for name, record in walk.records.items()
        ]
        if request.valid_at is not None:
            at = request.valid_at
            nodes = [
                node
                for node in nodes
                if node.distance == 0 or links.Validity(node.valid_from, node.valid_to).holds(at)
            ]
        shown = {node.id: walk.records[node.id] for node in nodes}
        self._note(principal, root.agent_id, shown)
        return Graph(
            root=root.id,
            hops=request.hops,
            nodes=tuple(sorted(nodes, key=lambda node: (node.distance, node.id))),
            edges=links.edges(shown, walk.near),
            is_cut=walk.is_cut,
        )

    async def _root(
        self, principal: Principal, record_id: str, snapshot: Snapshot, is_mine: Callable[[Record], bool]
    ) -> Record:
        named = [record_id] if texts.is_keepable(record_id) else []
        found = (await self._parts.ledger.read(principal.tenant, named, snapshot.seq)).get(record_id)
        if found is None or not is_mine(found) or found.is_emptied or found.expired(snapshot.now):
            raise NotFoundError("There is no such record.", reason="record")
        return found

    def _note(self, principal: Principal, agent_id: str, records: Mapping[str, Record]) -> None:
        """Who looked at what is journaled and paid for, as with any other read."""
        draft = Draft(op=Op.READ, actor=principal.name, at=self._parts.clock(), agent=agent_id)
        mentions = [Mention(one.id, one.version, one.digest) for one in records.values()]
        self._notes.add(principal.tenant, draft, mentions, is_recall=False)
        self._budgets.charge_recall(principal, agent_id, len(mentions))


class _Walk:
    """One walk: what was found, how far away, and who is whose neighbour."""

    def __init__(
        self,
        parts: Parts,
        scope: Scope,
        snapshot: Snapshot,
        is_mine: Callable[[Record], bool],
        limit: int,
    ) -> None:
        self._parts, self._scope, self._snapshot = parts, scope, snapshot
        self._is_mine, self._limit = is_mine, limit
        self.records: dict[str, Record] = {}
        self.distances: dict[str, int] = {}
        self.near: dict[str, frozenset[str]] = {}
        self.is_cut = False

    async def from_(self, root: Record, hops: int) -> None:
        """Ring by ring; within a ring the oldest ids come first, so that two walks are alike."""
        self.records[root.id], self.distances[root.id] = root, 0
        frontier = [root.id]
        for distance in range(1, hops + 1):
            self.near.update(await self._parts.ledger.neighbours(self._scope, self._snapshot, frontier))
            beyond = {other for name in frontier for other in self.near[name]}
            # A link also leads to what was forgotten since: that is how a memory is followed to its sources.
            beyond |= {link.to for name in frontier for link in self.records[name].links}
            frontier = await self._taken(sorted(beyond - self.records.keys()), distance)
            if not frontier:
                return
        # Who of the last ring stands beside whom.
        self.near.update(await self._parts.ledger.neighbours(self._scope, self._snapshot, frontier))

    async def _taken(self, names: list[str], distance: int) -> list[str]:
        found = await self._parts.ledger.read(self._scope.tenant, names, self._snapshot.seq)
        seen = [
            name
            for name in names
            if (one := found.get(name)) is not None
            and self._is_mine(one)
            and not one.is_emptied
            and not one.expired(self._snapshot.now)
        ]
        room = self._limit - len(self.records)
        self.is_cut = self.is_cut or len(seen) > room
        for name in seen[:room]:
            self.records[name], self.distances[name] = found[name], distance
        return seen[:room]


def _check(request: GraphRequest) -> None:
    for name, value, least, most in (
        ("hops", request.hops, 0, _DEEPEST),
        ("limit", request.limit, 1, _MOST),
    ):
        if not least <= value <= most:
            raise InvalidError.at(
                f"/{name}", "bad_value", f"{name} is not accepted.", accepted=[f"from {least} to {most}"]
            )


def _node(record: Record, distance: int, valid: links.Validity) -> GraphNode:
    is_secret = record.privacy is not None and record.privacy.sensitivity is Sensitivity.SECRET
    said = " ".join(texts.body_text(record)[: 4 * _BRIEF].split())
    return GraphNode(
        id=record.id,
        distance=distance,
        type=record.type,
        state=record.standing,
        text="" if is_secret else said if len(said) <= _BRIEF else said[: _BRIEF - 1] + "…",
        subject=None if is_secret else record.provenance.subject,
        created_at=record.created_at,
        valid_from=valid.begins,
        valid_to=valid.ends,
    )
