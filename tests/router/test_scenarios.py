"""Every scenario of `quipu conformance` on a router: of one memory, of two, of three, and of stores of another package.

The five operations go through the router. What it has no word for is asked of its peers, of all of them, under the names
that the router's `copies` tells: reading by id, deciding, restoring, stores, the clock.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from quipu import Memory, Router
from quipu.bootstrap import open_container
from quipu.config import Settings
from quipu.errors import NotFoundError
from quipu.model.principal import local
from quipu.opening import Connection, EmbeddedConnection
from quipu.operation import AnyOperation, Response
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.others import StoreConnection, StoreSubject
from quipu.testing.scenarios.reference import SIXTEEN
from quipu.testing.scenarios.scenario import Scenario, played
from quipu.testing.scenarios.subject import MovedClock
from tests.conformance.conftest import START, Lent
from tests.router.other_package import Store

#: What is asked of the peers that have a memory, under their own names for it.
_BY_ID = ("get", "history", "restore", "update", "related")
#: What is asked of the first, whose ids are the router's.
_OF_THE_FIRST = ("list", "capabilities")
#: What is asked of all of them.
_OF_ALL = ("create_store", "delete_store", "verify")
#: What a router of several has no word for, though each of its peers has.
NOT_PROMISED = {
    "as_of": "it has no journal of its own",
    "batches": "it has memorywire's five operations alone, and no remember_many",
    "erasure": "the files of a memory in use are not looked at",
    "journal": "the journal of a memory in use is not looked at",
    "reads_are_noted": "the journal of a memory in use is not looked at",
}


class RoutedConnection(StoreConnection):
    """A router and its peers."""

    def __init__(self, router: Router, peers: Mapping[str, Memory]) -> None:
        super().__init__(router)
        self._router, self._peers = router, peers
        #: Changes by hand reach every peer in one order.
        self._one_change = asyncio.Lock()

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        name = operation.name
        if name in _BY_ID:
            copies = await self._router.copies(given["id"]) or dict.fromkeys(self._peers, given["id"])
            async with self._one_change:
                answers = [
                    await self._peers[peer].call(name, **{**given, "id": id}) for peer, id in copies.items()
                ]
            if name == "get":  # all that have it have it alike
                assert len({(str(one.content), one.version, one.state) for one in answers}) == 1
            return (
                answers[0].model_copy(update={"id": given["id"]}) if name in ("get", "update") else answers[0]
            )
        if name in _OF_THE_FIRST:
            return await next(iter(self._peers.values())).call(name, **given)
        if name in _OF_ALL:
            answers = [await peer.call(name, **given) for peer in self._peers.values()]
            return answers[0]
        if name == "list_reviews":
            waiting = [await peer.call(name, **given) for peer in self._peers.values()]
            assert len({len(answer.reviews) for answer in waiting}) == 1, "each of them holds it"
            return waiting[0]
        if name in ("review", "decide"):
            return await self._reviewed(name, given)
        return await super().call(operation, given)

    async def _reviewed(self, name: str, given: Mapping[str, Any]) -> Any:
        """With every peer: a router's write is held by each of them, in the same order."""
        held = [
            [one.id for one in (await peer.call("list_reviews", status="all", limit=1000)).reviews]
            for peer in self._peers.values()
        ]
        if given["id"] not in held[0]:
            raise NotFoundError(reason="proposal")
        place = held[0].index(given["id"])
        shown = [
            await peer.call("review", id=theirs[place])
            for peer, theirs in zip(self._peers.values(), held, strict=True)
        ]
        if name == "review":
            return shown[0]
        is_current = given.get("etag", shown[0].etag) == shown[0].etag
        answers = [
            await peer.call(
                "decide", **{**given, "id": one.id, "etag": one.etag if is_current else given["etag"]}
            )
            for peer, one in zip(self._peers.values(), shown, strict=True)
        ]
        return answers[0]


class V0Subject(StoreSubject):
    """A store that knows nothing of what Quipu adds to v0."""

    is_extended = False


class RoutedSubject(StoreSubject):
    """A router as what scenarios are played on."""

    has_operations = True

    def __init__(self, router: Router, peers: Mapping[str, Memory], clock: MovedClock) -> None:
        super().__init__(router, label="router", clock=clock)
        connection = self._connection = RoutedConnection(router, peers)

        async def opened() -> StoreConnection:
            return connection

        self.memory = Memory.over(opened)

    async def waiting(self) -> Any:
        return [review for review in await self._reviews() if review.agent_id in self._agents]


@pytest.fixture(scope="session")
def real() -> Lent:
    from quipu.embed.cache import CachedEmbedder
    from quipu.embed.local import LocalEmbedder

    return Lent(CachedEmbedder(LocalEmbedder()))


@pytest.fixture(params=[1, 2, 3], ids=lambda count: f"{count}-peers")
async def routed(request: pytest.FixtureRequest, real: Lent) -> AsyncIterator[RoutedSubject]:
    clock, scenario = MovedClock(START), request.node.callspec.params["scenario"]
    embedder = real if scenario.needs_meaning else WordEmbedder()
    peers = {f"peer-{n}": await _memory(embedder, clock) for n in range(request.param)}
    yield RoutedSubject(Router(peers), peers, clock)
    for memory in peers.values():
        await memory.close()


async def _memory(embedder: Any, clock: MovedClock) -> Memory:
    """For any agent."""
    container = await open_container(Settings(), stores=[":memory:"], embedder=embedder, clock=clock)

    async def reached() -> Connection:
        return EmbeddedConnection(container, local())

    return Memory.over(reached)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_router_keeps_the_contract_of_a_store(
    routed: RoutedSubject, scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    result = await played(routed, scenario)
    is_alone = "1-peers" in request.node.name
    if scenario.name in NOT_PROMISED and not (is_alone and scenario.name == "as_of"):
        assert (result.outcome, result.detail) == ("not promised", NOT_PROMISED[scenario.name])
    else:
        assert result.outcome == "pass", result.detail
        assert result.assertions > 0


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_stores_of_another_package_keep_what_they_promise_and_the_rest_is_told(count: int) -> None:
    """They let nothing wait: nobody is asked for what nobody promised."""
    clock = MovedClock(START)
    router = Router({f"plain-{n}": Store(f"plain-{n}", clock) for n in range(count)})
    subject = V0Subject(router, label="plain", clock=clock)
    outcomes = {scenario.name: (await played(subject, scenario)).outcome for scenario in SIXTEEN}
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "pass"} == {
        "approval_required_pending": "not promised",
    }


def test_every_name_is_a_scenario() -> None:
    assert NOT_PROMISED.keys() <= {scenario.name for scenario in SCENARIOS}
