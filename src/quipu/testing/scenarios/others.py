"""Memories of any make as what scenarios are played on: an object that speaks memorywire, such as a router or a store of
your own; and a server that speaks memorywire v0, ours or anybody's.

They are asked for memorywire's five operations alone, and a server for nothing but what v0 has: a scenario that needs an
addition of Quipu's is reported as not promised. An answer that is not of v0's shape is reported by the member that is wrong.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol, cast

from quipu.api import Memory
from quipu.client.transport import Call, Transport
from quipu.errors import NotFoundError
from quipu.memory import model as m
from quipu.memory.memory_store import FIVE, MemoryStore
from quipu.operation import AnyOperation, Response
from quipu.testing.scenarios.subject import SMALL, Broken, Size, Subject, Unpromised
from quipu.testing.scenarios.v0 import FIELDS, answer_faults

_PREFIX = "/memorywire/v0"
#: What a hit of another make need not have.
_PLAIN_HIT: Mapping[str, Any] = {
    **{"version": 1, "store": "", "tier": "long_term", "confidence": 1.0, "relevance": 0.0},
    "provenance": {"written_by": "", "trust": "unknown"},
}


class Wire(Protocol):
    """The way to the server: JSON in, JSON out; what it refuses is raised as our errors are."""

    async def send(self, call: Call) -> Any: ...


async def described(wire: Wire) -> Mapping[str, Any]:
    """What the server says that it can do."""
    said = await wire.send(Call(method="GET", path=f"{_PREFIX}/capabilities", may_repeat=True))
    if not isinstance(said, dict) or not isinstance(said.get("capabilities"), list):  # pyright: ignore[reportUnknownMemberType]  any JSON
        raise NotFoundError(
            "No memorywire is spoken at this address.",
            reason="memorywire",
            hint=f"A server answers GET {_PREFIX}/capabilities.",
        )
    return cast("Mapping[str, Any]", said)


class FiveOperations:
    """A connection that has no other operation. Give it to `Memory.over`."""

    #: What a scenario is told that asks for another one.
    knows = "it has memorywire's five operations alone, and"

    def __init__(self) -> None:
        #: Ids that were written, by agent.
        self.written: dict[str, list[str]] = {}

    async def check(self) -> None:
        raise NotImplementedError

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        raise NotImplementedError

    def refusal(self, operation: AnyOperation) -> Unpromised:
        return Unpromised(f"{self.knows} no {operation.name}")

    def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncIterator[Response]:
        raise self.refusal(operation)

    async def close(self) -> None:
        """It was open before, and stays so."""


class StoreConnection(FiveOperations):
    """To an object."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    async def check(self) -> None:
        await self._store.health()

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if operation.name not in FIVE:
            raise self.refusal(operation)
        answer: Response = await getattr(self._store, operation.name)(operation.request.parse(given))
        if operation.name == "remember":
            self.written.setdefault(str(given.get("agent_id")), []).append(answer.to_dict()["id"])
        return answer


class WireConnection(FiveOperations):
    """To a server, over v0's own wire."""

    knows = "it speaks memorywire v0 alone, which has"

    def __init__(self, wire: Wire, *, has_floor: bool = False) -> None:
        """`has_floor`: the server knows `min_relevance`, which v0 does not have."""
        super().__init__()
        self._wire, self._has_floor = wire, has_floor

    async def check(self) -> None:
        await described(self._wire)

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if operation.name not in FIELDS:
            raise self.refusal(operation)
        body = operation.request.parse(given).model_dump(mode="json", exclude_unset=True)
        if operation.name == "remember":
            body.setdefault("type", "semantic")
        if not self._has_floor:
            body.pop("min_relevance", None)
        beyond = body.keys() - FIELDS[operation.name] - {"min_relevance"}
        if beyond:
            raise Unpromised(f"{self.knows} no {min(beyond)} in {operation.name}")
        return self._understood(operation, given, await self.post(operation.name, body))

    async def post(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, if it is one: who refuses with a success, or leaves a member out, is refused."""
        said = await self._wire.send(Call(method="POST", path=f"{_PREFIX}/{name}", body=body))
        if not isinstance(said, dict):
            raise Broken(f"the answer to {name} is no object")
        answer = cast("dict[str, Any]", said)
        plain = {field: value for field, value in answer.items() if field != "extensions"}
        if faults := answer_faults(name, plain if body.get("extensions") else answer):
            raise Broken(f"the answer to {name} is not v0's: {'; '.join(faults)}")
        if name == "remember":
            self.written.setdefault(str(body.get("agent_id")), []).append(answer["id"])
        return answer

    def _understood(
        self, operation: AnyOperation, given: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> Response:
        if operation.name != "recall":
            return operation.response.model_validate(answer, strict=False, extra="ignore")
        hits = [
            {
                **_PLAIN_HIT,
                **{"agent_id": given.get("agent_id", ""), "rank": rank, "updated_at": hit["created_at"]},
                **hit,
            }
            for rank, hit in enumerate(answer["results"])
        ]
        return m.RecallResponse.model_validate({**answer, "results": hits}, strict=False, extra="ignore")

    async def close(self) -> None:
        if isinstance(self._wire, Transport):
            await self._wire.close()


class OtherSubject(Subject):
    """Such a memory, beside whatever it holds. What a scenario wrote is erased by its ids."""

    has_operations = False

    def __init__(
        self, connection: FiveOperations, *, label: str, clock: Callable[[], int], size: Size = SMALL
    ) -> None:
        """Give it a clock that can be moved if the memory has one."""
        self._connection = connection

        async def opened() -> FiveOperations:
            return connection

        super().__init__(Memory.over(opened), label=label, clock=clock, size=size)

    async def waiting(self) -> Any:
        raise Unpromised("what waits for a person cannot be asked of it")

    async def tidy(self) -> None:
        written, self._connection.written = self._connection.written, {}
        for agent, ids in written.items():
            await self._forget(agent, ids)


class StoreSubject(OtherSubject):
    """An object."""

    def __init__(
        self, store: MemoryStore, *, label: str, clock: Callable[[], int], size: Size = SMALL
    ) -> None:
        super().__init__(StoreConnection(store), label=label, clock=clock, size=size)
        self._store = store

    @property
    def held(self) -> object:
        return self._store

    @property
    def capabilities(self) -> set[str]:
        return self._store.capabilities

    async def health(self) -> Mapping[str, Any]:
        return await self._store.health()

    async def kept_all(self, items: Any) -> list[str]:
        return [await self.kept(**item) for item in items]


class WireSubject(OtherSubject):
    """A server."""

    is_extended = False

    def __init__(
        self,
        wire: Wire,
        promises: set[str],
        *,
        label: str,
        clock: Callable[[], int],
        size: Size = SMALL,
        has_floor: bool = False,
    ) -> None:
        self._over_wire = WireConnection(wire, has_floor=has_floor)
        super().__init__(self._over_wire, label=label, clock=clock, size=size)
        self._wire, self._promises = wire, promises

    @property
    def capabilities(self) -> set[str]:
        return self._promises

    @property
    def held(self) -> object:
        raise Unpromised("it is asked over HTTP, so there is no object to look at")

    async def health(self) -> Mapping[str, Any]:
        return await self._wire.send(Call(method="GET", path=f"{_PREFIX}/health", may_repeat=True))

    async def wire(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._over_wire.post(name, {"agent_id": self.agent, **body})
