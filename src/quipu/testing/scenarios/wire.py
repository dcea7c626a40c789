"""A server that speaks memorywire v0, ours or anybody's, as what scenarios are played on.

Nothing is asked of it but what v0 has: a scenario that needs an addition of Quipu's is reported as not promised. An answer that
is not of v0's shape is reported by the member that is wrong.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol, cast

from quipu.api import Memory
from quipu.client.transport import Call, Transport
from quipu.errors import NotFoundError, QuipuError
from quipu.memory import model as m
from quipu.operation import AnyOperation, Response
from quipu.testing.scenarios.check import SMALL, Broken, Size, Unpromised
from quipu.testing.scenarios.subject import MovedClock, Subject
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


class WireConnection:
    """Runs memorywire's five operations over v0's own wire. Give it to `Memory.over`."""

    def __init__(self, wire: Wire, *, has_floor: bool = False) -> None:
        """`has_floor`: the server knows `min_relevance`, which v0 does not have."""
        self._wire, self._has_floor = wire, has_floor
        #: Ids that were written, by agent.
        self.written: dict[str, list[str]] = {}

    async def check(self) -> None:
        await described(self._wire)

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if operation.name not in FIELDS:
            raise Unpromised(f"it speaks memorywire v0 alone, which has no {operation.name}")
        body = operation.request.parse(given).model_dump(mode="json", exclude_unset=True)
        if operation.name == "remember":
            body.setdefault("type", "semantic")
        if not self._has_floor:
            body.pop("min_relevance", None)
        beyond = body.keys() - FIELDS[operation.name] - {"min_relevance"}
        if beyond:
            raise Unpromised(f"it speaks memorywire v0 alone, which has no {min(beyond)} in {operation.name}")
        return self._understood(operation, given, await self.post(operation.name, body))

    async def post(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, if it is one: who refuses with a success, or leaves a member out, is refused."""
        said = await self._wire.send(Call(method="POST", path=f"{_PREFIX}/{name}", body=body))
        if not isinstance(said, dict):
            raise Broken(f"the answer to {name} is no object")
        answer = cast("dict[str, Any]", said)
        plain = {field: value for field, value in answer.items() if field != "extensions"}
        if faults := list(answer_faults(name, plain if body.get("extensions") else answer)):
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

    def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncIterator[Response]:
        raise Unpromised(f"it speaks memorywire v0 alone, which has no {operation.name}")

    async def close(self) -> None:
        if isinstance(self._wire, Transport):
            await self._wire.close()


class WireSubject(Subject):
    """Such a server, beside whatever is there. What a scenario wrote is erased by its ids."""

    is_extended = has_operations = False

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
        connection = WireConnection(wire, has_floor=has_floor)

        async def opened() -> WireConnection:
            return connection

        super().__init__(Memory.over(opened), label=label, clock=clock, size=size)
        self._wire, self._connection, self._promises = wire, connection, promises

    @property
    def capabilities(self) -> set[str]:
        return self._promises

    @property
    def held(self) -> object:
        raise Unpromised("it is asked over HTTP, so there is no object to look at")

    async def health(self) -> Mapping[str, Any]:
        return await self._wire.send(Call(method="GET", path=f"{_PREFIX}/health", may_repeat=True))

    async def wire(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._connection.post(name, {"agent_id": self.agent, **body})

    async def travel(self, milliseconds: int) -> None:
        if not isinstance(self._clock, MovedClock):
            await super().travel(milliseconds)
        else:
            self._clock.now += milliseconds

    async def outlast(self, milliseconds: int) -> None:
        if isinstance(self._clock, MovedClock):
            await self.travel(milliseconds)
        else:
            await asyncio.sleep(milliseconds / 1000 + 0.1)

    async def tidy(self) -> None:
        written, self._connection.written = self._connection.written, {}
        for agent, every in written.items():
            for start in range(0, len(every), 1000):
                ids = every[start : start + 1000]
                try:
                    await self._connection.post(
                        "forget", {"agent_id": agent, "ids": ids, "hard_delete": True}
                    )
                except (QuipuError, Broken):
                    await self._soft(agent, ids)

    async def _soft(self, agent: str, ids: list[str]) -> None:
        try:
            await self._connection.post("forget", {"agent_id": agent, "ids": ids})
            self.left_behind.append(f"{len(ids)} memories of {agent}: forgotten, not erased")
        except (QuipuError, Broken):
            self.left_behind.append(f"{len(ids)} memories of {agent}")
