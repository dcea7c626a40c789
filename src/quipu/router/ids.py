"""What a router and its peers call one memory: in memory, or in a ledger, where it outlives the process."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from quipu.errors import BackendUnavailableError
from quipu.ledger.ledger import Ledger
from quipu.ledger.table import Table
from quipu.memory.model import Hit

#: So many sightings are remembered.
_MOST_SEEN = 10_000


@dataclass(frozen=True, slots=True)
class PeerId:
    """What a peer calls one of the router's memories."""

    peer: str
    own_id: str
    native_id: str


#: Ids and no contents; they stand in no entry.
PEER_IDS = Table("peer_id", PeerId, key=("peer", "own_id"), is_journaled=False)


class PeerIds(Protocol):
    """The map of ids."""

    async def note(self, rows: Sequence[PeerId]) -> None:
        """Each of these peers has taken a memory under an id of its own."""
        ...

    async def naming(self, ids: Collection[str]) -> Sequence[PeerId]:
        """Every row in which one of these stands, as the router's id or as a peer's."""
        ...

    async def close(self) -> None: ...


class RememberedIds:
    """For as long as the process lives."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], PeerId] = {}
        self._named: dict[str, set[tuple[str, str]]] = {}

    async def note(self, rows: Sequence[PeerId]) -> None:
        for row in rows:
            key = (row.peer, row.own_id)
            self._rows[key] = row
            for id in (row.own_id, row.native_id):
                self._named.setdefault(id, set()).add(key)

    async def naming(self, ids: Collection[str]) -> Sequence[PeerId]:
        keys = {key for id in ids for key in self._named.get(id, ())}
        return [self._rows[key] for key in sorted(keys)]

    async def close(self) -> None:
        """There is nothing to let go of."""


class LedgerIds:
    """In a ledger that is opened when the map is first asked for, and never again once it is closed."""

    def __init__(self, opener: Callable[[], Awaitable[Ledger]], tenant: str) -> None:
        self._opener, self._tenant = opener, tenant
        self._ledger: Ledger | None = None
        self._is_closed = False

    async def note(self, rows: Sequence[PeerId]) -> None:
        await (await self._opened()).update(self._tenant, PEER_IDS, *rows)

    async def naming(self, ids: Collection[str]) -> Sequence[PeerId]:
        ledger, wanted = await self._opened(), sorted(ids)
        if not wanted:  # the map is there, and that is all that was asked
            await ledger.count(PEER_IDS, self._tenant, {"peer": "", "own_id": ""})
            return []
        return await ledger.read(
            self._tenant,
            lambda reader: [
                row.value
                for column in ("own_id", "native_id")
                for row in reader.matching(PEER_IDS, column, wanted)
            ],
        )

    async def close(self) -> None:
        self._is_closed = True
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            await ledger.close()

    async def _opened(self) -> Ledger:
        if self._ledger is None and not self._is_closed:
            opened = await self._opener()
            if self._ledger is None and not self._is_closed:  # pyright: ignore[reportUnnecessaryComparison]  somebody else may have been faster
                self._ledger = opened
            else:
                await opened.close()
        if self._ledger is None:
            raise BackendUnavailableError("This router is closed.", reason="closed")
        return self._ledger


@dataclass(frozen=True, slots=True)
class Known:
    """What the map says of some ids."""

    #: By the router's id, then by peer.
    natives: Mapping[str, Mapping[str, str]]
    #: By peer and its id.
    owns: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, rows: Iterable[PeerId]) -> "Known":
        natives: dict[str, dict[str, str]] = {}
        owns: dict[tuple[str, str], str] = {}
        for row in rows:
            natives.setdefault(row.own_id, {})[row.peer] = row.native_id
            owns[row.peer, row.native_id] = row.own_id
        return cls(natives, owns)

    def own(self, peer: str, native_id: str) -> str | None:
        """What the router calls a peer's memory; None for one that nobody noted.

        A peer that names a memory which it was never given, by an id that is the router's, is not believed: what it
        shows is its own.
        """
        known = self.owns.get((peer, native_id))
        return f"{peer}:{native_id}" if known is None and native_id in self.natives else known


class Naming:
    """The map of ids, and beside it what recalls have shown of memories that nobody noted.

    The router may have died between a write and its note. An intent noted beforehand could only be carried on with the
    text, which the map does not keep; what the peers hold tells as much, and it is they who are asked to forget.
    """

    def __init__(self, ids: PeerIds, peers: Mapping[str, bool], within_ms: int) -> None:
        """peers: By name, whether its ids are like no other's, as Quipu's are."""
        self._ids, self._peers, self._within_ms = ids, peers, within_ms
        #: By the router's id, then by peer: what was shown as one. The one shown last stands last.
        self._seen: dict[str, Mapping[str, str]] = {}

    async def known(self, ids: Collection[str]) -> Known:
        return Known.of(await self._ids.naming(ids))

    async def natives(self, own_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """By peer, what it calls these.

        One that nobody knows elsewhere either keeps its name. What others have under a name, a peer that was not given
        it may have for something else, unless its ids are like no other's.
        """
        known = await self.known(own_ids)
        found: dict[str, dict[str, str]] = {peer: {} for peer in self._peers}
        for id in own_ids:
            copies = {**self._seen.get(id, {}), **known.natives.get(id, {})}
            for peer, is_unique in self._peers.items():
                if peer in copies:
                    found[peer][id] = copies[peer]
                elif is_unique or not copies:
                    found[peer][id] = id
        return found

    async def copies(self, own_id: str) -> dict[str, str]:
        """By peer, what it calls a memory that it was given or that a recall has shown."""
        known = (await self.known([own_id])).natives.get(own_id, {})
        copies = {**self._seen.get(own_id, {}), **known}
        return {peer: copies[peer] for peer in self._peers if peer in copies}

    async def note(self, natives: Mapping[str, str], own_id: str | None) -> str:
        """What a write is called that these peers took.

        The first one's id, unless that is another memory's already: a peer that gives one id to two memories would make
        one of them; then the next one's id is taken.
        """
        if own_id is None:
            known = await self.known(natives.values())
            own_id = next(
                (
                    id
                    for id in natives.values()
                    if all(
                        known.natives.get(id, {}).get(peer, mine) == mine for peer, mine in natives.items()
                    )
                ),
                next(iter(natives.values())),
            )
        await self._ids.note([PeerId(peer, own_id, native_id) for peer, native_id in natives.items()])
        return own_id

    async def holders(self, answered: Collection[str], ids: Collection[str]) -> Counter[str]:
        """How many of those that answered were given each of these."""
        known = await self.known(ids) if ids else Known({}, {})
        return Counter(id for id in ids for peer in known.natives.get(id, {}) if peer in answered)

    def saw(self, own_id: str, copies: Mapping[str, Hit], known: Known) -> None:
        """Which ids a memory has that was not noted, so that what is forgotten next is forgotten everywhere."""
        named = next((hit for hit in copies.values() if hit.id == own_id), None)
        if named is None:
            one = {peer: hit.id for peer, hit in copies.items() if own_id == f"{peer}:{hit.id}"}
        elif any((peer, hit.id) in known.owns for peer, hit in copies.items()):
            return
        else:
            one = {peer: hit.id for peer, hit in copies.items() if is_one_write(named, hit, self._within_ms)}
        self._seen.pop(own_id, None)
        if one:
            self._seen[own_id] = one
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    async def close(self) -> None:
        await self._ids.close()


def is_one_write(one: Hit, other: Hit, within_ms: int) -> bool:
    """Whether two peers show one write that nobody noted: the same memory of the same owner, kept at the same time."""
    return told(one) == told(other) and abs(one.created_at - other.created_at) <= within_ms


def told(hit: Hit) -> tuple[object, ...]:
    """What says whose memory it is and what it says."""
    return (hit.type, str(hit.content), hit.agent_id, hit.user_id, hit.session_id, hit.source)
