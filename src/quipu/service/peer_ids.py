"""A router's map of ids: in memory, or in a ledger, where it outlives the process and others share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quipu.ports.backend import Container
from quipu.ports.outbox import CopyState, Mirrored, Outbox, Settlement

#: Keeps a router's peers apart from the ledger's own mirrors, whose names have no slash.
_PREFIX = "router/"
_VERSION = 1


class RememberedIds:
    """For as long as the process lives."""

    def __init__(self) -> None:
        self._theirs: dict[tuple[str, str], str] = {}
        self._ours: dict[tuple[str, str], str] = {}

    async def note(self, ours: str, theirs: Mapping[str, str], agent_id: str) -> None:
        for peer, id in theirs.items():
            self._theirs[peer, ours] = id
            self._ours[peer, id] = ours

    async def of(self, peer: str, ours: Sequence[str]) -> Mapping[str, str]:
        return {id: self._theirs[peer, id] for id in ours if (peer, id) in self._theirs}

    async def ours(self, peer: str, theirs: Sequence[str]) -> Mapping[str, str]:
        return {id: self._ours[peer, id] for id in theirs if (peer, id) in self._ours}


class SeenIds:
    """What peers call writes that nobody noted, because the router died in between: as recalls have shown them.

    An intent noted beforehand could only be carried on with the text, which the map does not keep; what the peers hold
    tells as much, and it is they who are asked to forget.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._theirs: dict[str, Mapping[str, str]] = {}
        self._most = most

    def saw(self, ours: str, theirs: Mapping[str, str]) -> None:
        """The router showed these as one, by this id."""
        self._theirs.pop(ours, None)
        self._theirs[ours] = theirs
        while len(self._theirs) > self._most:
            del self._theirs[next(iter(self._theirs))]

    def of(self, peer: str, ours: str) -> str:
        """What the peer calls it; as it is called here where nothing else was seen."""
        return self._theirs.get(ours, {}).get(peer, ours)

    def copies(self, ours: str) -> Mapping[str, str]:
        """By peer, what it calls what was shown by this id."""
        return self._theirs.get(ours, {})


class LedgerIds:
    """Where a ledger keeps the native ids of its mirrors: to a router each of its peers is one."""

    def __init__(self, outbox: Outbox, tenant: str) -> None:
        self._outbox, self._tenant = outbox, tenant

    async def note(self, ours: str, theirs: Mapping[str, str], agent_id: str) -> None:
        place = Container(tenant=self._tenant, store_id="", agent_id=agent_id, user_id=None)
        for peer, id in theirs.items():
            row = Mirrored(
                record_id=ours, container=place, version=_VERSION, state=CopyState.KEPT, native_id=id
            )
            await self._outbox.settle(self._tenant, _PREFIX + peer, Settlement(kept=(row,)))

    async def of(self, peer: str, ours: Sequence[str]) -> Mapping[str, str]:
        if not ours:  # the map is there, and that is all that was asked
            return {}
        found = await self._outbox.mirrored(self._tenant, _PREFIX + peer, ours)
        return {id: row.native_id for id, row in found.items() if row.native_id is not None}

    async def ours(self, peer: str, theirs: Sequence[str]) -> Mapping[str, str]:
        if not theirs:
            return {}
        found = await self._outbox.mirrored_as(self._tenant, _PREFIX + peer, theirs)
        return {id: row.record_id for id, row in found.items()}
