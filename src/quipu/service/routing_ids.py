"""What a router and its peers call one memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from quipu.model.operations import RememberRequest
from quipu.model.outcomes import Hit, RememberResponse
from quipu.model.record import Link
from quipu.ports.peer_ids import PeerIds
from quipu.rules.peers import id_of_write, is_one_write, shown_as
from quipu.service.peer_ids import SeenIds


class Naming:
    """The map of ids, and beside it what recalls have shown of writes that nobody noted."""

    def __init__(self, ids: PeerIds, peers: Iterable[str], within_ms: int) -> None:
        self.ids, self._peers, self._within_ms = ids, tuple(peers), within_ms
        self._seen = SeenIds()

    async def theirs(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What each peer calls these; one that it never took keeps its name."""
        known = {peer: await self.ids.of(peer, ids) for peer in self._peers}
        return {
            peer: tuple(names.get(id) or self._seen.of(peer, id) for id in ids)
            for peer, names in known.items()
        }

    async def copies(self, id: str) -> dict[str, str]:
        """By peer, what it calls a memory that it was given or that a recall has shown."""
        known = {peer: (await self.ids.of(peer, (id,))).get(id) for peer in self._peers}
        seen = self._seen.copies(id)
        return {peer: name for peer, noted in known.items() if (name := noted or seen.get(peer)) is not None}

    async def to_write(self, request: RememberRequest) -> dict[str, RememberRequest]:
        """The request as each peer understands it: its id and its links lead to the peer's own memories.

        A link to a memory that others took and this one did not leads nowhere there. The memory is kept without it.
        """
        links = request.links or ()
        await self.ids.of(self._peers[0], ())  # where the map cannot be reached, nothing is written either
        if request.id is None and not links:
            return dict.fromkeys(self._peers, request)
        named = tuple(link.to for link in links)
        own = await self.theirs(() if request.id is None else (request.id,))
        noted = {peer: await self.ids.of(peer, named) for peer in self._peers}
        anywhere = {id for names in noted.values() for id in names}

        def led(peer: str) -> tuple[Link, ...]:
            return tuple(
                replace(link, to=noted[peer].get(link.to) or self._seen.of(peer, link.to))
                for link in links
                if link.to in noted[peer] or link.to not in anywhere
            )

        return {
            peer: replace(
                request,
                id=next(iter(own[peer]), None),
                links=None if request.links is None else led(peer),
            )
            for peer in self._peers
        }

    async def of_write(self, told: Mapping[str, RememberResponse]) -> str:
        """What a new memory is called."""
        theirs = {peer: answer.id for peer, answer in told.items()}
        noted = {peer: await self.ids.of(peer, tuple(theirs.values())) for peer in theirs}
        return id_of_write(theirs, noted)

    async def ours(self, shown: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
        """What the router calls what each peer shows, as far as somebody noted it."""
        known = {peer: await self.ids.ours(peer, ids) for peer, ids in shown.items()}
        unknown = [id for peer, ids in shown.items() for id in ids if id not in known[peer]]
        noted = {id for peer in self._peers for id in await self.ids.of(peer, unknown)} if unknown else ()
        named = {
            peer: {id: shown_as(peer, id, known[peer].get(id), noted) for id in ids}
            for peer, ids in shown.items()
        }
        return {
            peer: {id: name for id, name in names.items() if name is not None}
            for peer, names in named.items()
        }

    async def holders(self, answered: Collection[str], ids: Sequence[str]) -> Counter[str]:
        """How many of those that answered were given each of these."""
        found = Counter[str]()
        for peer in answered if ids else ():
            found.update(list(await self.ids.of(peer, ids)))
        return found

    def saw(self, id: str, copies: Mapping[str, Hit], ours: Mapping[str, Mapping[str, str]]) -> None:
        """Which ids a write has that was not noted, so that what is forgotten next is forgotten everywhere."""
        named = next((hit for hit in copies.values() if hit.id == id), None)
        if named is None or any(hit.id in ours[peer] for peer, hit in copies.items()):
            return
        theirs = {peer: hit.id for peer, hit in copies.items() if is_one_write(named, hit, self._within_ms)}
        if len(theirs) > 1:
            self._seen.saw(id, theirs)
